package sqlop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/jmoiron/sqlx"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/crashpoint"
	"github.com/airlock-dag/airlock/dag/plainfile"
	"github.com/airlock-dag/airlock/executor/fault"
	"github.com/airlock-dag/airlock/executor/operator"
	"github.com/airlock-dag/airlock/sql/dialect"
	"github.com/airlock-dag/airlock/sql/merge"
	"github.com/airlock-dag/airlock/sql/merge/sqltext"
)

// Codes of the step's own findings.
const (
	// CodeCommits: a statement would commit the transaction that it stands in.
	CodeCommits = "SQL_COMMITS_SILENTLY"
	// CodeTransaction: a statement begins or ends a transaction itself.
	CodeTransaction = "SQL_TRANSACTION_STATEMENT"
	// CodeParameters: statements and parameters do not fit together.
	CodeParameters = "SQL_PARAMETERS"
	// CodeSyntax: a text cannot be cut into statements.
	CodeSyntax = "SQL_SYNTAX"
)

// Operator runs SQL statements.
type Operator struct{}

// New makes the operator.
func New() Operator { return Operator{} }

// Run implements operator.Operator.
func (Operator) Run(ctx context.Context, t *operator.Task) dag.Outcome {
	key := t.IdempotencyKey
	if own, ok := t.Args["idempotency_key"].(string); ok && own != "" {
		key = own
	}
	r, err := run(ctx, t, key)
	if err != nil {
		e := Failure(ctx, err)
		e.IdempotencyKey = key
		return dag.Failed(e)
	}
	if t.Detail != nil {
		t.Detail(map[string]any{"statements": r.Statements, "rows_affected": r.RowsAffected, "already_done": r.alreadyDone})
	}
	return r.outcome()
}

func logf(t *operator.Task, format string, args ...any) {
	_, _ = fmt.Fprintf(t.Log, format+"\n", args...)
}

// step is the work, ready to run.
type step struct {
	t          *operator.Task
	db         *dialect.DB
	statements []bound
	reads      bool // nothing is changed: no effect key
	autocommit bool
	returnLast bool
	maxRows    int
}

// bound is a statement with its parameters.
type bound struct {
	sqltext.Statement
	text string
	args []any
}

func run(ctx context.Context, t *operator.Task, key string) (*result, error) {
	db, err := open(ctx, t, true)
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.Close() }()
	s := &step{t: t, db: db, returnLast: true, maxRows: maxRows}
	if err := s.prepare(t.Args); err != nil {
		return nil, err
	}
	switch {
	case s.autocommit:
		return s.runEach(ctx)
	case s.reads:
		return s.runReads(ctx)
	default:
		return s.runOnce(ctx, key)
	}
}

// open opens the step's connection; create says whether a SQLite file that is
// not there is made.
func open(ctx context.Context, t *operator.Task, create bool) (*dialect.DB, error) {
	id := ""
	for _, k := range []string{"conn_id", "mysql_conn_id", "sqlite_conn_id"} {
		if s, ok := t.Args[k].(string); ok && s != "" {
			id = s
		}
	}
	database, _ := t.Args["database"].(string)
	return Open(ctx, t, id, database, create)
}

// prepare reads the arguments, cuts the texts and binds the parameters.
func (s *step) prepare(args map[string]any) error {
	list, err := texts(args["sql"])
	if err != nil {
		return fault.New(fault.CodeInvalidArgument, err.Error())
	}
	s.autocommit, _ = args["autocommit"].(bool)
	if v, ok := args["return_last"].(bool); ok {
		s.returnLast = v
	}
	if n, ok := number(args["max_rows"]); ok {
		s.maxRows = n
	}
	split := true
	if v, ok := args["split_statements"].(bool); ok {
		split = v
	}
	flavour := sqltext.MySQL
	if s.db.IsSQLite() {
		flavour = sqltext.SQLite
	}
	s.reads = true
	for _, text := range list {
		if text, err = s.content(text); err != nil {
			return err
		}
		statements, err := flavour.Split(text)
		if err != nil {
			return &dag.TaskError{Class: dag.ClassPermanent, Code: CodeSyntax, Message: err.Error()}
		}
		if !split && len(statements) > 1 {
			return fault.New(fault.CodeInvalidArgument, fmt.Sprintf("the text has %d statements and split_statements is false; write a list or leave split_statements out", len(statements)))
		}
		for _, st := range statements {
			b, err := bind(flavour, st, args["parameters"])
			if err != nil {
				return &dag.TaskError{Class: dag.ClassConfiguration, Code: CodeParameters, Message: err.Error()}
			}
			if err := s.allowed(st); err != nil {
				return err
			}
			s.reads = s.reads && readOnly(st)
			s.statements = append(s.statements, b)
		}
	}
	if len(s.statements) == 0 {
		return fault.New(fault.CodeInvalidArgument, "sql: there is no statement")
	}
	return nil
}

// readOnly tells whether a statement certainly changes nothing.
func readOnly(st sqltext.Statement) bool {
	switch st.Verb {
	case "SELECT", "SHOW", "DESCRIBE", "DESC", "EXPLAIN", "VALUES", "TABLE":
		return !strings.Contains(strings.ToUpper(st.SQL), "FOR UPDATE") && !strings.Contains(strings.ToUpper(st.SQL), " INTO ")
	case "WITH":
		return st.ReturnsRows() && !strings.Contains(strings.ToUpper(st.SQL), "RETURNING")
	default:
		return false
	}
}

// allowed refuses what would break the transaction around the statements.
func (s *step) allowed(st sqltext.Statement) error {
	if s.autocommit {
		return nil
	}
	if st.ControlsTransaction() {
		return &dag.TaskError{
			Class: dag.ClassPermanent, Code: CodeTransaction, Message: fmt.Sprintf("line %d: %s: the step's statements are one transaction already", st.Line, st.Verb),
			Hint: "leave it out, or set autocommit: true and write the transaction yourself",
		}
	}
	if word, yes := st.CommitsSilently(); yes && !s.db.Caps().TransactionalDDL {
		return &dag.TaskError{
			Class: dag.ClassPermanent, Code: CodeCommits,
			Message: fmt.Sprintf("line %d: %s commits the open transaction on %s: what comes before it could not be undone, and the effect key would not be true", st.Line, word, s.db.Kind()),
			Hint:    "put it into a step of its own with autocommit: true, and write it so that it can run twice (IF NOT EXISTS)",
		}
	}
	return nil
}

// content is the text itself, or what the file of that name holds, rendered.
func (s *step) content(text string) (string, error) {
	path := pathIn(text)
	if path == "" {
		return text, nil
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(s.t.Dir, path)
	}
	raw, err := plainfile.Read(path, 0)
	if errors.Is(err, plainfile.ErrNotPlain) {
		return "", fault.New(fault.CodeInvalidArgument, err.Error())
	}
	if errors.Is(err, fs.ErrNotExist) {
		return "", fault.New(fault.CodeFileNotFound, "there is no file "+path)
	}
	if err != nil {
		return "", err
	}
	if s.t.Render == nil {
		return string(raw), nil
	}
	out, err := s.t.Render(string(raw))
	if err != nil {
		return "", fault.New(fault.CodeTemplate, fmt.Sprintf("%s: %v", path, err))
	}
	return out, nil
}

// bind puts the step's parameters into one statement.
func bind(flavour sqltext.Flavour, st sqltext.Statement, parameters any) (bound, error) {
	b := bound{Statement: st, text: st.SQL}
	var err error
	switch p := parameters.(type) {
	case map[string]any:
		if len(p) > 0 {
			b.text, b.args, _, err = flavour.Bind(st.SQL, p)
		}
	case []any:
		if len(p) > 0 {
			b.text, b.args, err = flavour.BindList(st.SQL, p)
		}
	case nil:
	default:
		err = fmt.Errorf("parameters: a mapping or a list is needed, found %T", parameters)
	}
	for i, v := range b.args {
		if n, ok := v.(json.Number); ok {
			b.args[i] = n.String()
		}
	}
	return b, err
}

func number(v any) (int, bool) {
	switch x := v.(type) {
	case float64:
		return int(x), true
	case int:
		return x, true
	case json.Number:
		n, err := x.Int64()
		return int(n), err == nil
	}
	return 0, false
}

// runOnce runs the statements and marks the effect as done in one transaction.
func (s *step) runOnce(ctx context.Context, key string) (*result, error) {
	if err := merge.EnsureTables(ctx, s.db); err != nil {
		return nil, err
	}
	print, err := merge.Fingerprint(s.description())
	if err != nil {
		return nil, err
	}
	e := &merge.Effect{DB: s.db, Clock: s.t.Clock, Key: key, Fingerprint: print, Owner: s.t.TI.TaskInstanceKey, Fence: s.t.TI.Fence,
		StillMine: s.t.StillMine}
	for try := 1; ; try++ {
		stored, done, err := e.Begin(ctx)
		if err != nil {
			return nil, err
		}
		if done {
			r := &result{alreadyDone: true}
			if err := json.Unmarshal(stored, r); err != nil {
				return nil, fmt.Errorf("read the stored result of %s: %w", key, err)
			}
			logf(s.t, "already done under the key %q, nothing was changed (%d rows then)", key, r.RowsAffected)
			return r, nil
		}
		r, err := s.transaction(ctx, e)
		if dialect.LostCommit(err) && try < dialect.Tries && ctx.Err() == nil {
			// Present means applied, which Begin finds; absent means that nothing
			// was kept.
			logf(s.t, "the connection was lost during COMMIT; looking at the effect key whether it was applied")
			continue
		}
		return r, err
	}
}

func (s *step) description() map[string]any {
	list := make([]any, len(s.statements))
	for i, b := range s.statements {
		args := make([]string, len(b.args))
		for j, a := range b.args {
			args[j] = fmt.Sprint(a)
		}
		list[i] = map[string]any{"sql": b.text, "args": args}
	}
	return map[string]any{"step": "sql", "statements": list}
}

func (s *step) transaction(ctx context.Context, e *merge.Effect) (*result, error) {
	var r *result
	err := s.db.Write(ctx, func(ctx context.Context, tx *sqlx.Tx) error {
		if err := e.Hold(ctx, tx); err != nil {
			return err
		}
		var err error
		if r, err = s.runAll(ctx, tx); err != nil {
			return err
		}
		raw, err := json.Marshal(r)
		if err != nil {
			return err
		}
		if err := e.Finish(ctx, tx, merge.Counts{Read: r.RowsAffected, Merged: r.RowsAffected}, raw); err != nil {
			return err
		}
		crashpoint.Point("sql step: before it asks for the lease")
		if s.t.StillMine != nil {
			err = s.t.StillMine(ctx)
		}
		crashpoint.Point("sql step: before its COMMIT")
		return err
	})
	crashpoint.Point("sql step: after its COMMIT")
	if err != nil {
		return nil, err
	}
	logf(s.t, "committed %d statements, %d rows affected", r.Statements, r.RowsAffected)
	return r, nil
}

// runReads runs queries in one snapshot.
func (s *step) runReads(ctx context.Context) (*result, error) {
	var r *result
	err := s.db.Snapshot(ctx, func(ctx context.Context, tx *sqlx.Tx) error {
		var err error
		r, err = s.runAll(ctx, tx)
		return err
	})
	return r, err
}

// runEach runs the statements one by one on one connection, each committed by
// itself.
func (s *step) runEach(ctx context.Context) (*result, error) {
	conn, err := s.db.Writer().Connx(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	return s.runAll(ctx, conn)
}
