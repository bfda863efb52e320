package store

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/dialect"
)

// A failure of a task opens an incident at a pager, or at whatever is behind a
// webhook: one for all letters of one fingerprint. The table letter_incident
// remembers it with the event that opened it. SettleIncidents looks which of
// them have no open letter left, and puts the event into the outbox that ends
// them. The look is apart from the transactions that close letters: two that
// close the last two letters at once would each take the other's for open.

// incidentMemory is how long a resolved incident is watched for a letter that was
// sealed in the very moment in which it was resolved.
const incidentMemory = time.Hour

// opensIncident tells whether an event opens an incident that its receiver can
// close, and of which fingerprint. Where the DAG's file gives the action or a key
// of its own, which may stand for several failures, the file says what ends it.
func opensIncident(e *dag.Event) (fingerprint string, ok bool) {
	if e.Kind != dag.EventFailure || e.TaskID == "" || e.Callback.Name != "pagerduty" && e.Callback.Name != "webhook" {
		return "", false
	}
	for _, key := range []string{"action", "dedup_key"} {
		if _, given := e.Callback.Args[key]; given {
			return "", false
		}
	}
	var c struct {
		AlertKey string `json:"alert_key"`
	}
	if json.Unmarshal(e.Context, &c) != nil || c.AlertKey == "" {
		return "", false
	}
	return short(c.AlertKey, 100), true
}

// incident is one to be remembered.
type incident struct {
	fingerprint, receiver string
	event                 *dag.Event
	callback              string
}

// openIncidents remembers the incidents that events open. Those that are known
// as open cost one read and no lock.
func (t *tx) openIncidents(ctx context.Context, events []dag.Event) error {
	fresh := map[string]incident{}
	for i := range events {
		fingerprint, ok := opensIncident(&events[i])
		if !ok {
			continue
		}
		callback, err := json.Marshal(events[i].Callback)
		if err != nil {
			continue // its event says who was meant; nobody can be told of the end
		}
		receiver := laneOf(dag.TaskInstanceKey{MapIndex: -1}, callback)
		fresh[fingerprint+"/"+receiver] = incident{fingerprint, receiver, &events[i], string(callback)}
	}
	if len(fresh) == 0 {
		return nil
	}
	var fingerprints []string
	for _, n := range fresh {
		fingerprints = append(fingerprints, n.fingerprint)
	}
	slices.Sort(fingerprints)
	var known []struct {
		Fingerprint string `db:"fingerprint"`
		Receiver    string `db:"receiver"`
	}
	in, args := t.s.amongTexts(slices.Compact(fingerprints))
	if err := t.SelectContext(ctx, &known, "SELECT fingerprint, receiver FROM letter_incident WHERE state = 'open' AND fingerprint IN "+in, args...); err != nil {
		return err
	}
	for _, k := range known {
		delete(fresh, k.Fingerprint+"/"+k.Receiver)
	}
	keys := make([]string, 0, len(fresh))
	for k := range fresh {
		keys = append(keys, k)
	}
	slices.Sort(keys) // everybody locks them in this order
	for _, k := range keys {
		n := fresh[k]
		if _, err := t.exec(ctx, `INSERT INTO letter_incident (fingerprint, receiver, dag_id, task_id, callback, context, state, turns, changed_at)
 VALUES (?, ?, ?, ?, ?, ?, 'open', 0, ?)`+t.s.db.Upsert([]string{"fingerprint", "receiver"}, []string{"context", "state", "changed_at"}),
			n.fingerprint, n.receiver, n.event.DagID, n.event.TaskID, n.callback, jsonText(n.event.Context), t.at); err != nil {
			return err
		}
	}
	return nil
}

type incidentRow struct {
	ID          int64  `db:"id"`
	Fingerprint string `db:"fingerprint"`
	Receiver    string `db:"receiver"`
	DagID       string `db:"dag_id"`
	TaskID      string `db:"task_id"`
	Callback    string `db:"callback"`
	Context     string `db:"context"`
	State       string `db:"state"`
	Turns       int64  `db:"turns"`
}

// SettleIncidents tells the receivers of incidents of which no open letter is
// left, and how many that were. Any number of processes may do it.
func (s *Store) SettleIncidents(ctx context.Context) (settled int, err error) {
	now, err := s.Now(ctx)
	if err != nil {
		return 0, err
	}
	var moved []int64
	const still = `EXISTS (SELECT 1 FROM dead_letter l WHERE l.fingerprint = i.fingerprint AND l.` + liveLetter + `)`
	if err := s.db.Reader().SelectContext(ctx, &moved, `SELECT i.id FROM letter_incident i WHERE i.state = 'open' AND NOT `+still+`
 UNION ALL SELECT i.id FROM letter_incident i WHERE i.state = 'resolved' AND i.changed_at > ? AND `+still, dialect.Stamp(now.Add(-incidentMemory))); err != nil {
		return 0, s.explain("look at incidents", err)
	}
	for _, id := range moved {
		told := false
		if err := s.write(ctx, "settle an incident", func(ctx context.Context, t *tx) (err error) {
			told, err = t.settle(ctx, id)
			return err
		}); err != nil {
			return settled, err
		}
		if told {
			settled++
		}
	}
	return settled, nil
}

// settle brings one incident to the state that the letters say.
func (t *tx) settle(ctx context.Context, id int64) (told bool, err error) {
	var rows []incidentRow
	if err := t.SelectContext(ctx, &rows, `SELECT id, fingerprint, receiver, dag_id, task_id, callback, context, state, turns FROM letter_incident
 WHERE id = ?`+t.s.db.ForUpdate(), id); err != nil || len(rows) == 0 {
		return false, err
	}
	n := &rows[0]
	var open []int64
	if err := t.SelectContext(ctx, &open, "SELECT id FROM dead_letter WHERE fingerprint = ? AND "+liveLetter+" LIMIT 1", n.Fingerprint); err != nil {
		return false, err
	}
	state := "resolved"
	if len(open) > 0 {
		state = "open"
	}
	if n.State == state {
		return false, nil
	}
	if state == "resolved" {
		e, err := n.ended(t.now)
		if err != nil {
			return false, err
		}
		if err := t.insertEvents(ctx, []dag.Event{e}); err != nil {
			return false, err
		}
		n.Turns++
	}
	_, err = t.exec(ctx, "UPDATE letter_incident SET state = ?, turns = ?, changed_at = ? WHERE id = ?", state, n.Turns, t.at, n.ID)
	return state == "resolved", err
}

// ended is the event that ends an incident: what opened it, with another end. The
// receiver's templates see what they saw then, so that a key of the user's own
// is the same.
func (n *incidentRow) ended(now time.Time) (dag.Event, error) {
	e := dag.Event{
		TaskInstanceKey: dag.TaskInstanceKey{DagID: n.DagID, TaskID: n.TaskID, MapIndex: -1}, Kind: dag.EventSuccess, CreatedAt: now,
		DedupKey: dag.PayloadHash([]byte(`"incident/` + n.Fingerprint + "/" + n.Receiver + "/" + strconv.FormatInt(n.Turns, 10) + `"`)),
	}
	if err := json.Unmarshal([]byte(n.Callback), &e.Callback); err != nil {
		return e, fmt.Errorf("incident %d: its callback: %w", n.ID, err)
	}
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal([]byte(n.Context), &fields); err != nil {
		return e, fmt.Errorf("incident %d: its context: %w", n.ID, err)
	}
	for key, value := range map[string]any{
		"event": e.Kind, "dedup_key": e.DedupKey, "state": "resolved", "at": now, "reason": "no letter of this failure is open any more",
	} {
		raw, err := json.Marshal(value)
		if err != nil {
			return e, err
		}
		fields[key] = raw
	}
	var err error
	e.Context, err = json.Marshal(fields)
	return e, err
}
