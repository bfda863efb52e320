package config

import (
	"context"
	"slices"
	"strings"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor"
)

// Prefixes of variables in the environment; Airlock's own win over Airflow's.
var (
	connectionPrefixes = []string{"AIRLOCK_CONN_", "AIRFLOW_CONN_"}
	variablePrefixes   = []string{"AIRLOCK_VAR_", "AIRFLOW_VAR_"}
)

// Environment is what the environment says about connections and variables.
// As in Airflow it wins over the state database and is never stored.
type Environment struct {
	env map[string]string
}

// NewEnvironment reads "NAME=value" lines: os.Environ() in main.
func NewEnvironment(environ []string) Environment {
	return Environment{env: environMap(environ)}
}

// lookup finds a name under its prefixes, in upper case as Airflow does.
func (e Environment) lookup(prefixes []string, name string) (string, bool) {
	for _, prefix := range prefixes {
		if text, ok := e.env[prefix+strings.ToUpper(name)]; ok {
			return text, true
		}
	}
	return "", false
}

// names lists what stands under the prefixes, in lower case, sorted.
func (e Environment) names(prefixes []string) []string {
	var names []string
	for variable := range e.env {
		for _, prefix := range prefixes {
			if name, ok := strings.CutPrefix(variable, prefix); ok && name != "" {
				names = append(names, strings.ToLower(name))
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Connection finds a connection of the environment; false when there is none.
func (e Environment) Connection(id string) (dag.Connection, bool, error) {
	text, ok := e.lookup(connectionPrefixes, id)
	if !ok {
		return dag.Connection{}, false, nil
	}
	c, err := ParseConnection(id, text)
	return c, true, err
}

// ConnectionIDs lists the environment's connections, in lower case, sorted.
func (e Environment) ConnectionIDs() []string { return e.names(connectionPrefixes) }

// Variable finds a variable of the environment; false when there is none.
func (e Environment) Variable(key string) (dag.Variable, bool) {
	value, ok := e.lookup(variablePrefixes, key)
	return dag.Variable{Key: key, Value: value}, ok
}

// VariableKeys lists the environment's variables, in lower case, sorted.
func (e Environment) VariableKeys() []string { return e.names(variablePrefixes) }

// Over gives the settings that steps see: the environment's, then the store's.
func (e Environment) Over(store executor.SettingsStore) executor.SettingsStore {
	return overlay{environment: e, store: store}
}

type overlay struct {
	environment Environment
	store       executor.SettingsStore
}

// Connection implements executor.SettingsStore.
func (o overlay) Connection(ctx context.Context, id string) (dag.Connection, error) {
	if c, ok, err := o.environment.Connection(id); ok {
		return c, err
	}
	return o.store.Connection(ctx, id)
}

// Variables implements executor.SettingsStore. A variable of the environment is
// listed under its lower-case and its upper-case key, because its own spelling
// is not known there.
func (o overlay) Variables(ctx context.Context) ([]dag.Variable, error) {
	stored, err := o.store.Variables(ctx)
	if err != nil {
		return nil, err
	}
	all := make([]dag.Variable, 0, len(stored))
	taken := map[string]bool{}
	for _, v := range stored {
		if own, ok := o.environment.Variable(v.Key); ok {
			v.Value = own.Value
		}
		all = append(all, v)
		taken[v.Key] = true
	}
	for _, key := range o.environment.VariableKeys() {
		for _, spelling := range []string{key, strings.ToUpper(key)} {
			if !taken[spelling] {
				v, _ := o.environment.Variable(spelling)
				all = append(all, v)
				taken[spelling] = true
			}
		}
	}
	return all, nil
}
