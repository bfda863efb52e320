package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/airlock-dag/airlock/dag"
)

// variablesCmd groups what is done with variables.
type variablesCmd struct {
	List   variablesListCmd   `cmd:"" help:"List variables, secrets hidden."`
	Get    variablesGetCmd    `cmd:"" help:"Print a variable's value."`
	Set    variablesSetCmd    `cmd:"" help:"Make or change a variable."`
	Delete variablesDeleteCmd `cmd:"" help:"Remove a variable."`
	Import variablesImportCmd `cmd:"" help:"Make or change the variables of a file."`
	Export variablesExportCmd `cmd:"" help:"Write all stored variables to a file."`
}

// listedVariable is a variable with its source: "environment" or "database".
type listedVariable struct {
	dag.Variable
	Source string `json:"source"`
}

type variablesListCmd struct {
	outputFlag
}

// Run lists the variables of the environment and of the database. The values
// of keys that look like secrets are hidden.
func (c variablesListCmd) Run(ctx context.Context, s *session) error {
	st, err := s.store(ctx)
	if err != nil {
		return err
	}
	stored, err := st.Variables(ctx)
	if err != nil {
		return err
	}
	env := s.environment()
	var rows []listedVariable
	for _, key := range env.VariableKeys() {
		v, _ := env.Variable(key)
		rows = append(rows, listedVariable{v, "environment"})
	}
	for _, v := range stored {
		if _, hidden := env.Variable(v.Key); !hidden {
			rows = append(rows, listedVariable{v, "database"})
		}
	}
	for i := range rows {
		if dag.LooksSecret(rows[i].Key) {
			rows[i].Value = "***"
		}
	}
	return printRows(s.env.Stdout, c.Output, rows,
		col("key", func(v listedVariable) any { return v.Key }),
		col("value", func(v listedVariable) any { return shorten(v.Value, 60) }),
		col("source", func(v listedVariable) any { return v.Source }),
		col("description", func(v listedVariable) any { return v.Description }),
	)
}

type variablesGetCmd struct {
	Key     string  `arg:"" help:"The variable's key."`
	Default *string `short:"d" placeholder:"VALUE" help:"What to print when there is none."`
}

// Run prints a value as it is.
func (c variablesGetCmd) Run(ctx context.Context, s *session) error {
	if v, ok := s.environment().Variable(c.Key); ok {
		_, err := fmt.Fprintln(s.env.Stdout, v.Value)
		return err
	}
	st, err := s.store(ctx)
	if err != nil {
		return err
	}
	v, err := st.Variable(ctx, c.Key)
	if dag.CodeOf(err) == dag.ErrNotFound {
		if c.Default != nil {
			_, err := fmt.Fprintln(s.env.Stdout, *c.Default)
			return err
		}
		return s.noVariable(ctx, c.Key)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(s.env.Stdout, v.Value)
	return err
}

func (s *session) noVariable(ctx context.Context, key string) error {
	st, err := s.store(ctx)
	if err != nil {
		return err
	}
	stored, err := st.Variables(ctx)
	if err != nil {
		return err
	}
	keys := s.environment().VariableKeys()
	for _, v := range stored {
		keys = append(keys, v.Key)
	}
	return notFound("variable", key, keys, "`airlock variables list` shows all")
}

type variablesSetCmd struct {
	Key         string `arg:"" help:"The variable's key."`
	Value       string `arg:"" help:"Its value; - reads it from the standard input."`
	Description string `placeholder:"TEXT" help:"What it is for."`
}

// Run makes or changes a variable.
func (c variablesSetCmd) Run(ctx context.Context, s *session) error {
	value, err := s.valueOrInput(c.Value)
	if err != nil {
		return err
	}
	return s.setVariables(ctx, []dag.Variable{{Key: c.Key, Value: value, Description: c.Description}})
}

// setVariables sets all, and says when the environment hides one.
func (s *session) setVariables(ctx context.Context, variables []dag.Variable) error {
	st, err := s.store(ctx)
	if err != nil {
		return err
	}
	for _, v := range variables {
		if err := st.SetVariable(ctx, v); err != nil {
			return err
		}
		if err := s.audit(ctx, "variable.set", v.Key); err != nil {
			return err
		}
		if _, hidden := s.environment().Variable(v.Key); hidden {
			fmt.Fprintf(s.env.Stderr, "the environment has a variable %s too: steps see that one\n", v.Key)
		}
	}
	fmt.Fprintf(s.env.Stdout, "%s set\n", count(len(variables), "variable"))
	return nil
}

type variablesDeleteCmd struct {
	Key string `arg:"" help:"The variable's key."`
}

// Run removes a stored variable.
func (c variablesDeleteCmd) Run(ctx context.Context, s *session) error {
	st, err := s.store(ctx)
	if err != nil {
		return err
	}
	if err := st.DeleteVariable(ctx, c.Key); err != nil {
		if dag.CodeOf(err) == dag.ErrNotFound {
			return s.noVariable(ctx, c.Key)
		}
		return err
	}
	fmt.Fprintf(s.env.Stdout, "variable %s removed\n", c.Key)
	return s.audit(ctx, "variable.delete", c.Key)
}

type variablesImportCmd struct {
	importFlags
}

// Run makes or changes the variables of a file. A value is a text, or
// {"value": ..., "description": ...}; anything else is kept as JSON, as Airflow
// does.
func (c variablesImportCmd) Run(ctx context.Context, s *session) error {
	entries, err := c.read(s)
	if err != nil {
		return err
	}
	var variables []dag.Variable
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		v := dag.Variable{Key: key}
		var described struct {
			Value       json.RawMessage `json:"value"`
			Description string          `json:"description"`
		}
		raw := entries[key]
		if json.Unmarshal(raw, &described) == nil && described.Value != nil {
			raw, v.Description = described.Value, described.Description
		}
		if json.Unmarshal(raw, &v.Value) != nil {
			v.Value = string(raw)
		}
		variables = append(variables, v)
	}
	return s.setVariables(ctx, variables)
}

type variablesExportCmd struct {
	exportFlags
}

// Run writes the stored variables, values and all.
func (c variablesExportCmd) Run(ctx context.Context, s *session) error {
	st, err := s.store(ctx)
	if err != nil {
		return err
	}
	stored, err := st.Variables(ctx)
	if err != nil {
		return err
	}
	entries := make(map[string]any, len(stored))
	values := make(map[string]string, len(stored))
	for _, v := range stored {
		values[v.Key] = v.Value
		entries[v.Key] = v.Value
		if v.Description != "" {
			entries[v.Key] = map[string]string{"value": v.Value, "description": v.Description}
		}
	}
	return c.write(s, entries, func(key string) (string, error) { return envValue(key, values[key]) })
}
