package app

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sort"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/airlock-dag/airlock/dag"
)

// TestReport is what a test run did, in a shape that a person and a program can
// read.
type TestReport struct {
	Run     dag.Run          `json:"run"`
	Tasks   []TaskReport     `json:"tasks"`
	Media   *MediaReport     `json:"media,omitempty"`
	Merges  []MergeReport    `json:"merges,omitempty"`
	Letters []dag.DeadLetter `json:"letters,omitempty"`
	// Changed is false when every effect was there already: nothing was encoded
	// and no row was written.
	Changed bool `json:"changed"`
	// Queries are the statements that show what was sealed.
	Queries []string `json:"queries,omitempty"`
}

// TaskReport counts the instances of one task by state.
type TaskReport struct {
	TaskID   string            `json:"task_id"`
	Operator string            `json:"operator"`
	States   map[dag.State]int `json:"states"`
}

// MediaReport sums up the probe, transcode and upload steps of a run.
type MediaReport struct {
	AssetsIn   int `json:"assets_in"`
	Transcoded int `json:"transcoded"`
	Skipped    int `json:"skipped"` // already there, verified by the manifest
	// Uploaded and UploadsSkipped are nil when the run has no upload step.
	Uploaded       *int `json:"uploaded,omitempty"`
	UploadsSkipped *int `json:"uploads_skipped,omitempty"` // the target had the same content already
	Sealed         int  `json:"sealed"`
}

// MergeReport is the accounting of one merge step.
type MergeReport struct {
	TaskID        string `json:"task_id"`
	Read          int64  `json:"rows_read"`
	Merged        int64  `json:"rows_merged"`
	Unchanged     int64  `json:"rows_unchanged"`
	Quarantined   int64  `json:"rows_quarantined"`
	Superseded    int64  `json:"rows_superseded"`
	WatermarkFrom any    `json:"watermark_from"`
	WatermarkTo   any    `json:"watermark_to"`
	BatchID       string `json:"batch_id"`
	AlreadyDone   bool   `json:"already_done,omitempty"`
}

// report reads from the state database what a run did.
func (a *App) report(ctx context.Context, d *dag.DAG, runID string) (TestReport, error) {
	run, err := a.store.Run(ctx, d.ID, runID)
	if err != nil {
		return TestReport{}, err
	}
	rep := TestReport{Run: run}
	instances, err := a.store.Instances(ctx, dag.InstanceFilter{DagID: d.ID, RunID: runID, Limit: -1})
	if err != nil {
		return rep, err
	}
	xcoms, err := a.store.XComs(ctx, dag.XComFilter{DagID: d.ID, RunID: runID, Key: dag.XComReturnValue, Limit: -1})
	if err != nil {
		return rep, err
	}
	values := make(map[dag.TaskInstanceKey]json.RawMessage, len(xcoms))
	for _, x := range xcoms {
		values[x.TaskInstanceKey] = x.Value
	}
	if rep.Letters, err = a.store.Letters(ctx, dag.LetterFilter{DagID: d.ID, RunID: runID, Status: dag.LetterSealed, Limit: -1}); err != nil {
		return rep, err
	}
	dag.WithInputs(ctx, a.store.Letter, rep.Letters)
	byTask := map[string]*TaskReport{}
	for _, t := range d.Tasks {
		rep.Tasks = append(rep.Tasks, TaskReport{TaskID: t.ID, Operator: t.Operator, States: map[dag.State]int{}})
	}
	for i := range rep.Tasks {
		byTask[rep.Tasks[i].TaskID] = &rep.Tasks[i]
	}
	for _, ti := range instances {
		if t := byTask[ti.TaskID]; t != nil {
			t.States[ti.State]++
		}
		rep.add(ti, values[ti.TaskInstanceKey])
	}
	if len(rep.Letters) > 0 {
		rep.Queries = append(rep.Queries, fmt.Sprintf(
			"SELECT task_id, map_index, error_class, error_code, error_message FROM dead_letter WHERE dag_id = '%s' AND run_id = '%s'",
			quoted(d.ID), quoted(runID)))
	}
	for _, m := range rep.Merges {
		if m.Quarantined > 0 {
			rep.Queries = append(rep.Queries, fmt.Sprintf(
				"SELECT source, source_line, column_name, error_code, error_message, raw FROM airlock_dead_letter_row /* in the target database */ WHERE dag_id = '%s' AND task_id = '%s'",
				quoted(d.ID), quoted(m.TaskID)))
		}
	}
	return rep, nil
}

// add accounts for one instance.
func (r *TestReport) add(ti dag.TaskInstance, value json.RawMessage) {
	switch ti.Operator {
	case "probe", "transcode", "upload":
		if ti.State == dag.StateRemoved || ti.State == dag.StateUpstreamFailed || ti.MapIndex < 0 && ti.State == dag.StateSkipped {
			return // it never had a file: an expansion of length 0, say
		}
		if r.Media == nil {
			r.Media = &MediaReport{}
		}
		if ti.Operator == "probe" {
			r.Media.AssetsIn++
		}
		if ti.State == dag.StateFailed {
			r.Media.Sealed++
		}
		var x struct {
			Skipped bool `json:"skipped"`
		}
		done, skipped := &r.Media.Transcoded, &r.Media.Skipped
		if ti.Operator == "upload" {
			if r.Media.Uploaded == nil {
				r.Media.Uploaded, r.Media.UploadsSkipped = new(int), new(int)
			}
			done, skipped = r.Media.Uploaded, r.Media.UploadsSkipped
		}
		if ti.Operator == "probe" || ti.State != dag.StateSuccess || json.Unmarshal(value, &x) != nil {
			return
		}
		if x.Skipped {
			*skipped++
		} else {
			*done++
			r.Changed = true
		}
	case "merge":
		m := MergeReport{TaskID: ti.TaskID}
		if ti.State != dag.StateSuccess || json.Unmarshal(value, &m) != nil {
			return
		}
		r.Merges = append(r.Merges, m)
		r.Changed = r.Changed || m.Merged > 0 && !m.AlreadyDone
	}
}

// Print writes the report for a person: where is the state database, width how many
// characters a line of the terminal has, 0 for as many as there are.
func (r TestReport) Print(w io.Writer, where string, width int) {
	took := ""
	if r.Run.StartDate != nil && r.Run.EndDate != nil {
		took = " in " + r.Run.EndDate.Sub(*r.Run.StartDate).Round(10*time.Millisecond).String()
	}
	if n := len(r.Letters); n > 0 { // a run may succeed by its last tasks although some in the middle did not
		took += fmt.Sprintf(", %d sealed", n)
	}
	fmt.Fprintf(w, "\nRun %s of %s: %s%s\n\n", r.Run.RunID, r.Run.DagID, r.Run.State, took)

	t := newTable(w, width, "task", "operator", "success", "skipped", "sealed", "upstream_failed")
	for _, task := range r.Tasks {
		t.AppendRow(table.Row{task.TaskID, task.Operator, task.States[dag.StateSuccess], task.States[dag.StateSkipped],
			task.States[dag.StateFailed], task.States[dag.StateUpstreamFailed]})
	}
	t.Render()
	if r.Media != nil {
		fmt.Fprintln(w)
		t := newTable(w, width, "media", "assets")
		t.AppendRows([]table.Row{
			{"assets in", r.Media.AssetsIn}, {"transcoded", r.Media.Transcoded},
			{"skipped, already there", r.Media.Skipped},
		})
		if r.Media.Uploaded != nil {
			t.AppendRows([]table.Row{{"uploaded", *r.Media.Uploaded}, {"skipped, already at the target", *r.Media.UploadsSkipped}})
		}
		t.AppendRow(table.Row{"sealed", r.Media.Sealed})
		t.Render()
	}
	if len(r.Merges) > 0 {
		fmt.Fprintln(w)
		t := newTable(w, width, "rows", "read", "= merged", "+ unchanged", "+ quarantined", "+ superseded", "watermark from", "to")
		for _, m := range r.Merges {
			t.AppendRow(table.Row{m.TaskID, m.Read, m.Merged, m.Unchanged, m.Quarantined, m.Superseded, orDash(m.WatermarkFrom), orDash(m.WatermarkTo)})
		}
		t.Render()
	}
	if len(r.Letters) > 0 {
		fmt.Fprintln(w)
		narrow := width > 0 && width < 110 // then the message is worth more than class and attempts
		t := newTable(w, width, "sealed", "class", "code", "attempts", "message")
		if narrow {
			t = newTable(w, width, "sealed", "code", "message")
		}
		letters := append([]dag.DeadLetter(nil), r.Letters...)
		sort.Slice(letters, func(i, j int) bool {
			a, b := letters[i], letters[j]
			return a.TaskID < b.TaskID || a.TaskID == b.TaskID && a.MapIndex < b.MapIndex
		})
		for _, l := range letters {
			row := table.Row{label(l.TaskInstanceKey), l.ErrorClass, l.ErrorCode, l.AttemptCount, firstLine(l.Brief(), 90)}
			if narrow {
				row = table.Row{row[0], row[2], row[4]}
			}
			t.AppendRow(row)
		}
		t.Render()
	}
	if (r.Media != nil || len(r.Merges) > 0) && !r.Changed {
		fmt.Fprintln(w, "\nNothing changed: every asset and every row was there already.")
	}
	if len(r.Queries) > 0 {
		fmt.Fprintf(w, "\nAsk what was sealed (state database: %s):\n", where)
		for _, q := range r.Queries {
			fmt.Fprintln(w, "  "+q+";")
		}
	}
}

func newTable(w io.Writer, width int, head ...any) table.Writer {
	t := table.NewWriter()
	t.SetOutputMirror(w)
	style := table.StyleLight
	style.Size.WidthMax = width
	t.SetStyle(style)
	t.AppendHeader(table.Row(head))
	return t
}

func orDash(v any) any {
	if v == nil || v == "" {
		return "-"
	}
	return v
}

// quoted doubles the quotes of an SQL text.
func quoted(s string) string { return strings.ReplaceAll(s, "'", "''") }

func firstLine(s string, most int) string {
	s, _, _ = strings.Cut(s, "\n")
	s = dag.ShownText(s)
	if r := []rune(s); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return s
}
