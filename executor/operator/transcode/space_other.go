//go:build !linux

package transcode

// freeSpace is not asked for here: a full disk is found while writing.
func freeSpace(string) (bytes int64, ok bool) { return 0, false }
