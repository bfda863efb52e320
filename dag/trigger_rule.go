package dag

// tally counts the instances of a task (or of several) by how they ended.
type tally struct {
	success, skipped, failed, upstreamFailed, removed int32
	// total counts all instances, finished or not, removed ones too.
	total int32
}

func (t *tally) count(s State) { t.countN(s, 1) }

// countN counts n instances in a state; with -1 one is taken out.
func (t *tally) countN(s State, n int32) {
	t.total += n
	switch s {
	case StateSuccess:
		t.success += n
	case StateSkipped:
		t.skipped += n
	case StateFailed:
		t.failed += n
	case StateUpstreamFailed:
		t.upstreamFailed += n
	case StateRemoved:
		t.removed += n
	default: // unfinished: in total only
	}
}

func (t *tally) add(o tally) { t.addN(o, 1) }

// addN adds a tally n times; with -1 it is taken out.
func (t *tally) addN(o tally, n int32) {
	t.success += n * o.success
	t.skipped += n * o.skipped
	t.failed += n * o.failed
	t.upstreamFailed += n * o.upstreamFailed
	t.removed += n * o.removed
	t.total += n * o.total
}

// finished counts the instances to which nothing more happens.
func (t tally) finished() int32 {
	return t.success + t.skipped + t.failed + t.upstreamFailed + t.removed
}

func (t tally) done() bool { return t.finished() == t.total }

// verdict is what a trigger rule says about a task at an instant.
type verdict int

const (
	verdictWait verdict = iota
	verdictRun
	verdictSkip
	verdictUpstreamFailed
)

// judge applies a trigger rule to the instances of the direct upstream tasks;
// setups counts those of them that are setups. A rule that can no longer hold
// says so at once and does not wait for the rest, as in Airflow.
//
// Removed instances are not there: they are counted in no number. (Airflow
// leaves them in when the task itself is not mapped, which lets such a task
// wait for ever.)
func judge(rule TriggerRule, up, setups tally) verdict {
	n := up.total - up.removed
	done := up.done()
	failures := up.failed + up.upstreamFailed
	if n == 0 && up.removed > 0 {
		return verdictRun // as with no upstream: what is above is no part of the run
	}
	switch rule {
	case Always:
		return verdictRun
	case AllFailed:
		return pick(false, up.success+up.skipped > 0, failures == n)
	case AllDone:
		return pick(false, false, done)
	case AllSkipped:
		return pick(false, up.success+failures > 0, up.skipped == n)
	case OneSuccess:
		if up.success > 0 {
			return verdictRun
		}
		return pick(done && up.skipped < n, done, false)
	case OneFailed:
		return pick(false, done && failures == 0, failures > 0)
	case OneDone:
		return pick(false, done && up.success+up.failed == 0, up.success+up.failed > 0)
	case NoneFailed:
		return pick(failures > 0, false, up.success+up.skipped == n)
	case NoneFailedMinOneSuccess:
		return pick(failures > 0, up.skipped == n, up.success+up.skipped == n)
	case NoneSkipped:
		return pick(false, up.skipped > 0, done)
	case AllDoneMinOneSuccess:
		// A skip settles it although the rule's own description says that skips
		// do not matter: that is what Airflow's code does.
		if up.skipped > 0 {
			return verdictSkip
		}
		return pick(done && up.success == 0, false, done)
	case AllDoneSetupSuccess:
		if !done {
			return verdictWait
		}
		ns := setups.total - setups.removed
		if ns == 0 || setups.success > 0 {
			return verdictRun
		}
		return pick(setups.skipped < ns, true, false)
	default: // AllSuccess, and what the loader would have refused
		return pick(failures > 0, up.skipped > 0, up.success == n)
	}
}

// pick puts the three answers of a rule in their order of rank.
func pick(upstreamFailed, skip, run bool) verdict {
	switch {
	case upstreamFailed:
		return verdictUpstreamFailed
	case skip:
		return verdictSkip
	case run:
		return verdictRun
	default:
		return verdictWait
	}
}
