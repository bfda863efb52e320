package load

import "strings"

// keyKind says what the loader does with a key.
type keyKind uint8

const (
	noKey   keyKind = iota
	used            // acted on
	ignored         // known to Airflow, not acted on: a warning
	refused         // an error, with a word on what to write
)

type keyInfo struct {
	kind keyKind
	hint string
}

// keyTable holds the keys of one kind of mapping.
type keyTable map[string]keyInfo

func (t keyTable) add(kind keyKind, hint string, names string) {
	for _, n := range strings.Fields(names) {
		t[n] = keyInfo{kind, hint}
	}
}

// names lists the keys that are acted on: the candidates for a misspelt one.
func (t keyTable) names() []string {
	var out []string
	for n, k := range t {
		if k.kind == used {
			out = append(out, n)
		}
	}
	return out
}

// keyTables are the keys of DAGs, default_args, tasks, groups, policies and circuits.
type keyTables struct {
	dag, defaultArgs, task, group, policy, circuit keyTable
}

const callbackKinds = "on_execute_callback on_success_callback on_failure_callback on_retry_callback on_skipped_callback"

// withFileForms adds the ..._name and ..._file forms of callback keys.
func withFileForms(names string) string {
	for _, n := range strings.Fields(names) {
		names += " " + n + "_name " + n + "_file"
	}
	return names
}

// commonTaskKeys are those that a task and default_args share.
const commonTaskKeys = `owner retries retry_delay retry_exponential_backoff max_retry_delay retry_on fail_on
	max_crashes max_throttle_time execution_timeout depends_on_past wait_for_downstream
	ignore_first_depends_on_past start_date end_date queue pool pool_slots priority_weight weight_rule
	trigger_rule max_active_tis_per_dag max_active_tis_per_dagrun task_concurrency do_xcom_push
	multiple_outputs map_index_template params doc_md task_display_name circuit is_setup is_teardown
	on_failure_fail_dagrun email email_on_failure email_on_retry`

func newKeyTables() keyTables {
	t := keyTables{dag: keyTable{}, defaultArgs: keyTable{}, task: keyTable{}, group: keyTable{}, policy: keyTable{}, circuit: keyTable{}}
	t.dag.add(used, "", `dag_display_name description doc_md tags schedule timetable timezone start_date end_date
		catchup max_active_runs max_active_tasks concurrency max_consecutive_failed_dag_runs dagrun_timeout
		fail_fast fail_stop is_paused_upon_creation render_template_as_native_obj params user_defined_macros default_args tasks
		task_groups policies circuits vars `+withFileForms("on_success_callback on_failure_callback"))
	t.dag.add(ignored, "", `default_view orientation access_control owner_links template_searchpath
		template_undefined jinja_environment_kwargs auto_register allowed_run_types disable_bundle_versioning
		rerun_with_latest_version full_filepath`)
	t.dag.add(ignored, "Airlock runs no Python, and dag-factory does not pass it on: a template that uses one of its names fails", "user_defined_filters")
	t.dag.add(ignored, "use dagrun_timeout with on_failure_callback", "deadline "+withFileForms("sla_miss_callback"))
	t.dag.add(ignored, "write the text under doc_md", `doc_md_file_path doc_md_python_callable_name
		doc_md_python_callable_file doc_md_python_arguments`)
	t.dag.add(ignored, "it belongs to a task or to default_args", withFileForms("on_execute_callback on_retry_callback on_skipped_callback"))
	t.dag.add(refused, "write schedule", "schedule_interval")
	t.dag.add(refused, "write dagrun_timeout", "dagrun_timeout_sec")
	t.dag.add(refused, "the DAG's id is the key that the DAG stands under", "dag_id")

	for _, table := range []keyTable{t.task, t.defaultArgs} {
		table.add(used, "", commonTaskKeys+" "+withFileForms(callbackKinds))
		table.add(ignored, "", `executor executor_config resources run_as_user doc doc_json doc_yaml doc_rst
			wait_for_past_depends_before_skipping pre_execute post_execute logger_name allow_nested_operators
			retry_policy depends_on_previous_tasks overwrite_rtif_after_execution ui_color ui_fgcolor
			render_template_as_native_obj`)
		table.add(ignored, "use execution_timeout", "sla")
		table.add(ignored, "Airlock has no assets", "inlets outlets")
		table.add(refused, "write retry_delay", "retry_delay_sec")
		table.add(refused, "write execution_timeout", "execution_timeout_sec")
	}
	t.task.add(used, "", "task_id operator decorator dependencies task_group_name expand expand_kwargs partial variables_as_arguments")
	t.task.add(refused, "write dependencies", "depends_on needs upstream upstream_task_ids")
	t.task.add(refused, "write operator", "type")
	t.task.add(refused, "write task_group_name", "task_group group group_name")
	t.defaultArgs.add(used, "", "timezone")

	t.group.add(used, "", "group_name tooltip dependencies parent_group_name default_args prefix_group_id expand expand_kwargs partial")
	t.group.add(ignored, "", "ui_color ui_fgcolor add_suffix_on_collision group_display_name")

	t.policy.add(used, "", "max_retries backoff_base backoff_max min_delay jitter on max_crashes max_throttle_time")
	t.circuit.add(used, "", "failure_rate minimum_calls window open_for probes alert")
	return t
}

// reserved tells whether a top-level key of a file is not a DAG's id.
func reserved(name string) bool { return name == "default" || name == "task_groups" }

// isDAG tells whether a top-level key of a file is a DAG's id: neither
// reserved nor a key that belongs inside a DAG. A DAG may have the name of such
// a key, if it has tasks.
func (l *loader) isDAG(f field) bool {
	if reserved(f.name) {
		return false
	}
	return l.keys.dag[f.name].kind == noKey || f.val.get("tasks") != nil && f.val.get("operator") == nil
}

// checkKeys reports the keys of a mapping that are not acted on. known decides
// about keys that the table does not have; candidates are what a misspelt key
// may mean besides the table's.
func (r *report) checkKeys(n *node, path, what string, table keyTable, known func(f field) bool, candidates []string) {
	if n == nil || n.kind != mapNode {
		return
	}
	for _, f := range n.fields {
		p := join(path, f.name)
		if known != nil && known(f) {
			continue
		}
		switch info := table[f.name]; info.kind {
		case used:
		case ignored:
			r.warn(f.key, p, codeIgnoredKey, "Airlock does not act on "+f.name, info.hint)
		case refused:
			r.err(f.key, p, codeOldKey, f.name+" is not a key of "+what, info.hint)
		default:
			r.err(f.key, p, codeUnknownKey, quote(f.name)+" is not a key of "+what, r.unknownKeyHint(f.name, table, candidates))
		}
	}
}

func (r *report) unknownKeyHint(name string, table keyTable, candidates []string) string {
	if strings.HasPrefix(name, "__") {
		return "__type__ and the like stand where a value stands"
	}
	return r.meant(name, func() []string { return append(table.names(), candidates...) })
}
