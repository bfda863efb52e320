// Package bundle says where DAG files come from: it scans a folder for YAML
// files and watches it for changes, or keeps a clone of a git repository. It
// hands out bytes and never looks into them.
//
// It may import dag, the standard library, fsnotify, and (it alone) go-git with
// the ssh package that go-git takes.
package bundle
