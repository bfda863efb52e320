// Package sqltest gives tests real databases of their own: a SQLite file in the
// test's folder, a private MariaDB server that lives as long as the test
// process, and an external MySQL server where AIRLOCK_TEST_MYSQL_DSN names one.
// Every call gives a fresh, empty database.
//
// It is for tests only and may import sql/dialect and dag/dagtest.
package sqltest
