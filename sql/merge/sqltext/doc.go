// Package sqltext cuts SQL text into tokens and into statements, so that a
// semicolon, a keyword or a colon inside a text, a quoted name or a comment is
// never taken for one. It knows the writing of MySQL, MariaDB and SQLite and
// nothing of what a statement means.
//
// It imports the standard library only.
package sqltext
