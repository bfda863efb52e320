package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/airlock-dag/airlock/dag"
)

type connectionRow struct {
	ID          string `db:"connection_id"`
	Type        string `db:"conn_type"`
	Description string `db:"description"`
	Host        string `db:"host"`
	Port        int    `db:"port"`
	Login       string `db:"login"`
	Password    string `db:"password"` // a token, or empty
	Schema      string `db:"schema_name"`
	Extra       string `db:"extra"` // a token of a JSON object, or empty
}

// Connections implements Desk.
func (s *Store) Connections(ctx context.Context) ([]dag.Connection, error) {
	return s.connections(ctx, "")
}

func (s *Store) connections(ctx context.Context, id string) ([]dag.Connection, error) {
	var c condition
	c.eq("connection_id", id)
	var rows []connectionRow
	if err := s.db.Reader().SelectContext(ctx, &rows, `SELECT connection_id, conn_type, description, host, port, login, password, schema_name, extra
 FROM connection`+c.where()+" ORDER BY connection_id", c.args...); err != nil {
		return nil, fmt.Errorf("list connections: %w", err)
	}
	out := make([]dag.Connection, len(rows))
	for i, r := range rows {
		conn := dag.Connection{
			ID: r.ID, Type: r.Type, Description: r.Description, Host: r.Host, Port: r.Port, Login: r.Login, Schema: r.Schema,
		}
		var err error
		if conn.Password, err = s.open(r.ID, r.Password); err != nil {
			return nil, err
		}
		extra, err := s.open(r.ID, r.Extra)
		if err != nil {
			return nil, err
		}
		if extra != "" {
			if err := json.Unmarshal([]byte(extra), &conn.Extra); err != nil {
				return nil, fmt.Errorf("connection %s: its extra is no JSON object", r.ID)
			}
		}
		out[i] = conn
	}
	return out, nil
}

const fernetHint = "set core.fernet_key (AIRLOCK__CORE__FERNET_KEY) to the key that it was stored with"

// open decrypts a stored secret.
func (s *Store) open(id, token string) (string, error) {
	if token == "" {
		return "", nil
	}
	fail := func(err error) (string, error) {
		return "", &dag.Error{Code: dag.ErrInvalid, Op: "connection " + id, Hint: fernetHint, Err: err}
	}
	if s.secrets == nil {
		return fail(errors.New("it is stored encrypted and there is no Fernet key"))
	}
	text, err := s.secrets.decrypt(token)
	if err != nil {
		return fail(err)
	}
	return text, nil
}

// Connection finds a connection; the error has dag.ErrNotFound.
func (s *Store) Connection(ctx context.Context, id string) (dag.Connection, error) {
	list, err := s.connections(ctx, id)
	if err != nil {
		return dag.Connection{}, err
	}
	if id == "" || len(list) == 0 {
		return dag.Connection{}, &dag.Error{
			Code: dag.ErrNotFound, Op: "connection " + id, Err: errors.New("there is none"),
			Hint: "add it with `airlock connections add " + id + "`, or set AIRLOCK_CONN_" + strings.ToUpper(id),
		}
	}
	return list[0], nil
}

// SetConnection implements Desk.
func (s *Store) SetConnection(ctx context.Context, c dag.Connection) error {
	fail := func(code dag.ErrCode, hint, what string) error {
		return &dag.Error{Code: code, Op: "connection " + c.ID, Hint: hint, Err: errors.New(what)}
	}
	switch {
	case c.ID == "" || len([]rune(c.ID)) > 250:
		return fail(dag.ErrInvalid, "", "a connection's id has 1 to 250 characters")
	case c.Type == "" || len([]rune(c.Type)) > 100:
		return fail(dag.ErrInvalid, "for example mysql, mariadb, sqlite, http", "its type is missing or too long")
	case c.Port < 0 || c.Port > 65535:
		return fail(dag.ErrInvalid, "", fmt.Sprintf("port %d is not from 0 to 65535", c.Port))
	case s.secrets == nil && (c.Password != "" || len(c.Extra) > 0):
		return fail(dag.ErrInvalid, "set core.fernet_key (AIRLOCK__CORE__FERNET_KEY)", "a password or extra is stored encrypted and there is no Fernet key")
	}
	extra := ""
	if len(c.Extra) > 0 {
		b, err := json.Marshal(c.Extra)
		if err != nil {
			return fail(dag.ErrInvalid, "", "its extra cannot be written as JSON")
		}
		extra = string(b)
	}
	return s.write(ctx, "set connection "+c.ID, func(ctx context.Context, t *tx) error {
		var tokens [2]string
		for i, text := range []string{c.Password, extra} {
			if text == "" {
				continue
			}
			var err error
			if tokens[i], err = s.secrets.encrypt(text, t.now); err != nil {
				return err
			}
		}
		columns := []string{"conn_type", "description", "host", "port", "login", "password", "schema_name", "extra"}
		_, err := t.exec(ctx, `INSERT INTO connection (connection_id, conn_type, description, host, port, login, password, schema_name, extra)
 VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`+s.db.Upsert([]string{"connection_id"}, columns),
			c.ID, c.Type, clean(c.Description), clean(c.Host), c.Port, clean(c.Login), tokens[0], clean(c.Schema), tokens[1])
		return err
	})
}

// DeleteConnection implements Desk.
func (s *Store) DeleteConnection(ctx context.Context, id string) error {
	return s.write(ctx, "delete connection "+id, func(ctx context.Context, t *tx) error {
		return t.deleteOne(ctx, "connection "+id, "DELETE FROM connection WHERE connection_id = ?", id)
	})
}
