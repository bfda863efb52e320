package load

import (
	"slices"
	"time"

	"github.com/airlock-dag/airlock/dag"
)

// taskDraft is a task while its DAG is built.
type taskDraft struct {
	b     *builder
	name  string // as written
	key   *node
	body  *node
	path  string
	group *groupDraft
	order int // place in the file
	spec  *dag.OperatorSpec
	task  dag.Task
	deps  []dep
	up    map[*taskDraft]bool
	// badArgs is set when a key of the operator could not be read: asking the
	// operator would only repeat it.
	badArgs bool
}

// level says where a task's value was written.
type level uint8

const (
	absent level = iota
	own          // on the task, or in its groups' default_args
	lower        // in the DAG's default_args and what those inherit
)

// find looks a key up: on the task, in the default_args of its groups from the
// inside out, and in those of the DAG. A null hides what is below it.
func (t *taskDraft) find(key string) (*node, string, level) {
	if n := t.body.get(key); n != nil {
		return n, join(t.path, key), own
	}
	for g := t.group; g != nil; g = g.parent {
		if n := g.args.get(key); n != nil {
			return n, join(join(g.path, "default_args"), key), own
		}
	}
	if n := t.b.args.get(key); n != nil {
		return n, join(join(t.b.path, "default_args"), key), lower
	}
	return nil, "", absent
}

// val is find without nulls.
func (t *taskDraft) val(key string) (*node, string) {
	n, p, _ := t.find(key)
	if n.null() {
		return nil, ""
	}
	return n, p
}

// at is the place of a key of the task, or of the task itself.
func (t *taskDraft) at(key string) *node {
	if n, _, _ := t.find(key); n != nil {
		return n
	}
	return t.key
}

func (t *taskDraft) sub(key string) string { return join(t.path, key) }

func (b *builder) readTasks() {
	b.byID = map[string]*taskDraft{}
	n := b.merged.get("tasks")
	path := join(b.path, "tasks")
	switch {
	case n.null() || n.kind == mapNode && len(n.fields)+len(n.items) == 0:
		b.rep.err(b.key, b.path, codeNoTasks, "the DAG has no tasks", "add tasks:")
		return
	case n.kind != mapNode:
		b.rep.err(n, path, codeWrongType, "tasks must be a mapping or a list, not "+describe(n), "")
		return
	}
	for i, f := range n.fields {
		p := join(path, f.name)
		if f.val.kind != mapNode {
			b.rep.err(f.val, p, codeWrongType, "a task must be a mapping, not "+describe(f.val), "as in "+f.name+": {operator: bash, bash_command: ...}")
			continue
		}
		t := &taskDraft{b: b, name: f.name, key: f.key, body: f.val, path: p, order: i, up: map[*taskDraft]bool{}}
		b.tasks = append(b.tasks, t)
		b.nameTask(t)
	}
	for _, t := range b.tasks {
		b.readTask(t)
	}
}

// nameTask settles a task's group and id.
func (b *builder) nameTask(t *taskDraft) {
	if v := t.body.get("task_id"); !v.null() && v.text != t.name {
		b.rep.err(v, t.sub("task_id"), codeBadValue, "task_id "+quote(v.text)+" is not the key that the task stands under", "take task_id away")
	}
	id := t.name
	if v := t.body.get("task_group_name"); !v.null() {
		name, ok := b.rep.text(v, t.sub("task_group_name"))
		g := b.byName[name]
		if ok && g == nil {
			b.rep.err(v, t.sub("task_group_name"), codeUnknownGroup, "there is no task group "+quote(name), b.rep.didYouMeanOf(name, b.groupNames))
		}
		if g != nil {
			t.group = g
			g.tasks = append(g.tasks, t)
			t.task.GroupID = g.id
			id = g.childID(b, t.name)
		}
	}
	switch {
	case !taskID.MatchString(t.name) || len(t.name) > maxID:
		b.rep.err(t.key, t.path, codeBadID, quote(t.name)+" cannot be a task's id", idRule)
	case len(id) > maxID:
		b.rep.err(t.key, t.path, codeBadID, "with the names of its groups the task's id has "+count(len(id))+" bytes; at most "+count(maxID)+" are allowed",
			"shorten the groups' names, or set prefix_group_id: false")
	}
	for _, g := range []*groupDraft{b.byName[t.name], b.groupIDs[id]} {
		if g != nil {
			b.rep.err(t.key, t.path, codeDuplicateID, quote(t.name)+" is the name of a task and, on "+g.key.place(t.key.file)+", of a group", "rename one of the two")
		}
	}
	if first := b.byID[id]; first != nil && first != t {
		b.rep.err(t.key, t.path, codeDuplicateID, "two tasks have the id "+quote(id)+"; the other one stands on "+first.key.place(t.key.file), "rename one of the two")
	}
	b.byID[id] = t
	if _, taken := b.byID[t.name]; !taken {
		b.byID[t.name] = t
	}
	t.task.ID = id
	t.task.Line = t.key.line
}

func (b *builder) readTask(t *taskDraft) {
	t.deps = b.readDeps(t.body, t.path)
	b.readOperator(t)
	b.taskKeysOfPartial(t)
	b.checkTaskKeys(t)
	b.readCommon(t)
	b.readRetry(t)
	t.task.Callbacks = b.taskCallbacks(t)
	b.readArgs(t)
	b.readExpand(t)
	b.checkArgs(t)
}

// readOperator finds the task's operator.
func (b *builder) readOperator(t *taskDraft) {
	if v := t.body.get("decorator"); !v.null() {
		b.rep.err(t.body.keyOf("decorator"), t.sub("decorator"), codeDecorator,
			"decorator tasks are Python functions that run while the file is read, which Airlock does not do",
			"write operator: python with python_callable")
		return
	}
	v := t.body.get("operator")
	if v.null() {
		b.rep.err(t.key, t.path, codeMissingKey, "operator is missing", "as in operator: bash")
		return
	}
	name, ok := b.rep.text(v, t.sub("operator"))
	if !ok {
		return
	}
	t.task.OperatorText = name
	if spec := b.l.ops.specs[name]; spec != nil {
		t.spec, t.task.Operator = spec, spec.Name
		return
	}
	msg, hint := b.l.ops.unknownOperator(name)
	if b.opts.AllowUnknownOperators {
		b.rep.warn(v, t.sub("operator"), codeUnknownOp, msg, hint)
		t.task.Operator = name
		return
	}
	b.rep.err(v, t.sub("operator"), codeUnknownOp, msg, hint)
}

// checkTaskKeys reports keys of a task that nobody reads. Without an operator
// only Airflow's own keys can be told from the operator's.
func (b *builder) checkTaskKeys(t *taskDraft) {
	if t.spec == nil {
		return
	}
	b.rep.checkKeys(t.body, t.path, "a task with the operator "+t.spec.Name, b.l.keys.task, func(f field) bool {
		if specField(t.spec, f.name) != nil {
			return true
		}
		if slices.Contains(t.spec.Ignored, f.name) {
			b.rep.warn(f.key, t.sub(f.name), codeIgnoredKey, "Airlock does not act on "+f.name+" of "+t.spec.Name, "")
			return true
		}
		if b.l.keys.task[f.name].kind == noKey && f.name == "timeout" {
			b.rep.err(f.key, t.sub(f.name), codeUnknownKey, `"timeout" is not a key of a task with the operator `+t.spec.Name, "did you mean execution_timeout?")
			return true
		}
		return false
	}, fieldNames(t.spec.Fields))
}

// readCommon reads what every task has.
func (b *builder) readCommon(t *taskDraft) {
	x := &t.task
	x.Queue, x.Pool, x.PoolSlots, x.PriorityWeight, x.WeightRule = dag.DefaultQueue, dag.DefaultPool, 1, 1, "downstream"
	x.TriggerRule, x.DoXComPush, x.IgnoreFirstDependsOnPast = dag.AllSuccess, true, true
	for _, f := range []struct {
		key string
		to  *string
	}{
		{"queue", &x.Queue}, {"pool", &x.Pool}, {"owner", &x.Owner}, {"doc_md", &x.DocMD}, {"task_display_name", &x.DisplayName},
		{"map_index_template", &x.MapIndexTemplate}, {"circuit", &x.Circuit},
	} {
		if n, p := t.val(f.key); n != nil {
			if s, ok := b.rep.text(n, p); ok && s != "" {
				*f.to = s
			}
		}
	}
	b.checkCircuit(t)
	for _, f := range []struct {
		key   string
		to    *int
		least int
	}{
		{"pool_slots", &x.PoolSlots, 1}, {"priority_weight", &x.PriorityWeight, -1 << 31},
		{"task_concurrency", &x.MaxActiveTisPerDag, 1}, {"max_active_tis_per_dag", &x.MaxActiveTisPerDag, 1},
		{"max_active_tis_per_dagrun", &x.MaxActiveTisPerDagrun, 1},
	} {
		if n, p := t.val(f.key); n != nil {
			if v, ok := b.rep.integer(n, p, f.least); ok {
				*f.to = v
			}
		}
	}
	for _, f := range []struct {
		key string
		to  *bool
	}{
		{"depends_on_past", &x.DependsOnPast}, {"wait_for_downstream", &x.WaitForDownstream},
		{"ignore_first_depends_on_past", &x.IgnoreFirstDependsOnPast}, {"do_xcom_push", &x.DoXComPush},
		{"multiple_outputs", &x.MultipleOutputs}, {"is_setup", &x.IsSetup}, {"is_teardown", &x.IsTeardown},
		{"on_failure_fail_dagrun", &x.FailDagrunOnFail},
	} {
		if n, p := t.val(f.key); n != nil {
			if v, ok := b.rep.boolean(n, p); ok {
				*f.to = v
			}
		}
	}
	x.DependsOnPast = x.DependsOnPast || x.WaitForDownstream
	if n, p := t.val("weight_rule"); n != nil {
		if s, ok := b.rep.oneOf(n, p, []string{"downstream", "upstream", "absolute"}); ok {
			x.WeightRule = s
		}
	}
	if n, p := t.val("execution_timeout"); n != nil {
		x.ExecutionTimeout, _ = b.rep.duration(n, p)
	}
	b.readTriggerRule(t)
	b.readTaskDates(t)
	if n, p := t.val("params"); n != nil {
		x.Params = b.taskParams(n, p)
	}
}

func (b *builder) readTriggerRule(t *taskDraft) {
	x := &t.task
	n, p := t.val("trigger_rule")
	if n != nil {
		names := make([]string, 0, len(dag.TriggerRules()))
		for _, r := range dag.TriggerRules() {
			names = append(names, string(r))
		}
		switch n.text {
		case "dummy":
			b.rep.err(n, p, codeTriggerRule, `the trigger rule "dummy" is gone`, "write always")
		case "none_failed_or_skipped":
			b.rep.err(n, p, codeTriggerRule, `the trigger rule "none_failed_or_skipped" is gone`, "write none_failed_min_one_success")
		default:
			if s, ok := b.rep.oneOf(n, p, names); ok {
				x.TriggerRule = dag.TriggerRule(s)
			}
		}
	}
	switch {
	case x.IsSetup && x.IsTeardown:
		b.rep.err(t.at("is_teardown"), t.path, codeBadValue, "a task cannot be a setup and a teardown", "")
	case x.IsTeardown:
		if _, own := t.body.fieldNode("trigger_rule"); own && x.TriggerRule != dag.AllDoneSetupSuccess {
			b.rep.err(n, p, codeTriggerRule, "a teardown's trigger rule is all_done_setup_success", "take trigger_rule away")
		}
		x.TriggerRule = dag.AllDoneSetupSuccess
	}
}

// fieldNode finds a key that is written, null or not.
func (n *node) fieldNode(name string) (*node, bool) {
	v := n.get(name)
	return v, v != nil
}

// readTaskDates reads the dates that the task or what it inherits sets. Those
// of the DAG's default_args are in the zone that stands beside them, else UTC.
func (b *builder) readTaskDates(t *taskDraft) {
	for _, d := range []struct {
		key string
		to  **time.Time
	}{{"start_date", &t.task.StartDate}, {"end_date", &t.task.EndDate}} {
		n, p, lv := t.find(d.key)
		switch {
		case n.null():
		case lv == lower:
			*d.to, _ = b.date(n, p, b.argsLoc)
		default:
			*d.to, _ = b.taskDate(n, p)
		}
	}
}
