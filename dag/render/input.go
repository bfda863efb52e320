package render

import (
	"time"

	"github.com/airlock-dag/airlock/dag"
)

// Limits of one template.
const (
	// MaxOutput is the greatest size of a rendered text, in bytes.
	MaxOutput = 1 << 20
	// MaxTemplate is the greatest size of a template's text, in bytes.
	MaxTemplate = 1 << 20
	// MaxRange is the most items that range() gives.
	MaxRange = 10_000
	// DefaultTimeout is how long one template may take.
	DefaultTimeout = 2 * time.Second
)

// Input is what templates see. Everything is optional; a name whose source is
// missing is undefined.
type Input struct {
	DAG  *dag.DAG
	Task *dag.Task
	TI   *dag.TaskInstance
	Run  *dag.Run
	// Params are the merged params, see MergeParams.
	Params map[string]any
	// Variables gives all variables; it is called once, when first needed.
	Variables func() map[string]string
	// Connection finds a connection; it is called when conn.NAME is read.
	Connection func(id string) (dag.Connection, error)
	// XCom reads one value of one task: taskIDs has one entry and mapIndexes at
	// most one; without an index it is the value of an unmapped task or the list
	// of a mapped one. dagID is what the template says, else the instance's. It
	// returns JSON types; nil when there is no value.
	XCom func(taskIDs []string, key string, dagID string, mapIndexes []int) (any, error)
	// PreviousSuccess is the last successful run before this one, for
	// prev_data_interval_start_success and its like. It is called when first
	// needed and returns nil when there is none.
	PreviousSuccess func() (*dag.Run, error)
	// Extra are further names (exception and reason of callbacks, macros of the
	// user). They win over the names of the context.
	Extra map[string]any

	// Clock, Rand and IDs serve macros; the system's when nil.
	Clock dag.Clock
	Rand  dag.Rand
	IDs   dag.IDSource
	// Timeout of one template, DefaultTimeout when 0.
	Timeout time.Duration
}
