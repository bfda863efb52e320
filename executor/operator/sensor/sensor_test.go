package sensor_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/dagtest"
	"github.com/airlock-dag/airlock/executor/fault"
	"github.com/airlock-dag/airlock/executor/operator"
	"github.com/airlock-dag/airlock/executor/operator/operatortest"
	"github.com/airlock-dag/airlock/executor/operator/sensor"
)

// begin is where the clock of every test stands at first.
func begin() time.Time { return operatortest.LogicalDate() }

// fixture is an attempt that started at begin, on a clock of the test.
func fixture(t *testing.T, args map[string]any) (*operatortest.Fixture, *dagtest.Clock) {
	t.Helper()
	f := operatortest.New(t, args)
	clock := dagtest.NewClock(begin())
	start := begin()
	f.Clock, f.TI.StartDate = clock, &start
	return f, clock
}

// answers gives one after the other, the last for ever.
func answers(n *int, list ...any) sensor.Poke {
	return func(context.Context) (sensor.Seen, *dag.TaskError) {
		a := list[min(*n, len(list)-1)]
		*n++
		switch x := a.(type) {
		case *dag.TaskError:
			return sensor.Seen{}, x
		case sensor.Seen:
			return x, nil
		default:
			panic("an answer is a Seen or an error")
		}
	}
}

// watch runs a sensor beside the test, which moves its clock.
func watch(ctx context.Context, f *operatortest.Fixture, poke sensor.Poke) <-chan dag.Outcome {
	out := make(chan dag.Outcome, 1)
	go func() { out <- sensor.Run(ctx, f.Task, poke) }()
	return out
}

func notYet() sensor.Seen { return sensor.Seen{Text: "nothing"} }

func TestPokeModeLooksUntilItIsThere(t *testing.T) {
	t.Parallel()
	f, clock := fixture(t, map[string]any{"poke_interval": 30.0})
	n := 0
	out := watch(t.Context(), f, answers(&n, notYet(), notYet(), sensor.Seen{Done: true, Value: "v", XComs: map[string]any{"k": 1}}))
	for range 2 {
		clock.BlockUntil(1)
		clock.Advance(30 * time.Second)
	}
	got := <-out
	require.Equal(t, dag.OutcomeSuccess, got.Kind)
	require.Equal(t, "v", got.ReturnValue)
	require.Equal(t, map[string]any{"k": 1}, got.XComs)
	require.Equal(t, 3, n)
	require.Len(t, f.Reports(), 2)
}

func TestRescheduleModeLooksOnceAndGivesItsPlaceBack(t *testing.T) {
	t.Parallel()
	f, clock := fixture(t, map[string]any{"poke_interval": 30.0, "mode": "reschedule"})
	clock.Advance(time.Hour)
	n := 0
	got := sensor.Run(t.Context(), f.Task, answers(&n, notYet()))
	require.Equal(t, dag.OutcomeReschedule, got.Kind)
	require.Equal(t, begin().Add(time.Hour+30*time.Second), got.RescheduleAt)
	require.Equal(t, 1, n)
}

// TestTimeoutCountsOverReschedules: the time counts from the attempt's start,
// which every look of it has; it is asked after a look, so that what came in
// time counts.
func TestTimeoutCountsOverReschedules(t *testing.T) {
	t.Parallel()
	args := map[string]any{"timeout": 100.0, "mode": "reschedule"}
	f, clock := fixture(t, args)
	n := 0
	clock.Advance(100 * time.Second)
	require.Equal(t, dag.OutcomeReschedule, sensor.Run(t.Context(), f.Task, answers(&n, notYet())).Kind, "exactly at the limit")
	clock.Advance(time.Millisecond)
	got := sensor.Run(t.Context(), f.Task, answers(&n, notYet()))
	require.Equal(t, dag.OutcomeFailed, got.Kind)
	require.Equal(t, "SENSOR_TIMEOUT", got.Err.Code)
	require.Equal(t, dag.ClassPermanent, got.Err.Class, "never retried")
	require.Equal(t, dag.OutcomeSuccess, sensor.Run(t.Context(), f.Task, answers(new(int), sensor.Seen{Done: true})).Kind)

	args["soft_fail"] = true
	require.Equal(t, dag.OutcomeSkipped, sensor.Run(t.Context(), f.Task, answers(&n, notYet())).Kind)
	args["soft_fail"], args["never_fail"] = false, true
	require.Equal(t, dag.OutcomeFailed, sensor.Run(t.Context(), f.Task, answers(&n, notYet())).Kind, "as in Airflow")
}

func TestPokeModeTimesOut(t *testing.T) {
	t.Parallel()
	f, clock := fixture(t, map[string]any{"timeout": 45.0, "poke_interval": 30.0})
	n := 0
	out := watch(t.Context(), f, answers(&n, notYet()))
	for range 2 {
		clock.BlockUntil(1)
		clock.Advance(30 * time.Second)
	}
	require.Equal(t, "SENSOR_TIMEOUT", (<-out).Err.Code)
	require.Equal(t, 3, n)
}

func TestWhatAFailedLookDoes(t *testing.T) {
	t.Parallel()
	refused := fault.New(fault.CodeConnectionRefused, "refused")
	external := fault.New(fault.CodeExternalTaskFailed, "it failed")
	for name, c := range map[string]struct {
		args map[string]any
		err  *dag.TaskError
		want dag.OutcomeKind
	}{
		"fails":                            {map[string]any{}, refused, dag.OutcomeFailed},
		"soft_fail is not for errors":      {map[string]any{"soft_fail": true}, refused, dag.OutcomeFailed},
		"soft_fail and a failed other":     {map[string]any{"soft_fail": true}, external, dag.OutcomeSkipped},
		"never_fail":                       {map[string]any{"never_fail": true}, refused, dag.OutcomeSkipped},
		"silent_fail":                      {map[string]any{"silent_fail": true, "mode": "reschedule"}, refused, dag.OutcomeReschedule},
		"silent_fail comes before never":   {map[string]any{"silent_fail": true, "never_fail": true, "mode": "reschedule"}, refused, dag.OutcomeReschedule},
		"a failed other":                   {map[string]any{}, external, dag.OutcomeFailed},
		"soft_fail comes before silent":    {map[string]any{"soft_fail": true, "silent_fail": true}, external, dag.OutcomeSkipped},
		"silent_fail runs into the limit":  {map[string]any{"silent_fail": true, "timeout": -1.0}, refused, dag.OutcomeFailed},
		"silent_fail, soft_fail and limit": {map[string]any{"silent_fail": true, "soft_fail": true, "timeout": 0.0}, refused, dag.OutcomeSkipped},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, clock := fixture(t, c.args)
			clock.Advance(time.Second)
			got := sensor.Run(t.Context(), f.Task, answers(new(int), c.err))
			require.Equal(t, c.want, got.Kind)
		})
	}
	t.Run("a skip is a skip", func(t *testing.T) {
		t.Parallel()
		f, _ := fixture(t, map[string]any{})
		got := sensor.Run(t.Context(), f.Task, answers(new(int), sensor.Seen{Skip: "it was skipped"}))
		require.Equal(t, dag.OutcomeSkipped, got.Kind)
		require.Equal(t, "it was skipped", got.Err.Message)
	})
}

func TestWhatEndsAWait(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cause error
		args  map[string]any
		want  dag.OutcomeKind
		code  string
	}{
		"stopping":           {operator.ErrStopping, map[string]any{}, dag.OutcomeReschedule, ""},
		"lease lost":         {operator.ErrLeaseLost, map[string]any{"soft_fail": true}, dag.OutcomeFailed, "LEASE_LOST"},
		"cleared":            {operator.ErrCleared, map[string]any{}, dag.OutcomeFailed, "CLEARED"},
		"execution_timeout":  {operator.ErrTimeout, map[string]any{"soft_fail": true}, dag.OutcomeFailed, "TIMEOUT"},
		"something else":     {errors.New("x"), map[string]any{}, dag.OutcomeFailed, "CANCELLED"},
		"stopping and never": {operator.ErrStopping, map[string]any{"never_fail": true}, dag.OutcomeReschedule, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, clock := fixture(t, c.args)
			ctx, stop := context.WithCancelCause(t.Context())
			out := watch(ctx, f, answers(new(int), notYet()))
			clock.BlockUntil(1)
			stop(c.cause)
			got := <-out
			require.Equal(t, c.want, got.Kind)
			if c.code != "" {
				require.Equal(t, c.code, got.Err.Code)
			} else {
				require.Equal(t, clock.Now(), got.RescheduleAt)
			}
		})
	}
}

// TestTimeLimitDuringALook: execution_timeout that ends a look is a skip with
// soft_fail; one that ends a wait is not (see TestWhatEndsAWait).
func TestTimeLimitDuringALook(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]dag.OutcomeKind{"soft_fail": dag.OutcomeSkipped, "never_fail": dag.OutcomeSkipped, "silent_fail": dag.OutcomeFailed} {
		f, _ := fixture(t, map[string]any{args: true})
		ctx, stop := context.WithCancelCause(t.Context())
		got := sensor.Run(ctx, f.Task, func(ctx context.Context) (sensor.Seen, *dag.TaskError) {
			stop(operator.ErrTimeout)
			<-ctx.Done()
			return sensor.Seen{}, fault.Context(ctx)
		})
		require.Equal(t, want, got.Kind, args)
	}
}
