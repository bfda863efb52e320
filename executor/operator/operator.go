package operator

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/airlock-dag/airlock/dag"
)

// Operator runs one kind of task. One value serves all attempts, concurrently.
type Operator interface {
	// Spec describes the operator's keys to the loader and the documentation.
	Spec() dag.OperatorSpec
	// Run makes one attempt. It returns when the work and every process that it
	// started have ended, and soon after ctx is done: context.Cause(ctx) says
	// why (ErrTimeout, ErrLeaseLost, ErrStopping). It classifies what it
	// knows; the caller recovers a panic as a failure.
	Run(ctx context.Context, t *Task) dag.Outcome
}

// Planner is what an Operator also implements when it can tell what an attempt
// would do without doing it. Plan writes it to the task's log for people and
// gives it as the outcome's value; it changes nothing.
type Planner interface {
	Plan(ctx context.Context, t *Task) dag.Outcome
}

// Scratch is what an Operator also implements when its attempts need a
// Task.ScratchDir.
type Scratch interface{ UsesScratch() bool }

// Prober is what an Operator also implements when it can find out by trying
// whether a step could work on this machine now: a replay asks it before it puts
// a dead letter back. args are the step's, rendered, as far as they are known;
// dir is the folder of the DAG's file.
type Prober interface {
	// Missing says what the machine lacks for the step, "" for nothing. It does
	// not depend on the step's input, so that the answer holds for all letters of
	// a step. The error is set only when ctx is done.
	Missing(ctx context.Context, args map[string]any, dir string) (string, error)
	// InputGone says that the step's input is not there any more, "" when it is
	// or when the step has none.
	InputGone(args map[string]any, dir string) string
}

// Task is what one attempt gets.
type Task struct {
	DAG *dag.DAG
	Def *dag.Task
	TI  dag.TaskInstance
	Run dag.Run
	// Args are Def.Args with the instance's payload merged over them, rendered.
	// Durations are float64 seconds, as dag.FieldDuration says.
	Args map[string]any
	// Render renders a text that the operator reads itself, such as a script
	// file, as a template; nil leaves such texts as they are.
	Render func(text string) (string, error)
	// Log is the attempt's log. Writes are safe for concurrent use, bounded and
	// masked; a line is best written whole.
	Log io.Writer
	// Progress shows how far the attempt is; calls are cheap and may be dropped.
	Progress func(Progress)
	// Connection finds a connection by id; the error names the id and says how
	// to add it.
	Connection func(ctx context.Context, id string) (dag.Connection, error)
	// XCom reads a value of an upstream task: mapIndex nil gives the value of an
	// unmapped task, or a JSON list for a mapped one. nil when there is none.
	XCom func(ctx context.Context, taskID, key string, mapIndex *int) (json.RawMessage, error)
	// Trigger makes a run of another DAG and returns its run id; making the same
	// run id twice is not an error.
	Trigger func(ctx context.Context, r TriggerRequest) (runID string, err error)
	// RunState is the state of a run of any DAG, "" when there is no such run;
	// nil where the process cannot look at other runs.
	RunState func(ctx context.Context, dagID, runID string) (dag.RunState, error)
	// ExternalStates looks at the run of another DAG with a logical date; nil
	// where the process cannot look at other runs.
	ExternalStates func(ctx context.Context, q ExternalQuery) (ExternalStates, error)
	// StillMine asks the state database whether the lease still holds; an
	// operator with an effect outside asks just before it commits the effect.
	StillMine func(ctx context.Context) error
	// OpenInput is asked just before a media file is given to a program that may
	// choke on it. The error says that this input has failed too often, in any
	// task of any DAG, and is not to be opened until somebody releases it; a
	// failure of the attempt is counted against the input from then on. Each call
	// replaces the one before.
	OpenInput func(ctx context.Context, assetSHA256 string) error
	// SealedBefore gives the id of an open dead letter of this task, in any of its
	// runs, about the media file with this hash; 0 for none, and where the attempt
	// is a letter's replay.
	SealedBefore func(ctx context.Context, assetSHA256 string) (letter int64, err error)
	// Dir is the folder of the DAG's file, absolute: relative paths in a step
	// start here.
	Dir string
	// ScratchDir is a folder of this attempt alone, removed afterwards; "" for an
	// operator that is no Scratch.
	ScratchDir string
	// Marker is set in the environment of every child process as AIRLOCK_ATTEMPT,
	// so that what a killed worker left behind can be found.
	Marker string
	// IdempotencyKey of the effect: dag/task/run/map index, or what the step says.
	IdempotencyKey string
	// Detail keeps a JSON value beside the attempt's record.
	Detail func(v any)
	Clock  dag.Clock
}

// Progress is how far an attempt is.
type Progress struct {
	// Fraction is 0 to 1, or negative when unknown.
	Fraction float64
	// ETA is the time left, 0 when unknown.
	ETA time.Duration
	// Text is a few words: "1.2x, 340 frames".
	Text string
	// Measures are numbers for programs, by name: "fps", "speed" (media time by
	// wall time), "frames". Those that are not known are left out.
	Measures map[string]float64
}

// String is the report in words: "42 %, 1m10s left, 1.2x, 340 frames".
func (p Progress) String() string {
	var parts []string
	if p.Fraction >= 0 {
		parts = append(parts, fmt.Sprintf("%.0f %%", 100*p.Fraction))
	}
	if p.ETA > 0 {
		parts = append(parts, p.ETA.Round(time.Second).String()+" left")
	}
	if p.Text != "" {
		parts = append(parts, p.Text)
	}
	return strings.Join(parts, ", ")
}

// TriggerRequest asks for a run of another DAG.
type TriggerRequest struct {
	DagID       string
	RunID       string // made from the asking task instance when empty
	LogicalDate *time.Time
	Conf        map[string]any
}

// ExternalQuery asks for the run of another DAG.
type ExternalQuery struct {
	DagID       string
	LogicalDate time.Time
	// TaskIDs and GroupID narrow the answer to these tasks, or to those of a
	// group and the groups inside it; with neither only the run is looked at.
	TaskIDs []string
	GroupID string
}

// ExternalStates is what such a run holds now.
type ExternalStates struct {
	// NoDAG is set when there is no such DAG.
	NoDAG bool
	// Unknown lists the tasks and the group asked for that the DAG does not have,
	// as the run's version has it (the present version while there is no run).
	Unknown []string
	// Run is the state of the run, "" while there is none.
	Run dag.RunState
	// Newest is the logical date of the newest run that the DAG's schedule made,
	// where there is no run and the date asked for lies before that one: the run was
	// cleaned away, or the schedule never made it. Else it is zero.
	Newest time.Time
	// Tasks counts the instances of each task asked for by their states. A task
	// that has none yet is not in it, and there is none while there is no run.
	Tasks map[string]map[dag.State]int
	// TaskIDs are the tasks asked for: those named, or those of the group.
	TaskIDs []string
}

// Causes of a cancelled attempt.
var (
	// ErrTimeout: execution_timeout passed; the attempt failed.
	ErrTimeout = cause("execution_timeout passed")
	// ErrLeaseLost: the lease could not be renewed; nothing may be written any more.
	ErrLeaseLost = cause("the lease was lost")
	// ErrStopping: the worker is shutting down and its limit has passed; the
	// attempt is handed back.
	ErrStopping = cause("the worker is stopping")
	// ErrCleared: a person cleared the instance while it ran.
	ErrCleared = cause("the task was cleared")
)

type cause string

func (c cause) Error() string { return string(c) }

// Grace is how long a child may take to end for this cause; 0 for the usual
// time. When the lease is gone another worker is about to start the task, so
// there is none to lose.
func (c cause) Grace() time.Duration {
	if c == ErrLeaseLost {
		return 2 * time.Second
	}
	return 0
}
