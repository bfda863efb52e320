// Package migrations brings a state database to the schema of this binary.
//
// The files are embedded, one folder a dialect (mysql serves MariaDB too), and
// numbered. A file that was released is never changed; the next number changes
// what it made. On MySQL and MariaDB a CREATE or ALTER commits by itself, so a
// file there must bear being run again after it was cut off half way.
//
// It may import dag and sql/dialect.
package migrations
