// Command conformance compares Airlock with Apache Airflow itself: it makes
// random DAG files, loads each in both (Airflow by way of dag-factory), and
// compares their structure, their next runs, the delay of every retry and the
// final state of every task instance and run. `make conformance` runs it; it
// needs python3 and a package index, and is no part of the tests.
//
// The random DAGs come from a seed that is printed, so that a difference can be
// made again. A difference that is meant has a name in rules.go and is checked
// again under that rule; any other ends the program with an error.
//
// It may import every package of the module.
package main
