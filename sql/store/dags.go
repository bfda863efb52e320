package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/dialect"
)

// activeRuns counts a DAG's unfinished runs that are neither backfills nor
// replays: a replay must not keep the schedule from its runs.
//
// A server is told the index: where most DAGs have few runs it would look through
// the whole history of one that has many, each time that it may be due.
func (s *Store) activeRuns() string {
	return "(SELECT COUNT(*) FROM dag_run r" + s.force("k_state") + ` WHERE r.dag_id = d.dag_id
 AND r.state IN ('queued', 'running') AND r.run_type <> 'backfill' AND r.is_replay = 0)`
}

// dagColumns are the columns of dagRow.
func (s *Store) dagColumns() string {
	return `d.dag_id, d.fileloc, d.owner, d.schedule, d.description, d.is_paused, d.is_stale, d.stale_reason,
 d.version_id, v.hash, v.source, d.next_logical_date, d.next_interval_start, d.next_interval_end, d.next_run_after,
 d.updated_at, ` + s.activeRuns() + ` AS active_runs FROM dag d JOIN dag_version v ON v.id = d.version_id`
}

type dagRow struct {
	DagID             string       `db:"dag_id"`
	FileLoc           string       `db:"fileloc"`
	Owner             string       `db:"owner"`
	Schedule          string       `db:"schedule"`
	Description       string       `db:"description"`
	IsPaused          bool         `db:"is_paused"`
	IsStale           bool         `db:"is_stale"`
	StaleReason       string       `db:"stale_reason"`
	VersionID         int64        `db:"version_id"`
	Hash              string       `db:"hash"`
	Source            string       `db:"source"`
	NextLogicalDate   dialect.Time `db:"next_logical_date"`
	NextIntervalStart dialect.Time `db:"next_interval_start"`
	NextIntervalEnd   dialect.Time `db:"next_interval_end"`
	NextRunAfter      dialect.Time `db:"next_run_after"`
	UpdatedAt         dialect.Time `db:"updated_at"`
	ActiveRuns        int          `db:"active_runs"`
}

func (r dagRow) next() *dag.PlannedRun {
	if !r.NextRunAfter.Valid {
		return nil
	}
	return &dag.PlannedRun{
		LogicalDate: r.NextLogicalDate.Time, DataIntervalStart: r.NextIntervalStart.Time,
		DataIntervalEnd: r.NextIntervalEnd.Time, RunAfter: r.NextRunAfter.Time,
	}
}

func (r dagRow) model() dag.DAGRow {
	return dag.DAGRow{
		DagID: r.DagID, FileLoc: r.FileLoc, Owner: r.Owner, Schedule: r.Schedule, Description: r.Description,
		IsPaused: r.IsPaused, IsStale: r.IsStale, StaleReason: r.StaleReason, VersionID: r.VersionID,
		VersionHash: r.Hash, Source: r.Source, Next: r.next(), ActiveRuns: r.ActiveRuns, UpdatedAt: r.UpdatedAt.Time,
	}
}

// planArgs are the four columns of a planned run.
func planArgs(p *dag.PlannedRun) []any {
	if p == nil {
		return []any{nil, nil, nil, nil}
	}
	return []any{
		dialect.Stamp(p.LogicalDate), dialect.Stamp(p.DataIntervalStart),
		dialect.Stamp(p.DataIntervalEnd), dialect.Stamp(p.RunAfter),
	}
}

// DAGRows lists the DAGs with their present version, sorted by id.
func (s *Store) DAGRows(ctx context.Context, filter dag.DAGFilter) ([]dag.DAGRow, error) {
	var c condition
	c.in("d.dag_id", anys(filter.IDs))
	if filter.OnlyActive {
		c.add("d.is_stale = 0")
	}
	return s.dagRows(ctx, c.where()+" ORDER BY d.dag_id", c.args...)
}

// DueDAGs lists active, unpaused DAGs whose next run is due by an instant and
// which may have another run, oldest first.
func (s *Store) DueDAGs(ctx context.Context, by time.Time, n int) ([]dag.DAGRow, error) {
	return s.dagRows(ctx, ` WHERE d.is_paused = 0 AND d.is_stale = 0 AND d.next_run_after <= ? AND `+s.activeRuns()+
		` < d.max_active_runs ORDER BY d.next_run_after, d.dag_id`+limit(n, 100), dialect.Stamp(by))
}

func (s *Store) dagRows(ctx context.Context, tail string, args ...any) ([]dag.DAGRow, error) {
	var rows []dagRow
	if err := s.db.Reader().SelectContext(ctx, &rows, "SELECT "+s.dagColumns()+tail, args...); err != nil {
		return nil, fmt.Errorf("list DAGs: %w", err)
	}
	out := make([]dag.DAGRow, len(rows))
	for i, r := range rows {
		out[i] = r.model()
	}
	return out, nil
}

// encoded is one DAG on its way to the tables.
type encoded struct {
	dag.DAGUpdate
	content string
	hash    string
}

// SyncDAGs records what the bundle holds now: each DAG's row and, when its
// content changed, a new version. Content that was seen before gets its old
// version again. What did not change is not written.
func (s *Store) SyncDAGs(ctx context.Context, updates []dag.DAGUpdate) ([]int64, error) {
	list := make([]encoded, len(updates))
	for i, u := range updates {
		content, hash, err := dag.EncodeDAG(u.DAG)
		if err != nil {
			return nil, fmt.Errorf("sync DAGs: %w", err)
		}
		list[i] = encoded{u, string(content), hash}
	}
	// Rows are locked in the order of their ids.
	order := make([]int, len(list))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return strings.Compare(list[a].DAG.ID, list[b].DAG.ID) })
	ids := make([]int64, len(list))
	err := s.write(ctx, "sync DAGs", func(ctx context.Context, t *tx) error {
		for _, i := range order {
			id, err := t.syncDAG(ctx, &list[i])
			if err != nil {
				return fmt.Errorf("DAG %s: %w", list[i].DAG.ID, err)
			}
			ids[i] = id
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return ids, nil
}

func (t *tx) syncDAG(ctx context.Context, u *encoded) (int64, error) {
	var rows []dagRow
	err := t.SelectContext(ctx, &rows, `SELECT d.dag_id, d.fileloc, d.is_stale, d.version_id, d.next_logical_date, d.next_interval_start,
 d.next_interval_end, d.next_run_after FROM dag d WHERE d.dag_id = ?`+t.s.db.ForUpdate(), u.DAG.ID)
	if err != nil {
		return 0, err
	}
	version, err := t.versionOf(ctx, u)
	if err != nil {
		return 0, err
	}
	d := u.DAG
	args := []any{
		clean(d.FileLoc), short(d.Owner, 500), clean(d.Schedule.Text), clean(d.Description), tagsJSON(d.Tags),
		version, max(1, d.MaxActiveRuns),
	}
	args = append(append(args, planArgs(u.Next)...), t.at, d.ID)
	if len(rows) == 0 {
		_, err := t.exec(ctx, `INSERT INTO dag (fileloc, owner, schedule, description, tags, version_id, max_active_runs,
 next_logical_date, next_interval_start, next_interval_end, next_run_after, updated_at, dag_id, is_paused, is_stale, stale_reason)
 VALUES (`+dialect.Marks(len(args))+`, ?, 0, '')`+t.s.db.Upsert([]string{"dag_id"}, nil), append(args, boolInt(u.Paused))...)
		return version, err
	}
	old := rows[0]
	changed := old.VersionID != version
	if !changed && !old.IsStale && old.FileLoc == d.FileLoc && samePlan(old.next(), u.Next) {
		return version, nil
	}
	// What was made ahead was made of the old version, and by the old schedule.
	if err := t.takeBackOf(ctx, []string{d.ID}); err != nil {
		return 0, err
	}
	if _, err := t.exec(ctx, `UPDATE dag SET fileloc = ?, owner = ?, schedule = ?, description = ?, tags = ?, version_id = ?,
 max_active_runs = ?, next_logical_date = ?, next_interval_start = ?, next_interval_end = ?, next_run_after = ?, updated_at = ?,
 is_stale = 0, stale_reason = '' WHERE dag_id = ?`, args...); err != nil {
		return 0, err
	}
	if changed {
		return version, t.wakeWaiting(ctx, d.ID)
	}
	return version, nil
}

// versionOf finds or makes the version of a DAG's content.
func (t *tx) versionOf(ctx context.Context, u *encoded) (int64, error) {
	var ids []int64
	err := t.SelectContext(ctx, &ids, "SELECT id FROM dag_version WHERE dag_id = ? AND hash = ?", u.DAG.ID, u.hash)
	if err != nil || len(ids) > 0 {
		return first(ids), err
	}
	id, err := t.insert(ctx, "INSERT INTO dag_version (dag_id, hash, source, content, created_at) VALUES (?, ?, ?, ?, ?)",
		u.DAG.ID, u.hash, short(u.Source, 500), u.content, t.at)
	if dialect.ClassOf(err) == dialect.ClassDuplicate {
		// Another process was first; its commit is visible now.
		err = t.SelectContext(ctx, &ids, "SELECT id FROM dag_version WHERE dag_id = ? AND hash = ?"+t.s.db.ForUpdate(), u.DAG.ID, u.hash)
		return first(ids), err
	}
	return id, err
}

func first(ids []int64) int64 {
	if len(ids) == 0 {
		return 0
	}
	return ids[0]
}

func tagsJSON(tags []string) string {
	b, err := json.Marshal(tags)
	if err != nil || len(tags) == 0 {
		return "[]"
	}
	return string(b)
}

func samePlan(a, b *dag.PlannedRun) bool {
	if a == nil || b == nil {
		return a == b
	}
	same := func(i int) bool { return planArgs(a)[i] == planArgs(b)[i] }
	return same(0) && same(1) && same(2) && same(3)
}

// MarkStale marks DAGs whose file is gone or broken: they start no new runs,
// and runs in flight go on with the version that they have.
func (s *Store) MarkStale(ctx context.Context, dagIDs []string, reason string) error {
	if len(dagIDs) == 0 {
		return nil
	}
	return s.write(ctx, "mark DAGs stale", func(ctx context.Context, t *tx) error {
		for part := range slices.Chunk(dagIDs, chunk) {
			args := append([]any{clean(reason), t.at}, anys(part)...)
			if _, err := t.exec(ctx, "UPDATE dag SET is_stale = 1, stale_reason = ?, updated_at = ? WHERE dag_id IN ("+
				dialect.Marks(len(part))+")", args...); err != nil {
				return err
			}
			if err := t.takeBackOf(ctx, part); err != nil {
				return err
			}
		}
		return nil
	})
}

// ReplacePlan stores another next run in place of the one in the row, unless
// the DAG's plan or version has changed since the row was read.
func (s *Store) ReplacePlan(ctx context.Context, row dag.DAGRow, next *dag.PlannedRun) error {
	if row.Next == nil {
		return nil
	}
	return s.write(ctx, "replan "+row.DagID, func(ctx context.Context, t *tx) error {
		_, err := t.setNextRun(ctx, row.DagID, next, &planGuard{runAfter: row.Next.RunAfter, version: row.VersionID})
		return err
	})
}

// planGuard is the plan that a decision was made from: another scheduler may
// have carried it out, a new version of the DAG may have another schedule, and a
// DAG that was paused since, or whose file is gone, has none.
type planGuard struct {
	runAfter time.Time
	version  int64
}

// setNextRun stores the plan; with a guard only if that is the present plan.
func (t *tx) setNextRun(ctx context.Context, dagID string, next *dag.PlannedRun, guard *planGuard) (int64, error) {
	query := "UPDATE dag SET next_logical_date = ?, next_interval_start = ?, next_interval_end = ?, next_run_after = ?, updated_at = ? WHERE dag_id = ?"
	args := append(planArgs(next), t.at, dagID)
	if guard != nil {
		query += " AND next_run_after = ? AND version_id = ? AND is_paused = 0 AND is_stale = 0"
		args = append(args, dialect.Stamp(guard.runAfter), guard.version)
	}
	return t.exec(ctx, query, args...)
}

func noDAG(dagID string) error {
	return &dag.Error{
		Code: dag.ErrNotFound, Op: "DAG " + dagID, Hint: "airlock dags list shows those that are known",
		Err: errors.New("there is none"),
	}
}

// SetImportErrors replaces all recorded problems of files.
func (s *Store) SetImportErrors(ctx context.Context, problems []dag.Problem) error {
	return s.write(ctx, "record problems of files", func(ctx context.Context, t *tx) error {
		if _, err := t.exec(ctx, "DELETE FROM import_error"); err != nil {
			return err
		}
		for part := range slices.Chunk(problems, chunk) {
			args := make([]any, 0, 9*len(part))
			for _, p := range part {
				args = append(args, clean(p.File), p.Line, p.Column, clean(p.Path), string(p.Severity), short(p.Code, 100),
					clean(p.Message), clean(p.Hint), t.at)
			}
			if _, err := t.exec(ctx, "INSERT INTO import_error (file, line, col, path, severity, code, message, hint, recorded_at) VALUES "+
				dialect.Rows(len(part), 9), args...); err != nil {
				return err
			}
		}
		return nil
	})
}

// ImportErrors implements Desk.
func (s *Store) ImportErrors(ctx context.Context) ([]dag.Problem, error) {
	var out []dag.Problem
	rows, err := s.db.Reader().QueryContext(ctx, "SELECT file, line, col, path, severity, code, message, hint FROM import_error ORDER BY id")
	if err != nil {
		return nil, fmt.Errorf("list problems of files: %w", err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var p dag.Problem
		if err := rows.Scan(&p.File, &p.Line, &p.Column, &p.Path, &p.Severity, &p.Code, &p.Message, &p.Hint); err != nil {
			return nil, fmt.Errorf("list problems of files: %w", err)
		}
		out = append(out, p)
	}
	return out, rows.Err()
}
