package dag_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/airlock-dag/airlock/dag"
)

func sealInput() dag.SealInput {
	first := noon.Add(-time.Hour)
	return dag.SealInput{
		TI: dag.TaskInstance{
			TaskInstanceKey: dag.TaskInstanceKey{DagID: "media", RunID: "manual__1", TaskID: "transcode", MapIndex: 3},
			Queue:           "gpu.transcode", Payload: json.RawMessage(`{"asset": "a.mp4", "api_key": "k"}`), FirstFailedAt: &first,
		},
		Run:      dag.Run{LogicalDate: &first},
		Err:      &dag.TaskError{Class: dag.ClassTransient, Code: "EXIT_CODE", Message: "exit 1", Stack: "tail", Hint: "look"},
		Attempts: 4, At: noon,
	}
}

func TestSeal(t *testing.T) {
	t.Parallel()
	in := sealInput()
	l := dag.Seal(in)
	require.Equal(t, dag.DeadLetter{
		JobID: "media/manual__1/transcode[3]", TaskInstanceKey: in.TI.TaskInstanceKey, LogicalDate: in.Run.LogicalDate,
		Queue: "gpu.transcode", AttemptCount: 4, ErrorClass: dag.ClassExhausted, ErrorCode: "EXIT_CODE",
		ErrorMessage: "exit 1 (look)", StackTrace: "tail",
		Fingerprint:         dag.Fingerprint(dag.ClassExhausted, "EXIT_CODE", "exit 1 (look)", "media", "transcode"),
		Payload:             json.RawMessage(`{"api_key":"***","asset":"a.mp4"}`),
		OriginalPayloadHash: dag.PayloadHash(json.RawMessage(`{"api_key":"***","asset":"a.mp4"}`)),
		IdempotencyKey:      "media/transcode/manual__1/3", Status: dag.LetterSealed, SchemaVersion: 1,
		FirstFailedAt: noon.Add(-time.Hour), EnqueuedAt: noon, ExpiresAt: noon.Add(14 * 24 * time.Hour), UpdatedAt: noon,
	}, l)
}

func TestTheHintOfAListHasALineOfItsOwn(t *testing.T) {
	t.Parallel()
	in := sealInput()
	in.Err = &dag.TaskError{Class: dag.ClassPermanent, Code: "TOO_MANY_BAD_ROWS", Message: "2 rows are bad\n  a.csv:2: no\n  a.csv:3: no", Hint: "mend them"}
	require.Equal(t, "2 rows are bad\n  a.csv:2: no\n  a.csv:3: no\n(mend them)", dag.Seal(in).ErrorMessage)
}

func TestSealedClass(t *testing.T) {
	t.Parallel()
	cases := []struct {
		class  dag.ErrorClass
		budget dag.Budget
		want   dag.ErrorClass
	}{
		{dag.ClassTransient, "", dag.ClassExhausted},
		{dag.ClassTransient, dag.BudgetThrottling, dag.ClassExhausted},
		{dag.ClassTransient, dag.BudgetCrashes, dag.ClassCrashLoop},
		{"", "", dag.ClassExhausted},
		{"made up", "", dag.ClassExhausted},
		{dag.ClassPermanent, "", dag.ClassPermanent},
		{dag.ClassPoison, dag.BudgetCrashes, dag.ClassPoison},
		{dag.ClassConfiguration, "", dag.ClassConfiguration},
		{dag.ClassCapability, "", dag.ClassCapability},
		{dag.ClassExhausted, "", dag.ClassExhausted},
		{dag.ClassCrashLoop, "", dag.ClassCrashLoop},
	}
	for _, c := range cases {
		in := sealInput()
		in.Err = &dag.TaskError{Class: c.class, Budget: c.budget, Code: "X", Message: "m"}
		require.Equal(t, c.want, dag.Seal(in).ErrorClass, "%s %s", c.class, c.budget)
	}
}

func TestSealFillsInWhatIsMissing(t *testing.T) {
	t.Parallel()
	l := dag.Seal(dag.SealInput{At: noon})
	require.Equal(t, 1, l.AttemptCount)
	require.Equal(t, dag.ClassPermanent, l.ErrorClass)
	require.Equal(t, "UNKNOWN", l.ErrorCode)
	require.NotEmpty(t, l.ErrorMessage)
	require.Equal(t, "{}", string(l.Payload))
	require.Equal(t, "default", l.Queue)
	require.Equal(t, noon, l.FirstFailedAt)

	in := sealInput()
	in.Err = &dag.TaskError{}
	in.FirstFailedAt = noon.Add(time.Hour) // a clock that jumped
	l = dag.Seal(in)
	require.Equal(t, "UNKNOWN", l.ErrorCode)
	require.Equal(t, "UNKNOWN", l.ErrorMessage)
	require.Equal(t, noon, l.FirstFailedAt)
}

func TestSealPrefersTheNearestKeyAndPayload(t *testing.T) {
	t.Parallel()
	in := sealInput()
	in.Err.IdempotencyKey, in.Err.AssetSHA256 = "from the step", "abc"
	l := dag.Seal(in)
	require.Equal(t, "from the step", l.IdempotencyKey)
	require.Equal(t, "abc", l.AssetSHA256)
	in.IdempotencyKey, in.Payload = "given", json.RawMessage(`[1]`)
	l = dag.Seal(in)
	require.Equal(t, "given", l.IdempotencyKey)
	require.Equal(t, "[1]", string(l.Payload))

	require.Equal(t, "d/t/r", dag.IdempotencyKey(dag.TaskInstanceKey{DagID: "d", TaskID: "t", RunID: "r", MapIndex: -1}, 0))
	require.Equal(t, "d/t/r/0#2", dag.IdempotencyKey(dag.TaskInstanceKey{DagID: "d", TaskID: "t", RunID: "r"}, 2))
}

func TestSealCutsWhatIsTooLong(t *testing.T) {
	t.Parallel()
	in := sealInput()
	in.Err.Message = strings.Repeat("m", 100<<10)
	in.Err.Stack = strings.Repeat("s", 100<<10) + "the end"
	in.Err.Code = strings.Repeat("C", 500)
	in.TI.Payload = json.RawMessage(`{"password":"hunter2","big":"` + strings.Repeat("x", dag.MaxPayload) + `"}`)
	l := dag.Seal(in)
	require.LessOrEqual(t, len(l.ErrorMessage), dag.MaxErrorMessage)
	require.LessOrEqual(t, len(l.StackTrace), dag.MaxStackTrace)
	require.Contains(t, l.StackTrace, "left out")
	require.True(t, strings.HasSuffix(l.StackTrace, "the end"))
	require.LessOrEqual(t, len(l.ErrorCode), 64)
	require.Less(t, len(l.Payload), dag.MaxPayload)
	var wrapped struct {
		Truncated string `json:"truncated"`
		SHA256    string `json:"sha256"`
		Size      int    `json:"size"`
	}
	require.NoError(t, json.Unmarshal(l.Payload, &wrapped))
	require.Equal(t, len(in.TI.Payload), wrapped.Size)
	require.Equal(t, dag.PayloadHash(in.TI.Payload), wrapped.SHA256)
	require.Contains(t, wrapped.Truncated, "left out")
	require.NotContains(t, string(l.Payload), "hunter2")
	require.Equal(t, dag.PayloadHash(l.Payload), l.OriginalPayloadHash)
}

func TestSealWrapsAPayloadThatIsNotJSON(t *testing.T) {
	t.Parallel()
	in := sealInput()
	in.Payload = json.RawMessage("not \x00 json")
	l := dag.Seal(in)
	require.JSONEq(t, `{"truncated":"not \ufffd json","size":10,"sha256":"`+dag.PayloadHash(in.Payload)+`"}`, string(l.Payload))
}

func TestSealMasks(t *testing.T) {
	t.Parallel()
	in := sealInput()
	in.Err.Message, in.Err.Stack = "login failed for hunter2", "hunter2 at line 1"
	in.Mask = func(s string) string { return strings.ReplaceAll(s, "hunter2", "***") }
	l := dag.Seal(in)
	require.Equal(t, "login failed for *** (look)", l.ErrorMessage)
	require.Equal(t, "*** at line 1", l.StackTrace)

	in.Mask = func(string) string { panic("broken mask") }
	l = dag.Seal(in)
	require.NotContains(t, l.ErrorMessage+l.StackTrace, "hunter2")
	require.NotEmpty(t, l.ErrorMessage)
}

// TestSealNeverFails feeds rubbish and checks what the table's constraints ask.
func TestSealNeverFails(t *testing.T) {
	t.Parallel()
	sealed := map[dag.ErrorClass]bool{
		dag.ClassPermanent: true, dag.ClassExhausted: true, dag.ClassPoison: true,
		dag.ClassConfiguration: true, dag.ClassCapability: true, dag.ClassCrashLoop: true,
	}
	rubbish := rapid.Custom(func(r *rapid.T) string {
		return string(rapid.SliceOfN(rapid.Byte(), 0, 60).Draw(r, "bytes"))
	})
	rapid.Check(t, func(r *rapid.T) {
		in := dag.SealInput{
			Attempts: rapid.IntRange(-5, 5).Draw(r, "attempts"), ReturnCount: rapid.IntRange(-5, 5).Draw(r, "returns"),
			Payload: json.RawMessage(rubbish.Draw(r, "payload")), At: noon,
			Err: &dag.TaskError{
				Class: dag.ErrorClass(rubbish.Draw(r, "class")), Code: rubbish.Draw(r, "code"),
				Message: rubbish.Draw(r, "message"), Stack: rubbish.Draw(r, "stack"),
			},
		}
		l := dag.Seal(in)
		switch {
		case l.AttemptCount < 1, l.ReturnCount < 0, !sealed[l.ErrorClass], l.ErrorCode == "", l.ErrorMessage == "":
			r.Fatalf("%+v", l)
		case !json.Valid(l.Payload), !utf8.ValidString(l.ErrorMessage + l.StackTrace + l.ErrorCode):
			r.Fatalf("%+v", l)
		case l.OriginalPayloadHash != dag.PayloadHash(l.Payload), len(l.Fingerprint) != 32:
			r.Fatalf("%+v", l)
		}
	})
}
