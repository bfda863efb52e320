package store

import (
	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/dialect"
)

// runColumns are the columns of runRow.
const runColumns = `id, dag_id, run_id, run_type, state, logical_date, data_interval_start, data_interval_end, run_after,
 queued_at, start_date, end_date, reason, conf, triggered_by, note, clear_number, is_replay, dag_version_id`

type runRow struct {
	ID                int64        `db:"id"`
	DagID             string       `db:"dag_id"`
	RunID             string       `db:"run_id"`
	Type              string       `db:"run_type"`
	State             string       `db:"state"`
	LogicalDate       dialect.Time `db:"logical_date"`
	DataIntervalStart dialect.Time `db:"data_interval_start"`
	DataIntervalEnd   dialect.Time `db:"data_interval_end"`
	RunAfter          dialect.Time `db:"run_after"`
	QueuedAt          dialect.Time `db:"queued_at"`
	StartDate         dialect.Time `db:"start_date"`
	EndDate           dialect.Time `db:"end_date"`
	Reason            string       `db:"reason"`
	Conf              *string      `db:"conf"`
	TriggeredBy       string       `db:"triggered_by"`
	Note              string       `db:"note"`
	ClearNumber       int          `db:"clear_number"`
	IsReplay          bool         `db:"is_replay"`
	VersionID         int64        `db:"dag_version_id"`
}

func (r runRow) model() dag.Run {
	return dag.Run{
		ID: r.ID, DagID: r.DagID, RunID: r.RunID, Type: dag.RunType(r.Type), State: dag.RunState(r.State),
		LogicalDate: r.LogicalDate.Ptr(), DataIntervalStart: r.DataIntervalStart.Ptr(), DataIntervalEnd: r.DataIntervalEnd.Ptr(),
		RunAfter: r.RunAfter.Time, QueuedAt: r.QueuedAt.Ptr(), StartDate: r.StartDate.Ptr(), EndDate: r.EndDate.Ptr(),
		Reason: r.Reason, Conf: rawOrNil(r.Conf), TriggeredBy: r.TriggeredBy, Note: r.Note, ClearNumber: r.ClearNumber,
		IsReplay: r.IsReplay, VersionID: r.VersionID,
	}
}
