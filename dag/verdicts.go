package dag

// verdicts gives the trigger rule's answer for the instances of a task, by map
// index, with the condition that setups above it succeeded. Only in a mapped
// group does it depend on the index.
func (e *evaluation) verdicts(task int) func(mapIndex int) (verdict, string) {
	if len(e.g.up[task]) == 0 || e.g.rules[task] == Always {
		return func(int) (verdict, string) { return verdictRun, "nothing to wait for" }
	}
	outer := e.view(task)
	inner := &e.g.inner[task]
	if len(inner.up)+len(inner.scopes)+len(inner.between) == 0 {
		v, why := e.judge(task, outer)
		return func(int) (verdict, string) { return v, why }
	}
	return func(mapIndex int) (verdict, string) {
		seen := outer
		e.look(&seen, inner, func(other int) tally { return e.tallyFor(other, mapIndex) })
		return e.judge(task, seen)
	}
}

// view counts what a task's verdict looks at outside of its mapped group.
func (e *evaluation) view(task int) (seen view) {
	if e.kept != nil {
		return e.kept.views[task]
	}
	e.look(&seen, &e.g.outer[task], func(other int) tally { return e.tallies[other] })
	return seen
}

func (e *evaluation) look(into *view, at *looksAt, count func(other int) tally) {
	for _, u := range at.up {
		into.add(&e.g.dag.Tasks[u], count(u))
	}
	for _, s := range at.scopes {
		into.above.add(count(s))
	}
	for _, b := range at.between {
		into.between.add(count(b))
	}
}

// view is what decides about a task: the direct upstream tasks, the setups among
// them, the setups further above, and for a teardown the work before it.
type view struct{ up, setups, above, between tally }

func (v *view) add(t *Task, n tally) {
	v.up.add(n)
	if t.IsSetup {
		v.setups.add(n)
	}
}

func (e *evaluation) judge(task int, seen view) (verdict, string) {
	if len(e.g.scopes[task]) > 0 {
		if v := judge(AllSuccess, seen.above, tally{}); v != verdictRun {
			return v, "a setup above it did not succeed"
		}
	}
	rule := e.g.rules[task]
	v := judge(rule, seen.up, seen.setups)
	if v == verdictRun && !seen.between.done() {
		return verdictWait, "work between its setup and it has not ended"
	}
	return v, "trigger rule " + string(rule)
}
