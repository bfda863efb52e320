package integration

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The media storm kills ffmpeg, the worker and the whole of Airlock in the
// middle of encodes, and looks at the catalogue after each blow. Its length is
// that of a unit test unless AIRLOCK_MEDIA_KILLS asks for more (200 is the long
// form); AIRLOCK_CRASH_SEED repeats a draw.
const (
	defaultMediaKills = 10
	// filmFrames is what each complete output of it has: three seconds of them.
	filmFrames = "36"
	filmsInRun = 4
)

const mediaStormDAG = `
catalogue:
  schedule: null
  max_active_runs: 4
  params: {inbox: none}
  default_args: {start_date: 2026-01-01, retries: 3, retry_delay: 0.2, max_crashes: 4}
  tasks:
    encode:
      operator: transcode
      expand: {path: {glob: "{{ params.inbox }}/*.mp4"}}
      profile: {name: storm, video: {codec: h264, quality: 40, preset: ultrafast}, audio: {codec: aac, bitrate: 32k}}
      accelerator: cpu
      output_dir: "{{ params.inbox }}/../catalogue"
      realtime: true
`

// mediaStorm is one run of the test.
type mediaStorm struct {
	*house
	film  []byte
	runs  int
	rnd   *rand.Rand
	whole map[string]bool // published files that were looked at
}

// nextRun triggers one run over films of its own: a few bytes behind the index make
// each a file that nobody has seen, and one is cut short.
func (s *mediaStorm) nextRun() {
	s.runs++
	inbox := filepath.Join(filepath.Dir(s.dags), fmt.Sprintf("in%d", s.runs))
	require.NoError(s.t, os.MkdirAll(inbox, 0o755))
	for i := range filmsInRun {
		tail := fmt.Sprintf("free%d-%d", s.runs, i)
		box := append([]byte{0, 0, 0, byte(4 + len(tail))}, tail...)
		data := append(append([]byte(nil), s.film...), box...)
		if i == filmsInRun-1 {
			data = append(data[:len(s.film)*6/10], tail...)
		}
		require.NoError(s.t, os.WriteFile(filepath.Join(inbox, fmt.Sprintf("f%d.mp4", i)), data, 0o600))
	}
	s.ok("dags", "trigger", "catalogue", "-r", fmt.Sprintf("r%d", s.runs), "-c", fmt.Sprintf(`{"inbox": %q}`, inbox))
}

func (s *mediaStorm) catalogue() string {
	return filepath.Join(filepath.Dir(s.dags), "catalogue", "derived", "storm")
}

// look checks that whatever has a public name is whole, at this moment.
func (s *mediaStorm) look() {
	s.t.Helper()
	found, err := filepath.Glob(filepath.Join(s.catalogue(), "*.mp4"))
	require.NoError(s.t, err)
	for _, path := range found {
		if s.whole[path] {
			continue
		}
		out, err := exec.Command("ffprobe", "-v", "error", "-select_streams", "v", "-count_frames", "-show_entries", "stream=nb_read_frames", "-of", "csv=p=0", path).CombinedOutput()
		require.NoError(s.t, err, "%s: %s", path, out)
		require.Equal(s.t, filmFrames, strings.Trim(string(out), "\n,"), path)
		s.whole[path] = true
	}
}

// unfinished counts the runs that have not ended.
func (s *mediaStorm) unfinished() int {
	s.t.Helper()
	n := -1
	require.NoError(s.t, s.db().QueryRow("SELECT COUNT(*) FROM dag_run WHERE state IN ('queued', 'running')").Scan(&n))
	return n
}

func TestMediaSurvivesKills(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes a minute")
	}
	kills := crashSetting(t, "AIRLOCK_MEDIA_KILLS", defaultMediaKills)
	seed := crashSetting(t, "AIRLOCK_CRASH_SEED", 1)
	path := filepath.Join(t.TempDir(), "film.mp4")
	out, err := exec.Command("ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc2=s=96x64:r=12:d=3", "-f", "lavfi", "-i", "sine=d=3",
		"-c:v", "libx264", "-preset", "ultrafast", "-c:a", "aac", "-movflags", "+faststart", path).CombinedOutput()
	require.NoError(t, err, string(out))
	film, err := os.ReadFile(path)
	require.NoError(t, err)

	s := &mediaStorm{
		house: newHouse(t, "AIRLOCK__WORKER__MAX_INPUT_FAILURES=6", "AIRLOCK__WORKER__CONCURRENCY=4"),
		film:  film, rnd: rand.New(rand.NewPCG(uint64(seed), 6)), whole: map[string]bool{},
	}
	s.file("catalogue.yml", mediaStormDAG)
	s.ok("db", "migrate")
	crew := []*process{s.start("standalone"), s.start("worker")}
	args := [][]string{{"standalone"}, {"worker"}}
	require.Eventually(t, func() bool { return strings.Contains(s.run("dags", "list").out, "catalogue") }, patience, 200*time.Millisecond)
	s.nextRun()
	done := map[string]int{}
	storm := &storm{house: s.house}
	for struck := 0; struck < kills; {
		if s.unfinished() == 0 {
			s.nextRun()
		}
		time.Sleep(time.Duration(200+s.rnd.IntN(1500)) * time.Millisecond)
		kind := []string{"ffmpeg", "ffmpeg", "worker", "airlock", "term"}[s.rnd.IntN(5)]
		switch kind {
		case "worker", "airlock":
			i := map[string]int{"airlock": 0, "worker": 1}[kind]
			crew[i].kill()
			crew[i] = s.start(args[i]...)
		default:
			pids := storm.children()
			if len(pids) == 0 {
				continue // nothing runs just now
			}
			signal := map[string]syscall.Signal{"ffmpeg": syscall.SIGKILL, "term": syscall.SIGTERM}[kind]
			_ = syscall.Kill(pids[s.rnd.IntN(len(pids))], signal)
		}
		struck++
		done[kind]++
		s.look()
	}
	t.Logf("seed %d: %v over %d runs", seed, done, s.runs)

	require.Eventually(t, func() bool { return s.unfinished() == 0 }, 3*patience, 200*time.Millisecond)
	s.look()
	s.nextRun() // and one in peace: whoever encodes next sweeps
	require.Eventually(t, func() bool { return s.unfinished() == 0 }, patience, 200*time.Millisecond)
	s.look()
	for _, p := range crew {
		p.term(t)
	}
	s.checkMedia()
	require.Empty(t, storm.children(), "no process is left")
	s.ok("db", "check")
}

// checkMedia compares what the database says of each film with the catalogue.
func (s *mediaStorm) checkMedia() {
	t := s.t
	t.Helper()
	rows, err := s.db().Query(`SELECT ti.state, COUNT(l.id), COALESCE(x.value, '') FROM task_instance ti
 LEFT JOIN dead_letter l ON l.task_instance_id = ti.id
 LEFT JOIN xcom x ON x.dag_run_id = ti.dag_run_id AND x.task_id = ti.task_id AND x.map_index = ti.map_index GROUP BY ti.id`)
	require.NoError(t, err)
	defer rows.Close()
	states, published := map[string]int{}, map[string]bool{}
	for rows.Next() {
		var state, value string
		var letters int
		require.NoError(t, rows.Scan(&state, &letters, &value))
		states[state]++
		if state == "failed" {
			require.Equal(t, 1, letters, "one letter for each film that failed")
			continue
		}
		require.Equal(t, "success", state)
		require.Zero(t, letters)
		var result struct {
			Path string `json:"path"`
			Hash string `json:"output_sha256"`
		}
		require.NoError(t, json.Unmarshal([]byte(value), &result))
		data, err := os.ReadFile(result.Path)
		require.NoError(t, err)
		sum := sha256.Sum256(data)
		require.Equal(t, result.Hash, hex.EncodeToString(sum[:]))
		require.FileExists(t, strings.TrimSuffix(result.Path, ".mp4")+".json")
		published[filepath.Base(result.Path)] = true
	}
	require.NoError(t, rows.Err())
	require.Equal(t, s.runs*filmsInRun, states["success"]+states["failed"], "%v", states)
	require.GreaterOrEqual(t, states["failed"], s.runs, "the films that were cut short")
	t.Logf("%v", states)

	entries, err := os.ReadDir(s.catalogue())
	require.NoError(t, err)
	for _, e := range entries {
		require.False(t, strings.HasPrefix(e.Name(), "."), "left behind: %s", e.Name())
		if strings.HasSuffix(e.Name(), ".mp4") && !published[e.Name()] {
			// Whole, and its worker died before it could say so: the letter stays.
			require.True(t, s.whole[filepath.Join(s.catalogue(), e.Name())])
		}
	}
}
