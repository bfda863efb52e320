package dialect

import (
	"context"
	"database/sql/driver"
	"errors"
	"strconv"
	"strings"

	"github.com/go-sql-driver/mysql"
	"github.com/jmoiron/sqlx"
)

// ErrOtherRows says that a statement which was sent with COMMIT matched other
// rows than it must. Nothing of its transaction is kept.
var ErrOtherRows = errors.New("a statement matched other rows than it must")

// AtCommit lets statements go with the COMMIT of a transaction, as the last of
// it, on a pool that was opened with Options.Together; it gives false, and does
// nothing, on others and where they are too long. What they fail with, the
// COMMIT fails with, and with ErrOtherRows where one did not match the rows that
// it must: a server leaves out all that stands behind a statement that fails. None
// of the texts may hold a semicolon but inside a literal.
func (d *DB) AtCommit(ctx context.Context, x sqlx.ExecerContext, list []Statement) (bool, error) {
	if !d.together || d.apart.Load() {
		return false, nil
	}
	var text strings.Builder
	args, size := []any{withCommit{}}, 0 // taken out by CheckNamedValue
	for _, s := range list {
		text.WriteString(s.Text + "; ")
		if s.Must > 0 {
			text.WriteString(mustMatch + strconv.Itoa(s.Must) + "); ")
		}
		args = append(args, s.Args...)
		for _, a := range s.Args {
			if t, is := a.(string); is {
				size += len(t)
			}
		}
	}
	if text.Len()+size > maxAtCommit {
		return false, nil
	}
	_, err := x.ExecContext(ctx, text.String(), args...)
	return true, err
}

// maxAtCommit bounds what goes with a COMMIT, in bytes: far less than any server
// takes in one packet, however its values are written.
const maxAtCommit = 64 << 10

// mustMatch fails with error 1690 (ER_DATA_OUT_OF_RANGE) unless the statement before
// it matched so many rows: to the largest number there is it adds one. No plain
// statement fails on a condition; a subquery with too many rows costs several times as much.
const mustMatch = "SET @airlock_matched = 18446744073709551615 + (ROW_COUNT() <> "

// otherRows tells whether an error is that of mustMatch.
func otherRows(err error) bool {
	var refused *mysql.MySQLError
	return errors.As(err, &refused) && refused.Number == 1690 && strings.Contains(strings.ToLower(refused.Message), "row_count()")
}

// withCommit marks a text that waits for COMMIT.
type withCommit struct{}

// lastWords are what goes with COMMIT.
type lastWords struct {
	next bool // the next text is what waits
	text string
	args []driver.NamedValue
}

// togetherTx ends a transaction.
type togetherTx struct{ c *togetherConn }

// Rollback implements driver.Tx.
func (t togetherTx) Rollback() error {
	t.c.last = lastWords{}
	return t.end("ROLLBACK", nil)
}

// Commit implements driver.Tx.
func (t togetherTx) Commit() error {
	last := t.c.last
	t.c.last = lastWords{}
	if last.text == "" {
		return t.end("COMMIT", nil)
	}
	if t.c.begins {
		last.text = beginWith + last.text
		t.c.begins = false
	}
	err := t.end(last.text+"COMMIT", last.args)
	if err == nil || !notSent(err) && ClassOf(err) == ClassLost {
		return err
	}
	// The transaction is still open on the server, which the pool does not expect.
	if back := t.end("ROLLBACK", nil); back != nil {
		_ = t.c.Close() // it is not valid any more, and the pool drops it
	}
	switch {
	case notSent(err):
		return errNotAtCommit
	case otherRows(err):
		return ErrOtherRows
	default:
		return err
	}
}

// errNotAtCommit says that the driver kept back what was to go with COMMIT. The
// transaction is taken back, and made again without.
var errNotAtCommit = errors.New("the driver sends nothing together with COMMIT")

func (t togetherTx) end(how string, args []driver.NamedValue) error {
	if t.c.begins { // the server has not heard of it
		t.c.begins = false
		if !t.c.IsValid() {
			return driver.ErrBadConn
		}
		return nil
	}
	_, err := t.c.serverConn.ExecContext(context.Background(), how, args)
	return err
}
