package store

import (
	"context"
	"slices"
	"strings"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/dialect"
)

// The table dead_letter_tally holds the number of letters of each group in each
// status as a sum over rows. A transaction that changes letters adds what it
// changed as rows of its own, last of all: it waits for no other transaction and
// none waits for it, however many letters of one group are sealed at once. Now
// and then rows are drawn together (see compact).

// tallyKey is what the letters of one line of the tally share. decision is set
// for lines that count audit rows, and then nothing else is.
type tallyKey struct {
	fingerprint, dagID, taskID, queue, class, code, decision string
}

// tallyCounts are the numbers of a line, in the order of tallyNumbers.
type tallyCounts [8]int64

// tallyKeys and tallyNumbers are the columns of the tally.
const (
	tallyKeys    = "fingerprint, dag_id, task_id, queue, error_class, error_code, decision"
	tallyNumbers = "sealed, quarantined, replaying, resolved, dropped, expired, came_back, decided"
)

// Places in tallyCounts; the statuses come first.
const (
	cameBack = 6
	decided  = 7
)

func tallyStatuses() [6]dag.LetterStatus {
	return [6]dag.LetterStatus{
		dag.LetterSealed, dag.LetterQuarantined, dag.LetterReplaying, dag.LetterResolved, dag.LetterDropped, dag.LetterExpired,
	}
}

// tally is what a transaction changed of the numbers of letters.
type tally map[tallyKey]*tallyCounts

func (y tally) line(k tallyKey) *tallyCounts {
	c := y[k]
	if c == nil {
		c = &tallyCounts{}
		y[k] = c
	}
	return c
}

// add counts a letter as it is: n is 1 for one that is there now, -1 for one as
// it was before a change.
func (y tally) add(l *dag.DeadLetter, n int64) {
	c := y.line(tallyKey{
		fingerprint: l.Fingerprint, dagID: l.DagID, taskID: l.TaskID, queue: l.Queue, class: string(l.ErrorClass), code: l.ErrorCode,
	})
	for i, s := range tallyStatuses() {
		if s == l.Status {
			c[i] += n
		}
	}
	if l.ReturnCount > 0 && (l.Status == dag.LetterSealed || l.Status == dag.LetterQuarantined) {
		c[cameBack] += n
	}
}

// change counts a letter that moves to another status.
func (y tally) change(l dag.DeadLetter, to dag.LetterStatus, returns int) {
	y.add(&l, -1)
	l.Status, l.ReturnCount = to, returns
	y.add(&l, 1)
}

// decide counts audit rows.
func (y tally) decide(decision string, n int) {
	y.line(tallyKey{decision: decision})[decided] += int64(n)
}

// writeTally adds what the transaction changed to the tally.
func (t *tx) writeTally(ctx context.Context) error {
	args := make([]any, 0, 15*len(t.tally))
	for k, c := range t.tally {
		if *c != (tallyCounts{}) {
			args = appendLine(args, k, c)
		}
	}
	if len(args) == 0 {
		return nil
	}
	t.lines = len(args) / 15
	return t.insertTally(ctx, args)
}

func appendLine(args []any, k tallyKey, c *tallyCounts) []any {
	args = append(args, k.fingerprint, k.dagID, k.taskID, k.queue, k.class, k.code, k.decision)
	for _, n := range c {
		args = append(args, n)
	}
	return args
}

func (t *tx) insertTally(ctx context.Context, args []any) error {
	return t.insertLater(ctx, "INSERT INTO dead_letter_tally ("+tallyKeys+", "+tallyNumbers+") VALUES ", "("+dialect.Marks(15)+")", "", 15, args)
}

// compactAfter is how many rows a process adds to the tally, or finds there
// beyond one a line, before it draws them together. compactAtOnce bounds how
// many one transaction takes.
const (
	compactAfter  = 20_000
	compactAtOnce = 20_000
)

// compact draws the rows of the tally together to one a line. The sums are the
// same before and after, so that nobody who reads or writes meanwhile notices.
// Of several processes one does it, the others pass on.
func (s *Store) compact(ctx context.Context) error {
	for {
		more := false
		err := s.write(ctx, "draw the tally of letters together", func(ctx context.Context, t *tx) error {
			var held []int64
			if err := t.SelectContext(ctx, &held, "SELECT id FROM dead_letter_tally WHERE id = 1"+s.db.SkipLocked()); err != nil || len(held) == 0 {
				return err
			}
			var rows []tallyRow
			if err := t.SelectContext(ctx, &rows, "SELECT id, "+tallyKeys+", "+tallyNumbers+" FROM dead_letter_tally WHERE id > 1 ORDER BY id"+
				limit(compactAtOnce, compactAtOnce)); err != nil {
				return err
			}
			sums := tally{}
			ids := make([]int64, len(rows))
			for i := range rows {
				ids[i] = rows[i].ID
				c := sums.line(rows[i].key())
				for k, n := range rows[i].counts() {
					c[k] += n
				}
			}
			// Rows that are in the middle of a transaction have ids between these and
			// are not seen: only what was read is deleted.
			more = len(rows) == compactAtOnce && len(sums) < compactAtOnce/2
			for part := range slices.Chunk(ids, 10*chunk) {
				in, args := s.among(part)
				if _, err := t.exec(ctx, "DELETE FROM dead_letter_tally WHERE id IN "+in, args...); err != nil {
					return err
				}
			}
			args := make([]any, 0, 15*len(sums))
			for k, c := range sums {
				if *c != (tallyCounts{}) {
					args = appendLine(args, k, c)
				}
			}
			return t.insertTally(ctx, args)
		})
		if err != nil || !more {
			return err
		}
	}
}

// tallyRow is a row of the tally, or a sum of some.
type tallyRow struct {
	ID          int64  `db:"id"`
	Fingerprint string `db:"fingerprint"`
	DagID       string `db:"dag_id"`
	TaskID      string `db:"task_id"`
	Queue       string `db:"queue"`
	Class       string `db:"error_class"`
	Code        string `db:"error_code"`
	Decision    string `db:"decision"`
	Sealed      int64  `db:"sealed"`
	Quarantined int64  `db:"quarantined"`
	Replaying   int64  `db:"replaying"`
	Resolved    int64  `db:"resolved"`
	Dropped     int64  `db:"dropped"`
	Expired     int64  `db:"expired"`
	CameBack    int64  `db:"came_back"`
	Decided     int64  `db:"decided"`
}

func (r *tallyRow) key() tallyKey {
	return tallyKey{r.Fingerprint, r.DagID, r.TaskID, r.Queue, r.Class, r.Code, r.Decision}
}

func (r *tallyRow) counts() tallyCounts {
	return tallyCounts{r.Sealed, r.Quarantined, r.Replaying, r.Resolved, r.Dropped, r.Expired, r.CameBack, r.Decided}
}

// tallySum are the numbers of a line over several rows.
func tallySum() string {
	words := strings.Split(tallyNumbers, ", ")
	for i, w := range words {
		words[i] = "SUM(" + w + ") AS " + w
	}
	return strings.Join(words, ", ")
}

// tallyGap gives the lines in which the tally is not what the tables hold, with
// the difference: nothing, as long as only Airlock writes them.
func tallyGap() string {
	letters := "SELECT fingerprint, dag_id, task_id, queue, error_class, error_code, '' AS decision"
	for _, s := range tallyStatuses() {
		letters += ", SUM(CASE WHEN status = '" + string(s) + "' THEN 1 ELSE 0 END) AS " + string(s)
	}
	letters += `, SUM(CASE WHEN return_count > 0 AND status IN ('sealed', 'quarantined') THEN 1 ELSE 0 END) AS came_back, 0 AS decided
 FROM dead_letter GROUP BY fingerprint, dag_id, task_id, queue, error_class, error_code`
	audit := "SELECT '', '', '', '', '', '', decision, 0, 0, 0, 0, 0, 0, 0, COUNT(*) FROM dead_letter_audit GROUP BY decision"
	minus := "SELECT " + tallyKeys
	differs := make([]string, 0, 8)
	for _, w := range strings.Split(tallyNumbers, ", ") {
		minus += ", -SUM(" + w + ")"
		differs = append(differs, "SUM("+w+") <> 0")
	}
	minus += " FROM dead_letter_tally GROUP BY " + tallyKeys
	return "SELECT " + tallyKeys + ", " + tallySum() + " FROM (" + letters + " UNION ALL " + audit + " UNION ALL " + minus + ") gap GROUP BY " + tallyKeys +
		" HAVING " + strings.Join(differs, " OR ")
}

// Recount counts all letters and decisions anew, mends the tally where somebody
// else has written the tables, and tells in how many lines that was. It does no
// harm while letters are sealed and replayed.
func (s *Store) Recount(ctx context.Context) (mended int, err error) {
	err = s.write(ctx, "count dead letters anew", func(ctx context.Context, t *tx) error {
		// One at a time: two would add the same difference twice.
		var held []int64
		if err := t.SelectContext(ctx, &held, "SELECT id FROM dead_letter_tally WHERE id = 1"+s.db.ForUpdate()); err != nil {
			return err
		}
		// One statement sees one state of all three tables, and what is sealed
		// meanwhile adds rows of its own.
		n, err := t.exec(ctx, "INSERT INTO dead_letter_tally ("+tallyKeys+", "+tallyNumbers+") "+tallyGap())
		mended = int(n)
		return err
	})
	if err == nil {
		err = s.compact(ctx)
	}
	return mended, err
}
