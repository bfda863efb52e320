package bundle

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/transport"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"
	gitssh "github.com/go-git/go-git/v5/plumbing/transport/ssh"
	"golang.org/x/crypto/ssh"

	"github.com/airlock-dag/airlock/dag/plainfile"
)

// GitCredentials open a repository. Over http and https the user and the
// password (an access token) are sent; over ssh the private key is used, and
// without one the password.
type GitCredentials struct {
	User     string // "git" for ssh and "x-token" for http when empty
	Password string
	// PrivateKey is a PEM text, KeyFile a file that holds one.
	PrivateKey, KeyFile, Passphrase string
	// KnownHosts is a file of host keys; the user's own when empty.
	KnownHosts string
	// AnyHostKey takes whatever key the host shows.
	AnyHostKey bool
}

// gitAuth wraps the library's method; nil for none.
type gitAuth struct{ method transport.AuthMethod }

func (g *Git) auth(ctx context.Context) (gitAuth, error) {
	if g.o.Credentials == nil {
		return gitAuth{}, nil
	}
	c, err := g.o.Credentials(ctx)
	if err != nil {
		return gitAuth{}, err
	}
	u, err := url.Parse(g.o.URL)
	overSSH := err != nil || u.Scheme == "ssh" || u.Scheme == ""
	switch {
	case overSSH:
		user := c.User
		if user == "" {
			user = userOf(g.o.URL, u)
		}
		return sshAuth(c, user)
	case u.Scheme == "http" || u.Scheme == "https":
		if c.Password == "" {
			return gitAuth{}, errors.New("the connection has no password: the access token belongs there")
		}
		user := c.User
		if user == "" {
			user = "x-token" // hosts that take a token look at no user
		}
		return gitAuth{&githttp.BasicAuth{Username: user, Password: c.Password}}, nil
	default:
		return gitAuth{}, nil
	}
}

// userOf is the user in ssh://user@host/path or user@host:path.
func userOf(address string, u *url.URL) string {
	if u != nil && u.User.Username() != "" {
		return u.User.Username()
	}
	if user, rest, ok := strings.Cut(address, "@"); ok && !strings.ContainsAny(user, ":/") && rest != "" {
		return user
	}
	return "git"
}

func sshAuth(c GitCredentials, user string) (gitAuth, error) {
	hostKey, err := hostKeyCheck(c)
	if err != nil {
		return gitAuth{}, err
	}
	pem := []byte(c.PrivateKey)
	if len(pem) == 0 && c.KeyFile != "" {
		if pem, err = plainfile.Read(c.KeyFile, 1<<20); err != nil {
			return gitAuth{}, fmt.Errorf("key_file: %w", err)
		}
	}
	helper := gitssh.HostKeyCallbackHelper{HostKeyCallback: hostKey}
	if len(pem) == 0 {
		if c.Password == "" {
			return gitAuth{}, errors.New("the connection has neither private_key, key_file nor a password")
		}
		return gitAuth{&gitssh.Password{User: user, Password: c.Password, HostKeyCallbackHelper: helper}}, nil
	}
	keys, err := gitssh.NewPublicKeys(user, pem, c.Passphrase)
	if err != nil {
		return gitAuth{}, fmt.Errorf("the private key cannot be read: %w", err)
	}
	keys.HostKeyCallbackHelper = helper
	return gitAuth{keys}, nil
}

// hostKeyCheck says which host keys are taken; nil leaves it to the files of
// the user that the library knows.
func hostKeyCheck(c GitCredentials) (ssh.HostKeyCallback, error) {
	switch {
	case c.AnyHostKey:
		return ssh.InsecureIgnoreHostKey(), nil //nolint:gosec // asked for by strict_host_key_checking: no
	case c.KnownHosts != "":
		// The library would wait for the writer of a named pipe.
		f, err := plainfile.Open(c.KnownHosts)
		if err != nil {
			return nil, fmt.Errorf("known_hosts_file: %w", err)
		}
		_ = f.Close()
		check, err := gitssh.NewKnownHostsCallback(c.KnownHosts)
		if err != nil {
			return nil, fmt.Errorf("known_hosts_file: %w", err)
		}
		return check, nil
	default:
		return nil, nil //nolint:nilnil // nil is the library's own word for its default
	}
}
