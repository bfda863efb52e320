package main

// rule is a difference that is meant. Airflow's side can follow it, so that a
// DAG that differs is explained only if it ends the same under the rules.
type rule struct {
	name string
	why  string
}

func namedRules() []rule {
	return []rule{
		{"mistakes-end-at-once", "a branch to a task that is not there, and a source of a mapped task that returns nothing, end the task at once: another try cannot help"},
		{"ended-stays-ended", "a skip list does not change an instance that is upstream_failed or removed already: only a clear leads out of a final state"},
		{"skips-reach-mapped", "a short circuit skips the instances of mapped tasks far below it too; Airflow's list names only such a task as a whole, and misses it when it is expanded already"},
		{"retry-goes-on", "a task that waits for a retry is tried again though a branch or short circuit has decided to skip it meanwhile: its failures are not forgotten"},
		{"source-failure-wins", "a mapped task whose source failed and whose trigger rule skips it is upstream_failed; in Airflow it is either, as two checks are asked in no certain order"},
		{"teardowns-run", "a branch does not skip a teardown directly below it: what was set up is cleaned up"},
		{"fail-fast", "what depends on the failed task is upstream_failed, so that the run fails; running instances end as they do"},
		{"mapped-waits", "a mapped task is expanded when all above it has ended, also when its trigger rule would let it start before its values are there"},
		{"dates-leave-out", "a task whose own dates leave it out of a run is removed there and counts in no number; in Airflow the run has no such instance, and what depends on it waits until the run is deadlocked"},
		{"mapped-branches", "a branch or short circuit in a mapped group skips tasks of its own instance, and tasks elsewhere when all its instances say so; Airflow since 3.2 looks for the decision in the wrong place and skips nothing (apache/airflow#67265)"},
		{"decisions-hold", "what a branch or short circuit has decided holds for tasks that are cleared below it, also further below and whatever their trigger rules say; in Airflow only for those directly below, and there the rule may have the last word"},
		{"old-decisions-lapse", "a branch or short circuit that is cleared and then does not run to success decides nothing; in Airflow what it decided before the clear still skips the tasks directly below it"},
		{"sources-in-step", "a mapped task sees a source skipped no sooner than its trigger rule does; in Airflow one that is skipped earlier in the same pass skips the task before the rule has seen it"},
		{"empty-group-at-once", "a mapped group without values is skipped as a whole, at once; Airflow asks the trigger rule of each of its tasks first"},
		{"wait-implies-past", "wait_for_downstream of a mapped task switches depends_on_past on, as it does for any other task; Airflow forgets it there, so that the key has no effect"},
		{"wall-steps", "a cron text that covers every hour of certain days only has its ticks at those days' hours in every season: Airflow carries the elapsed time of such a step over a change of the clocks, and ticks an hour off"},
		{"no-tick-lost", "several ticks that fall into the gap of a spring change all run, each moved forward; Airflow runs the first and loses the rest"},
		{settlesAtOnce, "skips and failures go all the way down at once, from the top: a task is looked at when all above it has come as far as it can; Airflow takes a pass for each level, so that a skip which is nearer, or older, can reach a task before a failure does"},
		{"groups-as-written", "who depends on a group depends on the ends that it has when everything inside is wired; dag-factory wires in the order of the file, and takes those that it has by then too"},
	}
}

// settlesAtOnce is the pace. It is asked for only where an Airflow that follows
// all other rules still differs: at its own pace it is compared first.
const settlesAtOnce = "settles-at-once"

// ruleNames are the rules that Airflow follows when it is asked again.
func ruleNames() []string {
	var out []string
	for _, r := range namedRules() {
		if r.name != settlesAtOnce {
			out = append(out, r.name)
		}
	}
	return out
}
