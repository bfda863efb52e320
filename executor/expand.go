package executor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"sort"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/render"
	"github.com/airlock-dag/airlock/executor/fault"
)

// expand makes the instances of a mapped task whose sources are complete, or
// seals it when they cannot be read.
func (s *Scheduler) expand(ctx context.Context, run dag.Run, taskID string) error {
	d, err := s.o.Catalog.Version(ctx, run.VersionID)
	if err != nil {
		return err
	}
	task := d.Task(taskID)
	if task == nil || task.Expand == nil {
		return fmt.Errorf("expand %s/%s: the version has no such mapped task", run.DagID, taskID)
	}
	return s.expandOver(ctx, d, task, []*dag.Task{task}, run)
}

// expandGroup makes the instances of all tasks of a mapped group at once.
func (s *Scheduler) expandGroup(ctx context.Context, run dag.Run, groupID string) error {
	d, err := s.o.Catalog.Version(ctx, run.VersionID)
	if err != nil {
		return err
	}
	group := d.Group(groupID)
	if group == nil || group.Expand == nil {
		return fmt.Errorf("expand group %s of %s: the version has no such mapped group", groupID, run.DagID)
	}
	var tasks []*dag.Task
	for i := range d.Tasks {
		if d.MappedGroup(&d.Tasks[i]) == group && d.Tasks[i].Expand == nil {
			tasks = append(tasks, &d.Tasks[i])
		}
	}
	// The values are those that a task would get; messages say "task group NAME".
	return s.expandOver(ctx, d, &dag.Task{ID: "group " + group.ID, Expand: group.Expand}, tasks, run)
}

// expandOver expands tasks over the values of one expansion.
func (s *Scheduler) expandOver(ctx context.Context, d *dag.DAG, over *dag.Task, tasks []*dag.Task, run dag.Run) error {
	payloads, err := s.payloads(ctx, d, over, run)
	if err == nil {
		ids := make([]string, len(tasks))
		for i, t := range tasks {
			ids[i] = t.ID
		}
		_, err = s.o.Store.ExpandTasks(ctx, run.ID, ids, payloads)
		return err
	}
	var e *dag.TaskError
	if !errors.As(err, &e) {
		return err // the state database: try again
	}
	// One letter tells of it: the group's other tasks follow.
	for _, t := range tasks {
		if sealed, err := s.sealExpansion(ctx, d, t, run, e); sealed || err != nil {
			return err
		}
	}
	return nil
}

// sealExpansion reports false when the task's instance is not there any more.
func (s *Scheduler) sealExpansion(ctx context.Context, d *dag.DAG, t *dag.Task, run dag.Run, e *dag.TaskError) (bool, error) {
	now, err := s.o.Store.Now(ctx)
	if err != nil {
		return false, err
	}
	var claim dag.Claim
	var letter *dag.DeadLetter
	seal := func(ti dag.TaskInstance) (dag.DeadLetter, []dag.Event) {
		l := dag.Seal(dag.SealInput{TI: ti, Run: run, Err: e, Attempts: ti.TryNumber, At: now})
		claim, letter = dag.Claim{TaskInstance: ti, Run: run}, &l
		return l, dag.TaskEvents(d, t, ti, run, dag.EventFailure, e, nil, "", now)
	}
	s.o.Log.Error("a mapped task could not be expanded", "dag_id", run.DagID, "run_id", run.RunID, "task_id", t.ID,
		"error_code", e.Code, "error", e.Message)
	if err := s.o.Store.FailExpansion(ctx, run.ID, t.ID, seal); err != nil {
		return false, err
	}
	s.o.OutboxWake.Signal()
	if letter == nil {
		return false, nil
	}
	s.o.OnEnd(claim, dag.Result{TaskInstanceID: claim.ID, State: dag.StateFailed, Letter: letter})
	return true, nil
}

// payloads computes one JSON object an instance: the expanded values over the
// partial ones. Several expanded arguments give their cross product, the last
// one varying fastest, as in Airflow.
func (s *Scheduler) payloads(ctx context.Context, d *dag.DAG, t *dag.Task, run dag.Run) ([]json.RawMessage, error) {
	rows := []map[string]any{{}}
	if t.Expand.Kwargs != nil {
		values, err := s.source(ctx, d, t, run, *t.Expand.Kwargs)
		if err != nil {
			return nil, err
		}
		rows = rows[:0]
		for i, v := range values {
			m, ok := v.(map[string]any)
			if !ok {
				return nil, badSource(t, "expand_kwargs", fmt.Sprintf("value %d is a %T, a mapping is needed", i, v))
			}
			rows = append(rows, m)
		}
	}
	lists := make([][]any, len(t.Expand.Names))
	for i, name := range t.Expand.Names {
		var err error
		if lists[i], err = s.source(ctx, d, t, run, t.Expand.Args[name]); err != nil {
			return nil, err
		}
	}
	// Asked before anything is made: lists that go ten times into memory do not
	// when each is joined with each.
	switch n := instances(len(rows), lists); {
	case n == 0:
		return nil, nil
	case n > s.o.MaxMapLength:
		return nil, fault.New(fault.CodeExpansionTooLarge, fmt.Sprintf("%d instances, the limit is %d (core.max_map_length)", n, s.o.MaxMapLength))
	}
	for i, name := range t.Expand.Names {
		next := make([]map[string]any, 0, len(rows)*len(lists[i]))
		for _, row := range rows {
			for _, v := range lists[i] {
				m := make(map[string]any, len(row)+1)
				for k, x := range row {
					m[k] = x
				}
				m[name] = v
				next = append(next, m)
			}
		}
		rows = next
	}
	out := make([]json.RawMessage, len(rows))
	for i, row := range rows {
		for k, v := range t.Expand.Partial {
			if _, set := row[k]; !set {
				row[k] = v
			}
		}
		raw, err := json.Marshal(row)
		if err != nil {
			return nil, badSource(t, "expand", err.Error())
		}
		out[i] = raw
	}
	return out, nil
}

// instances is how many instances rows make with each value of each list; a
// number too large for an int is the largest there is.
func instances(rows int, lists [][]any) int {
	n := rows
	for _, list := range lists {
		if len(list) == 0 {
			return 0
		}
		if n > math.MaxInt/len(list) {
			n = math.MaxInt / len(list)
		}
		n *= len(list)
	}
	return n
}

// source reads the values of one expanded argument.
func (s *Scheduler) source(ctx context.Context, d *dag.DAG, t *dag.Task, run dag.Run, src dag.ExpandSource) ([]any, error) {
	switch {
	case src.XCom != "":
		return s.xcomSource(ctx, t, run, src)
	case src.Glob != "":
		return s.globSource(ctx, d, t, run, src.Glob)
	default:
		return src.Literal, nil
	}
}

// xcomSource reads what an upstream task returned: a list as it is, a mapping
// as [key, value] pairs, and of a mapped task the values of its successful
// instances. An upstream that left nothing gives no instance.
func (s *Scheduler) xcomSource(ctx context.Context, t *dag.Task, run dag.Run, src dag.ExpandSource) ([]any, error) {
	key := src.Key
	if key == "" {
		key = dag.XComReturnValue
	}
	raw, err := s.o.Store.XCom(ctx, run.DagID, run.RunID, src.XCom, key, nil)
	if err != nil || raw == nil {
		return nil, err
	}
	var v any
	if err := decodeJSON(raw, &v); err != nil {
		return nil, badSource(t, src.XCom, err.Error())
	}
	switch v := v.(type) {
	case nil:
		return nil, nil
	case []any:
		return v, nil
	case map[string]any:
		keys := make([]string, 0, len(v))
		for k := range v {
			keys = append(keys, k)
		}
		sort.Strings(keys)
		pairs := make([]any, len(keys))
		for i, k := range keys {
			pairs[i] = []any{k, v[k]}
		}
		return pairs, nil
	default:
		return nil, badSource(t, src.XCom, fmt.Sprintf("it returned a %T, a list or a mapping is needed", v))
	}
}

// globSource lists the files that a pattern matches, sorted; the pattern is
// rendered with the run's context and starts at the DAG file's folder.
func (s *Scheduler) globSource(ctx context.Context, d *dag.DAG, t *dag.Task, run dag.Run, pattern string) ([]any, error) {
	params, err := render.MergeParams(d, t, run.Conf)
	if err != nil {
		return nil, badSource(t, pattern, err.Error())
	}
	var away trouble
	r := NewRenderer(ctx, RenderInput{
		DAG: d, Task: t, Run: &run, Params: params, Settings: notingSettings{s.o.Settings, &away}, XComs: notingXComs{s.o.Store, &away},
	})
	rendered, err := r.String(pattern)
	if err != nil && away.found() != nil {
		return nil, away.found()
	}
	if err != nil {
		return nil, badSource(t, pattern, err.Error())
	}
	if !filepath.IsAbs(rendered) {
		rendered = filepath.Join(s.o.DagsFolder, filepath.Dir(filepath.FromSlash(d.FileLoc)), rendered)
	}
	paths, err := filepath.Glob(rendered)
	if err != nil {
		return nil, badSource(t, pattern, fmt.Sprintf("%q is no file pattern: %v", rendered, err))
	}
	out := make([]any, len(paths))
	for i, p := range paths { // filepath.Glob sorts within a folder
		out[i] = p
	}
	return out, nil
}

func badSource(t *dag.Task, source, found string) *dag.TaskError {
	e := fault.New(fault.CodeExpansionSource, fmt.Sprintf("task %s cannot be expanded over %s: %s", t.ID, source, found))
	e.Hint = "expand needs a list, a mapping, a file pattern or an upstream task that returns one"
	return e
}
