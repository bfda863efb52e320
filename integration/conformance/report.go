package main

import (
	"fmt"
	"io"
	"sort"
	"time"
)

// report counts what was compared and keeps what differs.
type report struct {
	settings settings
	versions versions

	dags, tasks, steps, manual, retries, instances, engine int
	// scopes counts questions what is cleared together; campaigns are DAGs of which
	// several runs were made, with so many runs and clearings.
	scopes, campaigns, runs, clears int
	// paced counts DAGs that end differently when skips and failures settle in
	// one pass instead of one level a pass.
	paced     int
	explained map[string]int
	// corpus counts the DAGs of given files that both sides load, and refused
	// says why Airlock does not load a file that dag-factory does.
	corpus  int
	refused []string
	diffs   []difference
	took    time.Duration
}

func newReport(o settings, v versions) *report {
	return &report{settings: o, versions: v, explained: map[string]int{}}
}

func (r *report) add(d ...difference) { r.diffs = append(r.diffs, d...) }

func (r *report) explain(fired []string) {
	if len(fired) == 0 {
		fired = []string{"(no rule fired)"}
	}
	for _, name := range fired {
		r.explained[name]++
	}
}

func (r *report) clean() bool { return len(r.diffs) == 0 }

const mostShown = 40

func (r *report) print(w io.Writer) {
	fmt.Fprintf(w, "\nApache Airflow %s, dag-factory %s, croniter %s, pendulum %s; seed %d; %s\n\n",
		r.versions.Airflow, r.versions.DagFactory, r.versions.Croniter, r.versions.Pendulum, r.settings.seed, r.took.Round(time.Second))
	for _, line := range []struct {
		n    int
		what string
	}{
		{r.dags, "random DAGs"}, {r.tasks, "tasks: structure"}, {r.steps, "schedule steps"}, {r.manual, "manual intervals"},
		{r.retries, "retry delays"}, {r.instances, "task instances: final state"},
		{r.scopes, "sets of tasks: what is cleared together"},
		{r.campaigns, "DAGs with several runs and clearings in the state database"}, {r.runs, "runs of theirs"}, {r.clears, "clearings"},
		{r.engine, "runs through the engine, with real steps"},
		{r.corpus, "DAGs of the corpus: structure"}, {len(r.refused), "corpus files that only dag-factory loads"},
		{r.paced, "DAGs whose ending depends on the pace at which skips and failures go down"},
	} {
		fmt.Fprintf(w, "%8d %s\n", line.n, line.what)
	}
	names := make([]string, 0, len(r.explained))
	for name := range r.explained {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		fmt.Fprintf(w, "%8d DAGs explained by %s\n", r.explained[name], name)
	}
	for _, why := range r.refused {
		fmt.Fprintln(w, "        refused:", why)
	}
	fmt.Fprintf(w, "%8d unexplained differences\n", len(r.diffs))
	byPart := map[string]int{}
	for _, d := range r.diffs {
		if byPart[d.Part]++; byPart[d.Part] <= mostShown {
			fmt.Fprintln(w, d)
		}
	}
	for part, n := range byPart {
		fmt.Fprintln(w, part, n)
	}
}

// countCampaign counts what a campaign did; the instances of all its runs count
// once, as they are in the end.
func (r *report) countCampaign(c *dagCase, after []map[string]*ending) {
	r.campaigns++
	for _, a := range c.Campaign {
		if a.Run != nil {
			r.runs++
		} else {
			r.clears++
		}
	}
	for _, e := range after[len(after)-1] {
		r.instances += len(e.States)
	}
}
