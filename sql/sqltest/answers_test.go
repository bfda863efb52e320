package sqltest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/sql/sqltest"
)

func TestAnswersEndWithTheLast(t *testing.T) {
	t.Parallel()
	// OK: rows 3, id 300 (0xfc and two bytes), status in a transaction and more to come, no warnings.
	first := []byte{10, 0, 0, 1, 0x00, 3, 0xfc, 0x2c, 0x01, 0x09, 0x00, 0, 0, 0}
	last := []byte{7, 0, 0, 2, 0x00, 0, 0, 0x02, 0x00, 0, 0}
	refused := []byte{9, 0, 0, 2, 0xff, 0xda, 0x04, '#', '2', '1', '0', '0', '0'}
	for _, test := range []struct {
		parts [][]byte
		want  []bool
	}{
		{[][]byte{last}, []bool{true}},
		{[][]byte{first, last}, []bool{false, true}},
		{[][]byte{first, refused}, []bool{false, true}},
		{[][]byte{append(append([]byte{}, first...), last[:6]...), last[6:]}, []bool{false, true}},
		{[][]byte{first[:2], first[2:], last}, []bool{false, false, true}},
	} {
		var a sqltest.Answers
		for i, part := range test.parts {
			require.Equal(t, test.want[i], a.Done(part), "%v", test.parts)
		}
	}
}
