package store

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/dialect"
)

// caseRow is a letter as a drain reads it.
type caseRow struct {
	letterRow
	InstanceID  int64   `db:"task_instance_id"`
	Fence       int64   `db:"fence"`
	PayloadEdit *string `db:"payload_edit"`
}

// unreadable names the columns that hold nothing readable.
func (r *caseRow) unreadable() string {
	var bad []string
	for _, c := range []struct {
		name string
		fine bool
	}{
		{"first_failed_at", r.FirstFailedAt.Valid}, {"enqueued_at", r.EnqueuedAt.Valid}, {"expires_at", r.ExpiresAt.Valid},
		{"dag_id", r.DagID != ""}, {"run_id", r.RunID != ""}, {"task_id", r.TaskID != ""}, {"idempotency_key", r.IdempotencyKey != ""},
	} {
		if !c.fine {
			bad = append(bad, c.name)
		}
	}
	if len(bad) == 0 {
		return ""
	}
	return "nothing readable in " + strings.Join(bad, ", ")
}

// ReplayPage reads the next letters that a filter selects, in the order of their
// ids, with what the state database knows about each. drain is the drain that
// asks, "" for a dry run; f.After and f.UpTo bound the ids, f.Limit the number.
// Nothing is locked: the step that carries a decision out looks again.
func (s *Store) ReplayPage(ctx context.Context, f dag.LetterFilter, drain string) ([]dag.ReplayCase, error) {
	f = drainFilter(f)
	if f.Lane == dag.LaneGPU && len(f.IDs) == 0 {
		// Most have no GPU: an index by queue knows without a look at all letters.
		if there, err := s.finds(ctx, "SELECT id FROM dead_letter"+s.depthIndex()+" WHERE status = ? AND "+gpuQueues+" LIMIT 1", string(f.Status)); err != nil || !there {
			return nil, s.explain("read dead letters", err)
		}
	}
	c := letterCondition(f)
	var rows []caseRow
	if err := s.db.Reader().SelectContext(ctx, &rows, "SELECT "+letterColumns+", payload, task_instance_id, fence, payload_edit FROM dead_letter"+
		s.inOrder(f)+c.where()+" ORDER BY id"+limit(f.Limit, chunk), c.args...); err != nil {
		return nil, s.explain("read dead letters", err)
	}
	out := make([]dag.ReplayCase, len(rows))
	for i := range rows {
		r := &rows[i]
		out[i] = dag.ReplayCase{
			Letter: r.model(), Unreadable: r.unreadable(), TaskInstanceID: r.InstanceID, Fence: r.Fence,
			Edited: r.PayloadEdit != nil, PayloadEdit: rawOrNil(r.PayloadEdit),
		}
	}
	for part := range slices.Chunk(out, chunk) {
		for _, step := range []func(context.Context, []dag.ReplayCase) error{s.caseInstances, s.caseVersions, s.caseEffects} {
			if err := step(ctx, part); err != nil {
				return nil, s.explain("read dead letters", err)
			}
		}
		if err := s.caseSiblings(ctx, part, drain); err != nil {
			return nil, s.explain("read dead letters", err)
		}
	}
	return out, nil
}

// replayColumns is what a decision about a letter looks at of its instance.
func replayColumns(r *instanceRow) (string, []any) {
	return "id, dag_run_id, dag_id, run_id, task_id, map_index, state, try_number, max_tries, generation, replays, replaying, fence, operator, queue, pool, dag_version_id",
		[]any{&r.ID, &r.DagRunID, &r.DagID, &r.RunID, &r.TaskID, &r.MapIndex, &r.State, &r.TryNumber, &r.MaxTries, &r.Generation, &r.Replays,
			&r.Replaying, &r.Fence, &r.Operator, &r.Queue, &r.Pool, &r.VersionID}
}

func (s *Store) caseInstances(ctx context.Context, cases []dag.ReplayCase) error {
	ids := make([]int64, len(cases))
	at := make(map[int64][]int, len(cases))
	for i := range cases {
		ids[i] = cases[i].TaskInstanceID
		at[ids[i]] = append(at[ids[i]], i)
	}
	in, args := s.among(ids)
	return eachInstance(ctx, s.db.Reader(), replayColumns, "task_instance", " WHERE id IN "+in, args, func(r *instanceRow) {
		for _, i := range at[r.ID] {
			cases[i].Instance, cases[i].RunID = r.model(), r.DagRunID
		}
	})
}

// caseVersions gives each instance the newest version of its DAG, where that
// still has the step as it was mapped: the fault may have been in the file. The
// run keeps its own version.
func (s *Store) caseVersions(ctx context.Context, cases []dag.ReplayCase) error {
	ids := map[string]bool{}
	for i := range cases {
		ids[cases[i].Letter.DagID] = true
	}
	names := slices.Sorted(maps.Keys(ids))
	var rows []struct {
		DagID   string `db:"dag_id"`
		Version int64  `db:"version_id"`
	}
	in, args := s.amongTexts(names)
	if err := s.db.Reader().SelectContext(ctx, &rows, "SELECT dag_id, version_id FROM dag WHERE dag_id IN "+in, args...); err != nil {
		return err
	}
	newest := make(map[string]int64, len(rows))
	for _, r := range rows {
		newest[r.DagID] = r.Version
	}
	for i := range cases {
		ti := &cases[i].Instance
		version := newest[ti.DagID]
		if ti.ID == 0 || version == 0 || version == ti.VersionID {
			continue
		}
		def, err := s.version(ctx, s.db.Reader(), version)
		if err != nil {
			if dag.CodeOf(err) == dag.ErrNotFound {
				continue
			}
			return err
		}
		task := def.Task(ti.TaskID)
		if task != nil && (task.Mapped() || def.MappedGroup(task) != nil) == (ti.MapIndex >= 0) {
			ti.VersionID, ti.Operator = version, task.Operator
		}
	}
	return nil
}

// caseEffects asks which effects are done already by the state database's own
// ledger.
func (s *Store) caseEffects(ctx context.Context, cases []dag.ReplayCase) error {
	keys := caseKeys(cases)
	var done []string
	in, args := s.amongTexts(keys)
	if err := s.db.Reader().SelectContext(ctx, &done, "SELECT idempotency_key FROM effect WHERE status = 'done' AND idempotency_key IN "+in, args...); err != nil {
		return err
	}
	if len(done) == 0 {
		return nil
	}
	is := make(map[string]bool, len(done))
	for _, k := range done {
		is[k] = true
	}
	for i := range cases {
		cases[i].EffectDone = is[cases[i].Letter.IdempotencyKey]
	}
	return nil
}

// caseSiblings looks at all letters of the same effects: how often it was
// replayed in all, and whether another one is on its way.
func (s *Store) caseSiblings(ctx context.Context, cases []dag.ReplayCase, drain string) error {
	var rows []struct {
		ID      int64   `db:"id"`
		Key     string  `db:"idempotency_key"`
		Returns int     `db:"return_count"`
		Status  string  `db:"status"`
		Drain   *string `db:"drain_id"`
	}
	in, args := s.amongTexts(caseKeys(cases))
	if err := s.db.Reader().SelectContext(ctx, &rows, "SELECT id, idempotency_key, return_count, status, drain_id FROM dead_letter WHERE idempotency_key IN "+
		in+" ORDER BY id", args...); err != nil {
		return err
	}
	byKey := make(map[string][]int, len(rows))
	for i := range rows {
		byKey[rows[i].Key] = append(byKey[rows[i].Key], i)
	}
	for i := range cases {
		c := &cases[i]
		for _, k := range byKey[c.Letter.IdempotencyKey] {
			r := &rows[k]
			c.Returns += r.Returns
			ours := drain != "" && r.Drain != nil && *r.Drain == drain
			if r.ID != c.Letter.ID && (r.Status == string(dag.LetterReplaying) || ours && r.ID < c.Letter.ID) {
				c.SameEffect = r.ID
			}
		}
	}
	return nil
}

func caseKeys(cases []dag.ReplayCase) []string {
	keys := make([]string, len(cases))
	for i := range cases {
		keys[i] = cases[i].Letter.IdempotencyKey
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// amongTexts is among for texts.
func (s *Store) amongTexts(list []string) (string, []any) {
	if s.db.IsSQLite() {
		b, err := json.Marshal(list)
		if err != nil {
			b = []byte("[]") // cannot happen: texts always marshal
		}
		return "(SELECT value FROM json_each(?))", []any{string(b)}
	}
	return "(" + dialect.Marks(len(list)) + ")", anys(list)
}
