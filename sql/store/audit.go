package store

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/dialect"
)

// audit keeps an entry in the same transaction as the act that it tells of.
func (t *tx) audit(ctx context.Context, e dag.AuditEntry) error {
	_, err := t.exec(ctx, "INSERT INTO audit_log (at, actor, action, subject, detail) VALUES (?, ?, ?, ?, ?)",
		t.at, short(e.Actor, 250), short(e.Action, 100), short(e.Subject, 1024), nullJSON(e.Detail))
	return err
}

// mustJSON is for maps of plain values, which always marshal.
func mustJSON(v map[string]any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	return b
}

// WriteAudit implements Desk.
func (s *Store) WriteAudit(ctx context.Context, e dag.AuditEntry) error {
	return s.write(ctx, "write the audit log", func(ctx context.Context, t *tx) error { return t.audit(ctx, e) })
}

// Audit implements Desk.
func (s *Store) Audit(ctx context.Context, f dag.AuditFilter) ([]dag.AuditEntry, error) {
	var c condition
	c.eq("action", f.Action)
	c.eq("subject", f.Subject)
	if f.Since != nil {
		c.add("at >= ?", dialect.Stamp(*f.Since))
	}
	if f.Before > 0 {
		c.add("id < ?", f.Before)
	}
	var rows []struct {
		ID      int64        `db:"id"`
		At      dialect.Time `db:"at"`
		Actor   string       `db:"actor"`
		Action  string       `db:"action"`
		Subject string       `db:"subject"`
		Detail  *string      `db:"detail"`
	}
	err := s.db.Reader().SelectContext(ctx, &rows, "SELECT id, at, actor, action, subject, detail FROM audit_log"+c.where()+
		" ORDER BY id DESC"+limit(f.Limit, 100), c.args...)
	if err != nil {
		return nil, fmt.Errorf("list the audit log: %w", err)
	}
	out := make([]dag.AuditEntry, len(rows))
	for i, r := range rows {
		out[i] = dag.AuditEntry{ID: r.ID, At: r.At.Time, Actor: r.Actor, Action: r.Action, Subject: r.Subject, Detail: rawOrNil(r.Detail)}
	}
	return out, nil
}
