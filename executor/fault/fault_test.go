package fault_test

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/dagtest"
	"github.com/airlock-dag/airlock/dag/proc"
	"github.com/airlock-dag/airlock/executor/fault"
	"github.com/airlock-dag/airlock/executor/operator"
)

func code(n int) *int { return &n }

func TestCodesAreAClosedList(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	allowed := map[dag.ErrorClass]bool{
		dag.ClassTransient: true, dag.ClassPermanent: true, dag.ClassPoison: true,
		dag.ClassConfiguration: true, dag.ClassCapability: true,
	}
	for _, c := range fault.Codes() {
		require.False(t, seen[c.Code], "%s twice", c.Code)
		seen[c.Code] = true
		require.Regexp(t, `^[A-Z][A-Z0-9_]*$`, c.Code)
		require.True(t, allowed[c.Class], "%s has class %s, which only sealing gives", c.Code, c.Class)
		require.NotEmpty(t, c.Meaning, c.Code)
		require.True(t, fault.Known(c.Code))
		got := fault.New(c.Code, "m")
		require.Equal(t, dag.TaskError{Class: c.Class, Code: c.Code, Message: "m", Hint: c.Hint, Budget: c.Budget}, *got)
	}
	require.True(t, fault.Known("HTTP_429"))
	require.True(t, fault.Known("MYSQL_1213"))
	require.False(t, fault.Known("MYSQL_"))
	require.False(t, fault.Known("SOMETHING"))
	require.Equal(t, dag.ClassTransient, fault.New("SOMETHING", "").Class)
}

func TestProcessEndings(t *testing.T) {
	t.Parallel()
	ended := func(n int) proc.Result { return proc.Result{ExitCode: n} }
	stopped := func(cause error) proc.Result {
		return proc.Result{ExitCode: -1, Signal: syscall.SIGTERM, Stopped: cause}
	}
	for name, tc := range map[string]struct {
		res    proc.Result
		stderr string
		class  dag.ErrorClass
		code   string
		budget dag.Budget
		text   string
		retry  time.Duration
	}{
		"unknown is transient": {ended(1), "first\nboom\n\n", dag.ClassTransient, "EXIT_CODE", "", "exit code 1: boom", 0},
		"no stderr":            {ended(255), "", dag.ClassTransient, "EXIT_CODE", "", "exit code 255", 0},
		"tempfail":             {ended(75), "", dag.ClassTransient, "TEMPORARY_FAILURE", "", "exit code 75", 0},
		"dataerr":              {ended(65), "bad row", dag.ClassPermanent, "DATA_ERROR", "", "exit code 65: bad row", 0},
		"not executable":       {ended(126), "", dag.ClassConfiguration, "COMMAND_NOT_EXECUTABLE", "", "exit code 126", 0},
		"not found":            {ended(127), "bash: nope: command not found", dag.ClassConfiguration, "COMMAND_NOT_FOUND", "", "exit code 127: bash: nope: command not found", 0},
		"shell saw a kill":     {ended(137), "", dag.ClassTransient, "KILLED_SIGNAL", dag.BudgetCrashes, "exit code 137: the shell's own child was killed by signal 9 (SIGKILL)", 0},
		"shell saw the kernel": {proc.Result{ExitCode: 137, OutOfMemory: true}, "", dag.ClassTransient, "OOM_KILLED", dag.BudgetCrashes, "", 0},
		"broken pipe is ours":  {ended(141), "", dag.ClassTransient, "EXIT_CODE", "", "exit code 141", 0},
		"killed":               {proc.Result{ExitCode: -1, Signal: 9}, "last words", dag.ClassTransient, "KILLED_SIGNAL", dag.BudgetCrashes, "killed by signal 9 (SIGKILL)", 0},
		"segfault":             {proc.Result{ExitCode: -1, Signal: 11}, "", dag.ClassTransient, "KILLED_SIGNAL", dag.BudgetCrashes, "killed by signal 11 (SIGSEGV)", 0},
		"out of memory":        {proc.Result{ExitCode: -1, Signal: 9, OutOfMemory: true}, "", dag.ClassTransient, "OOM_KILLED", dag.BudgetCrashes, "", 0},
		"timeout":              {stopped(operator.ErrTimeout), `airlock: {"error_class":"permanent"}`, dag.ClassTransient, "TIMEOUT", "", "execution_timeout passed", 0},
		"timeout exits 0":      {proc.Result{Stopped: operator.ErrTimeout}, "", dag.ClassTransient, "TIMEOUT", "", "", 0},
		"lease":                {stopped(operator.ErrLeaseLost), "", dag.ClassTransient, "LEASE_LOST", dag.BudgetCrashes, "", 0},
		"stopping":             {stopped(operator.ErrStopping), "", dag.ClassTransient, "WORKER_STOPPING", "", "", 0},
		"cleared":              {stopped(operator.ErrCleared), "", dag.ClassTransient, "CLEARED", "", "", 0},
		"cancelled":            {stopped(context.Canceled), "", dag.ClassTransient, "CANCELLED", "", "", 0},
		"own cause":            {stopped(fault.New(fault.CodeStalled, "no frame for 2m")), "", dag.ClassTransient, "STALLED", "", "no frame for 2m", 0},
		"control line": {ended(1), "x\nairlock: {\"error_class\": \"poison\", \"error_code\": \"BAD_ASSET\", \"message\": \"not a film\"}\n",
			dag.ClassPoison, "BAD_ASSET", "", "not a film", 0},
		"control line waits": {ended(1), `airlock: {"error_class": "transient", "error_code": "QUOTA", "retry_after": 30}`,
			dag.ClassTransient, "QUOTA", dag.BudgetThrottling, "exit code 1", 30 * time.Second},
		"control line caps":            {ended(1), `airlock: {"retry_after": "86400"}`, dag.ClassTransient, "EXIT_CODE", dag.BudgetThrottling, "", time.Hour},
		"control line over convention": {ended(65), "why\n" + `airlock: {"error_class":"transient"}`, dag.ClassTransient, "EXIT_CODE", "", "exit code 65: why", 0},
		"control line of a known code": {ended(1), `airlock: {"error_code":"CONNECTION_MISSING"}`, dag.ClassConfiguration, "CONNECTION_MISSING", "", "", 0},
		"control line not last":        {ended(1), "airlock: {\"error_class\":\"permanent\"}\nmore", dag.ClassTransient, "EXIT_CODE", "", "exit code 1: more", 0},
		"control line broken":          {ended(1), "airlock: {oops", dag.ClassTransient, "EXIT_CODE", "", "exit code 1", 0},
		"control line of a sealed class": {ended(1), `airlock: {"error_class":"crash_loop"}`,
			dag.ClassTransient, "EXIT_CODE", "", "", 0},
		"control line of a bad code": {ended(1), `airlock: {"error_code":"a/b c"}`, dag.ClassTransient, "EXIT_CODE", "", "", 0},
		"control line says nothing":  {ended(1), `airlock: {}`, dag.ClassTransient, "EXIT_CODE", "", "", 0},
		"not even text":              {ended(1), "\xff\xfe\x00bad", dag.ClassTransient, "EXIT_CODE", "", "exit code 1: \uFFFD\u2400bad", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := fault.Process(tc.res, tc.stderr, fault.Rules{})
			require.Equal(t, tc.class, e.Class)
			require.Equal(t, tc.code, e.Code)
			require.Equal(t, tc.budget, e.Budget)
			require.Equal(t, tc.retry, e.RetryAfter)
			if tc.text != "" {
				require.Equal(t, tc.text, e.Message)
			}
			require.Equal(t, tc.stderr, e.Stack)
			if tc.res.Signal == 0 && tc.res.Stopped == nil {
				require.Equal(t, tc.res.ExitCode, *e.ExitCode)
			} else {
				require.Nil(t, e.ExitCode)
			}
		})
	}
}

func TestStepRulesDecide(t *testing.T) {
	t.Parallel()
	task := &dag.Task{
		RetryOn: []dag.ErrorRule{{ExitCodes: []int{65, 3}}, {Stderr: "(?i)connection reset"}, {Codes: []string{"HTTP_4*"}}, {Stderr: "("}},
		FailOn: []dag.ErrorRule{
			{ExitCodes: []int{3}, ErrorCode: "BAD_CONFIG"}, {Stderr: "no such table"}, {Codes: []string{"TIMEOUT"}}, {},
			{ExitCodes: []int{4}, Stderr: "really"},
		},
	}
	for name, tc := range map[string]struct {
		res    proc.Result
		stderr string
		class  dag.ErrorClass
		code   string
	}{
		"fail_on first":           {proc.Result{ExitCode: 3}, "", dag.ClassPermanent, "BAD_CONFIG"},
		"retry over convention":   {proc.Result{ExitCode: 65}, "", dag.ClassTransient, "DATA_ERROR"},
		"retry by stderr":         {proc.Result{ExitCode: 127}, "x Connection Reset y", dag.ClassTransient, "COMMAND_NOT_FOUND"},
		"fail by stderr":          {proc.Result{ExitCode: 1}, "ERROR: no such table: a", dag.ClassPermanent, "EXIT_CODE"},
		"fail by code":            {proc.Result{ExitCode: -1, Signal: 15, Stopped: operator.ErrTimeout}, "", dag.ClassPermanent, "TIMEOUT"},
		"stderr of a timeout":     {proc.Result{ExitCode: -1, Stopped: operator.ErrLeaseLost}, "no such table", dag.ClassTransient, "LEASE_LOST"},
		"both conditions hold":    {proc.Result{ExitCode: 4}, "really", dag.ClassPermanent, "EXIT_CODE"},
		"one condition fails":     {proc.Result{ExitCode: 4}, "hardly", dag.ClassTransient, "EXIT_CODE"},
		"sealed class stays":      {proc.Result{ExitCode: 126}, "no such table", dag.ClassConfiguration, "COMMAND_NOT_EXECUTABLE"},
		"control line over rules": {proc.Result{ExitCode: 3}, `airlock: {"error_class":"transient"}`, dag.ClassTransient, "EXIT_CODE"},
		"empty rule is no rule":   {proc.Result{ExitCode: 9}, "", dag.ClassTransient, "EXIT_CODE"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := fault.Process(tc.res, tc.stderr, fault.StepRules(task))
			require.Equal(t, tc.class, e.Class)
			require.Equal(t, tc.code, e.Code)
			require.Same(t, e, fault.Apply(task, e, tc.stderr), "a decided error is not asked again")
		})
	}
	e := fault.Apply(task, fault.HTTP(404, "", time.Time{}), "")
	require.Equal(t, dag.ClassTransient, e.Class)
	require.Nil(t, fault.Apply(task, nil, ""))
	throttled := fault.Apply(task, fault.HTTP(429, "5", time.Time{}), "")
	require.Equal(t, dag.BudgetThrottling, throttled.Budget)
	require.Equal(t, 5*time.Second, throttled.RetryAfter)
}

func TestTables(t *testing.T) {
	t.Parallel()
	rules := fault.Rules{Native: true, Table: []fault.Rule{
		{Name: "any", ExitCodes: []int{8, 255}, Code: "FFMPEG_UNKNOWN", Class: dag.ClassTransient},
		{Stderr: "(?i)unknown encoder", Code: fault.CodeCapabilityMissing},
		{Stderr: "(?i)no space left", Code: fault.CodeNoSpace, Hint: "free some"},
		{Stderr: "(", Code: "NEVER"},
		{Engine: "mysql", SQL: []int{1213, 1205}, Code: "MYSQL_LOCK", Class: dag.ClassTransient, Message: "lock"},
		{ExitCodes: []int{1}, Stderr: "killed", Code: fault.CodeOOMKilled, Class: dag.ClassPermanent, Budget: dag.BudgetFailures},
	}}
	for name, tc := range map[string]struct {
		e     fault.Evidence
		class dag.ErrorClass
		code  string
	}{
		"last complaint wins": {fault.Evidence{ExitCode: code(8), Stderr: "Unknown encoder\nNo space left on device"}, dag.ClassTransient, "NO_SPACE"},
		"in any order":        {fault.Evidence{ExitCode: code(8), Stderr: "No space left on device\nUnknown encoder x"}, dag.ClassCapability, "CAPABILITY_MISSING"},
		"exit code after":     {fault.Evidence{ExitCode: code(8), Stderr: "hm"}, dag.ClassTransient, "FFMPEG_UNKNOWN"},
		"native has no 65":    {fault.Evidence{ExitCode: code(65)}, dag.ClassTransient, "EXIT_CODE"},
		"number of an engine": {fault.Evidence{SQLError: 1213, Engine: "MySQL"}, dag.ClassTransient, "MYSQL_LOCK"},
		"other engine":        {fault.Evidence{SQLError: 1213, Engine: "sqlite"}, dag.ClassTransient, "SQL_ERROR"},
		"class and budget":    {fault.Evidence{ExitCode: code(1), Stderr: "was killed"}, dag.ClassPermanent, "OOM_KILLED"},
		"nothing known":       {fault.Evidence{}, dag.ClassTransient, "INTERNAL_ERROR"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, why := fault.ClassifyWith(tc.e, rules)
			require.Equal(t, tc.class, e.Class)
			require.Equal(t, tc.code, e.Code)
			require.NotEmpty(t, why)
		})
	}
}

func TestClassifyExplains(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		e    fault.Evidence
		want string
	}{
		"exit":    {fault.Evidence{ExitCode: code(75)}, "EX_TEMPFAIL"},
		"signal":  {fault.Evidence{Signal: "kill"}, "killed by signal 9 (SIGKILL)"},
		"number":  {fault.Evidence{Signal: "11"}, "SIGSEGV"},
		"strange": {fault.Evidence{Signal: "SIGWHAT"}, "SIGWHAT"},
		"stopped": {fault.Evidence{Stopped: operator.ErrTimeout, ExitCode: code(0)}, "TIMEOUT"},
		"http":    {fault.Evidence{HTTPStatus: 503, RetryAfter: "soon"}, "ignored"},
		"control": {fault.Evidence{ExitCode: code(1), Stderr: "airlock: 5"}, "is not JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, why := fault.ClassifyWith(tc.e, fault.Rules{})
			require.Contains(t, strings.Join(why, "\n"), tc.want)
		})
	}
}

func TestHTTPStatuses(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, tc := range []struct {
		status int
		after  string
		class  dag.ErrorClass
		code   string
		budget dag.Budget
		wait   time.Duration
	}{
		{400, "", dag.ClassPermanent, "HTTP_400", "", 0},
		{401, "", dag.ClassConfiguration, "HTTP_401", "", 0},
		{404, "60", dag.ClassPermanent, "HTTP_404", "", 0},
		{418, "", dag.ClassPermanent, "HTTP_4XX", "", 0},
		{429, "", dag.ClassTransient, "HTTP_429", dag.BudgetThrottling, 0},
		{429, "120", dag.ClassTransient, "HTTP_429", dag.BudgetThrottling, 2 * time.Minute},
		{429, "Sun, 01 Mar 2026 12:00:45 GMT", dag.ClassTransient, "HTTP_429", dag.BudgetThrottling, 45 * time.Second},
		{500, "", dag.ClassTransient, "HTTP_500", "", 0},
		{503, "", dag.ClassTransient, "HTTP_503", "", 0},
		{503, "7", dag.ClassTransient, "HTTP_503", dag.BudgetThrottling, 7 * time.Second},
		{599, "", dag.ClassTransient, "HTTP_5XX", "", 0},
		{302, "", dag.ClassConfiguration, "HTTP_3XX", "", 0},
		{42, "", dag.ClassPermanent, "HTTP_OTHER", "", 0},
		{-1, "", dag.ClassPermanent, "HTTP_OTHER", "", 0},
	} {
		e := fault.HTTP(tc.status, tc.after, now)
		require.Equal(t, tc.class, e.Class, "%d", tc.status)
		require.Equal(t, tc.code, e.Code)
		require.Equal(t, tc.budget, e.Budget, "%d %q", tc.status, tc.after)
		require.Equal(t, tc.wait, e.RetryAfter)
		require.True(t, fault.Known(e.Code))
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]struct {
		d  time.Duration
		ok bool
	}{
		"0": {0, true}, "1.5": {1500 * time.Millisecond, true}, " 10 ": {10 * time.Second, true},
		"3600": {time.Hour, true}, "3601": {time.Hour, true}, "1e300": {time.Hour, true}, "Inf": {time.Hour, true},
		"-1": {0, false}, "NaN": {0, false}, "": {0, false}, "soon": {0, false},
		"Sun, 01 Mar 2026 11:00:00 GMT":  {0, true},
		"Sun, 01 Mar 2026 12:30:00 GMT":  {30 * time.Minute, true},
		"Mon, 02 Mar 2026 12:00:00 GMT":  {time.Hour, true},
		"Sunday, 01-Mar-26 12:00:10 GMT": {10 * time.Second, true},
		"Sun Mar  1 12:00:10 2026":       {10 * time.Second, true},
		"2026-03-01T12:00:10Z":           {0, false},
		strings.Repeat("9", 400):         {0, false},
	} {
		d, ok := fault.RetryAfter(text, now)
		require.Equal(t, want.ok, ok, text)
		require.Equal(t, want.d, d, text)
	}
}

func TestNetworkErrors(t *testing.T) {
	t.Parallel()
	get := func(url string) error {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		require.NoError(t, err)
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			resp.Body.Close()
		}
		return err
	}
	require.Equal(t, fault.CodeConnectionRefused, fault.Network(get("http://"+dagtest.NobodyListens(t))).Code)

	hangUp := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			c.Close()
		}
	}))
	defer hangUp.Close()
	require.Equal(t, fault.CodeConnectionReset, fault.Network(get(hangUp.URL)).Code)

	secure := httptest.NewTLSServer(http.NotFoundHandler())
	defer secure.Close()
	e := fault.Network(get(secure.URL))
	require.Equal(t, fault.CodeTLSError, e.Code)
	require.Equal(t, dag.ClassConfiguration, e.Class)

	require.Equal(t, fault.CodeDNSError, fault.Network(fmt.Errorf("get: %w", &net.DNSError{Err: "no such host", IsNotFound: true})).Code)
	require.Equal(t, fault.CodeNetworkTimeout, fault.Network(&net.DNSConfigError{Err: os.ErrDeadlineExceeded}).Code)
	require.Equal(t, fault.CodeHostUnreachable, fault.Network(syscall.EHOSTUNREACH).Code)
	require.Equal(t, fault.CodeTLSError, fault.Network(x509.HostnameError{Certificate: &x509.Certificate{}, Host: "a"}).Code)
	require.Equal(t, fault.CodeConnectionReset, fault.Network(io.EOF).Code)
	require.Equal(t, fault.CodeConnectionReset, fault.Network(&net.OpError{Op: "write", Net: "tcp", Err: net.ErrClosed}).Code)
	require.Equal(t, fault.CodeNetworkError, fault.Network(errors.New("odd")).Code)
	require.Nil(t, fault.Network(nil))
}

func TestSystemErrors(t *testing.T) {
	t.Parallel()
	_, missing := os.Open(filepath.Join(t.TempDir(), "gone"))
	own := fault.New(fault.CodeHashMismatch, "x")
	for _, tc := range []struct {
		err  error
		code string
	}{
		{missing, fault.CodeFileNotFound},
		{fmt.Errorf("write: %w", syscall.ENOSPC), fault.CodeNoSpace},
		{fs.ErrPermission, fault.CodePermissionDenied},
		{syscall.EROFS, fault.CodeReadOnly},
		{syscall.EMFILE, fault.CodeResourceExhausted},
		{syscall.EIO, fault.CodeIOError},
		{syscall.ECONNREFUSED, fault.CodeConnectionRefused},
		{fmt.Errorf("wrapped: %w", own), fault.CodeHashMismatch},
		{&dag.Error{Code: dag.ErrInvalid, Op: "x"}, fault.CodeInvalidArgument},
		{errors.New("what"), fault.CodeInternal},
	} {
		require.Equal(t, tc.code, fault.Error(tc.err).Code, "%v", tc.err)
	}
	require.Nil(t, fault.Error(nil))
	require.Equal(t, fault.CodeConnectionMissing, fault.Connection(&dag.Error{Code: dag.ErrNotFound, Op: "connection"}).Code)
	absent := fault.Connection(&dag.Error{Code: dag.ErrNotFound, Op: "connection shop", Err: errors.New("there is none"), Hint: "add shop"})
	require.Equal(t, "connection shop: there is none", absent.Message)
	require.Equal(t, "add shop", absent.Hint, "the nearer hint, and once")
	require.Equal(t, fault.CodeConnectionRefused, fault.Connection(syscall.ECONNREFUSED).Code)
}

func TestStartErrors(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	require.NoError(t, os.WriteFile(plain, []byte("hello"), 0o644))
	garbage := filepath.Join(dir, "garbage")
	dagtest.Program(t, garbage, "\x01\x02")
	long := strings.Repeat("x", 4<<20)
	for name, tc := range map[string]struct {
		cmd   proc.Command
		code  string
		class dag.ErrorClass
	}{
		"no program":     {proc.Command{Argv: []string{"no-such-program-here"}}, fault.CodeCommandNotFound, dag.ClassConfiguration},
		"no permission":  {proc.Command{Argv: []string{plain}}, fault.CodeCommandNotExecutable, dag.ClassConfiguration},
		"no format":      {proc.Command{Argv: []string{garbage}}, fault.CodeCommandNotExecutable, dag.ClassConfiguration},
		"no folder":      {proc.Command{Argv: []string{"true"}, Dir: filepath.Join(dir, "gone")}, fault.CodeFileNotFound, dag.ClassConfiguration},
		"folder is file": {proc.Command{Argv: []string{"true"}, Dir: plain}, fault.CodeFileNotFound, dag.ClassConfiguration},
		"too long":       {proc.Command{Argv: []string{"true", long}}, fault.CodeInvalidArgument, dag.ClassConfiguration},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := proc.Run(t.Context(), tc.cmd)
			require.Error(t, err)
			e := fault.Start(err)
			require.Equal(t, tc.code, e.Code, "%v", err)
			require.Equal(t, tc.class, e.Class)
		})
	}
	require.Nil(t, fault.Start(nil))
	require.Equal(t, fault.CodeResourceExhausted, fault.Start(syscall.EAGAIN).Code)
	_, notFound := exec.LookPath("no-such-program-here")
	require.Equal(t, fault.CodeCommandNotFound, fault.Start(notFound).Code)
}

func TestTimeoutSaysTheLimit(t *testing.T) {
	t.Parallel()
	limit := 3 * time.Second
	require.Equal(t, "execution_timeout of 3s passed", fault.Timeout(limit, nil).Message)
	e := fault.Process(proc.Result{ExitCode: -1, Signal: 15, Stopped: operator.ErrTimeout}, "tail", fault.Rules{})
	e = fault.Timeout(limit, e)
	require.Equal(t, fault.CodeTimeout, e.Code)
	require.Equal(t, "execution_timeout of 3s passed", e.Message)
	require.Equal(t, "tail", e.Stack)
	e = fault.Timeout(limit, fault.New(fault.CodeNetworkTimeout, "context deadline exceeded"))
	require.Equal(t, fault.CodeTimeout, e.Code)
	require.Contains(t, e.Message, "context deadline exceeded")
	decided := &dag.TaskError{Code: "MINE", Class: dag.ClassPermanent, Decided: true}
	require.Same(t, decided, fault.Timeout(limit, decided))
}

func TestContextAndPanic(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	require.Nil(t, fault.Context(ctx))
	cancel(fmt.Errorf("late: %w", operator.ErrTimeout))
	require.Equal(t, fault.CodeTimeout, fault.Context(ctx).Code)
	require.Nil(t, fault.Stopped(nil))

	e := fault.FromPanic(errors.New("nil map"), []byte(strings.Repeat("é", dag.MaxStackTrace)))
	require.Equal(t, fault.CodePanic, e.Code)
	require.Equal(t, "panic: nil map", e.Message)
	require.LessOrEqual(t, len(e.Stack), dag.MaxStackTrace)
	require.True(t, strings.HasPrefix(e.Stack, "é"))
}
