package timetable

import (
	"errors"
	"fmt"
	"sort"
	"strings"

	"github.com/airlock-dag/airlock/dag"
)

// Presets gives the cron text of each preset ("@daily": "0 0 * * *").
func Presets() map[string]string {
	return map[string]string{
		"@hourly":    "0 * * * *",
		"@daily":     "0 0 * * *",
		"@midnight":  "0 0 * * *",
		"@weekly":    "0 0 * * 0",
		"@monthly":   "0 0 1 * *",
		"@quarterly": "0 0 1 */3 *",
		"@yearly":    "0 0 1 1 *",
		"@annually":  "0 0 1 1 *",
	}
}

// ParseCron checks one cron text (not a preset): fields, values, and that the
// day it names exists. The error is a *dag.Error of code invalid.
func ParseCron(text string) error {
	_, err := checkedCron(text)
	return err
}

func checkedCron(text string) (*cronSpec, error) {
	spec, err := parseCron(text)
	if err != nil {
		return nil, invalid(text, "", err)
	}
	if !spec.everFires() {
		return nil, invalid(text, "29 February is fine, 30 February and 31 April are not",
			errors.New("it never fires: no such day exists in any year"))
	}
	return spec, nil
}

func invalid(text, hint string, err error) error {
	return &dag.Error{Code: dag.ErrInvalid, Op: fmt.Sprintf("schedule %q", text), Hint: hint, Err: err}
}

// FromText turns a schedule text of a DAG file into a schedule: a preset, a
// cron text, "@once", "@continuous", or "none" in any case. With
// cronDataIntervals a cron text means data intervals, as in Airflow 2;
// otherwise its ticks trigger runs, as in Airflow 3. Blanks around the text do
// not count. The error is a *dag.Error of code invalid.
func FromText(text string, cronDataIntervals bool) (dag.Schedule, error) {
	s := dag.Schedule{Text: strings.TrimSpace(text)}
	switch {
	case s.Text == "":
		return s, invalid(text, "write null for a DAG that only people start", errors.New("the text is empty"))
	case strings.EqualFold(s.Text, "none"):
		s.Kind = dag.ScheduleNone
		return s, nil
	case s.Text == "@once":
		s.Kind = dag.ScheduleOnce
		return s, nil
	case s.Text == "@continuous":
		s.Kind = dag.ScheduleContinuous
		return s, nil
	}
	expr := s.Text
	if strings.HasPrefix(expr, "@") {
		var ok bool
		if expr, ok = Presets()[s.Text]; !ok && s.Text != strings.ToLower(s.Text) {
			// Airflow's own list has small letters; croniter takes its presets in any.
			expr, ok = Presets()[strings.ToLower(s.Text)]
			ok = ok && !strings.EqualFold(s.Text, "@quarterly")
		}
		if !ok {
			return s, unknownPreset(s.Text)
		}
	}
	if err := ParseCron(expr); err != nil {
		return s, err
	}
	s.Crons = []string{expr}
	s.Kind = dag.ScheduleCronTrigger
	if cronDataIntervals {
		s.Kind = dag.ScheduleCronInterval
	}
	return s, nil
}

func unknownPreset(text string) error {
	names := []string{"@once", "@continuous"}
	for name := range Presets() {
		names = append(names, name)
	}
	sort.Strings(names)
	hint := "allowed are " + strings.Join(names, ", ")
	if strings.HasPrefix(text, "@every") {
		hint = "for a fixed period write {__type__: datetime.timedelta, minutes: 5}; " + hint
	}
	return invalid(text, hint, errors.New("there is no such preset"))
}
