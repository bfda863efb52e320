package integration

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/executor/operator/upload/s3test"
)

// storeEnv makes the S3 server the target of examples/transcode_catalogue.yml,
// as the comment at its head says.
func storeEnv(s *s3test.Server) []string {
	return []string{
		"AIRLOCK_CONN_MEDIA_STORE=" + fmt.Sprintf("aws://%s:%s@/?region_name=us-east-1&endpoint_url=%s", s3test.AccessKey, s3test.SecretKey, strings.ReplaceAll(s.URL, "/", "%2F")),
		"AIRLOCK_VAR_CATALOGUE_CONN_ID=media_store", "AIRLOCK_VAR_CATALOGUE_TARGET=s3://" + s3test.Bucket + "/films",
	}
}

// TestCatalogueExample runs examples/transcode_catalogue.yml on a folder with
// good and broken films: into its folder, then into a bucket, then again.
func TestCatalogueExample(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	require.NoError(t, os.CopyFS(h.dags, os.DirFS(filepath.Join(root, "examples"))))
	source, work := filepath.Join(filepath.Dir(h.dags), "films"), filepath.Join(filepath.Dir(h.dags), "work")
	require.NoError(t, os.Mkdir(source, 0o755))
	want := map[string]string{
		"good.mp4": "", "no_audio.mp4": "", "zero_byte.mp4": "INPUT_EMPTY", "text_as.mp4": "NOT_MEDIA", "truncated_with_moov.mp4": "DURATION_MISMATCH",
	}
	for name := range want {
		data, err := os.ReadFile(filepath.Join(root, "executor", "ffmpeg", "testdata", "media", name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(source, name), data, 0o644))
	}
	conf, err := json.Marshal(map[string]string{"source": source, "work": work})
	require.NoError(t, err)
	// run gives what the report says of the media steps.
	run := func() map[string]string {
		r := h.run("dags", "test", "transcode_catalogue", "-c", string(conf))
		require.Zero(t, r.code, "%s\n%s", r.out, r.errOut)
		said := map[string]string{}
		for line := range strings.Lines(r.out) {
			if cells := strings.Split(line, "│"); len(cells) == 4 {
				said[strings.TrimSpace(cells[1])] = strings.TrimSpace(cells[2])
			}
		}
		return said
	}
	published := filepath.Join(h.dags, "transcode_catalogue", "published", "h264-720p")
	said := run()
	require.Equal(t, "5", said["assets in"])
	require.Equal(t, "2", said["transcoded"])
	require.Equal(t, "2", said["uploaded"])
	require.Equal(t, "3", said["sealed"])
	entries, err := os.ReadDir(published)
	require.NoError(t, err)
	require.Len(t, entries, 2, "the good films, and nothing beside them")
	db := h.db()
	for name, code := range want {
		n := 0
		if code != "" {
			n = 1
		}
		require.Equal(t, n, count(db, "SELECT COUNT(*) FROM dead_letter WHERE payload LIKE ? AND error_code = ?", "%"+name+"%", code), name)
	}
	require.NoDirExists(t, filepath.Join(h.dags, "transcode_catalogue", "source"), "no films are made beside one's own")

	s := s3test.Start(t)
	h.env = append(h.env, storeEnv(s)...)
	said = run()
	require.Equal(t, "0", said["transcoded"])
	require.Equal(t, "2", said["uploaded"])
	objects := s.Objects(t)
	require.Len(t, objects, 2)
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(published, e.Name()))
		require.NoError(t, err)
		require.Equal(t, data, objects["films/h264-720p/"+e.Name()], "the folder and the bucket hold the same")
	}
	said = run()
	require.Equal(t, "0", said["uploaded"])
	require.Equal(t, "2", said["skipped, already at the target"])
	h.checked()
}

// TestKilledUpload: kill -9 of the whole product in the middle of an upload.
// After a restart there is one object, and nothing unfinished.
func TestKilledUpload(t *testing.T) {
	t.Parallel()
	s := s3test.Start(t)
	h := newHouse(t, storeEnv(s)...)
	film := make([]byte, 11<<20)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(film)
	require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(h.dags), "film.mp4"), film, 0o644))
	h.file("publish.yml", `
publish:
  schedule: null
  tasks:
    upload:
      operator: upload
      retries: 3
      path: ../film.mp4
      conn_id: media_store
      target: s3://media
      part_size: 5242880
      bytes_per_second: 3000000         # slow enough to be killed in the middle
`)
	p := h.start("standalone")
	db := h.db()
	until(t, db, 1, "SELECT COUNT(*) FROM dag WHERE dag_id = 'publish'")
	h.ok("dags", "trigger", "publish")
	require.Eventually(t, func() bool { return s.Unfinished(t) == 1 }, patience, 5*time.Millisecond)
	p.kill()
	require.Empty(t, s.Objects(t))
	require.Equal(t, 1, s.Unfinished(t))
	h.start("standalone")
	until(t, db, 1, "SELECT COUNT(*) FROM task_instance WHERE state = 'success' AND crash_count = 1 AND failure_count = 0")
	objects := s.Objects(t)
	require.Len(t, objects, 1)
	for _, data := range objects {
		require.Equal(t, film, data)
	}
	require.Zero(t, s.Unfinished(t))
	// The secret is in no row of the database and in no log.
	require.NoError(t, filepath.WalkDir(h.home, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		require.NotContains(t, string(data), s3test.SecretKey, path)
		return err
	}))
	h.checked()
}
