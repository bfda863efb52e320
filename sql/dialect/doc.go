// Package dialect opens databases and answers three kinds of question about
// them: how a piece of SQL is spelt, what the server can do, and what an error
// means. It knows MySQL 8+, MariaDB 10.6+ and SQLite, and holds the one
// function that runs a transaction.
//
// The state database (sql/store) and the users' target databases (sql/merge,
// the SQL operators) are opened alike. It may import dag and the drivers.
package dialect
