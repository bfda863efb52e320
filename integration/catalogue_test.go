package integration

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/executor/operator/upload/s3test"
	"github.com/airlock-dag/airlock/sql/sqltest"
)

// storeEnv makes the S3 server the target of examples/transcode_catalogue.yml,
// as the comment at its head says.
func storeEnv(s *s3test.Server) []string {
	return []string{
		"AIRLOCK_CONN_MEDIA_STORE=" + fmt.Sprintf("aws://%s:%s@/?region_name=us-east-1&endpoint_url=%s", s3test.AccessKey, s3test.SecretKey, strings.ReplaceAll(s.URL, "/", "%2F")),
		"AIRLOCK_VAR_CATALOGUE_CONN_ID=media_store", "AIRLOCK_VAR_CATALOGUE_TARGET=s3://" + s3test.Bucket + "/films",
	}
}

// films are small files, and the code that each is sealed with.
func films() map[string]string {
	return map[string]string{
		"good.mp4": "", "no_audio.mp4": "", "zero_byte.mp4": "INPUT_EMPTY", "text_as.mp4": "NOT_MEDIA", "truncated_with_moov.mp4": "DURATION_MISMATCH",
	}
}

// catalogue is a house with the examples and a folder of films of its own.
type catalogue struct {
	*house
	source, conf string
}

func newCatalogue(t *testing.T, h *house) catalogue {
	t.Helper()
	require.NoError(t, os.CopyFS(h.dags, os.DirFS(filepath.Join(root, "examples"))))
	source := filepath.Join(filepath.Dir(h.dags), "films")
	require.NoError(t, os.Mkdir(source, 0o755))
	for name := range films() {
		data, err := os.ReadFile(filepath.Join(root, "executor", "ffmpeg", "testdata", "media", name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(source, name), data, 0o644))
	}
	conf, err := json.Marshal(map[string]string{"source": source, "work": filepath.Join(filepath.Dir(h.dags), "work")})
	require.NoError(t, err)
	return catalogue{h, source, string(conf)}
}

// once runs the example and gives what the report says of the media steps.
func (c catalogue) once() map[string]string {
	c.t.Helper()
	said := map[string]string{}
	for line := range strings.Lines(c.ok("dags", "test", "transcode_catalogue", "-c", c.conf)) {
		if cells := strings.Split(line, "│"); len(cells) == 4 {
			said[strings.TrimSpace(cells[1])] = strings.TrimSpace(cells[2])
		}
	}
	return said
}

// TestCatalogueExample runs examples/transcode_catalogue.yml on a folder with
// good and broken films: into its folder, then into a bucket, then again.
func TestCatalogueExample(t *testing.T) {
	t.Parallel()
	c := newCatalogue(t, newHouse(t, unhurried))
	published := filepath.Join(c.dags, "transcode_catalogue", "published", "h264-720p")
	said := c.once()
	require.Equal(t, "5", said["assets in"])
	require.Equal(t, "2", said["transcoded"])
	require.Equal(t, "2", said["uploaded"])
	require.Equal(t, "3", said["sealed"])
	entries, err := os.ReadDir(published)
	require.NoError(t, err)
	require.Len(t, entries, 2, "the good films, and nothing beside them")
	db := c.db()
	for name, code := range films() {
		n := 0
		if code != "" {
			n = 1
		}
		require.Equal(t, n, count(db, "SELECT COUNT(*) FROM dead_letter WHERE payload LIKE ? AND error_code = ?", "%"+name+"%", code), name)
	}
	require.NoDirExists(t, filepath.Join(c.dags, "transcode_catalogue", "source"), "no films are made beside one's own")
	c.answers(db)

	s := s3test.Start(t)
	c.env = append(c.env, storeEnv(s)...)
	said = c.once()
	require.Equal(t, "0", said["transcoded"])
	require.Equal(t, "2", said["uploaded"])
	objects := s.Objects(t)
	require.Len(t, objects, 2)
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(published, e.Name()))
		require.NoError(t, err)
		require.Equal(t, data, objects["films/h264-720p/"+e.Name()], "the folder and the bucket hold the same")
	}
	said = c.once()
	require.Equal(t, "0", said["uploaded"])
	require.Equal(t, "2", said["skipped, already at the target"])
	c.checked()
}

// TestCatalogueOnMariaDB asks the same questions of a server.
func TestCatalogueOnMariaDB(t *testing.T) {
	t.Parallel()
	dsn := sqltest.MariaDB(t)
	c := newCatalogue(t, newHouse(t, "AIRLOCK__DATABASE__DSN="+dsn, unhurried))
	c.ok("db", "migrate")
	require.Equal(t, "2", c.once()["uploaded"])
	c.answers(open(t, dsn))
}

// answers asks every question of docs/media.md of a database with one run of
// the catalogue in it.
func (c catalogue) answers(db *sql.DB) {
	t := c.t
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, "docs", "media.md"))
	require.NoError(t, err)
	blocks := strings.Split(string(page), "```sql\n")[1:]
	require.Len(t, blocks, 9)
	var got [][][]string
	for _, block := range blocks {
		query, _, _ := strings.Cut(block, "```")
		rows, err := db.Query(strings.TrimSuffix(strings.TrimSpace(query), ";"))
		require.NoError(t, err, query)
		got = append(got, texts(t, rows))
	}
	require.Len(t, got[0], 1)
	require.Equal(t, []string{"h264", "DURATION_MISMATCH", "1"}, got[0][0][:3])
	require.Len(t, got[1], 1)
	require.Equal(t, filepath.Join(c.source, "truncated_with_moov.mp4"), got[1][0][1])
	for i := range got[2] {
		got[2][i][4] = strings.TrimSuffix(got[2][i][4], ".0")
	}
	require.Equal(t, [][]string{{"cpu.metadata", "probe", "5", "2", "40"}, {"gpu.transcode", "transcode", "3", "1", "33.3"}, {"io.upload", "upload", "2", "0", "0"}}, got[2])
	require.Len(t, got[3], 1)
	require.Equal(t, "2", got[3][0][1])
	require.Len(t, got[6], 2)
	for i, name := range []string{"good.mp4", "no_audio.mp4"} {
		require.Equal(t, filepath.Join(c.source, name), got[6][i][0])
		require.Regexp(t, "^file://"+regexp.QuoteMeta(c.dags)+"/transcode_catalogue/published/h264-720p/[0-9a-f]{64}\\.mp4$", got[6][i][1])
	}
	require.Empty(t, got[7])
}

// texts reads all rows as texts.
func texts(t testing.TB, rows *sql.Rows) [][]string {
	t.Helper()
	defer rows.Close()
	columns, err := rows.Columns()
	require.NoError(t, err)
	var out [][]string
	for rows.Next() {
		row, to := make([]sql.NullString, len(columns)), make([]any, len(columns))
		for i := range row {
			to[i] = &row[i]
		}
		require.NoError(t, rows.Scan(to...))
		line := make([]string, len(columns))
		for i := range row {
			line[i] = row[i].String
		}
		out = append(out, line)
	}
	require.NoError(t, rows.Err())
	return out
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
      bytes_per_second: 1000000         # slow enough to be killed in the middle
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
