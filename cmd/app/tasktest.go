package app

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/load"
	"github.com/airlock-dag/airlock/dag/timetable"
	"github.com/airlock-dag/airlock/executor"
)

// TaskTestRequest asks for one attempt of one task.
type TaskTestRequest struct {
	DagID, TaskID string
	LogicalDate   *time.Time
	Conf          json.RawMessage
	// Payload stands in for the expanded values of a mapped task.
	Payload json.RawMessage
	Out     io.Writer
	// PlanOnly asks what the attempt would do; nothing is done.
	PlanOnly bool
}

// TaskTestReport is what the attempt came to.
type TaskTestReport struct {
	State       dag.State       `json:"state"`
	ReturnValue json.RawMessage `json:"return_value,omitempty"`
	ErrorClass  dag.ErrorClass  `json:"error_class,omitempty"`
	ErrorCode   string          `json:"error_code,omitempty"`
	Message     string          `json:"error_message,omitempty"`
	Hint        string          `json:"hint,omitempty"`
	Args        map[string]any  `json:"args"`
}

// TestTask runs one task of a DAG file in the foreground, whatever it depends
// on, and records nothing in the state database.
func (a *App) TestTask(ctx context.Context, r TaskTestRequest) (TaskTestReport, error) {
	files, err := a.source.Scan()
	if err != nil {
		return TaskTestReport{}, err
	}
	res := load.Files(files, a.load)
	d := find(res.DAGs, r.DagID)
	if d == nil {
		return TaskTestReport{}, noSuchDAG("test", r.DagID, res)
	}
	task := d.Task(r.TaskID)
	if task == nil {
		var ids []string
		for _, t := range d.Tasks {
			ids = append(ids, t.ID)
		}
		return TaskTestReport{}, &dag.Error{Code: dag.ErrNotFound, Op: "test " + d.ID + " " + r.TaskID,
			Err: fmt.Errorf("the DAG has no such task"), Hint: "it has " + strings.Join(ids, ", ")}
	}
	expand := task.Expand
	if group := d.MappedGroup(task); group != nil {
		expand = group.Expand
	}
	if expand != nil && r.Payload == nil {
		return TaskTestReport{}, &dag.Error{Code: dag.ErrInvalid, Op: "test " + d.ID + " " + r.TaskID,
			Err: fmt.Errorf("the task is mapped over %s", strings.Join(expand.Names, ", ")), Hint: "give the values of one instance with --payload '{...}'"}
	}
	now := a.o.Clock.Now()
	if r.LogicalDate == nil {
		r.LogicalDate = &now
	}
	tt, err := timetable.ForDAG(d)
	if err != nil {
		return TaskTestReport{}, err
	}
	from, to := tt.ManualInterval(*r.LogicalDate)
	run := dag.Run{
		DagID: d.ID, RunID: timetable.ManualRunID(r.LogicalDate, now, a.o.IDs), Type: dag.RunManual, State: dag.RunRunning,
		LogicalDate: r.LogicalDate, DataIntervalStart: &from, DataIntervalEnd: &to, RunAfter: now, StartDate: &now, Conf: r.Conf, TriggeredBy: "test",
	}
	ending, result := a.parts(partOptions{}).worker.Try(ctx, executor.TryRequest{DAG: d, Task: task, Run: run, Payload: r.Payload, Out: r.Out, PlanOnly: r.PlanOnly})
	rep := TaskTestReport{State: result.State, ReturnValue: result.XComs[dag.XComReturnValue], Args: ending.Args}
	if m, ok := dag.MaskValues(map[string]any(ending.Args)).(map[string]any); ok {
		rep.Args = m
	}
	if e := ending.Outcome.Err; e != nil {
		rep.ErrorClass, rep.ErrorCode, rep.Message, rep.Hint = e.Class, e.Code, e.Message, e.Hint
	}
	return rep, nil
}

func find(dags []*dag.DAG, id string) *dag.DAG {
	for _, d := range dags {
		if d.ID == id {
			return d
		}
	}
	return nil
}

// noSuchDAG says why a DAG cannot be run: it is not there, or its file is broken.
func noSuchDAG(op, id string, res load.Result) error {
	if file, ok := res.DagFiles[id]; ok {
		var problems []string
		for _, p := range res.Problems {
			if p.Severity == dag.SeverityError && p.File == file {
				problems = append(problems, p.String())
			}
		}
		return &dag.Error{Code: dag.ErrInvalid, Op: op + " " + id, Err: fmt.Errorf("its file %s has mistakes%s%s", file, lineBreak, strings.Join(problems, lineBreak)),
			Hint: "`airlock dags validate` shows all mistakes"}
	}
	var ids []string
	for _, d := range res.DAGs {
		ids = append(ids, d.ID)
	}
	hint := "the folder has no DAG; give it with --dags-folder"
	if near := dag.Nearest(id, ids); near != "" {
		hint = "did you mean " + near + "?"
	} else if len(ids) > 0 {
		hint = "see `airlock dags list`"
	}
	if n := len(res.Broken); n > 0 {
		const most = 5 // of a folder of nothing but mistakes
		hint = "mistakes keep DAGs out: `airlock dags validate` shows those of " + strings.Join(res.Broken[:min(n, most)], ", ")
		if n > most {
			hint += fmt.Sprintf(" and %d more files", n-most)
		}
	}
	return &dag.Error{Code: dag.ErrNotFound, Op: op + " " + id, Err: fmt.Errorf("there is no DAG %q", id), Hint: hint}
}

const lineBreak = "\n  "

func hostname() string {
	h, err := os.Hostname()
	if err != nil {
		return "localhost"
	}
	return h
}
