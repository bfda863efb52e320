package app_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/cmd/config"
	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/sqltest"
)

const told = `
told:
  schedule: none
  tasks:
    bad:
      operator: http
      endpoint: "URL/404"
      on_failure_callback:
        - callback: sql
          conn_id: warehouse
          sql: "INSERT INTO alert (id, task, said, ds) VALUES (:dedup_key, :task_id, :error_code, '{{ ds }}')"
        - {callback: slack, conn_id: chat}
        - {callback: pagerduty, conn_id: pager}
`

// A failure reaches a table, a chat and a pager, each once, with the same
// fingerprint as its letter.
func TestAFailureIsTold(t *testing.T) {
	t.Parallel()
	p := newPackager(t) // takes what it is sent, once it is healed
	p.healed.Store(true)
	target := filepath.Join(t.TempDir(), "warehouse.db")
	require.NoError(t, os.WriteFile(target, nil, 0o600))
	sqltest.Exec(t, "sqlite:///"+target, "CREATE TABLE alert (id TEXT PRIMARY KEY, task TEXT, said TEXT, ds TEXT);")
	bad := newPackager(t)
	e := newEngine(t, 2, nil, strings.ReplaceAll(told, "URL", bad.URL), func(c *config.Config) { c.FernetKey = "cw_0x689RpI-jtRR7oE8h_eQsKImvJapLeSbXpwF4e4=" })
	for _, c := range []dag.Connection{
		{ID: "warehouse", Type: "sqlite", Host: target},
		{ID: "chat", Type: "slackwebhook", Password: p.URL + "/hook"},
		{ID: "pager", Type: "pagerduty_events", Host: p.URL, Password: "k"},
	} {
		require.NoError(t, e.Store().SetConnection(t.Context(), c))
	}
	e.trigger("told", "r", time.Date(2026, 6, 10, 0, 0, 0, 0, time.UTC))
	require.Equal(t, dag.RunFailed, e.ends("told", "r"))
	require.Eventually(t, func() bool {
		s, err := e.Store().Stats(t.Context())
		return err == nil && s.EventsPending == 0
	}, patience, 20*time.Millisecond)
	s, err := e.Store().Stats(t.Context())
	require.NoError(t, err)
	require.Zero(t, s.EventsDead, e.log.String())
	require.Equal(t, int64(2), p.calls.Load())
	var row struct {
		Task string `db:"task"`
		Said string `db:"said"`
		DS   string `db:"ds"`
	}
	require.NoError(t, sqltest.Open(t, "sqlite:///"+target).Reader().GetContext(t.Context(), &row, "SELECT task, said, ds FROM alert"))
	require.Equal(t, "bad", row.Task)
	require.Equal(t, "2026-06-10", row.DS)
	letters, err := e.Store().Letters(t.Context(), dag.LetterFilter{})
	require.NoError(t, err)
	require.Len(t, letters, 1)
	require.Equal(t, letters[0].ErrorCode, row.Said)
	require.Contains(t, stored(t, e), `"alert_key":"`+letters[0].Fingerprint+`"`)
}

// stored is what the pager's event holds.
func stored(t *testing.T, e *engine) string {
	t.Helper()
	var text string
	require.NoError(t, e.Store().DB().Reader().GetContext(t.Context(), &text, "SELECT context FROM callback_event WHERE callback LIKE '%pagerduty%'"))
	return text
}

const slow = `
slow:
  schedule: none
  tasks:
    bad:
      operator: http
      endpoint: "URL/404"
      on_failure_callback: {callback: command, command: sleep 1.2}
`

// A delivery may take longer than the lease of its event: the lease is renewed.
func TestADeliveryMayOutliveItsLease(t *testing.T) {
	t.Parallel()
	e := newEngine(t, 1, nil, strings.ReplaceAll(slow, "URL", newPackager(t).URL), func(c *config.Config) { c.Callbacks.LeaseDuration = time.Second })
	e.trigger("slow", "r", time.Date(2026, 6, 10, 0, 0, 0, 0, time.UTC))
	require.Equal(t, dag.RunFailed, e.ends("slow", "r"))
	var row struct {
		Status string `db:"status"`
		Cause  string `db:"last_error"`
	}
	require.Eventually(t, func() bool {
		err := e.Store().DB().Reader().GetContext(t.Context(), &row, "SELECT status, last_error FROM callback_event")
		return err == nil && (row.Status != string(dag.DeliveryPending) || row.Cause != "")
	}, patience, 20*time.Millisecond)
	require.Equal(t, string(dag.DeliveryDelivered), row.Status, row.Cause)
}
