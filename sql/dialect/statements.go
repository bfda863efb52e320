package dialect

import (
	"container/list"
	"context"
	"database/sql/driver"
	"errors"
	"strings"
)

// maxStatements is how many compiled statements a connection keeps, and
// maxStatementText the longest text that is worth keeping: a longer one is a
// bulk statement whose work outweighs its parsing.
const (
	maxStatements    = 128
	maxStatementText = 8 << 10 // bytes
)

// statementConnector gives connections that keep compiled statements by their
// text. Parsing is a good part of a small statement's cost on an embedded
// database, where nothing else is between the program and the table.
type statementConnector struct {
	driver.Connector
	// whole lets a statement that has begun run to its end. Watching for the end
	// of its context costs a goroutine a statement; inside a transaction, where
	// statements are short, the pool looks between them anyhow.
	whole bool
}

// Connect implements driver.Connector.
func (c statementConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	full, ok := conn.(sqliteConn)
	if !ok {
		_ = conn.Close()
		return nil, errors.New("the driver's connection lacks what a pool needs")
	}
	return &statementConn{sqliteConn: full, whole: c.whole, byText: map[string]*list.Element{}, order: list.New()}, nil
}

// sqliteConn is what the driver's connection can do.
type sqliteConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.Pinger
	driver.SessionResetter
	driver.Validator
}

// keptStatement is what the driver's compiled statement can do.
type keptStatement interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

// kept is one compiled statement. The pool uses a connection from one goroutine
// at a time, but a query's rows may be open while the same text is asked again.
type kept struct {
	text string
	stmt keptStatement
	busy bool
}

// statementConn runs statements whose text it has seen from their compiled
// form. SQLite compiles one again by itself when the schema has changed.
type statementConn struct {
	sqliteConn
	whole  bool
	byText map[string]*list.Element
	order  *list.List // most recently used first
}

// ExecContext implements driver.ExecerContext.
func (c *statementConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	k, err := c.statement(ctx, query)
	if err != nil {
		return nil, err
	}
	if k == nil {
		return c.sqliteConn.ExecContext(ctx, query, args)
	}
	return k.stmt.ExecContext(c.watched(ctx), args)
}

// QueryContext implements driver.QueryerContext.
func (c *statementConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	k, err := c.statement(ctx, query)
	if err != nil {
		return nil, err
	}
	if k == nil {
		return c.sqliteConn.QueryContext(ctx, query, args)
	}
	rows, err := k.stmt.QueryContext(c.watched(ctx), args)
	if err != nil {
		return nil, err
	}
	k.busy = true
	return &keptRows{Rows: rows, k: k}, nil
}

// watched is the context that a statement runs under, which has not ended yet.
func (c *statementConn) watched(ctx context.Context) context.Context {
	if c.whole {
		return context.WithoutCancel(ctx)
	}
	return ctx
}

// Close ends the statements before the connection.
func (c *statementConn) Close() error {
	var errs []error
	for e := c.order.Front(); e != nil; e = e.Next() {
		errs = append(errs, e.Value.(*kept).stmt.Close())
	}
	c.order.Init()
	clear(c.byText)
	return errors.Join(append(errs, c.sqliteConn.Close())...)
}

// statement is the compiled form of a text; nil when it is not to be kept or is
// in use.
func (c *statementConn) statement(ctx context.Context, query string) (*kept, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if e := c.byText[query]; e != nil {
		k := e.Value.(*kept)
		if k.busy {
			return nil, nil
		}
		c.order.MoveToFront(e)
		return k, nil
	}
	if !keepable(query) {
		return nil, nil
	}
	s, err := c.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	full, ok := s.(keptStatement)
	if !ok {
		return nil, s.Close()
	}
	c.makeRoom()
	k := &kept{text: query, stmt: full}
	c.byText[query] = c.order.PushFront(k)
	return k, nil
}

// makeRoom drops what was used least recently and is not in use.
func (c *statementConn) makeRoom() {
	for e := c.order.Back(); e != nil && c.order.Len() >= maxStatements; {
		before := e.Prev()
		if k := e.Value.(*kept); !k.busy {
			_ = k.stmt.Close()
			delete(c.byText, k.text)
			c.order.Remove(e)
		}
		e = before
	}
}

// keepable tells whether a text is one statement on rows. The rest (pragmas,
// DDL, scripts) comes once and is left to the driver.
func keepable(query string) bool {
	if len(query) > maxStatementText || strings.Contains(query, ";") {
		return false
	}
	for _, verb := range []string{"SELECT ", "INSERT ", "UPDATE ", "DELETE "} {
		if strings.HasPrefix(query, verb) {
			return true
		}
	}
	return false
}

// keptRows gives the statement back when the rows are closed.
type keptRows struct {
	driver.Rows
	k *kept
}

// Close implements driver.Rows.
func (r *keptRows) Close() error {
	err := r.Rows.Close()
	r.k.busy = false
	return err
}
