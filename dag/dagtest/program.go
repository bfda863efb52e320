package dagtest

import (
	"os"
	"syscall"
	"testing"
)

// Program writes a file that the test then runs, a script for one; it replaces
// one that is there. No child that another test starts meanwhile inherits the
// open file: as long as one holds it, running it fails with ETXTBSY, text file
// busy.
func Program(t testing.TB, path, text string) {
	t.Helper()
	syscall.ForkLock.RLock()
	err := os.WriteFile(path, []byte(text), 0o755)
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
}
