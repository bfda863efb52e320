package replay_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/replay"
)

// known are facts that a test gives.
type known struct {
	done, poison, missing string
	err                   error
}

func (k known) EffectDone() string        { return k.done }
func (k known) Poisoned() (string, error) { return k.poison, k.err }
func (k known) Missing() (string, error)  { return k.missing, k.err }

// sound is a letter that passes every gate.
func sound() dag.ReplayCase {
	payload := json.RawMessage(`{"codec":"h264","n":3}`)
	return dag.ReplayCase{
		Letter: dag.DeadLetter{
			ID: 7, TaskInstanceKey: dag.TaskInstanceKey{DagID: "d", RunID: "r", TaskID: "t", MapIndex: -1}, Status: dag.LetterSealed,
			SchemaVersion: dag.LetterSchemaVersion, Payload: payload, OriginalPayloadHash: dag.PayloadHash(payload), IdempotencyKey: "k",
			AttemptCount: 4, EnqueuedAt: time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC),
		},
		TaskInstanceID: 1, Fence: 5, Instance: dag.TaskInstance{ID: 1, State: dag.StateFailed, Fence: 5},
	}
}

// decide takes a letter through the gates, as a drain does.
func decide(c dag.ReplayCase, f replay.Facts) (dag.ReplayDecision, string, error) {
	for _, g := range replay.Gates(3) {
		v, err := g.Decide(&c, f)
		if err != nil {
			return "", "", err
		}
		if v != nil {
			return v.Decision, v.Reason, nil
		}
	}
	return dag.DecisionReplayed, "", nil
}

func TestGates(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(c *dag.ReplayCase)
		facts  known
		want   dag.ReplayDecision
		reason string
	}{
		"sound":            {nil, known{}, dag.DecisionReplayed, ""},
		"reaped":           {func(c *dag.ReplayCase) { c.Instance.Fence = 6 }, known{}, dag.DecisionReplayed, ""},
		"being replayed":   {func(c *dag.ReplayCase) { c.Letter.Status = dag.LetterReplaying }, known{}, dag.DecisionDeferred, "being replayed"},
		"in quarantine":    {func(c *dag.ReplayCase) { c.Letter.Status = dag.LetterQuarantined }, known{}, dag.DecisionRejected, "release it"},
		"settled":          {func(c *dag.ReplayCase) { c.Letter.Status = dag.LetterResolved }, known{}, dag.DecisionRejected, "it is resolved"},
		"odd status":       {func(c *dag.ReplayCase) { c.Letter.Status = "lost" }, known{}, dag.DecisionQuarantine, `"lost"`},
		"instance is gone": {func(c *dag.ReplayCase) { c.Instance = dag.TaskInstance{} }, known{}, dag.DecisionRejected, "not in the database"},
		"instance runs":    {func(c *dag.ReplayCase) { c.Instance.State = dag.StateRunning }, known{}, dag.DecisionRejected, "is running"},
		"later failure":    {func(c *dag.ReplayCase) { c.Instance.Fence = 9 }, known{}, dag.DecisionRejected, "later attempt"},
		"bad columns":      {func(c *dag.ReplayCase) { c.Unreadable = "nothing readable in enqueued_at" }, known{}, dag.DecisionQuarantine, "enqueued_at"},
		"newer schema":     {func(c *dag.ReplayCase) { c.Letter.SchemaVersion = 99 }, known{}, dag.DecisionQuarantine, "99"},
		"payload no JSON":  {func(c *dag.ReplayCase) { c.Letter.Payload = json.RawMessage(`{"a":`) }, known{}, dag.DecisionQuarantine, "no JSON object"},
		"payload a list":   {func(c *dag.ReplayCase) { c.Letter.Payload = json.RawMessage(`[1]`) }, known{}, dag.DecisionQuarantine, "no JSON object"},
		"payload empty":    {func(c *dag.ReplayCase) { c.Letter.Payload = nil }, known{}, dag.DecisionQuarantine, "no JSON object"},
		"tampered":         {func(c *dag.ReplayCase) { c.Letter.Payload = json.RawMessage(`{"codec":"h264","n":4}`) }, known{}, dag.DecisionRejected, "rejected: payload tampered"},
		"other spelling":   {func(c *dag.ReplayCase) { c.Letter.Payload = json.RawMessage(` {"n": 3, "codec": "h264"}`) }, known{}, dag.DecisionReplayed, ""},
		"done":             {nil, known{done: "in the ledger"}, dag.DecisionDropDuplicate, "in the ledger"},
		"done and poison":  {func(c *dag.ReplayCase) { c.Returns = 9 }, known{done: "there"}, dag.DecisionDropDuplicate, "there"},
		"key of another":   {func(c *dag.ReplayCase) { c.Letter.ErrorCode = "EFFECT_KEY_REUSED" }, known{done: "there"}, dag.DecisionReplayed, ""},
		"three returns":    {func(c *dag.ReplayCase) { c.Returns = 3 }, known{}, dag.DecisionReplayed, ""},
		"four returns":     {func(c *dag.ReplayCase) { c.Returns = 4 }, known{missing: "x"}, dag.DecisionQuarantine, "came back 4 times"},
		"poison input":     {nil, known{poison: "it failed 5 times"}, dag.DecisionQuarantine, "it failed 5 times"},
		"no codec":         {nil, known{missing: "codec still missing: hevc"}, dag.DecisionDeferred, "deferred: codec still missing: hevc"},
		"tampered, done":   {func(c *dag.ReplayCase) { c.Letter.OriginalPayloadHash = "x" }, known{done: "there"}, dag.DecisionRejected, "tampered"},
	} {
		letter := sound()
		if c.change != nil {
			c.change(&letter)
		}
		got, reason, err := decide(letter, c.facts)
		require.NoError(t, err, name)
		require.Equal(t, c.want, got, name)
		require.Contains(t, reason, c.reason, name)
	}
	_, _, err := decide(sound(), known{err: errors.New("the database is away")})
	require.ErrorContains(t, err, "away", "a probe that fails decides nothing")
}

// Whatever stands in a letter, a decision comes of it and no panic.
func TestGatesTakeAnything(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := sound()
		c.Letter.Payload = rapid.SliceOf(rapid.Byte()).Draw(t, "payload")
		c.Letter.OriginalPayloadHash = rapid.String().Draw(t, "hash")
		c.Letter.SchemaVersion = rapid.IntRange(-1, 3).Draw(t, "version")
		c.Letter.Status = dag.LetterStatus(rapid.SampledFrom([]string{"sealed", "replaying", "", "x"}).Draw(t, "status"))
		c.Returns = rapid.IntRange(-1, 9).Draw(t, "returns")
		decision, _, err := decide(c, known{})
		require.NoError(t, err)
		require.Contains(t, []dag.ReplayDecision{
			dag.DecisionReplayed, dag.DecisionDropDuplicate, dag.DecisionQuarantine, dag.DecisionDeferred, dag.DecisionRejected,
		}, decision)
	})
}

func TestWhere(t *testing.T) {
	t.Parallel()
	c := sound()
	require.NoError(t, json.Unmarshal(c.Letter.Payload, &c.Payload))
	for text, want := range map[string]bool{
		`payload.codec == "h264"`:                        true,
		`payload.codec == "hevc"`:                        false,
		`payload.n > 2 and attempt_count >= 4`:           true,
		`payload.nothing == nil`:                         true,
		`payload.deep?.er == 1`:                          false,
		`task_id in ["t", "u"] && dag_id startsWith "d"`: true,
		`enqueued_at < date("2026-06-02")`:               true,
		`logical_date == nil`:                            true,
	} {
		w, err := replay.NewWhere(text)
		require.NoError(t, err, text)
		got, err := w.Match(&c)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
		require.Equal(t, text, w.String())
	}
	for _, text := range []string{"", "payload.codec =", "cdec == 1", "1 + 1", `dag_id > 3`} {
		_, err := replay.NewWhere(text)
		require.Error(t, err, text)
	}
	w, err := replay.NewWhere(`payload.codec > 3`)
	require.NoError(t, err)
	_, err = w.Match(&c)
	require.Error(t, err, "a text is not more than a number")
	c.Payload = nil
	w, err = replay.NewWhere(`payload.codec == "h264"`)
	require.NoError(t, err)
	got, err := w.Match(&c)
	require.False(t, err == nil && got, "a letter without a readable payload has no codec")
}
