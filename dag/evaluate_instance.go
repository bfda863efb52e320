package dag

// judged decides for one instance by its task's verdict.
func (e *evaluation) judged(task, i int, verdict func(mapIndex int) (verdict, string)) {
	index := e.s.Instances[i].MapIndex
	v, why := verdict(index)
	if index < 0 && e.g.mapped(task) {
		v, why = e.withSources(task, v, why)
	}
	e.instance(task, i, v, why)
}

func (e *evaluation) instance(task, i int, v verdict, why string) {
	t := &e.g.dag.Tasks[task]
	stopped := e.failFast && !t.IsTeardown
	switch e.state[i] {
	case StateNone:
		switch {
		case e.skipped(task, i):
			e.set(i, StateSkipped, "a branch or short circuit skips it")
		case v == verdictSkip:
			e.set(i, StateSkipped, why)
		case v == verdictUpstreamFailed:
			e.set(i, StateUpstreamFailed, why)
		case stopped:
			e.set(i, StateSkipped, "fail_fast: another task failed")
		case e.g.group[task] != "" && e.s.Instances[i].MapIndex < 0:
			e.expandGroup(e.g.group[task])
		case v == verdictRun && e.beyondSource(task, i):
			e.set(i, StateRemoved, "its upstream made fewer values")
		case v == verdictRun:
			e.start(task, i, why)
		default: // wait
		}
	case StateScheduled, StateQueued:
		begun := e.s.Instances[i].NextTryAt != nil // back from its wait, and not claimed yet
		switch {
		case e.skipped(task, i) && !begun:
			e.set(i, StateSkipped, "a branch or short circuit skips it")
		case stopped:
			e.set(i, StateSkipped, "fail_fast: another task failed")
		}
	case StateUpForRetry, StateUpForReschedule:
		if stopped {
			e.set(i, StateSkipped, "fail_fast: another task failed")
			return
		}
		e.retry(i, v)
	default: // finished, or in the hands of a worker
	}
}

// start makes a ready instance scheduled, or whatever it has instead.
func (e *evaluation) start(task, i int, why string) {
	t := &e.g.dag.Tasks[task]
	if !pastAllows(e.g, task, e.s.Past) {
		e.held++
		e.lookAgain(e.now.Add(pastPoll))
		return
	}
	if t.Mapped() && e.s.Instances[i].MapIndex < 0 {
		if e.sourcesDone(task) {
			e.out.Expand = append(e.out.Expand, t.ID)
		}
		return
	}
	if t.Operator == "empty" && len(t.Callbacks.OnExecute) == 0 && len(t.Callbacks.OnSuccess) == 0 {
		e.set(i, StateSuccess, "an empty task needs no worker")
		return
	}
	e.set(i, StateScheduled, why)
}

// sourcesDone tells whether all that a mapped task's values may come from has
// ended: its upstream tasks, also when its rule would let it start earlier.
// Values that the file gives are there from the start.
func (e *evaluation) sourcesDone(task int) bool {
	if e.g.dag.Tasks[task].Expand.literal() {
		return true
	}
	return e.view(task).up.done() && e.allDone(e.g.sources[task])
}

func (e *evaluation) allDone(tasks []int) bool {
	for _, t := range tasks {
		if !e.tallies[t].done() {
			return false
		}
	}
	return true
}

// beyondSource tells whether a mapped instance has lost its value: an earlier
// expansion made it, and the one mapped task that it takes its values from has
// since lost instances.
func (e *evaluation) beyondSource(task, i int) bool {
	index := e.s.Instances[i].MapIndex
	if index < 0 || e.g.rules[task] != AllSuccess || len(e.g.sources[task]) != 1 {
		return false
	}
	source := e.tallies[e.g.sources[task][0]]
	return source.removed > 0 && source.success > 0 && index >= int(source.success)
}

// retry makes a waiting instance scheduled when it is due. It has begun, so
// only its own outcome ends it: a rule that has turned against it since does
// not, but an upstream that runs again is waited for.
func (e *evaluation) retry(i int, v verdict) {
	if at := e.s.Instances[i].NextTryAt; at != nil && at.After(e.now) {
		e.lookAgain(*at)
		return
	}
	if v == verdictWait {
		e.blocked = append(e.blocked, i)
		return
	}
	e.set(i, StateScheduled, "due")
}

// wakeBlockedRetries lets retries go that wait for upstream tasks which will
// never run: nothing else could end them.
func (e *evaluation) wakeBlockedRetries() {
	if len(e.blocked) == 0 || e.progressing(len(e.blocked)) {
		return
	}
	for _, i := range e.blocked {
		e.set(i, StateScheduled, "due, and what it waits for does not move")
	}
	e.blocked = nil
}

// progressing tells whether something in the run will move by itself; idle is
// the number of waiting instances that are known not to.
func (e *evaluation) progressing(idle int) bool {
	if len(e.out.Expand)+len(e.out.ExpandGroups) > 0 || e.held > 0 {
		return true
	}
	active := 0
	for _, s := range e.state {
		if s != StateNone && !s.Finished() {
			active++
		}
	}
	return active > idle
}
