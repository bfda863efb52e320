package dag

import (
	"encoding/json"
	"time"
)

// EventKind is the kind of a callback event.
type EventKind string

// Kinds of callback events. DAG-level events are success and failure with no
// task id.
const (
	EventExecute EventKind = "on_execute_callback"
	EventSuccess EventKind = "on_success_callback"
	EventFailure EventKind = "on_failure_callback"
	EventRetry   EventKind = "on_retry_callback"
	EventSkipped EventKind = "on_skipped_callback"
	// Of a circuit breaker, with neither DAG nor task.
	EventCircuitOpen  EventKind = "on_circuit_open"
	EventCircuitClose EventKind = "on_circuit_close"
)

// Event is one notification to one receiver, written in the transaction of the
// state change that it tells of and delivered later, at least once: table
// callback_event.
type Event struct {
	ID int64 `json:"id"`
	// DedupKey is the same for each delivery of one event and differs between
	// events; unique in the table.
	DedupKey string `json:"dedup_key"`
	TaskInstanceKey
	TryNumber int       `json:"try_number"`
	Kind      EventKind `json:"kind"`
	// Callback is the receiver, with templates not rendered.
	Callback Callback `json:"callback"`
	// Context is what the templates see and the receiver gets: JSON object, see
	// EventContext.
	Context   json.RawMessage `json:"context"`
	CreatedAt time.Time       `json:"created_at"`
	// Age is how old the event was when it was claimed, by the outbox's clock.
	Age time.Duration `json:"-"`
	// Attempts counts deliveries tried so far.
	Attempts int `json:"attempts"`
}

// MissedDelivery is a delivery of an event that did not work, or was not tried.
type MissedDelivery struct {
	EventID int64
	// Cause is why, in words for a person.
	Cause string
	// Wait is how long from now, by the outbox's clock, until the event is due
	// again; nil gives it up: it is kept as dead.
	Wait *time.Duration
	// PutOff says that the receiver takes no more for now: that spends no attempt.
	PutOff bool
}

// EventContext is the JSON that a receiver gets.
type EventContext struct {
	Event       EventKind  `json:"event"`
	DedupKey    string     `json:"dedup_key"`
	DagID       string     `json:"dag_id"`
	RunID       string     `json:"run_id"`
	TaskID      string     `json:"task_id,omitempty"`
	MapIndex    int        `json:"map_index"`
	TryNumber   int        `json:"try_number,omitempty"`
	MaxTries    int        `json:"max_tries,omitempty"`
	State       string     `json:"state"`
	LogicalDate *time.Time `json:"logical_date"`
	RunType     RunType    `json:"run_type,omitempty"`
	// DataIntervalStart and DataIntervalEnd are missing where the run has none.
	DataIntervalStart *time.Time `json:"data_interval_start,omitempty"`
	DataIntervalEnd   *time.Time `json:"data_interval_end,omitempty"`
	// Params are those of the DAG with the task's and the run's conf laid over,
	// values of keys that look like secrets masked.
	Params map[string]any `json:"params,omitempty"`
	// Reason is the run's reason in a DAG-level event.
	Reason string `json:"reason,omitempty"`
	// Exception is the error as one line, as templates see it.
	Exception    string     `json:"exception,omitempty"`
	ErrorClass   ErrorClass `json:"error_class,omitempty"`
	ErrorCode    string     `json:"error_code,omitempty"`
	ErrorMessage string     `json:"error_message,omitempty"`
	NextTryAt    *time.Time `json:"next_try_at,omitempty"`
	LogPath      string     `json:"log_path,omitempty"`
	// AlertKey names the incident that the event belongs to: the dead letter's
	// fingerprint, or the circuit. Pagers fold by it.
	AlertKey string `json:"alert_key,omitempty"`
	// Circuit and Opening name the breaker of a circuit event, and count its
	// openings.
	Circuit string    `json:"circuit,omitempty"`
	Opening int       `json:"opening,omitempty"`
	At      time.Time `json:"at"`
}

// DeliveryStatus is the state of a callback event.
type DeliveryStatus string

// Statuses of a callback event.
const (
	DeliveryPending   DeliveryStatus = "pending"
	DeliveryDelivered DeliveryStatus = "delivered"
	DeliveryDead      DeliveryStatus = "dead" // given up after its own retries; kept and shown
)
