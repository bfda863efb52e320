package bundle_test

import (
	"context"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/bundle"
	"github.com/airlock-dag/airlock/dag/dagtest"
)

// remote is a bare repository and a working tree that pushes to it.
type remote struct {
	t          *testing.T
	bare, work string
}

func newRemote(t *testing.T) *remote {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("the other side of these tests is the git program, which is not here")
	}
	dir := t.TempDir()
	r := &remote{t: t, bare: filepath.Join(dir, "remote.git"), work: filepath.Join(dir, "work")}
	r.git(dir, "init", "-q", "--bare", "-b", "main", r.bare)
	r.git(dir, "clone", "-q", r.bare, r.work)
	return r
}

func (r *remote) git(dir string, args ...string) string {
	r.t.Helper()
	cmd := exec.CommandContext(r.t.Context(), "git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "HOME="+dir,
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org")
	out, err := cmd.CombinedOutput()
	require.NoError(r.t, err, "git %v: %s", args, out)
	return strings.TrimSpace(string(out))
}

// push commits files (nil content removes one) and gives the commit.
func (r *remote) push(files map[string]string, flags ...string) string {
	r.t.Helper()
	for name, content := range files {
		path := filepath.Join(r.work, name)
		if content == "" {
			require.NoError(r.t, os.Remove(path))
			continue
		}
		require.NoError(r.t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(r.t, os.WriteFile(path, []byte(content), 0o600))
	}
	r.git(r.work, "add", "-A")
	r.git(r.work, append([]string{"commit", "-q", "--allow-empty", "-m", "x"}, flags...)...)
	r.git(r.work, "push", "-q", "--force", "origin", "HEAD:main")
	return r.git(r.work, "rev-parse", "HEAD")
}

func (r *remote) source(change func(o *bundle.GitOptions)) *bundle.Git {
	o := bundle.GitOptions{URL: "file://" + r.bare, Folder: "dags", Clone: filepath.Join(r.t.TempDir(), "clones", "one")}
	if change != nil {
		change(&o)
	}
	return bundle.NewGit(o)
}

// contents are the files of a scan by path; those that could not be read have
// their error.
func contents(t *testing.T, g *bundle.Git) map[string]string {
	t.Helper()
	files, err := g.Scan()
	require.NoError(t, err)
	out := map[string]string{}
	for _, f := range files {
		require.Equal(t, g.Commit(), f.Source)
		out[f.Path] = string(f.Data)
		if f.Err != nil {
			out[f.Path] = f.Err.Error()
		}
	}
	return out
}

func TestGitFollowsTheBranch(t *testing.T) {
	t.Parallel()
	for _, branch := range []string{"", "main"} {
		t.Run("branch "+branch, func(t *testing.T) {
			t.Parallel()
			r := newRemote(t)
			first := r.push(map[string]string{"dags/a.yml": "a: 1", "dags/sub/b.yaml": "b: 1", "README.md": "x", "other.yml": "no"})
			g := r.source(func(o *bundle.GitOptions) { o.Branch = branch })
			require.Equal(t, map[string]string{"a.yml": "a: 1", "sub/b.yaml": "b: 1"}, contents(t, g))
			require.Equal(t, first, g.Commit())
			require.False(t, g.Pull(t.Context()), "nothing is new")

			second := r.push(map[string]string{"dags/a.yml": "a: 2", "dags/sub/b.yaml": "", "dags/c.yml": "c: 1"})
			require.Equal(t, "a: 1", contents(t, g)["a.yml"], "a scan alone asks nobody")
			require.True(t, g.Pull(t.Context()))
			require.Equal(t, second, g.Commit())
			require.Equal(t, map[string]string{"a.yml": "a: 2", "c.yml": "c: 1"}, contents(t, g))

			// Forced: the second commit is gone, another has its place.
			third := r.push(map[string]string{"dags/a.yml": "a: 3"}, "--amend")
			require.NotEqual(t, second, third)
			require.True(t, g.Pull(t.Context()))
			require.Equal(t, third, g.Commit())
			require.Equal(t, map[string]string{"a.yml": "a: 3", "c.yml": "c: 1"}, contents(t, g))
			r.git(r.work, "reset", "-q", "--hard", first)
			fourth := r.push(map[string]string{"dags/d.yml": "d: 1"})
			require.True(t, g.Pull(t.Context()))
			require.Equal(t, fourth, g.Commit())
			require.Equal(t, map[string]string{"a.yml": "a: 1", "sub/b.yaml": "b: 1", "d.yml": "d: 1"}, contents(t, g))
		})
	}
}

func TestGitKeepsTheLastGoodState(t *testing.T) {
	t.Parallel()
	r := newRemote(t)
	commit := r.push(map[string]string{"dags/a.yml": "a: 1"})
	clone := filepath.Join(t.TempDir(), "one")
	there := func(o *bundle.GitOptions) { o.Clone = clone }
	g := r.source(there)
	require.Len(t, contents(t, g), 1)

	away := r.bare + ".away"
	require.NoError(t, os.Rename(r.bare, away))
	require.True(t, g.Pull(t.Context()), "the trouble is news")
	require.False(t, g.Pull(t.Context()), "once")
	got := contents(t, g)
	require.Equal(t, "a: 1", got["a.yml"])
	require.Contains(t, got["file://"+r.bare], "the DAGs of commit "+commit[:12]+" stay in use")

	// Another process begins while the remote is away: it has the clone.
	other := r.source(there)
	require.Equal(t, "a: 1", contents(t, other)["a.yml"])
	require.Equal(t, commit, other.Commit())

	// One without a clone has nothing, and says why.
	_, err := r.source(nil).Scan()
	require.ErrorContains(t, err, r.bare)
	require.Equal(t, dag.ErrInvalid, dag.CodeOf(err))

	// Back again.
	require.NoError(t, os.Rename(away, r.bare))
	require.True(t, g.Pull(t.Context()))
	require.Equal(t, map[string]string{"a.yml": "a: 1"}, contents(t, g))

	// The branch is gone.
	r.git(r.bare, "branch", "-m", "main", "elsewhere")
	require.True(t, g.Pull(t.Context()))
	require.Equal(t, "a: 1", contents(t, g)["a.yml"])
	r.git(r.bare, "branch", "-m", "elsewhere", "main")
	require.True(t, g.Pull(t.Context()))

	// Files that were changed here, by a death in between or by hand, are set
	// right by the next process; a clone that is no repository is made anew.
	require.NoError(t, os.WriteFile(filepath.Join(clone, "dags", "a.yml"), []byte("half"), 0o600))
	require.Equal(t, "a: 1", contents(t, r.source(there))["a.yml"])
	require.NoError(t, os.RemoveAll(filepath.Join(clone, ".git", "objects")))
	require.Equal(t, map[string]string{"a.yml": "a: 1"}, contents(t, r.source(there)))
}

func TestGitWatch(t *testing.T) {
	t.Parallel()
	r := newRemote(t)
	r.push(map[string]string{"dags/a.yml": "a: 1"})
	g := r.source(func(o *bundle.GitOptions) { o.Interval = time.Minute })
	require.Len(t, contents(t, g), 1)
	clock := dagtest.NewClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	changed := g.Watch(ctx, clock, time.Second)
	clock.BlockUntil(1)
	clock.Advance(time.Minute)
	clock.BlockUntil(1) // it asked, and found nothing new
	require.Empty(t, changed)
	r.push(map[string]string{"dags/a.yml": "a: 2"})
	clock.Advance(time.Minute)
	<-changed
	require.Equal(t, "a: 2", contents(t, g)["a.yml"])
	cancel()
	for range changed { // until it is closed
	}
}

// TestGitToken fetches over http from git's own server program, behind a
// password.
func TestGitToken(t *testing.T) {
	t.Parallel()
	r := newRemote(t)
	r.push(map[string]string{"dags/a.yml": "a: 1"})
	git, err := exec.LookPath("git")
	require.NoError(t, err)
	backend := &cgi.Handler{Path: git, Args: []string{"http-backend"}, Env: []string{
		"GIT_PROJECT_ROOT=" + filepath.Dir(r.bare), "GIT_HTTP_EXPORT_ALL=1",
	}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if user, password, ok := q.BasicAuth(); !ok || user != "x-token" || password != "hunter2" {
			w.Header().Set("WWW-Authenticate", "Basic")
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		backend.ServeHTTP(w, q)
	}))
	t.Cleanup(server.Close)
	with := func(token string) *bundle.Git {
		return r.source(func(o *bundle.GitOptions) {
			o.URL = server.URL + "/remote.git"
			o.Credentials = func(context.Context) (bundle.GitCredentials, error) {
				return bundle.GitCredentials{Password: token}, nil
			}
		})
	}
	g := with("hunter2")
	require.Equal(t, map[string]string{"a.yml": "a: 1"}, contents(t, g))
	r.push(map[string]string{"dags/a.yml": "a: 2"})
	require.True(t, g.Pull(t.Context()))
	require.Equal(t, "a: 2", contents(t, g)["a.yml"])

	_, err = with("wrong-token").Scan()
	require.ErrorContains(t, err, "authentication required")
	require.NotContains(t, err.Error(), "wrong-token")
}

func TestCheckGitURL(t *testing.T) {
	t.Parallel()
	for _, good := range []string{
		"https://git.example.org/a/b.git", "ssh://git@example.org:2222/b", "git@example.org:a/b.git", "file:///srv/b.git", "git://example.org/b",
	} {
		require.NoError(t, bundle.CheckGitURL(good), good)
	}
	for bad, says := range map[string]string{
		"https://u:hunter2@example.org/b": "into a connection", "ftp://example.org/b": "ftp://", "/srv/b.git": "neither", "": "neither", "b": "neither",
	} {
		err := bundle.CheckGitURL(bad)
		require.ErrorContains(t, err, says, bad)
		require.NotContains(t, err.Error(), "hunter2")
	}
}
