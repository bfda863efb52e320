package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/load"
)

// found is what the files and the state database know of the DAGs.
type found struct {
	files load.Result
	rows  []dag.DAGRow
	// Places of DAGs in rows and in files.DAGs, by id.
	inRows, inFiles map[string]int
}

// find reads the DAGs folder and the state database.
func (s *session) find(ctx context.Context) (found, error) {
	cfg, err := s.config()
	if err != nil {
		return found{}, err
	}
	st, err := s.store(ctx)
	if err != nil {
		return found{}, err
	}
	rows, err := st.DAGRows(ctx, dag.DAGFilter{})
	if err != nil {
		return found{}, err
	}
	var files load.Result
	if err = s.fetch(ctx, false); err == nil {
		files, err = s.load(cfg.DagsFolder, nil)
	}
	if err != nil && len(rows) > 0 { // what the database knows is not hidden by files that are not here
		fmt.Fprintln(s.env.Stderr, "airlock: warning:", err)
		err = nil
	}
	f := found{files: files, rows: rows, inRows: make(map[string]int, len(rows)), inFiles: make(map[string]int, len(files.DAGs))}
	for i := range rows {
		f.inRows[rows[i].DagID] = i
	}
	for i, d := range files.DAGs {
		f.inFiles[d.ID] = i
	}
	return f, err
}

// row is what the state database knows of a DAG; nil when it is not there yet.
func (f found) row(id string) *dag.DAGRow {
	if i, there := f.inRows[id]; there {
		return &f.rows[i]
	}
	return nil
}

// file is the DAG as its file has it; nil when there is none without mistakes.
func (f found) file(id string) *dag.DAG {
	if i, there := f.inFiles[id]; there {
		return f.files.DAGs[i]
	}
	return nil
}

// unknown is the error for a DAG that is nowhere, or whose file is broken.
func (f found) unknown(id string) error {
	if file, ok := f.files.DagFiles[id]; ok {
		return &dag.Error{
			Code: dag.ErrNotFound, Op: "DAG " + id, Err: fmt.Errorf("its file %s has mistakes", file),
			Hint: "`airlock dags validate` shows them",
		}
	}
	known := make([]string, 0, len(f.rows))
	for _, r := range f.rows {
		known = append(known, r.DagID)
	}
	for _, d := range f.files.DAGs {
		known = append(known, d.ID)
	}
	return notFound("DAG", id, known, "`airlock dags list` shows all; --dags-folder says where the files are")
}

// dag finds a DAG in its file, or else as the state database has it last.
func (s *session) dag(ctx context.Context, id string) (*dag.DAG, found, error) {
	f, err := s.find(ctx)
	if err != nil {
		return nil, f, err
	}
	if d := f.file(id); d != nil {
		return d, f, nil
	}
	row := f.row(id)
	if row == nil {
		return nil, f, f.unknown(id)
	}
	st, err := s.store(ctx)
	if err != nil {
		return nil, f, err
	}
	d, err := st.Version(ctx, row.VersionID)
	return d, f, err
}

// runnable is stored for a command that makes runs: op is its verb. A DAG whose
// file is gone or broken is an error.
func (s *session) runnable(ctx context.Context, op, id string) (dag.DAGRow, error) {
	row, err := s.stored(ctx, id)
	if err == nil && row.IsStale {
		hint := "`airlock dags validate` shows what is wrong"
		if strings.Contains(row.StaleReason, "is gone") {
			hint = "put the DAG's file back; `airlock dags list` shows the DAGs that there are"
		}
		err = &dag.Error{
			Code: dag.ErrConflict, Op: op + " " + id, Err: errors.New(cmp.Or(row.StaleReason, "its file is gone or broken")),
			Hint: hint,
		}
	}
	return row, err
}

// stored finds a DAG's row and, when the state database has none yet, brings
// the database in step with the folder first.
func (s *session) stored(ctx context.Context, id string) (dag.DAGRow, error) {
	f, err := s.find(ctx)
	if err != nil {
		return dag.DAGRow{}, err
	}
	if row := f.row(id); row != nil {
		return *row, nil
	}
	if f.file(id) == nil {
		return dag.DAGRow{}, f.unknown(id)
	}
	a, err := s.open(ctx, false)
	if err != nil {
		return dag.DAGRow{}, err
	}
	if _, err := a.Catalog().Sync(ctx); err != nil {
		return dag.DAGRow{}, err
	}
	rows, err := a.Store().DAGRows(ctx, dag.DAGFilter{IDs: []string{id}})
	if err != nil {
		return dag.DAGRow{}, err
	}
	if len(rows) == 0 {
		return dag.DAGRow{}, f.unknown(id)
	}
	return rows[0], nil
}

// tellUnread warns of DAGs, or of the one with an id, whose file is not what the
// state database has: what runs a step as its DAG has it now would take the older
// one. Nothing is said where the files are not here.
func (s *session) tellUnread(ctx context.Context, id string) error {
	cfg, err := s.config()
	if err != nil {
		return err
	}
	files, err := s.load(cfg.DagsFolder, nil)
	if err != nil {
		return nil //nolint:nilerr // the folder need not be on this machine
	}
	st, err := s.store(ctx)
	if err != nil {
		return err
	}
	rows, err := st.DAGRows(ctx, dag.DAGFilter{})
	if err != nil {
		return err
	}
	known := make(map[string]string, len(rows))
	for _, r := range rows {
		known[r.DagID] = r.VersionHash
	}
	for _, d := range files.DAGs {
		if had, ok := known[d.ID]; ok && had != d.Hash() && (id == "" || id == d.ID) {
			fmt.Fprintf(s.env.Stderr, "airlock: warning: DAG %s: its file is not what the state database has, so its steps would run as they were: a scheduler reads changed files within a minute\n", d.ID)
		}
	}
	return nil
}
