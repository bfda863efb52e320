package ffmpeg

import (
	"os"
	"syscall"
)

func identityOf(info os.FileInfo) (identity, bool) {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return identity{}, false
	}
	return identity{
		device: uint64(s.Dev), inode: s.Ino, size: s.Size, //nolint:unconvert // the field's type differs by machine
		modified: s.Mtim.Nano(), change: s.Ctim.Nano(),
	}, true
}
