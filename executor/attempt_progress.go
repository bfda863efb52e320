package executor

import (
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/operator"
)

// progressEvery is how long the log goes without a line of progress at most;
// each tenth has one as well.
const progressEvery = 30 * time.Second

// tenths are how many tenths of the work are done, 0 when that is not known.
func tenths(p operator.Progress) int { return int(10*max(p.Fraction, 0) + 1e-9) }

// teller takes the reports of one attempt and tells the log of them. It is safe
// for concurrent use.
type teller struct {
	clock dag.Clock
	log   io.Writer

	mu   sync.Mutex
	last operator.Progress
	told operator.Progress // what the log has
	at   time.Time         // when it was told
	some bool
}

// report takes one report in.
func (t *teller) report(p operator.Progress) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.clock.Now()
	first := !t.some
	t.last, t.some = p, true
	switch {
	case first:
		t.at = now // the first line comes with something to tell
		t.told = p
		return
	case now.Sub(t.at) >= progressEvery, tenths(p) > tenths(t.told):
	default:
		return
	}
	t.told, t.at = p, now
	fmt.Fprintf(t.log, "%s airlock: %s\n", now.Format(time.RFC3339Nano), p)
}

// detail adds the last report to what the operator keeps beside the attempt.
func (t *teller) detail(raw json.RawMessage) json.RawMessage {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.some {
		return raw
	}
	var m map[string]json.RawMessage
	if len(raw) > 0 && (json.Unmarshal(raw, &m) != nil || m == nil) {
		return raw // no object: it is the operator's alone
	}
	if m == nil {
		m = map[string]json.RawMessage{}
	}
	if _, taken := m["progress"]; taken {
		return raw
	}
	last := struct {
		Fraction *float64 `json:"fraction"` // null when it was never known
		Text     string   `json:"text"`
	}{Text: t.last.Text}
	if t.last.Fraction >= 0 {
		last.Fraction = &t.last.Fraction
	}
	var err error
	if m["progress"], err = json.Marshal(last); err != nil {
		return raw
	}
	out, err := json.Marshal(m)
	if err != nil {
		return raw
	}
	return out
}

// now is the report as the tables keep it while the attempt runs; nil for none.
func (t *teller) now(l dag.Lease) *dag.TaskProgress {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.some {
		return nil
	}
	return &dag.TaskProgress{Lease: l, Fraction: t.last.Fraction, ETA: t.last.ETA, Text: t.last.Text, Measures: t.last.Measures}
}
