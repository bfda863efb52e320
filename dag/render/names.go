package render

import (
	"fmt"
	"strings"
	"time"

	"github.com/airlock-dag/airlock/dag"
)

// context makes the names that templates see.
func (r *Renderer) context() map[string]any {
	in := r.in
	names := map[string]any{
		"none":   nil,
		"params": mapping(in.Params),
		"var":    r.variables(),
		"conn":   r.connections(),
		"macros": r.macros(),
		// Names of Airflow with nothing behind them here: assets are not scheduled on.
		"inlets": []any{}, "outlets": []any{}, "triggering_asset_events": map[string]any{},
		"test_mode": in.Run != nil && in.Run.TriggeredBy == "test",
	}
	if in.DAG != nil {
		for name, v := range in.DAG.Macros {
			if _, taken := names[name]; !taken { // Airflow's own names win
				names[name] = normal(v)
			}
		}
		names["dag"] = r.dagObject(in.DAG)
	}
	if in.Task != nil {
		names["task"] = r.taskObject(in.Task)
	}
	if in.TI != nil {
		ti := r.instanceObject(in.TI)
		names["ti"], names["task_instance"] = ti, ti
		names["map_index"] = in.TI.MapIndex
		names["try_number"] = in.TI.TryNumber
	}
	if in.Run != nil {
		names["dag_run"] = r.runObject(in.Run)
		names["run_id"] = in.Run.RunID
		r.dates(names, in.Run)
	}
	if key := r.instanceKey(); key != "" {
		names["task_instance_key_str"] = key
	}
	for k, v := range in.Extra {
		names[k] = normal(v)
	}
	return names
}

func mapping(m map[string]any) map[string]any {
	if m == nil {
		return map[string]any{}
	}
	return normal(m).(map[string]any)
}

// dates adds the names that need a logical date.
func (r *Renderer) dates(names map[string]any, run *dag.Run) {
	if run.LogicalDate == nil {
		return
	}
	at := run.LogicalDate.UTC()
	names["logical_date"] = instant(at)
	for name, f := range dateTexts() {
		names[name] = f(at)
	}
	for name, t := range map[string]*time.Time{
		"data_interval_start": run.DataIntervalStart, "data_interval_end": run.DataIntervalEnd,
	} {
		if t != nil {
			names[name] = instant(*t)
		}
	}
}

// dateTexts are ds, ts and their kin: names and filters alike.
func dateTexts() map[string]func(time.Time) string {
	return map[string]func(time.Time) string{
		"ds":        func(t time.Time) string { return t.Format("2006-01-02") },
		"ds_nodash": func(t time.Time) string { return t.Format("20060102") },
		"ts":        func(t time.Time) string { return (&moment{t, aware}).iso("T") },
		"ts_nodash": func(t time.Time) string { return t.Format("20060102T150405") },
		"ts_nodash_with_tz": func(t time.Time) string {
			return strings.NewReplacer("-", "", ":", "").Replace((&moment{t, aware}).iso("T"))
		},
	}
}

// previousNames are the names that tell of the last successful run; they are
// None without such a run.
func previousNames() map[string]func(*dag.Run) *time.Time {
	return map[string]func(*dag.Run) *time.Time{
		"prev_data_interval_start_success": func(p *dag.Run) *time.Time { return p.DataIntervalStart },
		"prev_data_interval_end_success":   func(p *dag.Run) *time.Time { return p.DataIntervalEnd },
		"prev_start_date_success":          func(p *dag.Run) *time.Time { return p.StartDate },
		"prev_end_date_success":            func(p *dag.Run) *time.Time { return p.EndDate },
	}
}

// addPrevious reads the last successful run for a template that names it.
func (r *Renderer) addPrevious(source string) error {
	if r.in.PreviousSuccess == nil || !strings.Contains(source, "prev_") {
		return nil
	}
	run, err := r.prev()
	if err != nil {
		return fmt.Errorf("read the previous successful run: %w", err)
	}
	for name, field := range previousNames() {
		if _, given := r.in.Extra[name]; given {
			continue
		}
		var v any
		if run != nil {
			v = optional(field(run))
		}
		r.env.Context.Set(name, v)
	}
	return nil
}

func (r *Renderer) instanceKey() string {
	if r.in.TI == nil || r.in.Run == nil {
		return ""
	}
	tail := r.in.Run.RunID
	if d := r.in.Run.LogicalDate; d != nil {
		tail = d.UTC().Format("20060102")
	}
	return r.in.TI.DagID + "__" + r.in.TI.TaskID + "__" + tail
}

func (r *Renderer) object(kind string, m map[string]any, text string) *object {
	o := &object{kind: kind, attr: attrs(m), fail: r.keep}
	if text != "" {
		o.text = func() string { return text }
	}
	return o
}

// keep holds on to an error's words: the engine passes on its text only.
func (r *Renderer) keep(err error) error { return r.budget.fail(err) }

func (r *Renderer) dagObject(d *dag.DAG) *object {
	tags := make([]any, len(d.Tags))
	for i := range d.Tags {
		tags[i] = d.Tags[i]
	}
	name := d.DisplayName
	if name == "" {
		name = d.ID
	}
	return r.object("dag", map[string]any{
		"dag_id": d.ID, "dag_display_name": name, "description": d.Description, "doc_md": d.DocMD, "fileloc": d.FileLoc,
		"tags": tags, "owner": d.Owner, "timezone": d.Timezone, "params": mapping(d.Params), "catchup": d.Catchup,
		"max_active_runs": d.MaxActiveRuns, "max_active_tasks": d.MaxActiveTasks,
		"start_date": optional(d.StartDate), "end_date": optional(d.EndDate),
		"schedule": d.Schedule.Text, "timetable_summary": d.Schedule.Text,
	}, "<DAG: "+d.ID+">")
}

func (r *Renderer) taskObject(t *dag.Task) *object {
	name := t.DisplayName
	if name == "" {
		name = t.ID
	}
	_, label, grouped := strings.Cut(t.ID, t.GroupID+".")
	if t.GroupID == "" || !grouped {
		label = t.ID
	}
	upstream := make([]any, len(t.Upstream))
	for i := range t.Upstream {
		upstream[i] = t.Upstream[i]
	}
	owner, dagID := "", ""
	if r.in.DAG != nil {
		owner, dagID = r.in.DAG.Owner, r.in.DAG.ID
	}
	return r.object("task", map[string]any{
		"task_id": t.ID, "task_display_name": name, "label": label, "dag_id": dagID, "owner": owner,
		"task_type": t.Operator, "operator_name": t.Operator, "queue": t.Queue, "pool": t.Pool, "pool_slots": t.PoolSlots,
		"priority_weight": t.PriorityWeight, "trigger_rule": string(t.TriggerRule), "retries": t.Retry.Retries,
		"retry_delay": &span{t.Retry.Delay}, "upstream_task_ids": upstream,
		"execution_timeout": optionalSpan(t.ExecutionTimeout),
	}, "<Task("+t.Operator+"): "+t.ID+">")
}

func optional(t *time.Time) any {
	if t == nil {
		return nil
	}
	return instant(*t)
}

func optionalSpan(d time.Duration) any {
	if d == 0 {
		return nil
	}
	return &span{d}
}

func (r *Renderer) instanceObject(ti *dag.TaskInstance) *object {
	m := map[string]any{
		"dag_id": ti.DagID, "run_id": ti.RunID, "task_id": ti.TaskID, "map_index": ti.MapIndex,
		"try_number": ti.TryNumber, "max_tries": ti.MaxTries, "state": string(ti.State), "operator": ti.Operator,
		"queue": ti.Queue, "pool": ti.Pool, "hostname": ti.Hostname, "priority_weight": ti.PriorityWeight,
		"start_date": optional(ti.StartDate), "end_date": optional(ti.EndDate), "queued_dttm": optional(ti.QueuedAt),
		"key":       ti.TaskInstanceKey.String(),
		"xcom_pull": r.xcomPull,
	}
	if r.in.Task != nil {
		m["task"] = r.taskObject(r.in.Task)
	}
	if r.in.Run != nil {
		m["logical_date"] = optional(r.in.Run.LogicalDate)
		m["dag_run"] = r.runObject(r.in.Run)
	}
	return r.object("task_instance", m, "<TaskInstance: "+ti.TaskInstanceKey.String()+" ["+string(ti.State)+"]>")
}

func (r *Renderer) runObject(run *dag.Run) *object {
	var conf any = map[string]any{}
	if len(run.Conf) > 0 {
		if c, err := decode(run.Conf); err == nil && c != nil {
			conf = c
		}
	}
	return r.object("dag_run", map[string]any{
		"dag_id": run.DagID, "run_id": run.RunID, "run_type": string(run.Type), "state": string(run.State), "conf": conf,
		"logical_date": optional(run.LogicalDate), "data_interval_start": optional(run.DataIntervalStart),
		"data_interval_end": optional(run.DataIntervalEnd), "run_after": instant(run.RunAfter),
		"queued_at": optional(run.QueuedAt), "start_date": optional(run.StartDate), "end_date": optional(run.EndDate),
		"external_trigger": run.Type == dag.RunManual, "note": run.Note, "triggered_by": run.TriggeredBy,
		"clear_number": run.ClearNumber,
	}, "<DagRun "+run.DagID+" @ "+run.RunID+">")
}
