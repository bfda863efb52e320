package upload_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/operator/httpcall"
	"github.com/airlock-dag/airlock/executor/operator/operatortest"
	"github.com/airlock-dag/airlock/executor/operator/upload"
	"github.com/airlock-dag/airlock/executor/operator/upload/s3test"
)

// mebibyte is the unit of part sizes here.
const mebibyte = 1 << 20

// file makes a file of n bytes that nothing compresses, the same for a seed.
func file(t testing.TB, seed uint64, n int) (path string, data []byte) {
	t.Helper()
	data = make([]byte, n)
	r := rand.NewChaCha8([32]byte{byte(seed)})
	_, _ = r.Read(data)
	path = filepath.Join(t.TempDir(), "film.mp4")
	require.NoError(t, os.WriteFile(path, data, 0o644))
	return path, data
}

func hashOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func operator() *upload.Operator { return upload.New(httpcall.New()) }

// run makes an attempt with a connection "store".
func run(t testing.TB, op *upload.Operator, c dag.Connection, args map[string]any, change ...func(*operatortest.Fixture)) (dag.Outcome, *operatortest.Fixture) {
	t.Helper()
	f := operatortest.New(t, args)
	f.Connections["store"] = c
	for _, do := range change {
		do(f)
	}
	return op.Run(t.Context(), f.Task), f
}

func result(t testing.TB, out dag.Outcome) *upload.Result {
	t.Helper()
	require.Equal(t, dag.OutcomeSuccess, out.Kind, "%v", out.Err)
	r, ok := out.ReturnValue.(*upload.Result)
	require.True(t, ok)
	return r
}

// fails asks for a failure of a code and class.
func fails(t testing.TB, out dag.Outcome, code string, class dag.ErrorClass) *dag.TaskError {
	t.Helper()
	require.Equal(t, dag.OutcomeFailed, out.Kind)
	require.Equal(t, code, out.Err.Code, "%v", out.Err)
	require.Equal(t, class, out.Err.Class, "%v", out.Err)
	return out.Err
}

func again(f *operatortest.Fixture) { f.TI.Fence = 2 }

// One part or several: published once, verified, and a repeat is a skip.
func TestS3(t *testing.T) {
	t.Parallel()
	s := s3test.Start(t)
	for name, c := range map[string]struct{ size, parts int }{
		"one part":           {3 * mebibyte, 1},
		"exactly one part":   {5 * mebibyte, 1},
		"several parts":      {12 * mebibyte, 3},
		"several full parts": {10 * mebibyte, 2},
		"one byte":           {1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path, data := file(t, uint64(c.size), c.size)
			for _, verify := range []string{"checksum", "read", "size"} {
				args := map[string]any{"path": path, "conn_id": "store", "target": "s3://media/" + verify, "part_size": 5 * mebibyte, "verify": verify, "metadata": map[string]any{"title": "A film"}}
				op := operator()
				out, f := run(t, op, s.Connection(), args)
				got := result(t, out)
				key := hashOf(data) + ".mp4"
				require.Equal(t, "s3://media/"+verify+"/"+key, got.URL)
				require.Equal(t, &upload.Result{
					URL: got.URL, Key: key, Path: path, SHA256: hashOf(data), AssetSHA256: hashOf(data), Size: int64(c.size), ETag: got.ETag,
				}, got)
				require.NotEmpty(t, got.ETag)
				require.Contains(t, f.Output.String(), "published s3://media/")
				require.InDelta(t, 1, f.Reports()[len(f.Reports())-1].Fraction, 0)

				out, f = run(t, op, s.Connection(), args)
				got = result(t, out)
				require.True(t, got.Skipped)
				require.Contains(t, f.Output.String(), "skipped")

				head, err := s.Client.HeadObject(t.Context(), &s3.HeadObjectInput{Bucket: aws.String(s3test.Bucket), Key: aws.String(verify + "/" + key)})
				require.NoError(t, err)
				require.Equal(t, "video/mp4", aws.ToString(head.ContentType))
				require.Equal(t, "A film", head.Metadata["title"])
				require.Equal(t, hashOf(data), head.Metadata["airlock-sha256"])
				want := 0
				if c.parts > 1 {
					want = c.parts
				}
				if want > 0 {
					require.Contains(t, aws.ToString(head.ETag), "-"+string(rune('0'+want)))
				}
				require.True(t, bytes.Equal(data, s.Objects(t)[verify+"/"+key]))
			}
		})
	}
}

// Other content under the key is an error, unless overwriting is asked for.
func TestS3OtherContent(t *testing.T) {
	t.Parallel()
	s := s3test.Start(t)
	first, _ := file(t, 1, 100)
	second, data := file(t, 2, 100) // the same length
	large, largeData := file(t, 3, 6*mebibyte)
	args := func(path string) map[string]any {
		return map[string]any{"path": path, "conn_id": "store", "target": "s3://media", "key": "film.mp4", "part_size": 5 * mebibyte}
	}
	result(t, first1(run(t, operator(), s.Connection(), args(first))))
	for _, path := range []string{second, large} {
		e := fails(t, first1(run(t, operator(), s.Connection(), args(path))), "OBJECT_EXISTS", dag.ClassPermanent)
		require.Equal(t, "s3://media/film.mp4", e.IdempotencyKey)
		require.NotEmpty(t, e.AssetSHA256)
		require.Contains(t, e.Hint, "overwrite: true")
	}
	for path, want := range map[string][]byte{second: data, large: largeData} {
		a := args(path)
		a["overwrite"] = true
		require.False(t, result(t, first1(run(t, operator(), s.Connection(), a))).Skipped)
		require.True(t, bytes.Equal(want, s.Objects(t)["film.mp4"]))
		require.True(t, result(t, first1(run(t, operator(), s.Connection(), a))).Skipped)
	}
	require.Len(t, s.Objects(t), 1)
}

// Objects that others put there are believed for their checksum or their bytes.
func TestS3ObjectOfOthers(t *testing.T) {
	t.Parallel()
	s := s3test.Start(t)
	path, data := file(t, 4, 1000)
	_, err := s.Client.PutObject(t.Context(), &s3.PutObjectInput{Bucket: aws.String(s3test.Bucket), Key: aws.String("film.mp4"), Body: bytes.NewReader(data)})
	require.NoError(t, err)
	args := map[string]any{"path": path, "conn_id": "store", "target": "s3://media", "key": "{name}"}
	require.True(t, result(t, first1(run(t, operator(), s.Connection(), args))).Skipped)
}

// Ten workers with one key: one publishes, nine skip. The tests' server keeps what
// it knows of an object beside it: for a moment a key is taken that holds nothing
// yet, and of uploads in parts that end together it lets more than one complete,
// which bring the same bytes. It hangs up on one whose unfinished upload another
// has ended. Who fails by that tries again, as a task does.
func TestS3TenAtOnce(t *testing.T) {
	t.Parallel()
	s := s3test.Start(t)
	for _, size := range []int{1000, 6 * mebibyte} {
		path, data := file(t, uint64(size), size)
		const workers = 10
		results := make([]dag.Outcome, workers)
		var all sync.WaitGroup
		for i := range workers {
			f := operatortest.New(t, map[string]any{"path": path, "conn_id": "store", "target": "s3://media", "part_size": 5 * mebibyte})
			f.Connections["store"] = s.Connection()
			all.Go(func() {
				for begun := time.Now(); results[i].Kind != dag.OutcomeSuccess && time.Since(begun) < time.Minute; {
					results[i] = operator().Run(t.Context(), f.Task)
				}
			})
		}
		all.Wait()
		published := 0
		for _, out := range results {
			if !result(t, out).Skipped {
				published++
			}
		}
		if size > mebibyte {
			require.Positive(t, published)
		} else {
			require.Equal(t, 1, published)
		}
		require.True(t, bytes.Equal(data, s.Objects(t)[hashOf(data)+".mp4"]))
	}
	require.Zero(t, s.Unfinished(t))
}

// What a killed attempt left unfinished is ended by the next one, also when the
// object is there already; that of an attempt at work in this process is left.
func TestS3Unfinished(t *testing.T) {
	t.Parallel()
	s := s3test.Start(t)
	path, data := file(t, 5, 1000)
	key := hashOf(data) + ".mp4"
	begin := func(key string) {
		_, err := s.Client.CreateMultipartUpload(t.Context(), &s3.CreateMultipartUploadInput{Bucket: aws.String(s3test.Bucket), Key: aws.String(key)})
		require.NoError(t, err)
	}
	args := map[string]any{"path": path, "conn_id": "store", "target": "s3://media"}
	begin(key)
	begin(key)
	begin(key + ".other") // not ours: only its beginning is the same
	out, f := run(t, operator(), s.Connection(), args, again)
	require.False(t, result(t, out).Skipped)
	require.Contains(t, f.Output.String(), "ended 2 unfinished upload(s)")
	require.Equal(t, 1, s.Unfinished(t))
	begin(key)
	out, f = run(t, operator(), s.Connection(), args, again)
	require.True(t, result(t, out).Skipped)
	require.Contains(t, f.Output.String(), "ended 1 unfinished upload(s)")
	require.Equal(t, 1, s.Unfinished(t))
}

// The record of a transcode step: its key and hashes are taken, and a file that
// is another one since is refused.
func TestS3Record(t *testing.T) {
	t.Parallel()
	s := s3test.Start(t)
	path, data := file(t, 6, 1000)
	record := map[string]any{
		"path": path, "asset_sha256": hashOf([]byte("source")), "output_sha256": hashOf(data), "profile": "h264-720p",
		"key": "derived/h264-720p/" + hashOf([]byte("source")) + ".mp4", "size": 1000,
	}
	args := map[string]any{"path": record, "conn_id": "store", "target": "s3://media/catalogue"}
	got := result(t, first1(run(t, operator(), s.Connection(), args)))
	require.Equal(t, "s3://media/catalogue/"+record["key"].(string), got.URL)
	require.Equal(t, "h264-720p", got.Profile)
	require.Equal(t, record["asset_sha256"], got.AssetSHA256)
	raw, err := json.Marshal(got)
	require.NoError(t, err)
	for _, name := range []string{"url", "key", "path", "sha256", "asset_sha256", "profile", "size", "skipped", "etag"} {
		require.Contains(t, string(raw), `"`+name+`":`)
	}
	// The content is there: the file need not be any more.
	require.NoError(t, os.Remove(path))
	require.True(t, result(t, first1(run(t, operator(), s.Connection(), args))).Skipped)
	args["key"] = "{profile}/{asset_sha256}{ext}"
	fails(t, first1(run(t, operator(), s.Connection(), args)), "INPUT_MISSING", dag.ClassPermanent)
	require.NoError(t, os.WriteFile(path, []byte("another film"), 0o644))
	e := fails(t, first1(run(t, operator(), s.Connection(), args)), "HASH_MISMATCH", dag.ClassPoison)
	require.Equal(t, record["asset_sha256"], e.AssetSHA256)
	require.Len(t, s.Objects(t), 1)
}

// The ways to write a connection: all lead to the same object.
func TestS3Connections(t *testing.T) {
	t.Parallel()
	s := s3test.Start(t)
	path, data := file(t, 8, 10)
	key := "films/" + hashOf(data) + ".mp4"
	extra := func(more map[string]any) map[string]any {
		out := map[string]any{"endpoint_url": s.URL}
		for k, v := range more {
			out[k] = v
		}
		return out
	}
	keys := map[string]any{"aws_access_key_id": s3test.AccessKey, "aws_secret_access_key": s3test.SecretKey, "region_name": "us-east-1", "aws_session_token": ""}
	for name, c := range map[string]struct {
		conn   dag.Connection
		target string
	}{
		"keys in the extra":       {dag.Connection{Type: "aws", Extra: extra(keys)}, "s3://media/films"},
		"bucket in the schema":    {dag.Connection{Type: "aws", Login: s3test.AccessKey, Password: s3test.SecretKey, Schema: "media", Extra: extra(nil)}, "films"},
		"bucket and prefix":       {dag.Connection{Type: "aws", Login: s3test.AccessKey, Password: s3test.SecretKey, Extra: extra(map[string]any{"bucket_name": "media", "prefix": "/films/"})}, ""},
		"an s3 address":           {dag.Connection{Type: "s3", Login: s3test.AccessKey, Password: s3test.SecretKey, Host: "media", Schema: "films", Extra: extra(nil)}, ""},
		"Airflow's service":       {dag.Connection{Type: "aws", Login: s3test.AccessKey, Password: s3test.SecretKey, Extra: map[string]any{"service_config": map[string]any{"s3": map[string]any{"bucket_name": "media", "endpoint_url": s.URL}}, "config_kwargs": map[string]any{"s3": map[string]any{"addressing_style": "path"}}}}, "films/"},
		"Airflow's old host":      {dag.Connection{Type: "aws", Login: s3test.AccessKey, Password: s3test.SecretKey, Host: s.URL}, "s3://media/films/"},
		"certificates unverified": {dag.Connection{Type: "aws", Login: s3test.AccessKey, Password: s3test.SecretKey, Extra: extra(map[string]any{"verify": false})}, "S3://media/films"},
	} {
		out, f := run(t, operator(), c.conn, map[string]any{"path": path, "conn_id": "store", "target": c.target})
		require.Equal(t, "s3://media/"+key, result(t, out).URL, name)
		require.NotContains(t, f.Output.String(), "not acted on", name)
	}
	require.Len(t, s.Objects(t), 1)
	for name, c := range map[string]dag.Connection{
		"an address that is none": {Type: "aws", Login: "a", Password: "b", Schema: "media", Extra: map[string]any{"endpoint_url": "127.0.0.1:9000"}},
		"a password in it":        {Type: "aws", Login: "a", Password: "b", Schema: "media", Extra: map[string]any{"endpoint_url": "http://me:hidden@127.0.0.1:9000"}},
		"no region":               {Type: "aws", Login: "a", Password: "b", Schema: "media"},
		"another style":           {Type: "aws", Login: "a", Password: "b", Schema: "media", Extra: map[string]any{"endpoint_url": s.URL, "addressing_style": "dns"}},
		"a bucket that is none":   {Type: "aws", Login: "a", Password: "b", Schema: "me/dia", Extra: map[string]any{"endpoint_url": s.URL}},
		"another kind":            {Type: "mysql", Host: "db"},
	} {
		e := fails(t, first1(run(t, operator(), c, map[string]any{"path": path, "conn_id": "store"})), "CONNECTION_INVALID", dag.ClassConfiguration)
		require.NotContains(t, e.Error(), "hidden", name)
	}
	web := dag.Connection{Type: "http", Host: "feed", Login: "me", Password: "mine"}
	fails(t, first1(run(t, operator(), web, map[string]any{"path": path, "conn_id": "store", "target": "s3://media"})), "CONNECTION_INVALID", dag.ClassConfiguration)
	fails(t, first1(run(t, operator(), dag.Connection{}, map[string]any{"path": path, "conn_id": "nope", "target": "s3://media"})), "CONNECTION_MISSING", dag.ClassConfiguration)
	e := fails(t, first1(run(t, operator(), dag.Connection{}, map[string]any{"path": path, "target": "s3://media"})), "INVALID_ARGUMENT", dag.ClassConfiguration)
	require.Contains(t, e.Hint, "conn_id")
}

// What is wrong with a connection or a bucket is configuration.
func TestS3Configuration(t *testing.T) {
	t.Parallel()
	s := s3test.Start(t)
	path, _ := file(t, 7, 10)
	wrongKey := s.Connection()
	wrongKey.Password = "wrong-secret"
	noKeys := s.Connection()
	noKeys.Login = ""
	role := s.Connection()
	role.Extra["role_arn"] = "arn:aws:iam::1:role/x"
	for name, c := range map[string]struct {
		conn   dag.Connection
		target string
		code   string
	}{
		"a wrong key":  {wrongKey, "s3://media", "HTTP_403"},
		"no keys":      {noKeys, "s3://media", "CONNECTION_INVALID"},
		"no bucket":    {s.Connection(), "", "CONNECTION_INVALID"},
		"no such":      {s.Connection(), "s3://nowhere", "BUCKET_MISSING"},
		"another role": {role, "s3://media", "CONNECTION_INVALID"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, f := run(t, operator(), c.conn, map[string]any{"path": path, "conn_id": "store", "target": c.target})
			e := fails(t, out, c.code, dag.ClassConfiguration)
			require.NotEmpty(t, e.Hint+e.Message)
			require.NotContains(t, e.Error()+f.Output.String(), s3test.SecretKey)
			require.NotContains(t, e.Error()+f.Output.String(), "wrong-secret")
		})
	}
	require.Empty(t, s.Objects(t))
}

func first1(out dag.Outcome, _ *operatortest.Fixture) dag.Outcome { return out }
