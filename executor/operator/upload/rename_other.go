//go:build !linux

package upload

// renameNoReplace gives a file its name unless the name is taken: fs.ErrExist.
func renameNoReplace(from, to string) error { return linkNoReplace(from, to) }
