package dag

import (
	"context"
	"encoding/json"
	"path"
	"strings"
)

// InputName is the name, without its folder, of the file that a letter's step
// worked on: the payload's path, or that of its asset. It is empty for other steps
// and for payloads that cannot be read.
func (l DeadLetter) InputName() string {
	var payload struct {
		Path  any `json:"path"`
		Asset any `json:"asset"`
	}
	if json.Unmarshal(l.Payload, &payload) != nil {
		return ""
	}
	at, _ := payload.Path.(string)
	if asset, ok := payload.Asset.(map[string]any); ok && at == "" {
		at, _ = asset["path"].(string)
	}
	if at == "" {
		return ""
	}
	return path.Base(at)
}

// Brief is the error's message behind the name of the file that it is about, where
// the message does not say it itself: what a list shows, in which the payload is not.
func (l DeadLetter) Brief() string {
	if name := l.InputName(); name != "" && !strings.Contains(l.ErrorMessage, name) {
		return name + ": " + l.ErrorMessage
	}
	return l.ErrorMessage
}

// maxNamed is how many letters of a list have their payloads read for a name: more
// nobody reads.
const maxNamed = 200

// WithInputs gives the first letters of a list that are about a media file their
// payloads, which lists of letters lack, so that Brief can name the file. A letter
// that is gone meanwhile stays as it is.
func WithInputs(ctx context.Context, read func(ctx context.Context, id int64) (DeadLetter, error), letters []DeadLetter) {
	for i := range letters[:min(len(letters), maxNamed)] {
		if l := &letters[i]; l.AssetSHA256 != "" && l.Payload == nil {
			if whole, err := read(ctx, l.ID); err == nil {
				l.Payload = whole.Payload
			}
		}
	}
}
