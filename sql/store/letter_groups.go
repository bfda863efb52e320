package store

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/dialect"
)

// LetterStats implements Desk. f.Limit bounds the groups. Where the filter asks
// only for what the letters of a group share, the numbers come from the tally
// and a look at the oldest and the newest letter of each group; else the letters
// that the filter finds are counted.
func (s *Store) LetterStats(ctx context.Context, f dag.LetterFilter) ([]dag.LetterGroup, error) {
	groups, ok, err := s.tallyGroups(ctx, f)
	if err == nil && !ok {
		groups, err = s.countGroups(ctx, f)
	}
	if err != nil {
		return nil, fmt.Errorf("count dead letters: %w", err)
	}
	return groups, nil
}

// countGroups counts the letters that a filter finds.
func (s *Store) countGroups(ctx context.Context, f dag.LetterFilter) ([]dag.LetterGroup, error) {
	c := letterCondition(f)
	var rows []struct {
		Fingerprint string       `db:"fingerprint"`
		Status      string       `db:"status"`
		N           int          `db:"n"`
		First       dialect.Time `db:"first_at"`
		Last        dialect.Time `db:"last_at"`
		LastID      int64        `db:"last_id"`
		Back        int          `db:"back"`
	}
	err := s.db.Reader().SelectContext(ctx, &rows, `SELECT fingerprint, status, COUNT(*) AS n, MIN(enqueued_at) AS first_at, MAX(enqueued_at) AS last_at,
 MAX(id) AS last_id, SUM(CASE WHEN return_count > 0 THEN 1 ELSE 0 END) AS back FROM dead_letter`+c.where()+" GROUP BY fingerprint, status", c.args...)
	if err != nil {
		return nil, err
	}
	groups := map[string]*dag.LetterGroup{}
	for _, r := range rows {
		g := groups[r.Fingerprint]
		if g == nil {
			g = &dag.LetterGroup{Fingerprint: r.Fingerprint, First: r.First.Time, Last: r.Last.Time, Statuses: map[dag.LetterStatus]int{}}
			groups[r.Fingerprint] = g
		}
		g.Count += r.N
		g.Statuses[dag.LetterStatus(r.Status)] += r.N
		g.LastID = max(g.LastID, r.LastID)
		if open := dag.LetterStatus(r.Status); open == dag.LetterSealed || open == dag.LetterQuarantined {
			g.Back += r.Back
		}
		g.BackShare = float64(g.Back) / float64(g.Count)
		if r.First.Time.Before(g.First) {
			g.First = r.First.Time
		}
		if r.Last.Time.After(g.Last) {
			g.Last = r.Last.Time
		}
	}
	out := sortedGroups(groups, f.Limit)
	if err := s.newestOf(ctx, f, out); err != nil {
		return nil, err
	}
	return out, s.fillGroups(ctx, out)
}

// newestOf finds the letter of each group that was sealed last: one that came
// back is newer than those that were sealed for the first time after it.
func (s *Store) newestOf(ctx context.Context, f dag.LetterFilter, groups []dag.LetterGroup) error {
	at := make(map[string]int, len(groups))
	for i := range groups {
		at[groups[i].Fingerprint] = i
	}
	for part := range slices.Chunk(groups, 100) {
		c := letterCondition(f)
		var newest condition
		for _, g := range part {
			newest.add("(fingerprint = ? AND enqueued_at = ?)", g.Fingerprint, dialect.Stamp(g.Last))
		}
		c.add("("+strings.Join(newest.parts, " OR ")+")", newest.args...)
		var rows []struct {
			Fingerprint string `db:"fingerprint"`
			ID          int64  `db:"id"`
		}
		if err := s.db.Reader().SelectContext(ctx, &rows, "SELECT fingerprint, MAX(id) AS id FROM dead_letter"+c.where()+" GROUP BY fingerprint", c.args...); err != nil {
			return err
		}
		for _, r := range rows {
			groups[at[r.Fingerprint]].LastID = r.ID
		}
	}
	return nil
}

// tallyGroups makes groups of the tally; false when it cannot answer.
func (s *Store) tallyGroups(ctx context.Context, f dag.LetterFilter) ([]dag.LetterGroup, bool, error) {
	if f.RunID != "" || f.Since != nil || f.Until != nil || len(f.IDs) > 0 || f.After > 0 || f.UpTo > 0 || f.Drain != "" || f.ExpiresBy != nil || f.Lane != "" {
		return nil, false, nil
	}
	lines, err := s.tallyLines(ctx, s.db.Reader())
	if err != nil {
		return nil, false, err
	}
	groups := map[string]*dag.LetterGroup{}
	outside := map[string]bool{} // groups with letters that the filter does not want
	for i := range lines {
		r := &lines[i]
		if r.Decision != "" {
			continue
		}
		counts := r.counts()
		if !matches(f, r) {
			outside[r.Fingerprint] = outside[r.Fingerprint] || counts != tallyCounts{}
			continue
		}
		g := groups[r.Fingerprint]
		if g == nil {
			g = &dag.LetterGroup{Fingerprint: r.Fingerprint, Statuses: map[dag.LetterStatus]int{}}
			groups[r.Fingerprint] = g
		}
		for k, status := range tallyStatuses() {
			if n := int(counts[k]); n != 0 && wants(f, status) {
				g.Count += n
				g.Statuses[status] += n
			}
		}
		if wants(f, dag.LetterSealed) || wants(f, dag.LetterQuarantined) {
			g.Back += int(r.CameBack)
		}
	}
	maps.DeleteFunc(groups, func(_ string, g *dag.LetterGroup) bool { return g.Count == 0 })
	for fingerprint, g := range groups {
		// A part of a group, or of the letters that came back, has no numbers of its own.
		if outside[fingerprint] || g.Back > 0 && (f.Status == dag.LetterSealed || f.Status == dag.LetterQuarantined) {
			return nil, false, nil
		}
		g.BackShare = float64(g.Back) / float64(g.Count)
	}
	newest, err := s.groupEnds(ctx, groups)
	if err != nil {
		return nil, false, err
	}
	if len(newest) != len(groups) { // a letter moved between the two looks
		return nil, false, nil
	}
	out := sortedGroups(groups, f.Limit)
	return out, true, s.fillGroups(ctx, out)
}

// matches tells whether a filter wants the letters of a line.
func matches(f dag.LetterFilter, r *tallyRow) bool {
	for _, c := range [][2]string{
		{f.DagID, r.DagID}, {f.TaskID, r.TaskID}, {f.Queue, r.Queue}, {string(f.ErrorClass), r.Class}, {f.ErrorCode, r.Code},
		{f.Fingerprint, r.Fingerprint},
	} {
		if c[0] != "" && c[0] != c[1] {
			return false
		}
	}
	return true
}

// wants tells whether a filter wants letters with a status.
func wants(f dag.LetterFilter, status dag.LetterStatus) bool {
	if f.Status != "" && f.Status != status {
		return false
	}
	return !f.Open || status == dag.LetterSealed || status == dag.LetterQuarantined || status == dag.LetterReplaying
}

// tallyLines reads the tally, a line for each group and decision. Where it has
// many more rows than lines it is drawn together afterwards.
func (s *Store) tallyLines(ctx context.Context, q queryer) ([]tallyRow, error) {
	var rows []tallyRow
	if err := q.SelectContext(ctx, &rows, "SELECT COUNT(*) AS id, "+tallyKeys+", "+tallySum()+" FROM dead_letter_tally WHERE id > 1 GROUP BY "+tallyKeys); err != nil {
		return nil, err
	}
	n := int64(0)
	for i := range rows {
		n += rows[i].ID
	}
	if n > int64(len(rows)+compactAfter) {
		if err := s.compact(ctx); err != nil {
			s.log.WarnContext(ctx, "the tally of letters was not drawn together; it is tried again", "error", err)
		}
	}
	return rows, nil
}

// groupEnds finds the oldest and the newest letter of each group among its
// statuses. The answer has the groups for which there is one.
func (s *Store) groupEnds(ctx context.Context, groups map[string]*dag.LetterGroup) (map[string]bool, error) {
	byStatus := map[dag.LetterStatus][]string{}
	for fingerprint, g := range groups {
		for status := range g.Statuses {
			byStatus[status] = append(byStatus[status], fingerprint)
		}
	}
	found := map[string]bool{}
	for status, list := range byStatus {
		slices.Sort(list)
		for part := range slices.Chunk(list, chunk) {
			in, args := s.amongTexts(part)
			var rows []struct {
				Fingerprint string    `db:"fingerprint"`
				First       looseTime `db:"first_at"`
				LastID      *int64    `db:"last_id"`
				Last        looseTime `db:"last_at"`
			}
			// Each inner query reads one entry of an index.
			one := "(SELECT l.%s FROM dead_letter l" + s.newest() + " WHERE l.status = '" + string(status) + "' AND l.fingerprint = g.fingerprint ORDER BY l.enqueued_at%s LIMIT 1)"
			query := "SELECT g.fingerprint, " + fmt.Sprintf(one, "enqueued_at", "") + " AS first_at, " + fmt.Sprintf(one, "enqueued_at", " DESC") + " AS last_at, " +
				fmt.Sprintf(one, "id", " DESC, l.id DESC") + " AS last_id FROM (SELECT DISTINCT fingerprint FROM dead_letter_tally WHERE fingerprint IN " + in + ") g"
			if err := s.db.Reader().SelectContext(ctx, &rows, query, args...); err != nil {
				return nil, err
			}
			for _, r := range rows {
				g := groups[r.Fingerprint]
				if g == nil || r.LastID == nil {
					continue
				}
				first, last := r.First.Time.Time, r.Last.Time.Time
				if !found[r.Fingerprint] || first.Before(g.First) {
					g.First = first
				}
				if !found[r.Fingerprint] || last.After(g.Last) || last.Equal(g.Last) && *r.LastID > g.LastID {
					g.Last, g.LastID = last, *r.LastID
				}
				found[r.Fingerprint] = true
			}
		}
	}
	return found, nil
}

// newest names the index of a group's letters by age.
func (s *Store) newest() string {
	if s.db.IsSQLite() {
		return s.db.ForceIndex("dead_letter_newest")
	}
	return s.db.ForceIndex("k_newest")
}

// fillGroups takes what all letters of a group share from its newest one.
func (s *Store) fillGroups(ctx context.Context, groups []dag.LetterGroup) error {
	if len(groups) == 0 {
		return nil
	}
	ids := make([]int64, len(groups))
	for i, g := range groups {
		ids[i] = g.LastID
	}
	newest, err := s.Letters(ctx, dag.LetterFilter{IDs: ids, Limit: -1})
	if err != nil {
		return err
	}
	byID := make(map[int64]dag.DeadLetter, len(newest))
	for _, l := range newest {
		byID[l.ID] = l
	}
	for i := range groups {
		l := byID[groups[i].LastID]
		groups[i].ErrorClass, groups[i].ErrorCode, groups[i].DagID, groups[i].TaskID = l.ErrorClass, l.ErrorCode, l.DagID, l.TaskID
		groups[i].Queue, groups[i].Message = l.Queue, l.ErrorMessage
	}
	return nil
}

// sortedGroups orders groups by count falling, then newest first.
func sortedGroups(groups map[string]*dag.LetterGroup, n int) []dag.LetterGroup {
	out := make([]dag.LetterGroup, 0, len(groups))
	for _, g := range groups {
		out = append(out, *g)
	}
	slices.SortFunc(out, func(a, b dag.LetterGroup) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(b.LastID, a.LastID))
	})
	if n == 0 {
		n = 100
	}
	if n > 0 && len(out) > n {
		out = out[:n]
	}
	return out
}
