package ffmpeg

import (
	"errors"
	"syscall"
)

// isNoSpace tells whether an error says that a file system, a quota or a limit
// on file sizes is used up.
func isNoSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG)
}
