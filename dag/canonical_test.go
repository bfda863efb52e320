package dag_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/airlock-dag/airlock/dag"
)

func TestCanonicalJSON(t *testing.T) {
	t.Parallel()
	cases := []struct{ in, want string }{
		{`{"b":1,"a":2}`, `{"a":2,"b":1}`},
		{" { \"b\" : [ 1 , {\"y\":null,\"x\":true} ] }\n", `{"b":[1,{"x":true,"y":null}]}`},
		{`{"a":"<b> & 'c'"}`, `{"a":"<b> & 'c'"}`},
		{`{"a":"\u003c\u00e9\/"}`, `{"a":"<é/"}`},
		{`12345678901234567890.10`, `12345678901234567890.10`},
		{`[1.0,1,1e400,-0]`, `[1.0,1,1e400,-0]`},
		{`{"a":1,"a":2}`, `{"a":2}`},
		{`{"Z":1,"a":1,"é":1,"A":1}`, `{"A":1,"Z":1,"a":1,"é":1}`},
		{`"x"`, `"x"`}, {`null`, `null`}, {`{}`, `{}`}, {`[]`, `[]`},
	}
	for _, c := range cases {
		got, err := dag.CanonicalJSON(json.RawMessage(c.in))
		require.NoError(t, err, c.in)
		require.Equal(t, c.want, string(got))
	}
	for _, bad := range []string{"", " ", "{", "{}{}", "{} x", "nul", "{'a':1}", "\x00", "[1,]", "01"} {
		_, err := dag.CanonicalJSON(json.RawMessage(bad))
		require.Error(t, err, "%q", bad)
	}
}

func TestPayloadHash(t *testing.T) {
	t.Parallel()
	sha := func(s string) string {
		sum := sha256.Sum256([]byte(s))
		return hex.EncodeToString(sum[:])
	}
	require.Equal(t, sha(`{"a":2,"b":1}`), dag.PayloadHash(json.RawMessage(`{"b": 1, "a": 2}`)))
	require.NotEqual(t, dag.PayloadHash(json.RawMessage(`{"a":1}`)), dag.PayloadHash(json.RawMessage(`{"a":1.0}`)))
	require.Equal(t, sha("not json"), dag.PayloadHash(json.RawMessage("not json")))
	require.Equal(t, sha(""), dag.PayloadHash(nil))
}

func TestCanonicalJSONIsItsOwnCanonicalForm(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		raw, err := json.Marshal(rapid.MapOf(rapid.String(), rapid.SliceOf(rapid.String())).Draw(r, "value"))
		if err != nil {
			r.Fatal(err)
		}
		once, err := dag.CanonicalJSON(raw)
		if err != nil {
			r.Fatal(err)
		}
		twice, err := dag.CanonicalJSON(once)
		if err != nil || string(once) != string(twice) {
			r.Fatalf("%s then %s (%v)", once, twice, err)
		}
		if dag.PayloadHash(raw) != dag.PayloadHash(once) {
			r.Fatal("the hash depends on the form")
		}
	})
}
