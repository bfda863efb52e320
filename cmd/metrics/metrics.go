package metrics

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/fault"
)

// Metrics are the counters of one process. Make them with New; the methods may
// be called from any goroutine.
type Metrics struct {
	retries   *prometheus.CounterVec
	enqueued  *prometheus.CounterVec
	transcode *prometheus.CounterVec
	delivered *prometheus.CounterVec

	heartbeat  prometheus.Counter
	pass       prometheus.Summary
	runs       map[dag.RunState]prometheus.Summary
	delay      prometheus.Summary
	successes  prometheus.Counter
	failures   prometheus.Counter
	lost       prometheus.Counter
	attempts   *prometheus.CounterVec
	transacted *prometheus.CounterVec
	cleaned    *prometheus.CounterVec
	unclean    *prometheus.CounterVec

	queues, operators, receivers values
}

// quantiles are those that Airflow's users get from the StatsD exporter.
func quantiles() map[float64]float64 { return map[float64]float64{0.5: 0.05, 0.9: 0.01, 0.99: 0.001} }

// New makes the counters and registers each once. It panics when one of the
// names is taken: that is a programming error.
func New(reg prometheus.Registerer) *Metrics {
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
		reg.MustRegister(c)
		return c
	}
	vector := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		reg.MustRegister(c)
		return c
	}
	summary := func(name, help string) prometheus.Summary {
		s := prometheus.NewSummary(prometheus.SummaryOpts{Name: name, Help: help, Objectives: quantiles()})
		reg.MustRegister(s)
		return s
	}
	return &Metrics{
		retries: vector("media_task_retries_total", "Attempts that failed and will be repeated.", "queue", "error_code"),
		enqueued: vector("dlq_messages_enqueued_total", "Dead letters that this process sealed.",
			"queue", "error_class"),
		transcode: vector("transcode_failure_by_codec_total", "Encodes that failed, each rung of a ladder by itself.",
			"codec", "error_code"),
		delivered: vector("airlock_callback_deliveries_total", "Deliveries of callback events, by how they ended: delivered, retried, put_off or dead.",
			"callback", "outcome"),
		attempts: vector("airlock_task_attempts_total", "Attempts that ended, by operator and the state that followed.",
			"operator", "state"),
		transacted: vector("airlock_database_transactions_repeated_total", "Transactions on the state database that were run again, by cause.",
			"cause"),
		cleaned: vector("airlock_history_deleted_total", "Old history that automatic cleans of this process deleted, by kind: runs, attempts, events, effects, desk, logs.",
			"kind"),
		unclean: vector("airlock_history_clean_failures_total", "Automatic cleans of this process that failed, by kind; each is tried again.",
			"kind"),
		heartbeat: counter("airflow_scheduler_heartbeat", "Passes of the scheduler."),
		pass:      summary("airflow_scheduler_scheduler_loop_duration", "How long a pass of the scheduler took, in seconds."),
		runs: map[dag.RunState]prometheus.Summary{
			dag.RunSuccess: summary("airflow_dagrun_duration_success", "How long successful runs took, in seconds."),
			dag.RunFailed:  summary("airflow_dagrun_duration_failed", "How long failed runs took, in seconds."),
		},
		delay:     summary("airflow_dagrun_schedule_delay", "How long after their due time scheduled runs started, in seconds."),
		successes: counter("airflow_ti_successes", "Task instances that succeeded."),
		failures:  counter("airflow_ti_failures", "Task instances that failed for good."),
		lost:      counter("airflow_zombies_killed", "Task instances taken back from workers that were lost."),
	}
}

// TaskEnded counts the end of an attempt, once its result is written.
func (m *Metrics) TaskEnded(c dag.Claim, r dag.Result) {
	queue := m.queues.bound(c.Queue)
	if r.State != dag.StateQueued && r.State != dag.StateUpForReschedule {
		m.attempts.WithLabelValues(m.operators.bound(c.Operator), string(r.State)).Inc()
	}
	if r.Reaped {
		m.lost.Inc()
	}
	switch r.State {
	case dag.StateSuccess:
		m.successes.Inc()
	case dag.StateUpForRetry:
		m.retries.WithLabelValues(queue, code(r.Attempt.ErrorCode)).Inc()
	case dag.StateFailed:
		m.failures.Inc()
		if r.Letter != nil {
			m.enqueued.WithLabelValues(queue, string(r.Letter.ErrorClass)).Inc()
		}
	default: // the count of attempts says all
	}
	m.countRungs(c, r)
}

// countRungs counts the encodes that failed in a transcode step.
func (m *Metrics) countRungs(c dag.Claim, r dag.Result) {
	if c.Operator != "transcode" {
		return
	}
	var detail struct {
		Rungs []struct {
			Encoder   string `json:"encoder"`
			Result    string `json:"result"`
			ErrorCode string `json:"error_code"`
		} `json:"rungs"`
	}
	if len(r.Attempt.Detail) > 0 && json.Unmarshal(r.Attempt.Detail, &detail) != nil {
		return // a record of another form: nothing to count
	}
	for _, rung := range detail.Rungs {
		if rung.Result == "failed" {
			m.transcode.WithLabelValues(codec(rung.Encoder), code(rung.ErrorCode)).Inc()
		}
	}
	if len(detail.Rungs) == 0 && (r.State == dag.StateFailed || r.State == dag.StateUpForRetry) {
		m.transcode.WithLabelValues("none", code(r.Attempt.ErrorCode)).Inc() // it failed before any encoder was chosen
	}
}

// codec is what an encoder makes: "h264" for libx264, h264_nvenc and the like.
func codec(encoder string) string {
	for _, known := range []struct{ part, codec string }{
		{"264", "h264"}, {"265", "hevc"}, {"hevc", "hevc"}, {"av1", "av1"}, {"vp9", "vp9"}, {"opus", "opus"}, {"aac", "aac"},
	} {
		if strings.Contains(encoder, known.part) {
			return known.codec
		}
	}
	return other
}

// code keeps codes of the closed list; a step can say anything of itself.
func code(c string) string {
	if c == "" || !fault.Known(c) {
		return other
	}
	return c
}

// Pass counts a pass of the scheduler and the runs that ended in it.
func (m *Metrics) Pass(took time.Duration, report dag.ScheduleReport) {
	m.heartbeat.Inc()
	m.pass.Observe(took.Seconds())
	for _, r := range report.Runs {
		if r.Err != nil {
			continue
		}
		if s := m.runs[r.Decision.State]; s != nil && r.Run.StartDate != nil {
			s.Observe(max(0, report.Now.Sub(*r.Run.StartDate).Seconds()))
		}
	}
}

// RunStarted counts how late a scheduled run started.
func (m *Metrics) RunStarted(late time.Duration) { m.delay.Observe(max(0, late.Seconds())) }

// Delivered counts the end of a callback's delivery.
func (m *Metrics) Delivered(receiver, outcome string) {
	m.delivered.WithLabelValues(m.receivers.bound(receiver), outcome).Inc()
}

// Cleaned counts what an automatic clean deleted, or that it failed.
func (m *Metrics) Cleaned(kind dag.CleanKind, deleted int, err error) {
	m.cleaned.WithLabelValues(string(kind)).Add(float64(deleted))
	failed := 0.0
	if err != nil {
		failed = 1
	}
	m.unclean.WithLabelValues(string(kind)).Add(failed)
}

// Repeated counts a transaction that is run again.
func (m *Metrics) Repeated(cause string) { m.transacted.WithLabelValues(cause).Inc() }
