package python

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/operator"
)

const (
	// maxSocketPath is what the kernel takes as the name of a socket.
	maxSocketPath = 100
	// maxQuestion bounds one question of the runner, in bytes.
	maxQuestion = 64 << 10
)

// question is what the runner asks for: one XCom of the run.
type question struct {
	TaskID   string `json:"task_id"`
	Key      string `json:"key"`
	MapIndex *int   `json:"map_index"`
}

// answer is the value, or why there is none.
type answer struct {
	Value json.RawMessage `json:"value"`
	Error string          `json:"error,omitempty"`
}

// serveXComs answers a callable's xcom_pull over a socket that only this user
// can open. The address is "" where no socket can be made; stop waits until the
// last answer is given.
func serveXComs(ctx context.Context, t *operator.Task) (address string, stop func()) {
	nothing := func() {}
	if t.XCom == nil {
		return "", nothing
	}
	dir, remove := t.ScratchDir, nothing
	if len(dir) > maxSocketPath-len("/xcom.sock") {
		short, err := os.MkdirTemp("", "airlock")
		if err != nil {
			return "", nothing
		}
		dir, remove = short, func() { _ = os.RemoveAll(short) }
	}
	address = filepath.Join(dir, "xcom.sock")
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "unix", address)
	if err != nil {
		remove()
		return "", nothing
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { reply(ctx, t, conn) })
		}
	})
	return address, func() {
		cancel()
		_ = l.Close()
		wg.Wait()
		remove()
	}
}

// reply answers one question.
func reply(ctx context.Context, t *operator.Task, conn net.Conn) {
	defer func() { _ = conn.Close() }()
	unblock := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer unblock()
	line, err := bufio.NewReader(io.LimitReader(conn, maxQuestion)).ReadBytes('\n')
	if err != nil {
		return
	}
	var q question
	var a answer
	if err := json.Unmarshal(line, &q); err != nil {
		a.Error = fmt.Sprintf("the question cannot be read: %v", err)
	} else {
		if q.Key == "" {
			q.Key = dag.XComReturnValue
		}
		a.Value, err = t.XCom(ctx, q.TaskID, q.Key, q.MapIndex)
		if err != nil {
			a.Error = fmt.Sprintf("xcom_pull of %s: %v", q.TaskID, err)
		}
	}
	body, err := json.Marshal(a)
	if err != nil {
		return
	}
	_, _ = conn.Write(body) // a runner that is gone needs no answer
}
