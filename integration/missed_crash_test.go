package integration

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// deafFile has a mapped task whose instances all tell a receiver that is away.
const deafFile = `
deaf:
  schedule: null
  is_paused_upon_creation: false
  tasks:
    all:
      operator: bash
      bash_command: "true"
      expand: {env: [{N: 1}, {N: 2}, {N: 3}, {N: 4}, {N: 5}, {N: 6}, {N: 7}, {N: 8}]}
      on_success_callback: {callback: command, command: "test -e $DIR/healed || exit 75; echo $AIRLOCK_MAP_INDEX >> $DIR/told"}
`

// TestACrashBesideMissedDeliveriesLosesNone ends a process at each moment of the
// transaction that records deliveries which failed together: before it, inside and
// after its commit. Every event reaches its receiver when that is back.
func TestACrashBesideMissedDeliveriesLosesNone(t *testing.T) {
	t.Parallel()
	bin, err := crashBuild()
	require.NoError(t, err)
	for _, moment := range []string{"before", "inside", "after"} {
		t.Run(moment, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, "AIRLOCK__CALLBACKS__LEASE_DURATION=1s", "AIRLOCK__CALLBACKS__INTERVAL=250ms")
			h.bin = bin
			h.file("deaf.yml", strings.ReplaceAll(deafFile, "$DIR", h.dags))
			h.ok("db", "migrate")
			killed := h.startWith([]string{"AIRLOCK_CRASH_AT=record missed deliveries: " + moment}, "standalone")
			db := h.db()
			until(t, db, 1, "SELECT COUNT(*) FROM dag")
			h.ok("dags", "trigger", "deaf", "--run-id", "r")
			require.Eventually(t, killed.dead, patience, pause, "nobody comes by that moment")
			require.True(t, killed.cmd.ProcessState.Sys().(syscall.WaitStatus).Signaled())

			require.NoError(t, os.WriteFile(filepath.Join(h.dags, "healed"), nil, 0o644))
			h.start("standalone")
			until(t, db, 8, "SELECT COUNT(*) FROM callback_event WHERE status = 'delivered'")
			require.Equal(t, 8, count(db, "SELECT COUNT(*) FROM callback_event"))
			told, err := os.ReadFile(filepath.Join(h.dags, "told"))
			require.NoError(t, err)
			for _, index := range []string{"0", "1", "2", "3", "4", "5", "6", "7"} {
				require.Contains(t, strings.Fields(string(told)), index)
			}
			h.checked()
		})
	}
}
