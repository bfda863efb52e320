package sqlop

import (
	"fmt"

	"github.com/airlock-dag/airlock/executor/operator"
)

func (s *step) progress(done int) {
	s.t.Progress(operator.Progress{
		Fraction: float64(done) / float64(len(s.statements)),
		Text:     fmt.Sprintf("statement %d of %d", done+1, len(s.statements)),
	})
}
