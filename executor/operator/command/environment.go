package command

import (
	"encoding/json"
	"fmt"
	"sort"
	"strconv"
	"strings"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/operator"
)

// environment is what is added to a child's environment: the step's variables,
// and over them the attempt's.
func environment(t *operator.Task, own map[string]string) []string {
	set := map[string]string{}
	for k, v := range own {
		set[k] = v
	}
	for k, v := range attemptVariables(t) {
		set[k] = v
	}
	out := make([]string, 0, len(set))
	for k, v := range set {
		out = append(out, k+"="+v)
	}
	sort.Strings(out)
	return out
}

// attemptVariables tell a child where it runs: Airflow's names, and ours for
// what Airflow does not say.
func attemptVariables(t *operator.Task) map[string]string {
	vars := map[string]string{
		"AIRFLOW_CTX_DAG_ID":     t.TI.DagID,
		"AIRFLOW_CTX_TASK_ID":    t.TI.TaskID,
		"AIRFLOW_CTX_DAG_RUN_ID": t.TI.RunID,
		"AIRFLOW_CTX_TRY_NUMBER": strconv.Itoa(t.TI.TryNumber),
		"AIRFLOW_CTX_DAG_OWNER":  t.Def.Owner,
		"AIRLOCK_DAG_ID":         t.TI.DagID,
		"AIRLOCK_TASK_ID":        t.TI.TaskID,
		"AIRLOCK_RUN_ID":         t.TI.RunID,
		"AIRLOCK_MAP_INDEX":      strconv.Itoa(t.TI.MapIndex),
		"AIRLOCK_TRY_NUMBER":     strconv.Itoa(t.TI.TryNumber),
		"AIRLOCK_DAG_DIR":        t.Dir,
		"AIRLOCK_SCRATCH_DIR":    t.ScratchDir,
	}
	if t.IdempotencyKey != "" {
		vars["AIRLOCK_IDEMPOTENCY_KEY"] = t.IdempotencyKey
	}
	if d := t.Run.LogicalDate; d != nil {
		vars["AIRFLOW_CTX_LOGICAL_DATE"] = dag.PythonTime(*d, "T")
		vars["AIRFLOW_CTX_EXECUTION_DATE"] = dag.PythonTime(*d, "T")
		vars["AIRLOCK_LOGICAL_DATE"] = dag.PythonTime(*d, "T")
	}
	if d := t.Run.DataIntervalStart; d != nil {
		vars["AIRLOCK_DATA_INTERVAL_START"] = dag.PythonTime(*d, "T")
	}
	if d := t.Run.DataIntervalEnd; d != nil {
		vars["AIRLOCK_DATA_INTERVAL_END"] = dag.PythonTime(*d, "T")
	}
	for k, v := range vars {
		vars[k] = strings.ReplaceAll(v, "\x00", "")
	}
	return vars
}

// Variables reads a step's `env`: names that an environment can hold, and
// values as text. Lists and mappings become JSON.
func Variables(v any) (map[string]string, error) {
	if v == nil {
		return nil, nil
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("env is %T; it must be a mapping of names to values", v)
	}
	out := make(map[string]string, len(m))
	for k, raw := range m {
		if k == "" || strings.ContainsAny(k, "=\x00") {
			return nil, fmt.Errorf("env has the name %q, which an environment cannot hold", k)
		}
		text, err := Text(raw)
		if err != nil {
			return nil, fmt.Errorf("env %s: %w", k, err)
		}
		if strings.ContainsRune(text, 0) {
			return nil, fmt.Errorf("the value of env %s has a NUL byte, which an environment cannot hold", k)
		}
		out[k] = text
	}
	return out, nil
}

// Text is a value of an argument as text: numbers and booleans as JSON writes
// them, nothing for null.
func Text(v any) (string, error) {
	switch x := v.(type) {
	case nil:
		return "", nil
	case string:
		return x, nil
	}
	b, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	return string(b), nil
}
