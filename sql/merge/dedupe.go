package merge

import (
	"context"
	"fmt"
	"strings"

	"github.com/airlock-dag/airlock/sql/dialect"
)

func (b *batch) dupTable() string {
	if b.e.DB.IsSQLite() {
		return "temp.airlock_dup"
	}
	return "airlock_dup"
}

// dedupe leaves one row for each key: the newest by version, of equal ones the
// last of the source.
func (b *batch) dedupe(ctx context.Context) error {
	certain := !b.load.keys.unsure
	b.load.keys = nil // its memory is not needed any more
	if certain {
		return nil
	}
	order := ""
	if b.p.version != "" {
		order = dialect.Quote(b.p.version) + " DESC, "
	}
	ranked := fmt.Sprintf("SELECT airlock_seq AS seq FROM (SELECT airlock_seq, ROW_NUMBER() OVER (PARTITION BY %s ORDER BY %sairlock_seq DESC) AS n FROM %s) AS r WHERE n > 1",
		b.p.stageKeys(""), order, b.p.stage())
	temp := "CREATE TEMPORARY TABLE "
	if b.e.DB.IsSQLite() {
		temp = "CREATE TABLE "
	}
	for _, s := range []string{temp + b.dupTable() + " (seq BIGINT NOT NULL PRIMARY KEY)", "INSERT INTO " + b.dupTable() + " " + ranked} {
		if _, err := b.conn.ExecContext(ctx, s); err != nil {
			return fmt.Errorf("look for keys that are there twice: %w", err)
		}
	}
	if err := b.conn.QueryRowxContext(ctx, "SELECT COUNT(*) FROM "+b.dupTable()).Scan(&b.dups); err != nil {
		return err
	}
	if b.dups == 0 {
		return nil
	}
	if !b.job.Spec.FoldKeys {
		if err := b.foldedKeys(ctx); err != nil {
			return err
		}
	}
	if b.job.Spec.FailOnDuplicates {
		return b.duplicateKeys(ctx)
	}
	remove := fmt.Sprintf("DELETE s FROM %s AS s JOIN %s AS d ON d.seq = s.airlock_seq", b.p.stage(), b.dupTable())
	if b.e.DB.IsSQLite() {
		remove = fmt.Sprintf("DELETE FROM %s WHERE airlock_seq IN (SELECT seq FROM %s)", b.p.stage(), b.dupTable())
	}
	if _, err := b.conn.ExecContext(ctx, remove); err != nil {
		return fmt.Errorf("remove rows that a newer one supersedes: %w", err)
	}
	return nil
}

// duplicateKeys is the failure of a batch that may not have a key twice.
func (b *batch) duplicateKeys(ctx context.Context) error {
	rows, err := b.conn.QueryxContext(ctx, fmt.Sprintf("SELECT airlock_src, airlock_line, %s FROM %s WHERE airlock_seq IN (SELECT seq FROM %s) ORDER BY airlock_seq LIMIT 10",
		b.p.stageKeys(""), b.p.stage(), b.dupTable()))
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	text := fmt.Sprintf("rows whose key another row of the batch has: %d; nothing was written", b.dups)
	for rows.Next() {
		cells, err := rows.SliceScan()
		if err != nil {
			return err
		}
		src, _ := cells[0].(int64)
		text += fmt.Sprintf("\n  %s:%v: ", b.load.sources[src], cells[1])
		for i, k := range b.p.keys {
			if i > 0 {
				text += ", "
			}
			text += k.target + "=" + storedText(cells[2+i])
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	return problem(codeDuplicates, "%s", text).hint("correct the source, or set duplicates: newest and a version column")
}

// foldedKeys is the failure of a batch in which keys differ as texts and are the
// same to the target: case, accents, trailing blanks or emoji that its collation
// does not tell apart.
func (b *batch) foldedKeys(ctx context.Context) error {
	binary := "CAST(%s AS BINARY)"
	if b.e.DB.IsSQLite() {
		binary = "CAST(%s AS BLOB)"
	}
	var differ, shown []string
	for _, k := range b.p.keys {
		text := fmt.Sprintf(binary, dialect.Quote(k.stage))
		differ = append(differ, "COUNT(DISTINCT "+text+") > 1")
		shown = append(shown, "MIN("+text+")", "MAX("+text+")")
	}
	rows, err := b.conn.QueryxContext(ctx, fmt.Sprintf("SELECT MIN(airlock_line), MAX(airlock_line), %s FROM %s GROUP BY %s HAVING %s ORDER BY 1 LIMIT 11",
		strings.Join(shown, ", "), b.p.stage(), b.p.stageKeys(""), strings.Join(differ, " OR ")))
	if err != nil {
		return fmt.Errorf("look for keys that only the collation takes for the same: %w", err)
	}
	defer func() { _ = rows.Close() }()
	text := ""
	for n := 0; rows.Next(); n++ {
		if n == 10 {
			text += "\n  and others"
			break
		}
		cells, err := rows.SliceScan()
		if err != nil {
			return err
		}
		text += fmt.Sprintf("\n  lines %v to %v:", cells[0], cells[1])
		for i, k := range b.p.keys {
			if least, most := storedText(cells[2+2*i]), storedText(cells[3+2*i]); least != most {
				text += fmt.Sprintf(" %s %q and %q", k.target, least, most)
			}
		}
	}
	if err := rows.Err(); err != nil || text == "" {
		return err
	}
	return problem(codeFolded, "keys of the batch differ as texts and are the same to the collation of %s; nothing was written%s", b.p.spec.Target, text).
		hint("correct the source, give the key column a collation that tells them apart, or set folded_keys: same")
}
