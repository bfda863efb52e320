package dialect

import (
	"context"
	"database/sql/driver"
	"errors"
	"strings"

	"github.com/go-sql-driver/mysql"
	"github.com/jmoiron/sqlx"
)

// A client of a server waits for the answer to each statement before it sends
// the next, and on small transactions that waiting is most of what they take. So
// the connections of a pool that asks for it (Options.Together) send BEGIN with
// the transaction's first statement, and statements whose answers nobody needs
// between them in one packet.

// Statement is one statement with its arguments.
type Statement struct {
	Text string
	Args []any
	// Asked is set where the caller of QueryAfter wants to know what it came to.
	Asked bool
	// Must is how many rows it has to match; 0 where that is not known. AtCommit
	// sees to it.
	Must int
}

// Outcome is what a statement came to: the rows that it matched, and the id that
// it gave (LAST_INSERT_ID), where it did.
type Outcome struct{ Rows, ID int64 }

// ExecTogether runs statements one after the other, on a pool that was opened
// with Options.Together in one round trip. The first that fails is the last that
// was run. None of the texts may hold a semicolon but inside a literal.
func (d *DB) ExecTogether(ctx context.Context, x sqlx.ExecerContext, list []Statement) ([]Outcome, error) {
	if d.together && len(list) > 1 {
		out, err := execJoined(ctx, x, list)
		if !errors.Is(err, errOnePacket) {
			return out, err
		}
	}
	out := make([]Outcome, len(list))
	for i, s := range list {
		r, err := x.ExecContext(ctx, s.Text, s.Args...)
		if err != nil {
			return nil, err
		}
		if out[i].Rows, err = r.RowsAffected(); err != nil {
			return nil, err
		}
		if out[i].ID, err = r.LastInsertId(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// QueryAfter runs statements and then a query, on a pool that was opened with
// Options.Together in one round trip. Of the outcomes those are known that were
// asked for.
func (d *DB) QueryAfter(ctx context.Context, x sqlx.ExtContext, list []Statement, query string, args []any) (*sqlx.Rows, []Outcome, error) {
	if d.together && len(list) > 0 {
		rows, out, err := queryJoined(ctx, x, list, query, args)
		if !errors.Is(err, errOnePacket) {
			return rows, out, err
		}
	}
	out, err := d.ExecTogether(ctx, x, list)
	if err != nil {
		return nil, nil, err
	}
	rows, err := x.QueryxContext(ctx, query, args...)
	return rows, out, err
}

// queryJoined asks after each statement whose outcome is wanted: that of a
// statement before a query is not among the query's answers.
func queryJoined(ctx context.Context, x sqlx.ExtContext, list []Statement, query string, args []any) (*sqlx.Rows, []Outcome, error) {
	var text strings.Builder
	all := []any{&[]Outcome{}} // taken out by CheckNamedValue
	for _, s := range list {
		text.WriteString(s.Text + "; ")
		if s.Asked {
			text.WriteString("SELECT ROW_COUNT(), LAST_INSERT_ID(); ")
		}
		all = append(all, s.Args...)
	}
	rows, err := x.QueryxContext(ctx, text.String()+query, append(all, args...)...)
	if err != nil {
		return nil, nil, err
	}
	out := make([]Outcome, len(list))
	for i, s := range list {
		if !s.Asked {
			continue
		}
		if rows.Next() {
			err = rows.Scan(&out[i].Rows, &out[i].ID)
		}
		if err == nil && !rows.NextResultSet() && rows.Err() == nil {
			err = errAnswers
		}
		if err = errors.Join(err, rows.Err()); err != nil {
			return nil, out, errors.Join(err, rows.Close()) //nolint:sqlclosecheck // else the caller closes them
		}
	}
	return rows, out, nil
}

var errAnswers = errors.New("the server answered more or fewer statements than it was sent")

func execJoined(ctx context.Context, x sqlx.ExecerContext, list []Statement) ([]Outcome, error) {
	var text strings.Builder
	out := make([]Outcome, len(list))
	args := []any{&out} // taken out by CheckNamedValue
	for i, s := range list {
		if i > 0 {
			text.WriteString("; ")
		}
		text.WriteString(s.Text)
		args = append(args, s.Args...)
	}
	_, err := x.ExecContext(ctx, text.String(), args...)
	return out, err
}

// errOnePacket says that statements do not fit into one packet. None was sent.
var errOnePacket = errors.New("the statements do not fit into one packet")

// serverConn is what the driver's connection to a server can do.
type serverConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.Pinger
	driver.SessionResetter
	driver.Validator
	driver.NamedValueChecker
}

// togetherConn sends BEGIN with what comes after it, and tells the outcomes of
// several statements. The pool uses it from one goroutine at a time.
type togetherConn struct {
	serverConn
	begins   bool       // a transaction has begun that the server does not know of yet
	outcomes *[]Outcome // set when the next is several statements: where what they came to goes
	last     lastWords
}

const (
	beginText = "START TRANSACTION"
	beginWith = beginText + "; "
)

// BeginTx implements driver.ConnBeginTx.
func (c *togetherConn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	if o != (driver.TxOptions{}) {
		return c.serverConn.BeginTx(ctx, o)
	}
	if !c.IsValid() {
		return nil, driver.ErrBadConn
	}
	c.begins, c.last = true, lastWords{}
	return togetherTx{c}, nil
}

// CheckNamedValue implements driver.NamedValueChecker. It takes the place of the
// outcomes out of the arguments, and the sign that statements wait for COMMIT.
// Where one of these is refused nothing is run, and neither must be taken for that
// of the connection's next statement.
func (c *togetherConn) CheckNamedValue(v *driver.NamedValue) error {
	switch x := v.Value.(type) {
	case *[]Outcome:
		c.outcomes = x
		return driver.ErrRemoveArgument
	case withCommit:
		c.last.next = true
		return driver.ErrRemoveArgument
	}
	err := c.serverConn.CheckNamedValue(v)
	if err != nil {
		c.outcomes, c.last.next = nil, false
	}
	return err
}

// ExecContext implements driver.ExecerContext.
func (c *togetherConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	out := c.outcomes
	c.outcomes = nil
	if c.last.next {
		c.last = lastWords{text: query, args: args}
		return driver.ResultNoRows, nil
	}
	begins := c.begins
	if begins {
		query = beginWith + query
	}
	r, err := c.serverConn.ExecContext(ctx, query, args)
	switch {
	case err == nil:
		c.begins = false
		return r, takeOutcomes(r, out, begins)
	case out != nil && notSent(err):
		return nil, errOnePacket
	default:
		return nil, c.failed(ctx, err)
	}
}

// QueryContext implements driver.QueryerContext.
func (c *togetherConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	joined := c.outcomes != nil
	c.outcomes = nil
	if c.begins {
		query = beginWith + query
	}
	rows, err := c.serverConn.QueryContext(ctx, query, args)
	switch {
	case err == nil:
	case joined && notSent(err):
		return nil, errOnePacket
	default:
		return nil, c.failed(ctx, err)
	}
	c.begins = false
	return rows, nil
}

// PrepareContext implements driver.ConnPrepareContext.
func (c *togetherConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	if err := c.begin(ctx); err != nil {
		return nil, err
	}
	return c.serverConn.PrepareContext(ctx, query)
}

// notSent tells whether the driver kept a statement back: it is too long, or the
// driver would rather prepare it.
func notSent(err error) bool {
	return errors.Is(err, driver.ErrSkip) || errors.Is(err, mysql.ErrPktTooLarge)
}

// failed settles where a statement that failed leaves the transaction: the server
// has begun it if it answered. One that the driver would rather prepare was not
// sent, and is prepared without BEGIN. Nor was any other that the driver itself
// refuses; or else the line is broken.
func (c *togetherConn) failed(ctx context.Context, err error) error {
	var answer *mysql.MySQLError
	switch {
	case errors.Is(err, driver.ErrSkip):
		if err := c.begin(ctx); err != nil {
			return err
		}
	case errors.As(err, &answer):
		c.begins = false
	}
	return err
}

// begin tells the server of the transaction, if it does not know.
func (c *togetherConn) begin(ctx context.Context) error {
	if !c.begins {
		return nil
	}
	_, err := c.serverConn.ExecContext(ctx, beginText, nil)
	if err == nil {
		c.begins = false
	}
	return err
}

// takeOutcomes puts what the statements came to where they were asked for.
func takeOutcomes(r driver.Result, out *[]Outcome, begun bool) error {
	if out == nil {
		return nil
	}
	all, ok := r.(mysql.Result)
	if !ok {
		return errors.New("the driver does not tell the outcomes of several statements")
	}
	rows, ids := all.AllRowsAffected(), all.AllLastInsertIds()
	if begun && len(rows) > 0 && len(ids) > 0 {
		rows, ids = rows[1:], ids[1:]
	}
	if len(rows) != len(*out) || len(ids) != len(*out) {
		return errAnswers
	}
	for i := range *out {
		(*out)[i] = Outcome{rows[i], ids[i]}
	}
	return nil
}
