package dag

// withSources is a trigger rule's verdict on a mapped task that is not expanded
// yet, with what the tasks that it takes its values from have to say: one that
// failed leaves no values, so the mapped task is upstream_failed, and one that
// was skipped has it skipped, whatever the trigger rule. A mapped source that
// was expanded has the values of its successful instances, be there none. A
// mapped group that could not be expanded has one task that says so.
func (e *evaluation) withSources(task int, v verdict, why string) (verdict, string) {
	if v == verdictUpstreamFailed {
		return v, why
	}
	if e.broken[e.g.group[task]] {
		return verdictUpstreamFailed, "its group could not be expanded"
	}
	skipped := false
	for _, source := range e.g.sources[task] {
		if e.expanded(source) {
			continue
		}
		t := e.tallies[source]
		if t.failed+t.upstreamFailed > 0 {
			return verdictUpstreamFailed, "the task that it is expanded over did not succeed"
		}
		skipped = skipped || t.skipped > 0
	}
	if skipped {
		return verdictSkip, "the task that it is expanded over was skipped"
	}
	return v, why
}

// expanded tells whether a task has instances of a mapped task, or would have
// had them had it not ended before: its values stand in the file.
func (e *evaluation) expanded(task int) bool {
	if x := e.g.dag.Tasks[task].Expand; x != nil && x.literal() && !x.empty() {
		return true
	}
	for _, i := range e.byTask[task] {
		if e.s.Instances[i].MapIndex >= 0 {
			return true
		}
	}
	return false
}
