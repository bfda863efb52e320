// Package bundle says where DAG files come from: it scans a folder for YAML
// files and watches it for changes. It hands out bytes and never looks into
// them.
//
// It may import dag, the standard library and fsnotify.
package bundle
