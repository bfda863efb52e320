package sqltest

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/airlock-dag/airlock/dag/dagtest"
)

// galeraLibrary is where Debian's package galera-4 puts the provider.
const galeraLibrary = "/usr/lib/galera/libgalera_smm.so"

// StartGalera starts a MariaDB cluster of n nodes on this machine for one test
// alone, which may kill and restart them; the first one begins the cluster. It
// skips the test where Galera is not installed.
func StartGalera(tb testing.TB, n int) []*Process {
	tb.Helper()
	if _, err := os.Stat(galeraLibrary); err != nil {
		tb.Skipf("Galera is not installed (Debian: apt-get install galera-4 rsync): %v", err)
	}
	var nodes []*Process
	peers := ""
	for i := range n {
		p, address, err := galeraNode(i, peers)
		if err != nil {
			tb.Fatalf("node %d of a Galera cluster: %v", i+1, err)
		}
		tb.Cleanup(p.remove)
		nodes = append(nodes, p)
		if peers != "" {
			peers += ","
		}
		peers += address
	}
	// A node that comes back asks whoever is there.
	for _, p := range nodes {
		p.command[len(p.command)-1] = "--wsrep-cluster-address=gcomm://" + peers
	}
	return nodes
}

func galeraNode(i int, peers string) (*Process, string, error) {
	server, err := program("mariadbd")
	if err != nil {
		return nil, "", err
	}
	dir, err := os.MkdirTemp("", fmt.Sprintf("%s%d-", dirPrefix, os.Getpid()))
	if err != nil {
		return nil, "", err
	}
	p := &Process{dir: dir, server: server}
	var as []string
	if err = p.install(); err == nil {
		as, err = asServerUser(dir)
	}
	var port [4]int
	for j := range port {
		if err == nil {
			port[j], err = dagtest.FreePort()
		}
	}
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, "", err
	}
	p.port = port[0]
	at := func(j int) string { return "127.0.0.1:" + strconv.Itoa(port[j]) }
	p.command = append(as,
		server, "--no-defaults", "--datadir="+filepath.Join(dir, "data"), "--tmpdir="+p.tmp(), "--socket="+p.Socket(),
		"--port="+strconv.Itoa(p.port), "--bind-address=127.0.0.1", "--skip-name-resolve", "--pid-file="+filepath.Join(dir, "data", "pid"),
		"--innodb-buffer-pool-size=64M", "--innodb-log-file-size=8M", "--performance-schema=OFF", "--max-connections=200",
		"--character-set-server=utf8mb4", "--binlog-format=ROW", "--innodb-autoinc-lock-mode=2", "--innodb-flush-log-at-trx-commit=2",
		"--wsrep-on=ON", "--wsrep-provider="+galeraLibrary, "--wsrep-cluster-name=airlock", fmt.Sprintf("--wsrep-node-name=n%d", i+1),
		"--wsrep-node-address="+at(1), "--wsrep-sst-method=rsync", "--wsrep-sst-receive-address="+at(3),
		fmt.Sprintf("--wsrep-provider-options=base_port=%d;gmcast.listen_addr=tcp://%s;ist.recv_addr=%s;gcache.size=32M", port[1], at(1), at(2)),
		"--wsrep-cluster-address=gcomm://"+peers,
	)
	if err := p.run(); err != nil {
		_ = os.RemoveAll(dir)
		return nil, "", err
	}
	return p, at(1), nil
}

// asServerUser gives a folder to the user mysql, when root runs the test, and
// what a command is put behind to run as that user: the rsync between the nodes
// gives up root's rights.
func asServerUser(dir string) ([]string, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("mysql")
	if err != nil {
		return nil, err
	}
	uid, _ := strconv.Atoi(u.Uid)
	gid, _ := strconv.Atoi(u.Gid)
	err = filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, uid, gid)
	})
	return []string{"setpriv", "--reuid=" + u.Uid, "--regid=" + u.Gid, "--clear-groups"}, err
}
