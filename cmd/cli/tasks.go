package cli

import (
	"context"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"time"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/plainfile"
	"github.com/airlock-dag/airlock/executor"
	"github.com/airlock-dag/airlock/executor/operator"
)

// tasksCmd groups what is done with tasks and their instances.
type tasksCmd struct {
	List          tasksListCmd    `cmd:"" help:"List a DAG's tasks."`
	Test          tasksTestCmd    `cmd:"" help:"Run one task here and now, without a run; nothing is kept."`
	States        tasksStatesCmd  `cmd:"" name:"states-for-dag-run" help:"List the task instances of a run."`
	Logs          tasksLogsCmd    `cmd:"" help:"Print the log of a task's attempt."`
	History       tasksHistoryCmd `cmd:"" help:"Tell what happened to a task instance."`
	Clear         tasksClearCmd   `cmd:"" help:"Let task instances run again."`
	RetrySchedule tasksRetryCmd   `cmd:"" name:"retry-schedule" help:"Show how long each retry of a task waits."`
}

type tasksListCmd struct {
	DagID string `arg:"" name:"dag" help:"The DAG's id."`
	outputFlag
}

// Run lists tasks in the order in which they can run.
func (c tasksListCmd) Run(ctx context.Context, s *session) error {
	d, _, err := s.dag(ctx, c.DagID)
	if err != nil {
		return err
	}
	return printTasks(s, c.Output, d)
}

// task finds a task of a DAG.
func (s *session) task(ctx context.Context, dagID, taskID string) (*dag.DAG, *dag.Task, error) {
	d, _, err := s.dag(ctx, dagID)
	if err != nil {
		return nil, nil, err
	}
	if t := d.Task(taskID); t != nil {
		return d, t, nil
	}
	return nil, nil, notFound("task", taskID, taskIDs(d), "`airlock tasks list "+dagID+"` shows all")
}

func taskIDs(d *dag.DAG) []string {
	ids := make([]string, len(d.Tasks))
	for i := range d.Tasks {
		ids[i] = d.Tasks[i].ID
	}
	return ids
}

// run finds a run by its id, or by its logical date.
func (s *session) run(ctx context.Context, dagID, idOrDate string) (dag.Run, error) {
	st, err := s.store(ctx)
	if err != nil {
		return dag.Run{}, err
	}
	run, err := st.Run(ctx, dagID, idOrDate)
	if dag.CodeOf(err) != dag.ErrNotFound {
		return run, err
	}
	runs, err := st.Runs(ctx, dag.RunFilter{DagID: dagID, Limit: -1})
	if err != nil {
		return dag.Run{}, err
	}
	known := make([]string, len(runs))
	date, dateErr := s.date(idOrDate)
	for i, r := range runs {
		if dateErr == nil && r.LogicalDate != nil && date != nil && r.LogicalDate.Equal(*date) {
			return r, nil
		}
		known[i] = r.RunID
	}
	if len(runs) == 0 {
		if _, _, err := s.dag(ctx, dagID); err != nil {
			return dag.Run{}, err
		}
	}
	return dag.Run{}, notFound("run", idOrDate, known, "`airlock dags list-runs "+dagID+"` shows all")
}

type tasksStatesCmd struct {
	DagID string `arg:"" name:"dag" help:"The DAG's id."`
	RunID string `arg:"" name:"run" help:"The run's id, or its logical date."`
	outputFlag
}

// Run lists a run's task instances.
func (c tasksStatesCmd) Run(ctx context.Context, s *session) error {
	run, err := s.run(ctx, c.DagID, c.RunID)
	if err != nil {
		return err
	}
	st, err := s.store(ctx)
	if err != nil {
		return err
	}
	instances, err := st.Instances(ctx, dag.InstanceFilter{DagID: c.DagID, RunID: run.RunID, Limit: -1})
	if err != nil {
		return err
	}
	progress, err := st.Progress(ctx, c.DagID, run.RunID)
	if err != nil {
		return err
	}
	if err := s.tellUnserved(ctx, instances); err != nil {
		return err
	}
	if c.Output == "json" || c.Output == "yaml" {
		out := make([]instanceState, len(instances))
		for i, instance := range instances {
			out[i] = instanceState{TaskInstance: instance}
			if p, running := progress[instance.ID]; running {
				out[i].Progress = newProgressState(p)
			}
		}
		return printValue(s.env.Stdout, c.Output, out)
	}
	return printInstances(s.env.Stdout, c.Output, instances, col("progress", func(i dag.TaskInstance) any {
		p, running := progress[i.ID]
		if !running {
			return nil
		}
		return operator.Progress{Fraction: p.Fraction, ETA: p.ETA, Text: p.Text}.String()
	}))
}

// tellUnserved warns where some of the instances wait in a queue from which no
// living worker takes.
func (s *session) tellUnserved(ctx context.Context, instances []dag.TaskInstance) error {
	waits := map[string]bool{}
	for _, i := range instances {
		if i.State == dag.StateQueued {
			waits[i.Queue] = true
		}
	}
	if len(waits) == 0 {
		return nil
	}
	st, err := s.store(ctx)
	if err != nil {
		return err
	}
	list, err := st.Unserved(ctx, 0)
	if err != nil {
		return err
	}
	for _, u := range list {
		if waits[u.Queue] {
			fmt.Fprintf(s.env.Stderr, "%s: %s\n", u.What(), u.Hint())
		}
	}
	return nil
}

// instanceState is a task instance, and how far it is while it runs.
type instanceState struct {
	dag.TaskInstance
	Progress *progressState `json:"progress"`
}

// progressState is how far an attempt says it is; what it does not know is null.
type progressState struct {
	Percent *float64 `json:"percent"` // 0 to 100
	// ETASeconds is the time left.
	ETASeconds *float64 `json:"eta_s"`
	FPS        *float64 `json:"fps"`
	// Speed is media time by wall time.
	Speed     *float64           `json:"speed"`
	Text      string             `json:"text"`
	Measures  map[string]float64 `json:"measures"`
	UpdatedAt time.Time          `json:"updated_at"`
}

func newProgressState(p dag.TaskProgress) *progressState {
	out := &progressState{Text: p.Text, Measures: p.Measures, UpdatedAt: p.UpdatedAt}
	if out.Measures == nil {
		out.Measures = map[string]float64{}
	}
	if p.Fraction >= 0 {
		percent := math.Round(p.Fraction*1e4) / 100
		out.Percent = &percent
	}
	if p.ETA > 0 {
		left := math.Round(p.ETA.Seconds()*10) / 10
		out.ETASeconds = &left
	}
	if v, ok := p.Measures["fps"]; ok {
		out.FPS = &v
	}
	if v, ok := p.Measures["speed"]; ok {
		out.Speed = &v
	}
	return out
}

func printInstances(w io.Writer, format string, instances []dag.TaskInstance, more ...column[dag.TaskInstance]) error {
	return printRows(w, format, instances, append([]column[dag.TaskInstance]{
		spared(3, col("dag_id", func(i dag.TaskInstance) any { return i.DagID })),
		spared(4, col("run_id", func(i dag.TaskInstance) any { return i.RunID })),
		kept(col("task_id", func(i dag.TaskInstance) any { return i.TaskID })),
		col("map_index", func(i dag.TaskInstance) any { return mapIndex(i.TaskInstanceKey) }),
		col("state", func(i dag.TaskInstance) any { return string(i.State) }),
		col("try_number", func(i dag.TaskInstance) any { return i.TryNumber }),
		col("start_date", func(i dag.TaskInstance) any { return i.StartDate }),
		spared(1, col("end_date", func(i dag.TaskInstance) any { return i.EndDate })),
		spared(2, col("next_try_at", func(i dag.TaskInstance) any { return i.NextTryAt })),
	}, more...)...)
}

// mapIndex is nil for an instance of a task that is not mapped.
func mapIndex(k dag.TaskInstanceKey) any {
	if k.MapIndex < 0 {
		return nil
	}
	return k.MapIndex
}

type tasksLogsCmd struct {
	DagID    string `arg:"" name:"dag" help:"The DAG's id."`
	RunID    string `arg:"" name:"run" help:"The run's id, or its logical date."`
	TaskID   string `arg:"" name:"task" help:"The task's id."`
	MapIndex int    `name:"map-index" default:"-1" placeholder:"N" help:"Which instance of a mapped task."`
	Try      int    `placeholder:"N" help:"Which try; the last when it is not given."`
}

// Run prints a log. The present try of a running task is there too.
func (c tasksLogsCmd) Run(ctx context.Context, s *session) error {
	run, err := s.run(ctx, c.DagID, c.RunID)
	if err != nil {
		return err
	}
	cfg, err := s.config()
	if err != nil {
		return err
	}
	instance, err := s.instance(ctx, "find the log", run, c.TaskID, c.MapIndex)
	if err != nil {
		return err
	}
	return s.printLog(ctx, cfg.Logging.Folder, instance, c.Try)
}

// instance finds one task instance of a run; of a mapped task it needs the index.
func (s *session) instance(ctx context.Context, op string, run dag.Run, taskID string, mapIndex int) (dag.TaskInstance, error) {
	st, err := s.store(ctx)
	if err != nil {
		return dag.TaskInstance{}, err
	}
	instances, err := st.Instances(ctx, dag.InstanceFilter{DagID: run.DagID, RunID: run.RunID, TaskID: taskID, Limit: -1})
	if err != nil {
		return dag.TaskInstance{}, err
	}
	for _, instance := range instances {
		if instance.MapIndex == mapIndex {
			return instance, nil
		}
	}
	switch {
	case len(instances) == 0:
		if _, _, err = s.task(ctx, run.DagID, taskID); err == nil {
			err = notFound("task", taskID, nil, "the run has no such task")
		}
	case instances[0].MapIndex < 0:
		err = wrong(op, "leave --map-index out", "%s is not mapped", taskID)
	default:
		err = wrong(op, fmt.Sprintf("give --map-index 0 to %d", len(instances)-1), "%s is mapped and has %s", taskID, count(len(instances), "instance"))
	}
	return dag.TaskInstance{}, err
}

// printLog copies the log of a try; 0 is the last.
func (s *session) printLog(ctx context.Context, folder string, instance dag.TaskInstance, try int) error {
	st, err := s.store(ctx)
	if err != nil {
		return err
	}
	attempts, err := st.Attempts(ctx, instance.TaskInstanceKey)
	if err != nil {
		return err
	}
	path := ""
	for _, a := range attempts {
		if try == 0 || a.TryNumber == try {
			path = a.LogPath
		}
	}
	if instance.State == dag.StateRunning && (try == 0 || try == instance.TryNumber) {
		path = executor.LogPath(instance.TaskInstanceKey, instance.TryNumber)
	}
	if path == "" {
		return notFound("log of", instance.String(), nil, fmt.Sprintf("it is %s and has %s", instance.State, count(len(attempts), "finished attempt")))
	}
	file, err := plainfile.Open(filepath.Join(folder, filepath.FromSlash(path)))
	if err != nil {
		return &dag.Error{
			Code: dag.ErrNotFound, Op: "read the log", Err: err,
			Hint: "logs lie on the machine where the task ran, in logging.folder",
		}
	}
	defer file.Close()
	_, err = io.Copy(s.env.Stdout, file)
	return err
}
