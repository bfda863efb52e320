package python

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/render"
	"github.com/airlock-dag/airlock/executor/operator"
)

// contextOf is what a callable can ask for by the names of its parameters, in
// Airflow's names. Dates become datetime objects in the runner.
func contextOf(t *operator.Task) (map[string]any, error) {
	params, err := render.InstanceParams(t.DAG, t.Def, t.Run.Conf, t.TI.Payload)
	if err != nil {
		return nil, err
	}
	c := map[string]any{
		"dag_id": t.TI.DagID, "task_id": t.TI.TaskID, "run_id": t.TI.RunID,
		"map_index": t.TI.MapIndex, "try_number": t.TI.TryNumber, "params": params,
	}
	if d := t.Run.LogicalDate; d != nil {
		utc := d.UTC()
		ts := dag.PythonTime(utc, "T")
		c["logical_date"] = ts
		c["ds"] = utc.Format("2006-01-02")
		c["ds_nodash"] = utc.Format("20060102")
		c["ts"] = ts
		c["ts_nodash"] = utc.Format("20060102T150405")
		c["ts_nodash_with_tz"] = strings.NewReplacer("-", "", ":", "").Replace(ts)
		c["task_instance_key_str"] = t.TI.DagID + "__" + t.TI.TaskID + "__" + utc.Format("20060102")
	}
	if d := t.Run.DataIntervalStart; d != nil {
		c["data_interval_start"] = dag.PythonTime(*d, "T")
	}
	if d := t.Run.DataIntervalEnd; d != nil {
		c["data_interval_end"] = dag.PythonTime(*d, "T")
	}
	return c, nil
}

// conf is the run's conf, an empty object when there is none.
func conf(t *operator.Task) any {
	var v any
	d := json.NewDecoder(bytes.NewReader(t.Run.Conf))
	d.UseNumber()
	if d.Decode(&v) != nil || v == nil {
		return map[string]any{}
	}
	return v
}
