package load

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/render"
)

// zones remembers time zones by name.
type zones map[string]*time.Location

var (
	// Letters and digits are those of every script, as in Airflow.
	taskID = regexp.MustCompile(`^[\p{L}\p{N}_.-]+$`)
)

const (
	idRule = "allowed: letters, digits, _, - and ., at most 250 bytes of them"
	maxID  = 250
)

// maxFileWork bounds what one file may ask for when every DAG takes over a
// large default block, in values; a file may always be four times as large as
// it is written.
const maxFileWork = 500_000

// build makes the DAGs of one file.
func (l *loader) build(src *source) {
	if src.root == nil {
		return
	}
	rep := src.rep
	work, found := 0, false
	for _, f := range src.root.fields {
		if !l.isDAG(f) {
			l.checkTopLevel(src, f)
			found = found || f.name != "default"
			continue
		}
		found = true
		if f.val.kind != mapNode {
			rep.err(f.val, f.name, codeNotADAG, "a DAG must stand under its id, not "+describe(f.val), "as in my_dag: {schedule: ..., tasks: ...}")
			continue
		}
		merged := l.layers(src, f.name, f.val)
		if merged == nil {
			continue
		}
		if work += merged.size; work > max(maxFileWork, 4*src.root.size) {
			rep.err(f.key, f.name, codeTooLarge, "with what its DAGs inherit the file is too large", "split the file")
			return
		}
		b := &builder{l: l, opts: l.opts, src: src, rep: rep, zones: l.zones, merged: merged, key: f.key}
		if d := b.build(f.name); d != nil {
			src.dags = append(src.dags, d)
		}
	}
	if !found && !rep.failed {
		rep.warn(src.root, "", codeEmptyFile, "the file defines no DAG", "")
	}
}

// builder makes one DAG of its merged mapping.
type builder struct {
	l     *loader
	opts  Options
	src   *source
	rep   *report
	zones zones

	merged   *node
	key      *node // the DAG's id in the file
	path     string
	d        *dag.DAG
	loc      *time.Location // of the DAG's own dates
	argsLoc  *time.Location // of the dates in default_args
	args     *node          // the merged default_args; nil for none
	policies map[string]queuePolicy

	tasks  []*taskDraft
	groups []*groupDraft
	byID   map[string]*taskDraft // bare and full ids
	byName map[string]*groupDraft
	// groupIDs has the full ids.
	groupIDs map[string]*groupDraft
	edges    int
	// tried are the templates of callbacks that were tried, with what was found.
	tried map[string]error
	// checked are the templates of tasks that the checker tried, with what was found.
	checker *render.Checker
	checked map[string]error
}

func (b *builder) build(id string) *dag.DAG {
	b.path = id
	b.d = &dag.DAG{ID: id, FileLoc: b.src.path, Line: b.key.line}
	if !taskID.MatchString(id) || len(id) > maxID {
		b.rep.err(b.key, id, codeBadID, quote(id)+" cannot be a DAG's id", idRule)
	}
	b.l.checkDAGKeys(b.rep, b.merged, id)
	b.args = b.merged.get("default_args")
	b.readTimezone()
	b.readTexts()
	b.readLimits()
	b.readDates()
	b.readSchedule()
	b.readParams()
	b.readMacros()
	b.policies = b.readPolicies(b.merged.get("policies"), join(id, "policies"))
	b.d.Circuits = b.readCircuits(b.merged.get("circuits"), join(id, "circuits"))
	b.d.Callbacks = b.dagCallbacks()
	b.readGroups()
	b.readTasks()
	b.readGroupExpands()
	b.link()
	b.finishDates()
	b.checkDAG()
	b.checkZones()
	if b.rep.failed {
		return nil
	}
	return b.d
}

// val finds a key of the DAG; nil when it is absent or null.
func (b *builder) val(key string) (*node, string) {
	n := b.merged.get(key)
	if n.null() {
		return nil, ""
	}
	return n, join(b.path, key)
}

// readTimezone settles three zones as dag-factory and Airflow do: that of the
// DAG's own dates is its timezone, that of dates in default_args the timezone
// beside them, each UTC when it is not named; and the zone of the schedule comes
// with the start date, from wherever that is taken. Without one it is the
// installation's.
func (b *builder) readTimezone() {
	b.loc, b.argsLoc = time.UTC, time.UTC
	own, ownLoc := b.zoneKey(b.merged.get("timezone"), join(b.path, "timezone"))
	args, argsLoc := b.zoneKey(b.args.get("timezone"), join(b.path, "default_args.timezone"))
	if ownLoc != nil {
		b.loc = ownLoc
	}
	if argsLoc != nil {
		b.argsLoc = argsLoc
	}
	name := b.opts.DefaultTimezone
	switch {
	case !b.merged.get("start_date").null():
		name = own
	case !b.args.get("start_date").null():
		name = args
	}
	b.d.Timezone = "UTC"
	if _, err := b.zone(name); err == nil && name != "" {
		b.d.Timezone = name
	}
}

// checkZones tells where a zone that the DAG names does not reach what one would
// think it rules.
func (b *builder) checkZones() {
	n, p := b.val("timezone")
	if n == nil || b.rep.failed {
		return
	}
	text, _ := b.val("schedule")
	if text == nil {
		text, _ = b.val("timetable")
	}
	if text != nil && text.kind == scalarNode && len(b.d.Schedule.Crons) > 0 && n.text != b.d.Timezone {
		hint := "add start_date beside timezone"
		if !b.args.get("start_date").null() {
			hint = "move start_date out of default_args, or put timezone into default_args as well"
		}
		b.rep.warn(n, p, codeDateZone, "the schedule runs in "+b.d.Timezone+", not in "+n.text+": its zone is that of the start_date", hint)
		return
	}
	for _, key := range []string{"start_date", "end_date"} {
		if d := b.args.get(key); !d.null() && b.args.get("timezone").null() && b.loc != time.UTC {
			b.rep.warn(d, join(join(b.path, "default_args"), key), codeDateZone, "dates in default_args are in UTC, not in "+n.text,
				"put timezone into default_args as well, or "+key+" under the DAG itself")
		}
	}
}

func (b *builder) zoneKey(n *node, path string) (string, *time.Location) {
	if n.null() {
		return "", nil
	}
	name, ok := b.rep.text(n, path)
	if !ok {
		return "", nil
	}
	loc, err := b.zone(name)
	if err != nil {
		b.rep.err(n, path, codeBadTimezone, err.Error(), "write a name such as Europe/Berlin or UTC")
		return "", nil
	}
	return name, loc
}

func (b *builder) readTexts() {
	for _, t := range []struct {
		key string
		to  *string
	}{
		{"dag_display_name", &b.d.DisplayName}, {"description", &b.d.Description}, {"doc_md", &b.d.DocMD},
	} {
		if n, p := b.val(t.key); n != nil {
			*t.to, _ = b.rep.text(n, p)
		}
	}
	if n, p := b.val("tags"); n != nil {
		b.d.Tags, _ = b.rep.texts(n, p)
	}
	if n := b.args.get("owner"); !n.null() {
		b.d.Owner, _ = b.rep.text(n, join(b.path, "default_args.owner"))
	}
}

func (b *builder) readLimits() {
	d := b.d
	d.MaxActiveRuns, d.MaxActiveTasks, d.Catchup = b.opts.MaxActiveRuns, b.opts.MaxActiveTasks, b.opts.CatchupByDefault
	for _, t := range []struct {
		key   string
		to    *int
		least int
	}{
		{"max_active_runs", &d.MaxActiveRuns, 1},
		{"max_active_tasks", &d.MaxActiveTasks, 1},
		{"concurrency", &d.MaxActiveTasks, 1}, // the old name, which wins
		{"max_consecutive_failed_dag_runs", &d.MaxConsecutiveFailedDagRuns, 0},
	} {
		if n, p := b.val(t.key); n != nil {
			if v, ok := b.rep.integer(n, p, t.least); ok {
				*t.to = v
			}
		}
	}
	for _, t := range []struct {
		key string
		to  *bool
	}{
		{"catchup", &d.Catchup}, {"fail_stop", &d.FailFast}, {"fail_fast", &d.FailFast},
		{"render_template_as_native_obj", &d.RenderTemplateAsNativeObj},
	} {
		if n, p := b.val(t.key); n != nil {
			*t.to, _ = b.rep.boolean(n, p)
		}
	}
	if n, p := b.val("is_paused_upon_creation"); n != nil {
		if v, ok := b.rep.boolean(n, p); ok {
			d.IsPausedUponCreation = &v
		}
	}
	if n, p := b.val("dagrun_timeout"); n != nil {
		d.DagrunTimeout, _ = b.rep.duration(n, p)
	}
}

// readDates reads the DAG's own dates; finishDates adds those of the tasks.
func (b *builder) readDates() {
	if n, p := b.val("start_date"); n != nil {
		b.d.StartDate, _ = b.date(n, p, b.loc)
	}
	if n, p := b.val("end_date"); n != nil {
		b.d.EndDate, _ = b.date(n, p, b.loc)
	}
}

// finishDates makes the DAG's dates what bounds its schedule: the earliest
// start of all tasks, and the latest end if every task has one. A task keeps a
// date of its own only where it is narrower than the DAG's.
func (b *builder) finishDates() {
	tasks := b.d.Tasks
	if b.d.StartDate == nil {
		for i := range tasks {
			if s := tasks[i].StartDate; s != nil && (b.d.StartDate == nil || s.Before(*b.d.StartDate)) {
				b.d.StartDate = s
			}
		}
	}
	if b.d.EndDate == nil && len(tasks) > 0 {
		var last *time.Time
		for i := range tasks {
			e := tasks[i].EndDate
			if e == nil {
				last = nil
				break
			}
			if last == nil || e.After(*last) {
				last = e
			}
		}
		b.d.EndDate = last
	}
	for i := range tasks {
		if s := tasks[i].StartDate; s != nil && b.d.StartDate != nil && !s.After(*b.d.StartDate) {
			tasks[i].StartDate = nil
		}
		if e := tasks[i].EndDate; e != nil && b.d.EndDate != nil && !e.Before(*b.d.EndDate) {
			tasks[i].EndDate = nil
		}
	}
	if s, e := b.d.StartDate, b.d.EndDate; s != nil && e != nil && e.Before(*s) {
		b.rep.warn(b.key, b.path, codeBadDate,
			fmt.Sprintf("end_date (%s) is before start_date (%s): the DAG never runs", e.Format(time.RFC3339), s.Format(time.RFC3339)), "")
	}
}

// checkDAG checks what concerns the DAG as a whole.
func (b *builder) checkDAG() {
	if b.d.FailFast {
		for _, t := range b.tasks {
			if t.task.TriggerRule != dag.AllSuccess && !t.task.IsTeardown {
				b.rep.err(t.at("trigger_rule"), t.sub("trigger_rule"), codeTriggerRule,
					"with fail_fast every task must have the trigger rule all_success, not "+string(t.task.TriggerRule), "")
			}
		}
	}
	if b.d.Catchup && b.d.StartDate == nil && b.d.Schedule.Kind != dag.ScheduleNone && b.d.Schedule.Kind != "" {
		b.rep.err(b.merged.keyOf("catchup"), join(b.path, "catchup"), codeMissingKey,
			"catchup needs a start_date: from when on are the missed runs to be made?", "add start_date, or catchup: false")
	}
}

// templated tells whether a text has a template in it.
func templated(s string) bool {
	return strings.Contains(s, "{{") || strings.Contains(s, "{%") || strings.Contains(s, "{#")
}
