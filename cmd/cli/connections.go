package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/airlock-dag/airlock/cmd/config"
	"github.com/airlock-dag/airlock/dag"
)

// connsCmd groups what is done with connections.
type connsCmd struct {
	List   connsListCmd   `cmd:"" help:"List connections, passwords hidden."`
	Get    connsGetCmd    `cmd:"" help:"Show one connection."`
	Add    connsAddCmd    `cmd:"" help:"Make a connection."`
	Set    connsSetCmd    `cmd:"" help:"Make a connection, or replace one as a whole."`
	Delete connsDeleteCmd `cmd:"" help:"Remove a connection."`
	Import connsImportCmd `cmd:"" help:"Make or change the connections of a file."`
	Export connsExportCmd `cmd:"" help:"Write all stored connections, with passwords, to a file."`
}

// listedConnection is a connection with its source: "environment" or "database".
type listedConnection struct {
	dag.Connection
	Source string `json:"source"`
}

// hide takes the secrets out unless they are asked for. Values of extra go by
// their keys.
func (c listedConnection) hide(show bool) listedConnection {
	if show {
		return c
	}
	if c.Password != "" {
		c.Password = "***"
	}
	if masked, ok := dag.MaskValues(c.Extra).(map[string]any); ok && len(masked) > 0 {
		c.Extra = masked
	}
	return c
}

func printConnections(w io.Writer, format string, rows []listedConnection) error {
	return printRows(w, format, rows,
		col("connection_id", func(c listedConnection) any { return c.ID }),
		col("conn_type", func(c listedConnection) any { return c.Type }),
		col("host", func(c listedConnection) any { return c.Host }),
		col("port", func(c listedConnection) any {
			if c.Port == 0 {
				return nil
			}
			return c.Port
		}),
		col("login", func(c listedConnection) any { return c.Login }),
		col("password", func(c listedConnection) any { return c.Password }),
		col("schema", func(c listedConnection) any { return c.Schema }),
		col("extra", func(c listedConnection) any {
			if len(c.Extra) == 0 {
				return nil
			}
			text, err := json.Marshal(c.Extra)
			if err != nil {
				return "unreadable"
			}
			return string(text)
		}),
		col("source", func(c listedConnection) any { return c.Source }),
		col("description", func(c listedConnection) any { return c.Description }),
	)
}

type connsListCmd struct {
	ShowSecrets bool `name:"show-secrets" help:"Show passwords and secret extras."`
	outputFlag
}

// Run lists the connections of the environment and of the database.
func (c connsListCmd) Run(ctx context.Context, s *session) error {
	st, err := s.store(ctx)
	if err != nil {
		return err
	}
	stored, err := st.Connections(ctx)
	if err != nil {
		return err
	}
	env := s.environment()
	rows := []listedConnection{}
	for _, id := range env.ConnectionIDs() {
		conn, _, err := env.Connection(id)
		if err != nil {
			fmt.Fprintln(s.env.Stderr, err)
			continue
		}
		rows = append(rows, listedConnection{conn, "environment"}.hide(c.ShowSecrets))
	}
	for _, conn := range stored {
		if _, hidden, _ := env.Connection(conn.ID); !hidden {
			rows = append(rows, listedConnection{conn, "database"}.hide(c.ShowSecrets))
		}
	}
	return printConnections(s.env.Stdout, c.Output, rows)
}

type connsGetCmd struct {
	ID          string `arg:"" name:"id" help:"The connection's id."`
	ShowSecrets bool   `name:"show-secrets" help:"Show the password and secret extras."`
	outputFlag
}

// Run shows the connection that a step would get.
func (c connsGetCmd) Run(ctx context.Context, s *session) error {
	conn, ok, err := s.environment().Connection(c.ID)
	row := listedConnection{conn, "environment"}
	if !ok {
		st, openErr := s.store(ctx)
		if openErr != nil {
			return openErr
		}
		row.Source = "database"
		row.Connection, err = st.Connection(ctx, c.ID)
		if dag.CodeOf(err) == dag.ErrNotFound {
			return s.noConnection(ctx, c.ID)
		}
	}
	if err != nil {
		return err
	}
	return printConnections(s.env.Stdout, c.Output, []listedConnection{row.hide(c.ShowSecrets)})
}

func (s *session) noConnection(ctx context.Context, id string) error {
	st, err := s.store(ctx)
	if err != nil {
		return err
	}
	stored, err := st.Connections(ctx)
	if err != nil {
		return err
	}
	ids := s.environment().ConnectionIDs()
	for _, c := range stored {
		ids = append(ids, c.ID)
	}
	return notFound("connection", id, ids, "`airlock connections list` shows all; AIRLOCK_CONN_"+strings.ToUpper(id)+" in the environment makes it too")
}

// connFlags describe a connection: as a URI, as JSON, or piece by piece.
type connFlags struct {
	ID          string `arg:"" name:"id" help:"The connection's id."`
	URI         string `name:"conn-uri" xor:"form" placeholder:"URI" help:"type://user:password@host:port/schema; - reads it from the standard input."`
	JSON        string `name:"conn-json" xor:"form" placeholder:"JSON" help:"An object with conn_type, host and so on; - reads it from the standard input."`
	Type        string `name:"conn-type" xor:"form" placeholder:"TYPE" help:"mysql, mariadb, sqlite, http, file ..."`
	Host        string `name:"conn-host" placeholder:"HOST" help:"The host; the file of a sqlite connection."`
	Port        int    `name:"conn-port" placeholder:"PORT" help:"The port."`
	Login       string `name:"conn-login" placeholder:"NAME" help:"The user."`
	Password    string `name:"conn-password" placeholder:"PASSWORD" help:"The password; - reads it from the standard input, so that no list of processes shows it."`
	Schema      string `name:"conn-schema" placeholder:"NAME" help:"The database."`
	Extra       string `name:"conn-extra" placeholder:"JSON" help:"An object with further settings."`
	Description string `name:"conn-description" placeholder:"TEXT" help:"What it is for."`
}

// connection reads the flags.
func (f connFlags) connection(s *session) (dag.Connection, error) {
	text := f.URI + f.JSON
	if text != "" {
		text, err := s.valueOrInput(text)
		if err != nil {
			return dag.Connection{}, err
		}
		c, err := config.ParseConnection(f.ID, text)
		if f.Description != "" {
			c.Description = f.Description
		}
		return c, err
	}
	if f.Type == "" {
		return dag.Connection{}, wrong("read connection "+f.ID, "give --conn-uri, --conn-json or --conn-type", "it is not said what it is")
	}
	password, err := s.valueOrInput(f.Password)
	if err != nil {
		return dag.Connection{}, err
	}
	pieces := map[string]any{
		"conn_type": f.Type, "host": f.Host, "port": f.Port, "login": f.Login, "password": password, "schema": f.Schema,
		"extra": f.Extra, "description": f.Description,
	}
	whole, err := json.Marshal(pieces)
	if err != nil {
		return dag.Connection{}, fmt.Errorf("read connection %s: %w", f.ID, err)
	}
	return config.ParseConnection(f.ID, string(whole))
}

// valueOrInput is a value, or the standard input for -, without its last line
// break.
func (s *session) valueOrInput(value string) (string, error) {
	if value != "-" {
		return value, nil
	}
	content, err := io.ReadAll(s.env.Stdin)
	return strings.TrimRight(string(content), "\r\n"), err
}

type connsAddCmd struct {
	connFlags
}

// Run makes a connection; one that is there already is left alone.
func (c connsAddCmd) Run(ctx context.Context, s *session) error {
	st, err := s.store(ctx)
	if err != nil {
		return err
	}
	switch _, err := st.Connection(ctx, c.ID); dag.CodeOf(err) {
	case dag.ErrNotFound:
	case "":
		return &dag.Error{
			Code: dag.ErrExists, Op: "add connection " + c.ID, Err: fmt.Errorf("there is one of this id"),
			Hint: "`airlock connections set` changes it",
		}
	default:
		return err
	}
	return connsSetCmd(c).Run(ctx, s)
}

type connsSetCmd struct {
	connFlags
}

// Run makes or changes a connection.
func (c connsSetCmd) Run(ctx context.Context, s *session) error {
	conn, err := c.connection(s)
	if err != nil {
		return err
	}
	return s.setConnections(ctx, []dag.Connection{conn})
}

func (s *session) setConnections(ctx context.Context, conns []dag.Connection) error {
	st, err := s.store(ctx)
	if err != nil {
		return err
	}
	for _, conn := range conns {
		if err := st.SetConnection(ctx, conn); err != nil {
			return err
		}
		if err := s.audit(ctx, "connection.set", conn.ID); err != nil {
			return err
		}
		if _, hidden, _ := s.environment().Connection(conn.ID); hidden {
			fmt.Fprintf(s.env.Stderr, "the environment has a connection %s too: steps use that one\n", conn.ID)
		}
	}
	fmt.Fprintf(s.env.Stdout, "%s set\n", count(len(conns), "connection"))
	return nil
}

type connsDeleteCmd struct {
	ID string `arg:"" name:"id" help:"The connection's id."`
}

// Run removes a stored connection.
func (c connsDeleteCmd) Run(ctx context.Context, s *session) error {
	st, err := s.store(ctx)
	if err != nil {
		return err
	}
	if err := st.DeleteConnection(ctx, c.ID); err != nil {
		if dag.CodeOf(err) == dag.ErrNotFound {
			return s.noConnection(ctx, c.ID)
		}
		return err
	}
	fmt.Fprintf(s.env.Stdout, "connection %s removed\n", c.ID)
	return s.audit(ctx, "connection.delete", c.ID)
}

type connsImportCmd struct {
	importFlags
}

// Run makes or changes the connections of a file, or none when one is wrong.
// Each is a URI, or an object with Airflow's keys.
func (c connsImportCmd) Run(ctx context.Context, s *session) error {
	entries, err := c.read(s)
	if err != nil {
		return err
	}
	var conns []dag.Connection
	for _, id := range slices.Sorted(maps.Keys(entries)) {
		text := string(entries[id])
		if strings.HasPrefix(text, `"`) {
			if err := json.Unmarshal(entries[id], &text); err != nil {
				return wrong("read connection "+id, "write a URI", "it is no text")
			}
		}
		conn, err := config.ParseConnection(id, text)
		if err != nil {
			return err
		}
		conns = append(conns, conn)
	}
	return s.setConnections(ctx, conns)
}

// connectionEntry is a connection in a file, with Airflow's keys.
type connectionEntry struct {
	Type        string         `json:"conn_type"`
	Description string         `json:"description"`
	Host        string         `json:"host"`
	Port        int            `json:"port"`
	Login       string         `json:"login"`
	Password    string         `json:"password"`
	Schema      string         `json:"schema"`
	Extra       map[string]any `json:"extra"`
}

type connsExportCmd struct {
	exportFlags
}

// Run writes the stored connections with their passwords, readable by the
// file's owner alone.
func (c connsExportCmd) Run(ctx context.Context, s *session) error {
	st, err := s.store(ctx)
	if err != nil {
		return err
	}
	stored, err := st.Connections(ctx)
	if err != nil {
		return err
	}
	entries := make(map[string]any, len(stored))
	uris := make(map[string]dag.Connection, len(stored))
	for _, conn := range stored {
		uris[conn.ID] = conn
		entries[conn.ID] = connectionEntry{
			Type: conn.Type, Description: conn.Description, Host: conn.Host, Port: conn.Port,
			Login: conn.Login, Password: conn.Password, Schema: conn.Schema, Extra: conn.Extra,
		}
	}
	return c.write(s, entries, func(id string) (string, error) { return config.ConnectionURI(uris[id]) })
}
