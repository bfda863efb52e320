package sensor

import (
	"fmt"
	"math"
	"time"

	"github.com/airlock-dag/airlock/dag"
)

// Defaults of Airflow.
const (
	defaultPokeInterval = 60 * time.Second
	defaultTimeout      = 7 * 24 * time.Hour
)

// shortestWait keeps a sensor with a poke_interval of 0 from turning in circles.
const shortestWait = 100 * time.Millisecond

// longest is the longest time that a key can hold, in seconds: about 280 years.
const longest = 9e9

// Settings are the values of the keys that all sensors have.
type Settings struct {
	PokeInterval time.Duration
	Timeout      time.Duration
	MaxWait      time.Duration // 0 for none
	Reschedule   bool
	Exponential  bool
	SoftFail     bool
	NeverFail    bool
	SilentFail   bool
}

// Fields are the keys that all sensors have.
func Fields() []dag.Field {
	return []dag.Field{
		{Name: "poke_interval", Type: dag.FieldDuration, Mappable: true, Default: "60s", Doc: "Time between two looks."},
		{Name: "timeout", Type: dag.FieldDuration, Mappable: true, Default: "7d", Doc: "Time from the attempt's start after which the sensor fails with SENSOR_TIMEOUT, never to be retried."},
		{Name: "mode", Type: dag.FieldString, Enum: []string{"poke", "reschedule"}, Default: "poke",
			Doc: "poke keeps the worker's place between looks, reschedule gives it back."},
		{Name: "soft_fail", Type: dag.FieldBool, Default: false, Doc: "Skipped instead of failed when the time is up, or what is waited for has failed."},
		{Name: "never_fail", Type: dag.FieldBool, Default: false, Doc: "Skipped instead of failed whatever goes wrong with a look; the timeout still fails it."},
		{Name: "silent_fail", Type: dag.FieldBool, Default: false, Doc: "A look that fails is logged and taken for \"not yet\"."},
		{Name: "exponential_backoff", Type: dag.FieldBool, Default: false, Doc: "Wait longer after each look, as Airflow does."},
		{Name: "max_wait", Type: dag.FieldDuration, Mappable: true, Doc: "The longest wait of exponential_backoff."},
		{Name: "deferrable", Type: dag.FieldBool, Default: false, Doc: "Airflow's way of waiting outside the workers: the same as mode: reschedule here."},
	}
}

// Validate finds what the fields cannot say.
func Validate(args map[string]any) []dag.Problem {
	var out []dag.Problem
	bad := func(path, format string, v ...any) {
		out = append(out, dag.Problem{Path: path, Severity: dag.SeverityError, Code: "bad-value", Message: fmt.Sprintf(format, v...)})
	}
	for _, key := range []string{"poke_interval", "timeout", "max_wait"} {
		if s, ok := args[key].(float64); ok && !(s >= 0 && s <= longest) {
			bad(key, "%s is %v seconds; it must be from 0 to %d", key, s, int64(longest))
		}
	}
	if yes(args, "soft_fail") && yes(args, "never_fail") {
		bad("never_fail", "only one of soft_fail and never_fail can be true")
	}
	return out
}

// Read gives the settings of an attempt's arguments.
func Read(args map[string]any) Settings {
	return Settings{
		PokeInterval: seconds(args, "poke_interval", defaultPokeInterval),
		Timeout:      seconds(args, "timeout", defaultTimeout),
		MaxWait:      seconds(args, "max_wait", 0),
		Reschedule:   args["mode"] == "reschedule" || yes(args, "deferrable"),
		Exponential:  yes(args, "exponential_backoff"),
		SoftFail:     yes(args, "soft_fail"),
		NeverFail:    yes(args, "never_fail"),
		SilentFail:   yes(args, "silent_fail"),
	}
}

func yes(args map[string]any, key string) bool {
	b, _ := args[key].(bool)
	return b
}

func seconds(args map[string]any, key string, fallback time.Duration) time.Duration {
	s, ok := args[key].(float64)
	if !ok || math.IsNaN(s) {
		return fallback
	}
	return time.Duration(min(max(s, 0), longest) * float64(time.Second))
}
