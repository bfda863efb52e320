package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/airlock-dag/airlock/dag"
)

// Variables lists all variables, sorted by key.
func (s *Store) Variables(ctx context.Context) ([]dag.Variable, error) {
	return s.variables(ctx, "")
}

func (s *Store) variables(ctx context.Context, key string) ([]dag.Variable, error) {
	var c condition
	c.eq("name", key)
	var rows []struct {
		Key         string `db:"name"`
		Value       string `db:"value"`
		Description string `db:"description"`
	}
	if err := s.db.Reader().SelectContext(ctx, &rows, "SELECT name, value, description FROM variable"+c.where()+" ORDER BY name", c.args...); err != nil {
		return nil, fmt.Errorf("list variables: %w", err)
	}
	out := make([]dag.Variable, len(rows))
	for i, r := range rows {
		out[i] = dag.Variable{Key: r.Key, Value: r.Value, Description: r.Description}
	}
	return out, nil
}

// Variable implements Desk.
func (s *Store) Variable(ctx context.Context, key string) (dag.Variable, error) {
	list, err := s.variables(ctx, key)
	if err != nil {
		return dag.Variable{}, err
	}
	if key == "" || len(list) == 0 {
		return dag.Variable{}, &dag.Error{Code: dag.ErrNotFound, Op: "variable " + key, Err: errors.New("there is none")}
	}
	return list[0], nil
}

// SetVariable implements Desk.
func (s *Store) SetVariable(ctx context.Context, v dag.Variable) error {
	if v.Key == "" || len([]rune(v.Key)) > 250 {
		return &dag.Error{Code: dag.ErrInvalid, Op: "variable " + v.Key, Err: errors.New("a variable's key has 1 to 250 characters")}
	}
	return s.write(ctx, "set variable "+v.Key, func(ctx context.Context, t *tx) error {
		_, err := t.exec(ctx, "INSERT INTO variable (name, value, description) VALUES (?, ?, ?)"+
			s.db.Upsert([]string{"name"}, []string{"value", "description"}), v.Key, clean(v.Value), clean(v.Description))
		return err
	})
}

// DeleteVariable implements Desk.
func (s *Store) DeleteVariable(ctx context.Context, key string) error {
	return s.write(ctx, "delete variable "+key, func(ctx context.Context, t *tx) error {
		return t.deleteOne(ctx, "variable "+key, "DELETE FROM variable WHERE name = ?", key)
	})
}
