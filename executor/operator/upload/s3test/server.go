package s3test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/dagtest"
)

// Keys of the server's one account, and the bucket that it has.
const (
	AccessKey = "airlocktestkey"
	SecretKey = "airlock-test-secret"
	Bucket    = "media"
)

// patience bounds every wait for the server.
const patience = time.Minute

// Server is a running S3 server with one empty bucket.
type Server struct {
	// URL is its address, http://127.0.0.1:port.
	URL string
	// Client is signed in.
	Client *s3.Client
}

// Start starts a server that ends with the test.
func Start(t testing.TB) *Server {
	t.Helper()
	bin, err := binary()
	require.NoError(t, err, "build the S3 server for tests: make bin/s3server")
	dir := t.TempDir()
	for try := 1; ; try++ {
		s, said, err := start(t, bin, dir)
		if err == nil {
			_, err = s.Client.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: aws.String(Bucket)})
			require.NoError(t, err)
			return s
		}
		// Another process may have taken the port between our look and its start.
		require.Less(t, try, 5, "%v\n%s", err, said)
	}
}

func start(t testing.TB, bin, dir string) (*Server, string, error) {
	t.Helper()
	port, err := dagtest.FreePort()
	require.NoError(t, err)
	address := fmt.Sprintf("127.0.0.1:%d", port)
	var said bytes.Buffer
	cmd := exec.Command(bin, address, dir, AccessKey, SecretKey)
	cmd.Stdout, cmd.Stderr = &said, &said
	require.NoError(t, cmd.Start())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = cmd.Wait() }()
	t.Cleanup(func() { _ = cmd.Process.Kill(); <-ended })
	for deadline := time.After(patience); ; {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			_ = conn.Close()
			url := "http://" + address
			return &Server{URL: url, Client: client(url)}, "", nil
		}
		select {
		case <-ended:
			return nil, said.String(), errors.New("the server ended")
		case <-deadline:
			return nil, "", errors.New("the server does not answer")
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func client(url string) *s3.Client {
	return s3.New(s3.Options{
		Region: "us-east-1", BaseEndpoint: &url, UsePathStyle: true,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: AccessKey, SecretAccessKey: SecretKey}, nil
		}),
	})
}

// Connection is one of Airflow's type aws to the server.
func (s *Server) Connection() dag.Connection {
	return dag.Connection{
		Type: "aws", Login: AccessKey, Password: SecretKey,
		Extra: map[string]any{"endpoint_url": s.URL, "region_name": "us-east-1"},
	}
}

// Objects are the contents of the bucket by their keys.
func (s *Server) Objects(t testing.TB) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	list, err := s.Client.ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{Bucket: aws.String(Bucket)})
	require.NoError(t, err)
	for _, o := range list.Contents {
		got, err := s.Client.GetObject(t.Context(), &s3.GetObjectInput{Bucket: aws.String(Bucket), Key: o.Key})
		require.NoError(t, err)
		data, err := io.ReadAll(got.Body)
		require.NoError(t, err)
		require.NoError(t, got.Body.Close())
		out[*o.Key] = data
	}
	return out
}

// Unfinished counts the bucket's unfinished uploads.
func (s *Server) Unfinished(t testing.TB) int {
	t.Helper()
	out, err := s.Client.ListMultipartUploads(t.Context(), &s3.ListMultipartUploadsInput{Bucket: aws.String(Bucket)})
	require.NoError(t, err)
	return len(out.Uploads)
}

var binary = sync.OnceValues(func() (string, error) { //nolint:gochecknoglobals // built once a process
	_, here, _, ok := runtime.Caller(0)
	if !ok {
		return "", errors.New("the source folder is not known")
	}
	root, err := filepath.Abs(filepath.Join(filepath.Dir(here), "../../../.."))
	if err != nil {
		return "", err
	}
	source, bin := filepath.Join(root, ".ci", "s3"), filepath.Join(root, "bin", "s3server")
	if err := os.MkdirAll(filepath.Dir(bin), 0o755); err != nil {
		return "", err
	}
	// Test processes run side by side: one builds, the others wait and find it.
	lock, err := os.OpenFile(bin+".lock", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", err
	}
	if fresh(bin, source) {
		return bin, nil
	}
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", bin, ".")
	cmd.Dir, cmd.Env = source, append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build in .ci/s3: %w\n%s", err, out)
	}
	return bin, nil
})

// fresh tells whether the binary is younger than all that it is built from.
func fresh(bin, source string) bool {
	built, err := os.Stat(bin)
	if err != nil {
		return false
	}
	for _, name := range []string{"main.go", "go.mod", "go.sum"} {
		info, err := os.Stat(filepath.Join(source, name))
		if err != nil || info.ModTime().After(built.ModTime()) {
			return false
		}
	}
	return true
}
