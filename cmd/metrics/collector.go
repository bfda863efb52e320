package metrics

import (
	"context"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/airlock-dag/airlock/dag"
)

// keep is how long figures from the database are shown again before it is asked
// anew, whoever scrapes.
const keep = 5 * time.Second

// askLimit limits the asking: a database that hangs must not hang the scrape.
const askLimit = 5 * time.Second

// Source is the state database.
type Source interface {
	Stats(ctx context.Context) (dag.Stats, error)
}

// Database is a prometheus.Collector of gauges that are read from the state
// database. While it cannot be read they are missing, which alerts can tell
// from 0, and airlock_database_up is 0.
type Database struct {
	source Source
	clock  dag.Clock

	mu    sync.Mutex
	asked time.Time
	stats dag.Stats
	err   error
}

// NewDatabase makes the collector; register it once.
func NewDatabase(source Source, clock dag.Clock) *Database {
	return &Database{source: source, clock: clock}
}

// descs are the descriptions of all gauges.
type descs struct {
	up, depth, letters, oldest, expiring, decisions, double                *prometheus.Desc
	breaker, pending, dead, eventAge                                       *prometheus.Desc
	open, queued, running, scheduled, deferred                             *prometheus.Desc
	unserved                                                               *prometheus.Desc
	executorQueued, executorRunning, tasks, runs, dagbag, importErrorCount *prometheus.Desc
}

func newDescs() descs {
	d := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return descs{
		up:        d("airlock_database_up", "1 when the state database answered the last question, else 0."),
		depth:     d("dlq_depth", "Dead letters that wait for somebody: sealed and quarantined ones.", "queue"),
		letters:   d("dlq_letters", "Open dead letters by status.", "status"),
		oldest:    d("dlq_oldest_age_seconds", "Age of the oldest dead letter that counts for dlq_depth.", "queue"),
		expiring:  d("dlq_expiring_soon", "Dead letters that expire within 48 hours.", "queue"),
		decisions: d("dlq_replay_decisions_total", "What drains decided about letters, from the audit table.", "decision"),
		double:    d("dlq_replay_double_published_total", "Letters that one drain decided about twice. A UNIQUE constraint keeps it at 0."),
		breaker:   d("circuit_breaker_state", "State of a circuit breaker: 0 closed, 1 half open, 2 open.", "name"),
		pending:   d("airlock_callback_events_pending", "Callback events that are not delivered yet."),
		dead:      d("airlock_callback_events_dead", "Callback events that were given up and are kept."),
		eventAge:  d("airlock_callback_oldest_pending_age_seconds", "Age of the oldest callback event that is not delivered yet."),
		open:      d("airflow_pool_open_slots", "Free slots of a pool; +Inf for a pool without a limit.", "pool"),
		queued:    d("airflow_pool_queued_slots", "Slots of queued task instances.", "pool"),
		running:   d("airflow_pool_running_slots", "Slots of running task instances.", "pool"),
		scheduled: d("airflow_pool_scheduled_slots", "Slots that scheduled task instances wait for.", "pool"),
		deferred:  d("airflow_pool_deferred_slots", "Slots of deferred task instances.", "pool"),

		executorQueued:   d("airflow_executor_queued_tasks", "Task instances that wait for a worker."),
		unserved:         d("airlock_unserved_tasks", "Queued task instances of a queue from which no living worker takes.", "queue"),
		executorRunning:  d("airflow_executor_running_tasks", "Task instances that run."),
		tasks:            d("airlock_task_instances", "Task instances that have not ended, by state.", "state"),
		runs:             d("airlock_dag_runs", "DAG runs that have not ended, by state.", "state"),
		dagbag:           d("airflow_dagbag_size", "DAGs that were found."),
		importErrorCount: d("airflow_dag_processing_import_errors", "Errors in DAG files."),
	}
}

// Describe implements prometheus.Collector.
func (*Database) Describe(out chan<- *prometheus.Desc) {
	d := newDescs()
	for _, one := range []*prometheus.Desc{
		d.up, d.depth, d.letters, d.oldest, d.expiring, d.decisions, d.double, d.breaker, d.pending, d.dead, d.eventAge, d.open, d.queued,
		d.running, d.scheduled, d.deferred, d.executorQueued, d.unserved, d.executorRunning, d.tasks, d.runs, d.dagbag, d.importErrorCount,
	} {
		out <- one
	}
}

// Collect implements prometheus.Collector.
func (c *Database) Collect(out chan<- prometheus.Metric) {
	stats, err := c.ask()
	d := newDescs()
	gauge := func(desc *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, v, labels...)
	}
	if err != nil {
		gauge(d.up, 0)
		return
	}
	gauge(d.up, 1)
	letters(stats, d, gauge)
	for _, decision := range []string{"replayed", "drop_duplicate", "quarantine", "deferred", "rejected", "expired"} {
		out <- prometheus.MustNewConstMetric(d.decisions, prometheus.CounterValue, float64(stats.Decisions[decision]), decision)
	}
	out <- prometheus.MustNewConstMetric(d.double, prometheus.CounterValue, float64(stats.DoublePublished))
	for _, b := range bounded(stats.Circuits) {
		gauge(d.breaker, breakerValue(b.State), text(b.Name))
	}
	gauge(d.pending, float64(stats.EventsPending))
	gauge(d.dead, float64(stats.EventsDead))
	age := 0.0
	if stats.OldestEvent != nil {
		age = max(0, stats.Now.Sub(*stats.OldestEvent).Seconds())
	}
	gauge(d.eventAge, age)
	for _, p := range bounded(stats.Pools) {
		open := math.Inf(1)
		if p.Slots >= 0 {
			open = float64(p.Slots - p.Running - p.Queued)
		}
		name := text(p.Name)
		gauge(d.open, open, name)
		gauge(d.queued, float64(p.Queued), name)
		gauge(d.running, float64(p.Running), name)
		gauge(d.scheduled, float64(p.Scheduled), name)
		gauge(d.deferred, 0, name) // no instance holds a slot while it is deferred
	}
	gauge(d.executorQueued, float64(stats.Instances[dag.StateQueued]))
	for _, u := range bounded(unserved(stats)) {
		gauge(d.unserved, float64(u.Tasks), text(u.Queue))
	}
	gauge(d.executorRunning, float64(stats.Instances[dag.StateRunning]))
	for _, s := range liveStates() {
		gauge(d.tasks, float64(stats.Instances[s]), string(s))
	}
	for _, s := range []dag.RunState{dag.RunQueued, dag.RunRunning} {
		gauge(d.runs, float64(stats.Runs[s]), string(s))
	}
	gauge(d.dagbag, float64(stats.DAGs))
	gauge(d.importErrorCount, float64(stats.ImportErrors))
}

func liveStates() []dag.State {
	return []dag.State{
		dag.StateScheduled, dag.StateQueued, dag.StateRunning, dag.StateRestarting, dag.StateUpForRetry, dag.StateUpForReschedule, dag.StateDeferred,
	}
}

// unserved are the queues that nobody serves; the series of the default queue is
// always there.
func unserved(stats dag.Stats) []dag.UnservedQueue {
	if len(stats.Unserved) == 0 {
		return []dag.UnservedQueue{{Queue: dag.DefaultQueue}}
	}
	return stats.Unserved
}

// letters shows the open letters: one line a queue, the queues beyond the limit
// together.
func letters(stats dag.Stats, d descs, gauge func(*prometheus.Desc, float64, ...string)) {
	type sums struct {
		depth, expiring int
		oldest          time.Time
	}
	queues := map[string]*sums{}
	byStatus := map[dag.LetterStatus]int{}
	var names values
	for _, l := range stats.Letters {
		byStatus[l.Status] += l.Count
		name := names.bound(l.Queue)
		q := queues[name]
		if q == nil {
			q = &sums{}
			queues[name] = q
		}
		q.expiring += l.Expiring
		if l.Status == dag.LetterReplaying {
			continue
		}
		q.depth += l.Count
		if q.oldest.IsZero() || l.Oldest.Before(q.oldest) {
			q.oldest = l.Oldest
		}
	}
	if len(queues) == 0 { // a series that begins at 0 shows the first letter as growth
		queues[dag.DefaultQueue] = &sums{}
	}
	for name, q := range queues {
		gauge(d.depth, float64(q.depth), name)
		gauge(d.expiring, float64(q.expiring), name)
		age := 0.0
		if !q.oldest.IsZero() {
			age = max(0, stats.Now.Sub(q.oldest).Seconds())
		}
		gauge(d.oldest, age, name)
	}
	for _, s := range []dag.LetterStatus{dag.LetterSealed, dag.LetterQuarantined, dag.LetterReplaying} {
		gauge(d.letters, float64(byStatus[s]), string(s))
	}
}

// ask gives the figures, from memory while they are fresh.
func (c *Database) ask() (dag.Stats, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock.Now()
	if since := now.Sub(c.asked); !c.asked.IsZero() && since >= 0 && since < keep {
		return c.stats, c.err
	}
	ctx, cancel := context.WithTimeout(context.Background(), askLimit)
	defer cancel()
	c.stats, c.err = c.source.Stats(ctx)
	c.asked = now
	return c.stats, c.err
}

func breakerValue(s dag.CircuitState) float64 {
	switch s {
	case dag.CircuitOpen:
		return 2
	case dag.CircuitHalfOpen:
		return 1
	default:
		return 0
	}
}

// bounded keeps as many as a label may have values.
func bounded[T any](list []T) []T { return list[:min(len(list), maxValues)] }

// text is a label's value that Prometheus takes.
func text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
