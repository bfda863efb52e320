package merge_test

import (
	"context"

	"github.com/airlock-dag/airlock/sql/merge"
	"github.com/airlock-dag/airlock/sql/merge/source"
)

// hook does something between the registration of an attempt and its reading.
type hook struct {
	merge.Source
	before func()
}

func (h *hook) Open(ctx context.Context, want source.Wanted, b merge.Bounds) (source.Reader, error) {
	if h.before != nil {
		h.before()
	}
	return h.Source.Open(ctx, want, b)
}
