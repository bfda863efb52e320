// Package pagerduty is the notifier that triggers and resolves incidents through
// PagerDuty's Events API v2. Events of one cause have one key and are one
// incident, however many they are.
//
// It may import dag and callbacks.
package pagerduty
