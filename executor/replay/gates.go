package replay

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/fault"
)

// Facts are what a gate may ask about a letter besides what stands in the case.
// A fact is found out when a gate first asks for it.
type Facts interface {
	// EffectDone says where the effect stands as done, "" for nowhere.
	EffectDone() string
	// Poisoned says why the input is poison, "" when it is not.
	Poisoned() (string, error)
	// Missing says what the step lacks here and now, "" for nothing.
	Missing() (string, error)
}

// Verdict is a gate's decision with its reason.
type Verdict struct {
	Decision dag.ReplayDecision
	Reason   string
}

// Gate decides about a letter, or lets it pass: then the verdict is nil.
type Gate struct {
	Name   string
	Decide func(c *dag.ReplayCase, f Facts) (*Verdict, error)
}

// Gates are the gates in their order for a limit of returns. What passes all of
// them is replayed.
func Gates(maxReturns int) []Gate {
	return []Gate{
		{"status", status},
		{"schema", schema},
		{"hash", payloadHash},
		{"duplicate", duplicate},
		{"poison", func(c *dag.ReplayCase, f Facts) (*Verdict, error) { return poison(c, f, maxReturns) }},
		{"capability", capability},
	}
}

func verdict(d dag.ReplayDecision, format string, args ...any) *Verdict {
	return &Verdict{Decision: d, Reason: fmt.Sprintf(format, args...)}
}

// status lets sealed letters pass whose task instance still stands as the letter
// says.
func status(c *dag.ReplayCase, _ Facts) (*Verdict, error) {
	switch c.Letter.Status {
	case dag.LetterSealed:
	case dag.LetterReplaying:
		return verdict(dag.DecisionDeferred, "deferred: it is being replayed already"), nil
	case dag.LetterQuarantined:
		return verdict(dag.DecisionRejected, "rejected: it is in quarantine; release it first"), nil
	case dag.LetterResolved, dag.LetterDropped, dag.LetterExpired:
		return verdict(dag.DecisionRejected, "rejected: it is %s", c.Letter.Status), nil
	default:
		return verdict(dag.DecisionQuarantine, "status %q is not known", c.Letter.Status), nil
	}
	ti := c.Instance
	switch {
	case ti.ID == 0:
		return verdict(dag.DecisionRejected, "rejected: its task instance is not in the database any more"), nil
	case ti.State != dag.StateFailed:
		return verdict(dag.DecisionRejected, "rejected: its task instance is %s, not failed", ti.State), nil
	case ti.Fence != c.Fence && ti.Fence != c.Fence+1: // a reaped attempt's fence was taken away
		return verdict(dag.DecisionRejected, "rejected: a later attempt of its task instance failed, too"), nil
	}
	return nil, nil
}

// schema puts letters that cannot be read aside for a person.
func schema(c *dag.ReplayCase, _ Facts) (*Verdict, error) {
	l := &c.Letter
	switch {
	case c.Unreadable != "":
		return verdict(dag.DecisionQuarantine, "the letter cannot be read: %s", c.Unreadable), nil
	case l.SchemaVersion < 1 || l.SchemaVersion > dag.LetterSchemaVersion:
		return verdict(dag.DecisionQuarantine, "the letter cannot be read: schema_version is %d, this airlock knows 1 to %d",
			l.SchemaVersion, dag.LetterSchemaVersion), nil
	case !isObject(l.Payload):
		return verdict(dag.DecisionQuarantine, "the letter cannot be read: its payload is no JSON object"), nil
	}
	return nil, nil
}

func isObject(payload json.RawMessage) bool {
	text := bytes.TrimSpace(payload)
	return len(text) > 0 && text[0] == '{' && json.Valid(text)
}

// payloadHash recomputes the hash over the payload that is stored. The payload
// is stored in canonical form, so that its bytes are tried before it is parsed.
func payloadHash(c *dag.ReplayCase, _ Facts) (*Verdict, error) {
	sum := sha256.Sum256(c.Letter.Payload)
	if hex.EncodeToString(sum[:]) == c.Letter.OriginalPayloadHash || dag.PayloadHash(c.Letter.Payload) == c.Letter.OriginalPayloadHash {
		return nil, nil
	}
	return verdict(dag.DecisionRejected, "rejected: payload tampered"), nil
}

// duplicate drops letters whose effect is done already. One that failed because
// its key stands for another effect is no duplicate: its own was never done, and
// the step may have another key since.
func duplicate(c *dag.ReplayCase, f Facts) (*Verdict, error) {
	if c.Letter.ErrorCode == fault.CodeEffectKeyReused {
		return nil, nil
	}
	if where := f.EffectDone(); where != "" {
		return verdict(dag.DecisionDropDuplicate, "the effect is done: %s", where), nil
	}
	return nil, nil
}

// poison puts letters into quarantine that came back too often, whichever letter
// of the effect it was, or whose input is known to be poison.
func poison(c *dag.ReplayCase, f Facts, maxReturns int) (*Verdict, error) {
	if c.Returns > maxReturns {
		return verdict(dag.DecisionQuarantine, "poison: the effect came back %d times, more than %d", c.Returns, maxReturns), nil
	}
	why, err := f.Poisoned()
	if err != nil || why == "" {
		return nil, err
	}
	return verdict(dag.DecisionQuarantine, "poison: %s", why), nil
}

// capability defers letters whose step could not work now.
func capability(_ *dag.ReplayCase, f Facts) (*Verdict, error) {
	what, err := f.Missing()
	if err != nil || what == "" {
		return nil, err
	}
	return verdict(dag.DecisionDeferred, "deferred: %s", what), nil
}

// facts are the facts of one letter.
type facts struct {
	ctx    context.Context //nolint:containedctx // the facts live as long as one call
	c      *dag.ReplayCase
	done   string
	probes Probes
}

// EffectDone implements Facts.
func (f facts) EffectDone() string {
	if f.c.EffectDone {
		return "its key is in the table effect"
	}
	return f.done
}

// Poisoned implements Facts.
func (f facts) Poisoned() (string, error) {
	if f.probes.Poison == nil {
		return "", nil
	}
	return f.probes.Poison.Poisoned(f.ctx, f.c)
}

// Missing implements Facts.
func (f facts) Missing() (string, error) {
	for _, p := range f.probes.Capabilities {
		if what, err := p.Missing(f.ctx, f.c); err != nil || what != "" {
			return what, err
		}
	}
	return "", nil
}
