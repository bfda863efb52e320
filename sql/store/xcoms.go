package store

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/dialect"
)

type xcomInsert struct {
	row   *instanceRow
	key   string
	value json.RawMessage
}

func (t *tx) insertXComs(ctx context.Context, list []xcomInsert) error {
	args := make([]any, 0, 8*len(list))
	for _, x := range list {
		args = append(args, x.row.DagRunID, x.row.TaskID, x.row.MapIndex, short(x.key, 250), x.row.DagID, x.row.RunID, jsonText(x.value), t.at)
	}
	return t.insertLater(ctx, "INSERT INTO xcom (dag_run_id, task_id, map_index, xcom_key, dag_id, run_id, value, created_at) VALUES ",
		dialect.Rows(1, 8), t.s.db.Upsert([]string{"dag_run_id", "task_id", "map_index", "xcom_key"}, []string{"value", "created_at"}), 8, args)
}

// XCom is the value of one instance, or with mapIndex nil of all instances of
// the task: a plain value when it is not mapped, else a JSON list by map index.
// nil when there is none.
func (s *Store) XCom(ctx context.Context, dagID, runID, taskID, key string, mapIndex *int) (json.RawMessage, error) {
	list, err := s.XComs(ctx, dag.XComFilter{DagID: dagID, RunID: runID, TaskID: taskID, Key: key, MapIndex: mapIndex, Limit: -1})
	if err != nil || len(list) == 0 {
		return nil, err
	}
	if mapIndex != nil || list[0].MapIndex < 0 {
		return list[0].Value, nil
	}
	var b bytes.Buffer
	b.WriteByte('[')
	for i, x := range list {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(x.Value)
	}
	b.WriteByte(']')
	return b.Bytes(), nil
}

// XComs implements Desk.
func (s *Store) XComs(ctx context.Context, f dag.XComFilter) ([]dag.XComEntry, error) {
	var c condition
	if f.DagID != "" || f.RunID != "" {
		var r condition
		r.eq("dag_id", f.DagID)
		r.eq("run_id", f.RunID)
		c.add("dag_run_id IN (SELECT id FROM dag_run"+r.where()+")", r.args...)
	}
	c.eq("task_id", f.TaskID)
	c.eq("xcom_key", f.Key)
	if f.MapIndex != nil {
		c.add("map_index = ?", *f.MapIndex)
	}
	var rows []struct {
		dag.TaskInstanceKey
		Key       string       `db:"xcom_key"`
		Value     string       `db:"value"`
		CreatedAt dialect.Time `db:"created_at"`
	}
	err := s.db.Reader().SelectContext(ctx, &rows, "SELECT dag_id, run_id, task_id, map_index, xcom_key, value, created_at FROM xcom"+c.where()+
		" ORDER BY dag_run_id, task_id, map_index, xcom_key"+limit(f.Limit, 1000), c.args...)
	if err != nil {
		return nil, fmt.Errorf("list XComs: %w", err)
	}
	out := make([]dag.XComEntry, len(rows))
	for i, r := range rows {
		out[i] = dag.XComEntry{TaskInstanceKey: r.TaskInstanceKey, Key: r.Key, Value: json.RawMessage(r.Value), CreatedAt: r.CreatedAt.Time}
	}
	return out, nil
}
