package bundle

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	git "github.com/go-git/go-git/v5"
	gitconfig "github.com/go-git/go-git/v5/config"
	"github.com/go-git/go-git/v5/plumbing"

	"github.com/airlock-dag/airlock/dag"
)

// GitOptions says which repository holds the DAG files.
type GitOptions struct {
	// URL of the repository: https, http, ssh, git, file, or user@host:path. It
	// has no password in it: that comes from Credentials.
	URL string
	// Branch to follow; the remote's own choice when empty.
	Branch string
	// Folder with the DAG files, relative to the repository's root.
	Folder string
	// Clone is the folder on this machine that the repository is kept in.
	// Several processes may share it.
	Clone string
	// Interval between two questions for new commits; default one minute.
	Interval time.Duration
	// Credentials are asked for before each question; nil for none.
	Credentials func(ctx context.Context) (GitCredentials, error)
	Clock       dag.Clock    // default dag.SystemClock
	Log         *slog.Logger // default: discarded
}

// fetchLimit bounds one clone or fetch.
const fetchLimit = 5 * time.Minute

// Git is a repository that DAG files come from. The branch is fetched now and
// then, and the clone is set to whatever the remote has, also after a forced
// push. A remote that cannot be reached, or whose branch is gone, leaves the
// last good state in place: Scan goes on with it and lists the trouble as a
// file that cannot be read, so that it stands among the import errors.
type Git struct {
	o      GitOptions
	folder *Folder

	mu      sync.Mutex
	ctx     context.Context // of Watch: its end also ends the first question
	pulled  bool            // once in this process
	commit  string
	trouble error // of the last question
}

// NewGit is the repository of o. Nothing is fetched before the first Scan.
func NewGit(o GitOptions) *Git {
	if o.Interval <= 0 {
		o.Interval = time.Minute
	}
	if o.Clock == nil {
		o.Clock = dag.SystemClock{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Git{o: o, folder: NewFolder(filepath.Join(o.Clone, filepath.FromSlash(o.Folder)))}
}

// CheckGitURL refuses what is no address of a repository, or has a password.
func CheckGitURL(address string) error {
	if u, err := url.Parse(address); err == nil && u.Scheme != "" {
		if _, secret := u.User.Password(); secret {
			return errors.New("the address has a password in it: put it into a connection")
		}
		switch u.Scheme {
		case "https", "http", "ssh", "git", "file":
			return nil
		default:
			return fmt.Errorf("the address begins with %s://; use https, http, ssh, git or file", u.Scheme)
		}
	}
	if host, path, ok := strings.Cut(address, ":"); ok && host != "" && path != "" && !strings.ContainsAny(host, "/\\ ") {
		return nil // user@host:path
	}
	return errors.New("the address is neither a URL nor user@host:path")
}

// Root is the folder with the DAG files on this machine.
func (g *Git) Root() string { return g.folder.Root() }

// Commit is the commit that Scan reads, "" before the first.
func (g *Git) Commit() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.commit
}

// Scan lists the DAG files of the present commit, each with it as Source. The
// first scan of a process asks the remote; it fails when that cannot be reached
// and there is no earlier clone.
func (g *Git) Scan() ([]File, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.pulled {
		ctx := g.ctx
		if ctx == nil {
			ctx = context.Background()
		}
		g.pull(ctx)
	}
	if g.commit == "" {
		return nil, g.failure("check core.dags_git, its branch and core.dags_git_conn_id; it is tried again every " + g.o.Interval.String())
	}
	unlock, err := lockClone(g.o.Clone)
	if err != nil {
		return nil, err
	}
	defer unlock()
	files, err := g.folder.Scan()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &dag.Error{
			Code: dag.ErrInvalid, Op: "read the DAGs of " + g.o.URL, Err: fmt.Errorf("commit %s has no folder %s", shortCommit(g.commit), g.o.Folder),
			Hint: "check core.dags_git_folder: it is relative to the root of the repository",
		}
	}
	if err != nil {
		return nil, err
	}
	for i := range files {
		files[i].Source = g.commit
	}
	if g.trouble != nil {
		files = append(files, File{
			Path: g.o.URL, Source: g.commit,
			Err: fmt.Errorf("the repository could not be read; the DAGs of commit %s stay in use: %w", shortCommit(g.commit), g.trouble),
		})
	}
	return files, nil
}

// Trouble is why the last question to the remote failed; nil if it did not.
func (g *Git) Trouble() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.trouble == nil {
		return nil
	}
	return g.failure("check core.dags_git, its branch and core.dags_git_conn_id")
}

func (g *Git) failure(hint string) error {
	if text := g.trouble.Error(); strings.Contains(text, "known_hosts") || strings.Contains(text, "knownhosts") {
		hint = "the host's key is not known: put it (ssh-keyscan prints it) into ~/.ssh/known_hosts, or into the file that the connection's extra known_hosts_file names"
	}
	return &dag.Error{Code: dag.ErrInvalid, Op: "read the DAGs of " + g.o.URL, Err: g.trouble, Hint: hint}
}

// Watch asks the remote every interval, and signals when there is a new commit
// or the trouble with the remote began, changed or ended, until ctx is done.
// The clone itself is looked at by whoever scans every poll.
func (g *Git) Watch(ctx context.Context, clock dag.Clock, _ time.Duration) <-chan struct{} {
	out := make(chan struct{}, 1)
	g.mu.Lock()
	g.ctx = ctx
	g.mu.Unlock()
	go func() {
		defer close(out)
		for {
			select {
			case <-ctx.Done():
				return
			case <-clock.After(g.o.Interval):
			}
			if g.Pull(ctx) {
				select {
				case out <- struct{}{}:
				default:
				}
			}
		}
	}()
	return out
}

// Pull asks the remote now and tells whether what Scan gives has changed.
func (g *Git) Pull(ctx context.Context) (changed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.pull(ctx)
}

func (g *Git) pull(ctx context.Context) (changed bool) {
	commit, err := g.update(ctx)
	if err != nil && ctx.Err() != nil {
		if g.trouble == nil {
			g.trouble = err
		}
		return false // it is ending
	}
	before, trouble := g.commit, g.trouble
	g.pulled, g.trouble = true, err
	if commit != "" {
		g.commit = commit
	}
	switch {
	case err != nil && g.commit == "": // there is nothing to go on with: Scan says so
		return trouble == nil || trouble.Error() != err.Error()
	case err != nil && (trouble == nil || trouble.Error() != err.Error()):
		g.o.Log.Error("the DAGs' repository could not be read; the last good state stays", "url", g.o.URL, "commit", g.commit, "error", err)
		return true
	case err != nil:
		return false
	case trouble != nil:
		g.o.Log.Info("the DAGs' repository can be read again", "url", g.o.URL, "commit", commit)
		return true
	case commit != before:
		g.o.Log.Info("DAGs fetched", "url", g.o.URL, "commit", commit, "before", before)
		return true
	default:
		return false
	}
}

// update brings the clone to the remote's commit. When that fails it gives the
// commit of the clone that is there, "" for none, with the error.
func (g *Git) update(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchLimit)
	defer cancel()
	unlock, err := lockClone(g.o.Clone)
	if err != nil {
		return "", err
	}
	defer unlock()
	repo, have := g.open()
	auth, err := g.auth(ctx)
	if err != nil {
		return have, fmt.Errorf("credentials: %w", err)
	}
	if have == "" {
		return g.clone(ctx, auth)
	}
	branch, err := g.branch(repo)
	if err != nil {
		return have, err
	}
	remote := plumbing.NewRemoteReferenceName("origin", branch)
	err = repo.FetchContext(ctx, &git.FetchOptions{
		RemoteName: "origin", RemoteURL: g.o.URL, Auth: auth.method, Force: true, Tags: git.NoTags,
		RefSpecs: []gitconfig.RefSpec{gitconfig.RefSpec("+refs/heads/" + branch + ":" + remote.String())},
	})
	if err != nil && !errors.Is(err, git.NoErrAlreadyUpToDate) {
		return have, fmt.Errorf("fetch %s: %w", branch, err)
	}
	ref, err := repo.Reference(remote, true)
	if err != nil {
		return have, fmt.Errorf("branch %s: %w", branch, err)
	}
	if err := g.checkout(repo, ref.Hash(), have); err != nil {
		return have, err
	}
	return ref.Hash().String(), nil
}

// open is the clone that is there, with its commit; "" when there is none that
// can be used.
func (g *Git) open() (*git.Repository, string) {
	repo, err := git.PlainOpen(g.o.Clone)
	if err != nil {
		return nil, ""
	}
	head, err := repo.Head()
	if err != nil {
		return nil, ""
	}
	if _, err := repo.CommitObject(head.Hash()); err != nil {
		return nil, ""
	}
	return repo, head.Hash().String()
}

// branch is the one that is followed: the clone's own when none is set.
func (g *Git) branch(repo *git.Repository) (string, error) {
	if g.o.Branch != "" {
		return g.o.Branch, nil
	}
	head, err := repo.Head()
	if err != nil {
		return "", fmt.Errorf("the clone's branch: %w", err)
	}
	return head.Name().Short(), nil
}

// checkout sets the clone's files to a commit. The first time in a process it
// is done even if the commit is the same: a process may have died in between.
func (g *Git) checkout(repo *git.Repository, commit plumbing.Hash, have string) error {
	if g.pulled && commit.String() == have {
		return nil
	}
	tree, err := repo.Worktree()
	if err != nil {
		return fmt.Errorf("the clone's files: %w", err)
	}
	if err := tree.Reset(&git.ResetOptions{Commit: commit, Mode: git.HardReset}); err != nil {
		return fmt.Errorf("set the clone to commit %s: %w", commit, err)
	}
	return nil
}

// clone makes the clone beside its place and moves it there, so that a half one
// is never used.
func (g *Git) clone(ctx context.Context, auth gitAuth) (string, error) {
	fresh := g.o.Clone + ".new"
	if err := os.RemoveAll(fresh); err != nil {
		return "", fmt.Errorf("make room for the clone: %w", err)
	}
	o := &git.CloneOptions{URL: g.o.URL, Auth: auth.method, SingleBranch: true, Tags: git.NoTags}
	if g.o.Branch != "" {
		o.ReferenceName = plumbing.NewBranchReferenceName(g.o.Branch)
	}
	repo, err := git.PlainCloneContext(ctx, fresh, false, o)
	if err != nil {
		_ = os.RemoveAll(fresh)
		return "", fmt.Errorf("clone: %w", err)
	}
	head, err := repo.Head()
	if err != nil {
		return "", fmt.Errorf("clone: %w", err)
	}
	if err := os.RemoveAll(g.o.Clone); err != nil {
		return "", fmt.Errorf("remove a broken clone: %w", err)
	}
	if err := os.Rename(fresh, g.o.Clone); err != nil {
		return "", fmt.Errorf("put the clone in its place: %w", err)
	}
	return head.Hash().String(), nil
}

func shortCommit(c string) string { return c[:min(12, len(c))] }
