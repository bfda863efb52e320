package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/airlock-dag/airlock/cmd/app"
	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/dialect"
	"github.com/airlock-dag/airlock/sql/merge"
)

// mergeCmd groups what is done with merge steps.
type mergeCmd struct {
	Plan mergePlanCmd `cmd:"" help:"Show the plan of merge steps and the SQL that will run."`
}

type mergePlanCmd struct {
	File   string `arg:"" name:"file" help:"A DAG file, or a .sql file with one MERGE statement."`
	Dag    string `short:"d" placeholder:"DAG" help:"Only of this DAG."`
	Task   string `short:"t" placeholder:"TASK" help:"Only of this task."`
	ConnID string `name:"conn-id" placeholder:"ID" help:"The connection of the target database, for a .sql file."`
	Date   string `placeholder:"DATE" help:"The logical date for templates; now when it is not given."`
	outputFlag
}

// Run plans the merge tasks of a file. Nothing is changed.
func (c mergePlanCmd) Run(ctx context.Context, s *session) error {
	path := s.path(c.File)
	if _, err := os.Stat(path); err != nil {
		return wrong("plan "+c.File, "name a DAG file or a .sql file", "%w", err)
	}
	switch ext := strings.ToLower(filepath.Ext(path)); ext {
	case ".sql":
		return c.statement(ctx, s, path)
	case ".yml", ".yaml":
		return c.dags(ctx, s, path)
	default:
		return wrong("plan "+c.File, "name a DAG file (.yml, .yaml) or a .sql file with one MERGE statement", "%s is neither", c.File)
	}
}

// statement plans one MERGE statement.
func (c mergePlanCmd) statement(ctx context.Context, s *session, path string) (err error) {
	text, err := s.readFile(path)
	if err != nil {
		return err
	}
	if c.ConnID == "" {
		return wrong("plan "+c.File, "say where the target is: --conn-id ID", "a .sql file names no connection")
	}
	spec, problems := merge.ParseSpec(map[string]any{"sql": string(text)})
	if len(problems) > 0 {
		return wrong("plan "+c.File, "", "%s", merge.ProblemText(problems))
	}
	db, err := s.target(ctx, c.ConnID)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	e := &merge.Engine{DB: db, Clock: s.env.Clock, Rand: dag.SystemRand{}}
	p, err := e.Preview(ctx, spec, &merge.QuerySource{DB: db, Spec: spec.Source})
	if err != nil {
		return err
	}
	if c.Output == "json" || c.Output == "yaml" {
		return printValue(s.env.Stdout, c.Output, []plannedTask{{Plan: p}})
	}
	_, err = fmt.Fprint(s.env.Stdout, p.Text())
	return err
}

// plannedTask is a merge task with its plan, or with why it has none.
type plannedTask struct {
	DagID  string `json:"dag_id,omitempty"`
	TaskID string `json:"task_id,omitempty"`
	Plan   any    `json:"plan,omitempty"`
	Code   string `json:"error_code,omitempty"`
	Error  string `json:"error,omitempty"`
}

// dags plans the merge tasks of a DAG file, in its order.
func (c mergePlanCmd) dags(ctx context.Context, s *session, path string) error {
	cfg, err := s.config()
	if err != nil {
		return err
	}
	root := cfg.DagsFolder
	if !below(root, path) {
		root = filepath.Dir(path)
		s.cfg.DagsFolder = root // the file's own folder is where its DAG is looked for
	}
	result, err := s.load(root, nil)
	if err != nil {
		return err
	}
	date, err := s.date(c.Date)
	if err != nil {
		return err
	}
	a, err := s.open(ctx, false)
	if err != nil {
		return err
	}
	var out []plannedTask
	failed := false
	for _, d := range result.DAGs {
		if filepath.Join(root, filepath.FromSlash(d.FileLoc)) != path || c.Dag != "" && d.ID != c.Dag {
			continue
		}
		for _, t := range d.Tasks {
			if t.Operator != "merge" || c.Task != "" && t.ID != c.Task {
				continue
			}
			planned := plannedTask{DagID: d.ID, TaskID: t.ID}
			request := app.TaskTestRequest{DagID: d.ID, TaskID: t.ID, LogicalDate: date, Out: io.Discard, PlanOnly: true}
			if t.Expand != nil {
				request.Payload = json.RawMessage("{}")
			}
			report, err := a.TestTask(ctx, request)
			if err != nil {
				return err
			}
			if report.State == dag.StateSuccess {
				planned.Plan = report.ReturnValue
			} else {
				planned.Code, planned.Error, failed = report.ErrorCode, report.Message, true
			}
			out = append(out, planned)
		}
	}
	if len(out) == 0 {
		return c.nothing(path, s, result.Problems)
	}
	if err := c.print(s, out); err != nil {
		return err
	}
	if failed {
		return errReported
	}
	return nil
}

// nothing says why a file has no plan.
func (c mergePlanCmd) nothing(path string, s *session, problems []dag.Problem) error {
	var lines []string
	for _, p := range problems {
		if p.Severity == dag.SeverityError && filepath.Base(p.File) == filepath.Base(path) {
			lines = append(lines, p.String())
		}
	}
	if len(lines) > 0 {
		return wrong("plan "+c.File, "`airlock dags validate "+s.shown(path)+"` shows all mistakes", "%s", strings.Join(lines, "\n  "))
	}
	return wrong("plan "+c.File, "look at --dag and --task, and at the file's operators", "there is no merge task in it that fits")
}

func (c mergePlanCmd) print(s *session, out []plannedTask) error {
	if c.Output == "json" || c.Output == "yaml" {
		return printValue(s.env.Stdout, c.Output, out)
	}
	for i, t := range out {
		if i > 0 {
			fmt.Fprintln(s.env.Stdout)
		}
		fmt.Fprintf(s.env.Stdout, "== %s.%s\n", t.DagID, t.TaskID)
		if t.Error != "" {
			fmt.Fprintf(s.env.Stdout, "%s: %s\n", t.Code, t.Error)
			continue
		}
		var p merge.Preview
		raw, ok := t.Plan.(json.RawMessage)
		if !ok {
			continue
		}
		if err := json.Unmarshal(raw, &p); err != nil {
			return err
		}
		fmt.Fprint(s.env.Stdout, p.Text())
	}
	return nil
}

// target opens the database of a connection.
func (s *session) target(ctx context.Context, connID string) (*dialect.DB, error) {
	st, err := s.store(ctx)
	if err != nil {
		return nil, err
	}
	conn, err := s.environment().Over(st).Connection(ctx, connID)
	if dag.CodeOf(err) == dag.ErrNotFound {
		return nil, s.noConnection(ctx, connID)
	}
	if err != nil {
		return nil, err
	}
	return dialect.OpenConnection(ctx, conn, dialect.Options{})
}
