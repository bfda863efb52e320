package merge

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/fault"
	"github.com/airlock-dag/airlock/executor/operator"
	sqlop "github.com/airlock-dag/airlock/executor/operator/sql"
	"github.com/airlock-dag/airlock/sql/dialect"
	"github.com/airlock-dag/airlock/sql/merge"
)

// Operator merges rows into a table.
type Operator struct {
	rand dag.Rand
}

// New makes the operator; rand draws the waits between tries of a transaction.
func New(rand dag.Rand) Operator { return Operator{rand: rand} }

// Spec implements operator.Operator.
func (Operator) Spec() dag.OperatorSpec {
	return dag.OperatorSpec{
		Name:     "merge",
		Doc:      "Merges rows of files, a query or an upstream task into a table, with row dead letters and a watermark, in one transaction.",
		Fields:   fields(),
		OneOf:    [][]string{{"source", "sql"}},
		Validate: validate,
	}
}

func validate(args map[string]any) []dag.Problem {
	_, problems := merge.ParseSpec(args)
	if args["source"] != nil || args["sql"] != nil {
		return problems
	}
	// That one of the two is missing is told already.
	return slices.DeleteFunc(problems, func(p dag.Problem) bool { return p.Path == "source" })
}

// Run implements operator.Operator.
func (o Operator) Run(ctx context.Context, t *operator.Task) dag.Outcome {
	key := t.IdempotencyKey
	if own, ok := t.Args["idempotency_key"].(string); ok && own != "" {
		key = own
	}
	d, err := o.merge(ctx, t, key)
	if err == nil {
		if t.Detail != nil {
			t.Detail(d)
		}
		return dag.Success(d.Result)
	}
	e := sqlop.Failure(ctx, err)
	e.IdempotencyKey = key
	if e.Code == merge.CodeSourceMissing && onMissing(t.Args) == "skip" {
		logf(t, "%s: skipped", e.Message)
		return dag.Outcome{Kind: dag.OutcomeSkipped, Err: e}
	}
	return dag.Failed(e)
}

func onMissing(args map[string]any) string {
	src, _ := args["source"].(map[string]any)
	text, _ := src["on_missing"].(string)
	return text
}

func (o Operator) merge(ctx context.Context, t *operator.Task, key string) (*merge.Detail, error) {
	spec, problems := merge.ParseSpec(t.Args)
	if len(problems) > 0 {
		return nil, fault.New(merge.CodeInvalid, merge.ProblemText(problems))
	}
	db, err := sqlop.Open(ctx, t, text(t.Args, "conn_id"), "", spec.CreateTarget)
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.Close() }()
	source, done, err := sourceOf(ctx, t, spec, db)
	if err != nil {
		return nil, err
	}
	defer done()
	e := &merge.Engine{DB: db, Clock: t.Clock, Rand: o.rand}
	d, err := e.Run(ctx, &merge.Job{
		Spec: spec, Source: source, Key: key, Owner: t.TI.TaskInstanceKey, Fence: t.TI.Fence,
		StillMine: t.StillMine,
		Logf:      func(format string, args ...any) { logf(t, format, args...) },
		Progress: func(rows int64) {
			if t.Progress != nil {
				t.Progress(operator.Progress{Fraction: -1, Text: fmt.Sprintf("%d rows read", rows)})
			}
		},
	})
	if err != nil {
		return nil, err
	}
	if d.AlreadyDone {
		logf(t, "already done under the key %q, nothing was changed: %s", key, d.Summary())
		return d, nil
	}
	logf(t, "%s", d.Summary())
	if d.RowsQuarantined > 0 {
		logf(t, "%d rows are in airlock_dead_letter_row of %s under batch_id %s: %s", d.RowsQuarantined-d.RowsQuarantinedAgain, db, d.BatchID, codes(d.QuarantinedByCode))
		if d.RowsQuarantinedAgain > 0 {
			logf(t, "%d of the quarantined rows have an open letter from before and got no second one", d.RowsQuarantinedAgain)
		}
	}
	return d, nil
}

// Plan implements operator.Planner.
func (o Operator) Plan(ctx context.Context, t *operator.Task) dag.Outcome {
	p, err := o.plan(ctx, t)
	if err != nil {
		return dag.Failed(sqlop.Failure(ctx, err))
	}
	logf(t, "%s", p.Text())
	return dag.Success(p)
}

func (o Operator) plan(ctx context.Context, t *operator.Task) (*merge.Preview, error) {
	spec, problems := merge.ParseSpec(t.Args)
	if len(problems) > 0 {
		return nil, fault.New(merge.CodeInvalid, merge.ProblemText(problems))
	}
	db, err := sqlop.Open(ctx, t, text(t.Args, "conn_id"), "", false)
	var missing *dialect.NoFileError
	if errors.As(err, &missing) && spec.CreateTarget && (spec.Source.Query == "" || spec.Source.ConnID != "") {
		return o.planInNewFile(ctx, t, spec, missing.Path)
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.Close() }()
	return o.preview(ctx, t, spec, db)
}

// planInNewFile plans a step that will make its SQLite database: against an empty
// one elsewhere, since a plan makes nothing.
func (o Operator) planInNewFile(ctx context.Context, t *operator.Task, spec *merge.Spec, path string) (*merge.Preview, error) {
	if _, err := os.Stat(filepath.Dir(path)); err != nil {
		return nil, fault.New(fault.CodeFileNotFound, "there is no folder "+filepath.Dir(path)+" for the database; make it, or check the connection's path")
	}
	dir, err := os.MkdirTemp("", "airlock-plan-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	db, err := dialect.Open(ctx, "sqlite:///"+filepath.ToSlash(filepath.Join(dir, "empty.db")), dialect.Options{Clock: t.Clock, Create: true})
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.Close() }()
	p, err := o.preview(ctx, t, spec, db)
	if err == nil {
		p.Database = path
		p.Notes = append(p.Notes, "the file of the database is not there; the step makes it")
	}
	return p, err
}

func (o Operator) preview(ctx context.Context, t *operator.Task, spec *merge.Spec, db *dialect.DB) (*merge.Preview, error) {
	var source merge.Source = &merge.ListSource{Name: "xcom " + spec.Source.XCom}
	if spec.Source.XCom == "" {
		var done func()
		var err error
		if source, done, err = sourceOf(ctx, t, spec, db); err != nil {
			return nil, err
		}
		defer done()
	}
	e := &merge.Engine{DB: db, Clock: t.Clock, Rand: o.rand}
	return e.Preview(ctx, spec, source)
}

func logf(t *operator.Task, format string, args ...any) {
	_, _ = fmt.Fprintf(t.Log, format+"\n", args...)
}

func text(args map[string]any, key string) string {
	s, _ := args[key].(string)
	return s
}

// sourceOf makes the source of the step's rows; done frees what it holds.
func sourceOf(ctx context.Context, t *operator.Task, spec *merge.Spec, target *dialect.DB) (s merge.Source, done func(), err error) {
	done = func() {}
	switch {
	case spec.Source.XCom != "":
		xcomKey := spec.Source.XComKey
		if xcomKey == "" {
			xcomKey = dag.XComReturnValue
		}
		raw, err := t.XCom(ctx, spec.Source.XCom, xcomKey, nil)
		if err != nil {
			return nil, done, err
		}
		if raw == nil {
			logf(t, "the task %s left no %s: the batch is empty", spec.Source.XCom, xcomKey)
		}
		return &merge.ListSource{Name: "xcom " + spec.Source.XCom + "." + xcomKey, Data: raw, RejectUnknown: spec.Source.RejectUnknown}, done, nil
	case spec.Source.Query != "":
		db := target
		if id := spec.Source.ConnID; id != "" && id != text(t.Args, "conn_id") {
			if db, err = sqlop.Open(ctx, t, id, "", false); err != nil {
				return nil, done, err
			}
			done = func() { _ = db.Close() }
		}
		return &merge.QuerySource{DB: db, Spec: spec.Source}, done, nil
	default:
		return &merge.FileSource{Spec: spec.Source, Dir: t.Dir, Logf: func(format string, args ...any) { logf(t, format, args...) }}, done, nil
	}
}

func codes(byCode map[string]int64) string {
	parts := make([]string, 0, len(byCode))
	for _, c := range merge.SortedCodes(byCode) {
		parts = append(parts, fmt.Sprintf("%s %d", c, byCode[c]))
	}
	return strings.Join(parts, ", ")
}
