package dagtest_test

import (
	"fmt"
	"net"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag/dagtest"
)

func TestPorts(t *testing.T) {
	t.Parallel()
	port, err := dagtest.FreePort()
	require.NoError(t, err)
	require.Less(t, port, 32768, "none that the system gives to others")
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	require.NoError(t, err)
	require.NoError(t, l.Close())

	closed := dagtest.NobodyListens(t)
	_, err = net.Dial("tcp", closed)
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	_, err = net.Listen("tcp", closed)
	require.ErrorIs(t, err, syscall.EADDRINUSE, "nobody else gets it")
}
