// Package notifytest is what the tests of notifiers share: deliveries, and the
// servers that every notifier that speaks HTTP must bear.
//
// It may import dag and callbacks. Only tests import it.
package notifytest
