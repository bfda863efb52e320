package dag_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
)

// Who reads a list of letters sees which file each is about.
func TestBriefNamesTheFile(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ payload, message, want string }{
		"of a probe":                  {`{"path": "/films/a b.mp4"}`, "moov atom not found", "a b.mp4: moov atom not found"},
		"of an asset":                 {`{"asset": {"path": "/films/a.mp4", "codec": "h264"}, "profile": "p"}`, "no video", "a.mp4: no video"},
		"that the message says":       {`{"path": "/films/a.mp4"}`, "/films/a.mp4 is empty", "/films/a.mp4 is empty"},
		"of another step":             {`{"bash_command": "exit 1"}`, "exit code 1", "exit code 1"},
		"that is no text":             {`{"path": 7, "asset": [1]}`, "wrong", "wrong"},
		"of a payload that is broken": {`{"path": `, "wrong", "wrong"},
		"of no payload":               {``, "wrong", "wrong"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := dag.DeadLetter{Payload: json.RawMessage(tt.payload), ErrorMessage: tt.message}
			require.Equal(t, tt.want, l.Brief())
		})
	}
}

// Payloads are read for letters of media files only, and one that cannot be read
// does not keep a list from being shown.
func TestWithInputsReadsThePayloadsOfMediaLetters(t *testing.T) {
	t.Parallel()
	letters := []dag.DeadLetter{{ID: 1, ErrorMessage: "exit code 1"}, {ID: 2, AssetSHA256: "0610f3b6", ErrorMessage: "no video"}, {ID: 3, AssetSHA256: "0610f3b6", ErrorMessage: "gone"}}
	read := func(_ context.Context, id int64) (dag.DeadLetter, error) {
		if id == 2 {
			return dag.DeadLetter{Payload: json.RawMessage(`{"path": "/films/b.mp4"}`)}, nil
		}
		return dag.DeadLetter{}, fmt.Errorf("letter %d was read", id)
	}
	dag.WithInputs(t.Context(), read, letters)
	require.Equal(t, []string{"exit code 1", "b.mp4: no video", "gone"}, []string{letters[0].Brief(), letters[1].Brief(), letters[2].Brief()})
	require.Nil(t, letters[0].Payload)
}
