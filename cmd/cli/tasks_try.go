package cli

import (
	"context"
	"fmt"

	"github.com/airlock-dag/airlock/cmd/app"
	"github.com/airlock-dag/airlock/dag"
)

type tasksTestCmd struct {
	DagID   string `arg:"" name:"dag" help:"The DAG's id."`
	TaskID  string `arg:"" name:"task" help:"The task's id."`
	Date    string `arg:"" optional:"" name:"date" help:"The run's logical date; now when it is not given."`
	Conf    string `short:"c" placeholder:"JSON" help:"The run's conf: a JSON object."`
	Payload string `placeholder:"JSON" help:"The values of one instance of a mapped task: a JSON object."`
	Plan    bool   `help:"Print what a merge task would do, and do nothing."`
	outputFlag
}

// Run makes one attempt and prints its log and what it came to.
func (c tasksTestCmd) Run(ctx context.Context, s *session) error {
	request := app.TaskTestRequest{DagID: c.DagID, TaskID: c.TaskID, Out: s.env.Stdout, PlanOnly: c.Plan}
	var err error
	if request.LogicalDate, err = s.date(c.Date); err != nil {
		return err
	}
	if request.Conf, err = parseObject("conf", c.Conf); err != nil {
		return err
	}
	if request.Payload, err = parseObject("payload", c.Payload); err != nil {
		return err
	}
	if _, _, err := s.task(ctx, c.DagID, c.TaskID); err != nil {
		return err
	}
	if c.Output == "json" || c.Output == "yaml" {
		request.Out = s.env.Stderr // the report stands alone on stdout
	}
	a, err := s.open(ctx, false)
	if err != nil {
		return err
	}
	report, err := a.TestTask(ctx, request)
	if err != nil {
		return err
	}
	if c.Plan && report.State == dag.StateSuccess && c.Output != "json" && c.Output != "yaml" {
		return nil // the plan stands in the log
	}
	if err := printPairs(s.env.Stdout, c.Output, report, []pair{
		{"state", string(report.State)},
		{"return_value", report.ReturnValue},
		{"error_class", string(report.ErrorClass)},
		{"error_code", report.ErrorCode},
		{"error_message", report.Message},
		{"hint", report.Hint},
	}); err != nil {
		return err
	}
	switch report.State {
	case dag.StateSuccess, dag.StateSkipped, dag.StateUpForReschedule:
		return nil
	default:
		fmt.Fprintf(s.env.Stderr, "the instance would be %s\n", report.State)
		return errReported
	}
}
