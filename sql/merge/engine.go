package merge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/airlock-dag/airlock/sql/dialect"
	"github.com/airlock-dag/airlock/sql/merge/column"
	"github.com/airlock-dag/airlock/sql/merge/source"
)

// tries bounds how often a batch, or one of its transactions, is begun anew for
// deadlocks, lock waits and lost connections. They are the database's trouble
// and spend none of the step's retries.
const tries = 5

// Run merges one batch. When the effect of the job's key is done already, it
// changes nothing and gives the stored result with AlreadyDone set.
func (e *Engine) Run(ctx context.Context, job *Job) (*Detail, error) {
	if err := EnsureTables(ctx, e.DB); err != nil {
		return nil, err
	}
	print, err := Fingerprint(job.Spec.description())
	if err != nil {
		return nil, err
	}
	effect := &Effect{DB: e.DB, Clock: e.Clock, Key: job.Key, Fingerprint: print, Owner: job.Owner, Fence: job.Fence, StillMine: job.StillMine}
	var reached int64
	for try := 1; ; try++ {
		stored, done, err := effect.Begin(ctx)
		if err != nil {
			return nil, err
		}
		if p := effect.progress; p != nil && p.Done.RowsRead > reached {
			reached, try = p.Done.RowsRead, 1 // it gets on
		}
		if done {
			return e.alreadyDone(ctx, job, effect, stored)
		}
		d, err := e.attempt(ctx, job, effect)
		if err == nil {
			d.Tries = try
			return d, nil
		}
		if dialect.LostCommit(err) {
			// Present means applied: Begin finds it. Absent means that nothing was
			// kept, and the batch is read again.
			job.logf("the connection was lost during COMMIT; looking at the effect key whether it was applied")
			if applied, lookErr := effect.Applied(ctx); lookErr == nil && applied {
				continue
			}
		} else if dialect.ClassOf(err) != dialect.ClassLost {
			return nil, err
		}
		if try == tries || ctx.Err() != nil {
			return nil, err
		}
		job.logf("the connection to the target was lost (%v); the batch is read again", err)
		if err := e.wait(ctx, try); err != nil {
			return nil, err
		}
	}
}

func (e *Engine) wait(ctx context.Context, try int) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-e.Clock.After(waitBetween(try, e.Rand.Float64())):
		return nil
	}
}

// alreadyDone gives the stored result, after a look at whether the source still
// is what was merged then.
func (e *Engine) alreadyDone(ctx context.Context, job *Job, effect *Effect, stored json.RawMessage) (*Detail, error) {
	d := &Detail{}
	if err := json.Unmarshal(stored, d); err != nil {
		return nil, problem(CodeKeyReused, "the idempotency key %q stands for an effect of another kind", job.Key)
	}
	d.AlreadyDone = true
	now, err := job.Source.Now(ctx)
	switch {
	case errors.Is(err, source.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		job.logf("the source of the batch is not there any more")
		return d, nil
	case err != nil:
		return nil, sourceError(err)
	}
	was := map[string]string{}
	for _, p := range d.Sources {
		was[p.Name] = p.SHA256
	}
	var further []string
	for _, p := range now {
		sum, known := was[p.Name]
		switch {
		case !known:
			further = append(further, p.Name)
		case sum != p.SHA256:
			return nil, effect.reused("stands for an effect that is done, and " + p.Name + " has another content now")
		}
	}
	if len(further) > 0 {
		job.logf("not part of the batch that is done, and left for the next one: %s", strings.Join(further, ", "))
	}
	return d, nil
}

// attempt reads the source into a stage and merges the stage.
func (e *Engine) attempt(ctx context.Context, job *Job, effect *Effect) (*Detail, error) {
	conn, err := e.DB.Writer().Connx(ctx)
	if err != nil {
		return nil, err
	}
	b := &batch{e: e, job: job, effect: effect, conn: conn, id: batchID(job.Key, effect.Fingerprint)}
	defer func() {
		// The stage goes with its connection's use, also after a failure.
		if b.p != nil {
			_ = b.dropStage(context.WithoutCancel(ctx))
		}
		_ = conn.Close()
	}()
	if err := b.cutFractions(ctx); err != nil {
		return nil, err
	}
	if err := b.fill(ctx); err != nil {
		return nil, err
	}
	return b.merge(ctx)
}

// cutFractions makes both servers cut a computed time's digits that its column
// has not: MySQL would round them, into the next second or the next year.
func (b *batch) cutFractions(ctx context.Context) error {
	mode := ""
	switch b.e.DB.Kind() {
	case dialect.MySQL:
		mode = "CONCAT(@@sql_mode, ',TIME_TRUNCATE_FRACTIONAL')"
	case dialect.MariaDB:
		mode = "REPLACE(@@sql_mode, 'TIME_ROUND_FRACTIONAL', '')"
	default:
		return nil
	}
	if _, err := b.conn.ExecContext(ctx, "SET SESSION sql_mode = "+mode); err != nil {
		return fmt.Errorf("set how fractions of a second are cut: %w", err)
	}
	return nil
}

// fill reads the source into the stage. Nothing in the target is locked yet.
func (b *batch) fill(ctx context.Context) error {
	spec := b.job.Spec
	t, err := b.ensureTarget(ctx)
	if err != nil {
		return err
	}
	bounds, err := b.bounds(ctx, t)
	if err != nil {
		return err
	}
	want := source.Wanted{Optional: map[string]bool{}}
	for _, c := range spec.Columns {
		want.Names = append(want.Names, c.Source())
		if c.Default != nil || c.Computed != nil {
			want.Optional[c.Source()] = true
		}
	}
	want.All = len(spec.Columns) == 0
	reader, err := b.job.Source.Open(ctx, want, bounds)
	if err != nil {
		return sourceError(err)
	}
	defer func() { _ = reader.Close() }()
	columns := declared(spec)
	if want.All {
		if columns, err = b.discover(reader, t); err != nil {
			return err
		}
	}
	if b.p, err = newPlan(b.e.DB, spec, t, columns); err != nil {
		return err
	}
	if err := b.makeStage(ctx); err != nil {
		return err
	}
	b.bad = &badRows{p: b.p, conn: b.conn, limit: spec.BadRows.Max}
	b.load = newLoader(b.p, newStager(ctx, b.p, b.conn, b.bad), spec.BadRows.Max)
	b.job.logf("reading %s", b.job.Source.Describe())
	if err := b.load.load(ctx, reader, b.job.Progress); err != nil {
		if errors.Is(err, errTooMany) {
			return b.tooManyBad(b.load.read)
		}
		return sourceError(err)
	}
	b.bad.settle()
	b.parts = b.job.Source.Read()
	if spec.BadRows.Exceeded(b.bad.n, b.load.read) {
		return b.tooManyBad(b.load.read)
	}
	return b.dedupe(ctx)
}

func declared(spec *Spec) []planColumn {
	out := make([]planColumn, len(spec.Columns))
	for i, c := range spec.Columns {
		copied := *c
		if copied.Zone == nil && spec.Source.Query != "" {
			// A database's times without a zone are UTC unless the step says else.
			copied.Zone = utc()
		}
		out[i] = planColumn{Column: &copied}
	}
	return out
}

// ensureTarget describes the target, and makes it where the step says so.
func (b *batch) ensureTarget(ctx context.Context) (*target, error) {
	spec := b.job.Spec
	t, err := inspect(ctx, b.e.DB, b.conn, spec.Target)
	if err != nil || t != nil {
		return t, err
	}
	if len(spec.Columns) == 0 {
		return nil, problem(codeTargetMissing, "there is no table %s in %s", spec.Target, b.e.DB)
	}
	ddl := createDDL(b.e.DB, spec)
	if !spec.CreateTarget {
		return nil, problem(codeTargetMissing, "there is no table %s in %s", spec.Target, b.e.DB).
			hint("set create_target: true, or make it:\n%s;", ddl)
	}
	if _, err := b.conn.ExecContext(ctx, ddl); err != nil {
		if there, lookErr := tableExists(ctx, b.e.DB, b.conn, spec.Target); lookErr != nil || !there {
			return nil, fmt.Errorf("make the table %s: %w", spec.Target, err)
		}
	} else {
		b.job.logf("made the table %s", spec.Target)
	}
	t, err = inspect(ctx, b.e.DB, b.conn, spec.Target)
	if err == nil && t == nil {
		err = problem(codeTargetMissing, "the table %s is not there after it was made", spec.Target)
	}
	return t, err
}

// typed is a reader that knows the types of its columns.
type typed interface {
	Columns() []string
	Types() []string
}

// discover gives the columns of a query their types: the target's where it has
// a column of that name or the key pairs them, else what the database says.
func (b *batch) discover(r source.Reader, t *target) ([]planColumn, error) {
	q, ok := r.(typed)
	if !ok {
		return nil, problem(CodeInvalid, "the step must name its columns")
	}
	var out []planColumn
	types := q.Types()
	for i, name := range q.Columns() {
		c := &column.Column{Name: name, Zone: utc()}
		pc := planColumn{Column: c}
		tc := t.column(name)
		keyFor := tc
		for _, k := range b.job.Spec.Key {
			if strings.EqualFold(k.Source, name) {
				keyFor = t.column(k.Target)
			}
		}
		switch {
		case tc != nil && !tc.generated:
			c.Type, pc.native = tc.typ, !tc.known
		case keyFor != nil && !keyFor.generated:
			c.Type, c.StagedOnly, pc.native, pc.ddl = keyFor.typ, true, !keyFor.known, keyFor.ddl
		case b.job.Spec.SQL == "":
			e := problem(codeTargetColumns, "the query gives a column %q that %s has not; it has %s", name, b.job.Spec.Target, strings.Join(t.names(), ", "))
			return nil, e.hint("select the table's columns only, or name the step's columns")
		case b.job.Spec.Watermark != nil && strings.EqualFold(name, b.job.Spec.Watermark.Column) && b.markType.Kind != 0:
			c.Type, c.StagedOnly, pc.ddl = b.markType, true, columnDDL(b.e.DB, b.markType, false)
		default:
			c.StagedOnly, pc.native, pc.ddl = true, true, sourceDDL(b.e.DB, types[i])
		}
		out = append(out, pc)
	}
	return out, nil
}

// sourceDDL is the stage's type for a source column that the target has not.
func sourceDDL(db *dialect.DB, typ string) string {
	if db.IsSQLite() {
		return ""
	}
	unsigned := ""
	if strings.HasPrefix(typ, "UNSIGNED ") {
		typ, unsigned = strings.TrimPrefix(typ, "UNSIGNED "), " UNSIGNED"
	}
	switch {
	case strings.HasSuffix(typ, "INT"), typ == "YEAR":
		return "BIGINT" + unsigned
	case typ == "DECIMAL":
		return "DECIMAL(65,20)"
	case typ == "DOUBLE", typ == "FLOAT":
		return "DOUBLE"
	case typ == "DATETIME", typ == "TIMESTAMP":
		return "DATETIME(6)"
	case typ == "DATE":
		return "DATE"
	case strings.Contains(typ, "BLOB"), strings.Contains(typ, "BINARY"):
		return "LONGBLOB"
	default:
		return "LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
	}
}

// merge carries the staged batch into the target.
func (b *batch) merge(ctx context.Context) (*Detail, error) {
	chunk := int64(b.job.Spec.Chunk)
	for lo, end := b.resume(), b.load.read+1; ; {
		hi := end
		if chunk > 0 {
			hi = min(end, ((lo-1)/chunk+1)*chunk+1)
		}
		d, err := b.commit(ctx, lo, hi, hi == end)
		if err != nil {
			return nil, err
		}
		if hi == end {
			return d, nil
		}
		b.sum, lo = *d, hi
		b.late += b.bad.n - b.bad.early
		b.bad.settle()
	}
}
