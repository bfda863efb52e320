// Package config turns flags, the environment and airlock.yaml into one Config,
// and reads connections and variables that the environment gives.
//
// It is the one place that knows the names of settings. The environment is
// handed in as a list, so that a test gives its own. It may import dag and the
// interfaces of executor, and nothing else of Airlock.
package config
