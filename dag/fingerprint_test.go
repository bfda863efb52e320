package dag_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
)

func fingerprint(message string) string {
	return dag.Fingerprint(dag.ClassPermanent, "EXIT_CODE", message, "d", "t")
}

func TestFingerprintGroupsWhatDiffersOnlyInPassing(t *testing.T) {
	t.Parallel()
	groups := [][]string{
		{
			"[h264 @ 0x55d0c8a3bfc0] decode error in frame 12",
			"[h264 @ 0x7f11]  decode error in frame 9981",
		},
		{
			"open /srv/inbox/a.mp4: no such file or directory",
			"open /tmp/airlock-2214/deep/er/b-2.mkv: no such file or directory",
			"open ./inbox/c.mp4: no such file or directory",
			`open C:\inbox\d.mp4: no such file or directory`,
		},
		{
			"Duplicate entry '17-2026-01-01' for key 'orders.PRIMARY'",
			"Duplicate entry 'x' for key 'customers.PRIMARY'",
		},
		{
			`Post "http://10.0.0.7:9000/x?id=4": dial tcp 10.0.0.7:9000: connect: connection refused`,
			`Post "http://10.0.0.8:9000/y": dial tcp 10.11.12.13:80: connect: connection refused`,
		},
		{
			"job 3f2b8c1e-9d4a-4b6f-8e21-0c5d7a9b1e33 not found",
			"job 00000000-1111-2222-3333-444444444444 not found",
		},
		{
			"asset 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 is broken",
			"asset e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855 is broken",
		},
		{"GET https://feed.example/1: 503", "GET https://other.example/2: 504"},
		{"took 2026-03-01T02:00:00Z +1.5s", "took 2026-11-30T14:59:59Z +20.25s"},
	}
	seen := map[string]int{}
	for i, g := range groups {
		first := fingerprint(g[0])
		require.Len(t, first, 32)
		require.Equal(t, strings.ToLower(first), first)
		for _, m := range g[1:] {
			require.Equal(t, first, fingerprint(m), m)
		}
		other, twice := seen[first]
		require.False(t, twice, "groups %d and %d are one", i, other)
		seen[first] = i
	}
}

func TestFingerprintTellsCausesApart(t *testing.T) {
	t.Parallel()
	require.NotEqual(t, fingerprint("connection refused"), fingerprint("connection reset"))
	require.NotEqual(t, fingerprint("a decade of failures"), fingerprint("a facade of failures"), "words are not numbers")
	base := fingerprint("m")
	require.NotEqual(t, base, dag.Fingerprint(dag.ClassExhausted, "EXIT_CODE", "m", "d", "t"))
	require.NotEqual(t, base, dag.Fingerprint(dag.ClassPermanent, "HTTP_500", "m", "d", "t"))
	require.NotEqual(t, base, dag.Fingerprint(dag.ClassPermanent, "EXIT_CODE", "m", "d2", "t"))
	require.NotEqual(t, base, dag.Fingerprint(dag.ClassPermanent, "EXIT_CODE", "m", "d", "t2"))
	require.NotEqual(t, dag.Fingerprint("a", "b", "", "c", "d"), dag.Fingerprint("a", "bc", "", "", "d"))
}

func TestFingerprintOfOddTexts(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", "\x00\xff", strings.Repeat("x/", 1<<20), strings.Repeat("'", 1<<16)} {
		require.Len(t, fingerprint(s), 32)
	}
}
