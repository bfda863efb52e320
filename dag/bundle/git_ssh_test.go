package bundle_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/airlock-dag/airlock/dag/bundle"
)

// sshKey is a key pair: the private one as PEM text, and its signer.
func sshKey(t *testing.T, passphrase string) (string, ssh.Signer) {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	var block *pem.Block
	if passphrase == "" {
		block, err = ssh.MarshalPrivateKey(private, "")
	} else {
		block, err = ssh.MarshalPrivateKeyWithPassphrase(private, "", []byte(passphrase))
	}
	require.NoError(t, err)
	signer, err := ssh.NewSignerFromKey(private)
	require.NoError(t, err)
	return string(pem.EncodeToMemory(block)), signer
}

// serveSSH runs git's program for fetching for whoever has the key, as a host
// of repositories does. It gives the address and the line for known_hosts.
func serveSSH(t *testing.T, user ssh.PublicKey) (address, known string) {
	t.Helper()
	_, host := sshKey(t, "")
	config := &ssh.ServerConfig{PublicKeyCallback: func(c ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if c.User() != "git" || string(key.Marshal()) != string(user.Marshal()) {
			return nil, errors.New("not this key")
		}
		return &ssh.Permissions{}, nil
	}}
	config.AddHostKey(host)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var open sync.WaitGroup
	open.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			open.Go(func() { serveSSHConn(conn, config) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		open.Wait()
	})
	address = listener.Addr().String()
	return address, knownhosts.Line([]string{knownhosts.Normalize(address)}, host.PublicKey())
}

func serveSSHConn(conn net.Conn, config *ssh.ServerConfig) {
	defer func() { _ = conn.Close() }()
	server, channels, requests, err := ssh.NewServerConn(conn, config)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	go ssh.DiscardRequests(requests)
	for asked := range channels {
		channel, requests, err := asked.Accept()
		if err != nil {
			return
		}
		for r := range requests {
			if r.Type != "exec" {
				_ = r.Reply(false, nil)
				continue
			}
			_ = r.Reply(true, nil)
			path, ok := strings.CutPrefix(string(r.Payload[4:]), "git-upload-pack ")
			status := []byte{0, 0, 0, 1}
			if ok {
				cmd := exec.Command("git", "upload-pack", strings.Trim(path, "'"))
				cmd.Stdin, cmd.Stdout, cmd.Stderr = channel, channel, channel.Stderr()
				if cmd.Run() == nil {
					status[3] = 0
				}
			}
			_, _ = channel.SendRequest("exit-status", false, status)
			_ = channel.Close()
		}
	}
}

func TestGitOverSSH(t *testing.T) {
	t.Parallel()
	r := newRemote(t)
	r.push(map[string]string{"dags/a.yml": "a: 1"})
	private, signer := sshKey(t, "open sesame")
	address, known := serveSSH(t, signer.PublicKey())
	dir := t.TempDir()
	keyFile, hosts, others := filepath.Join(dir, "key"), filepath.Join(dir, "known_hosts"), filepath.Join(dir, "others")
	_, stranger := sshKey(t, "")
	require.NoError(t, os.WriteFile(keyFile, []byte(private), 0o600))
	require.NoError(t, os.WriteFile(hosts, []byte(known+"\n"), 0o600))
	require.NoError(t, os.WriteFile(others, []byte(knownhosts.Line([]string{knownhosts.Normalize(address)}, stranger.PublicKey())+"\n"), 0o600))
	wrong, _ := sshKey(t, "")

	good := bundle.GitCredentials{PrivateKey: private, Passphrase: "open sesame", KnownHosts: hosts}
	for name, c := range map[string]struct {
		change func(c *bundle.GitCredentials)
		says   string // "" for a clone
	}{
		"a key as text":       {func(*bundle.GitCredentials) {}, ""},
		"a key in a file":     {func(c *bundle.GitCredentials) { c.PrivateKey, c.KeyFile = "", keyFile }, ""},
		"any host":            {func(c *bundle.GitCredentials) { c.KnownHosts, c.AnyHostKey = "", true }, ""},
		"another host's key":  {func(c *bundle.GitCredentials) { c.KnownHosts = others }, "key mismatch"},
		"a wrong key":         {func(c *bundle.GitCredentials) { c.PrivateKey, c.Passphrase = wrong, "" }, "unable to authenticate"},
		"a wrong passphrase":  {func(c *bundle.GitCredentials) { c.Passphrase = "sesame" }, "the private key cannot be read"},
		"a file that is not":  {func(c *bundle.GitCredentials) { c.PrivateKey, c.KeyFile = "", filepath.Join(dir, "none") }, "key_file"},
		"nothing to open it":  {func(c *bundle.GitCredentials) { c.PrivateKey = "" }, "neither private_key, key_file nor a password"},
		"a key in a device":   {func(c *bundle.GitCredentials) { c.PrivateKey, c.KeyFile = "", "/dev/zero" }, "key_file: open /dev/zero: not a regular file but a device"},
		"hosts in a device":   {func(c *bundle.GitCredentials) { c.KnownHosts = "/dev/zero" }, "known_hosts_file: open /dev/zero: not a regular file but a device"},
		"no such known_hosts": {func(c *bundle.GitCredentials) { c.KnownHosts = filepath.Join(dir, "none") }, "known_hosts_file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			credentials := good
			c.change(&credentials)
			g := bundle.NewGit(bundle.GitOptions{
				URL: "ssh://git@" + address + r.bare, Folder: "dags", Clone: filepath.Join(t.TempDir(), "clone"),
				Credentials: func(context.Context) (bundle.GitCredentials, error) { return credentials, nil },
			})
			if c.says == "" {
				require.Equal(t, map[string]string{"a.yml": "a: 1"}, contents(t, g))
				return
			}
			_, err := g.Scan()
			require.ErrorContains(t, err, c.says)
			require.NotContains(t, err.Error(), "sesame")
		})
	}
}
