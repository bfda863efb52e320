package fault

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/operator"
)

// Stopped classifies an attempt that Airlock ended itself, by the cause of its
// context. A cause that is (or wraps) a *dag.TaskError stands for itself; nil
// gives nil.
func Stopped(cause error) *dag.TaskError {
	if cause == nil {
		return nil
	}
	var own *dag.TaskError
	if errors.As(cause, &own) {
		e := *own
		return &e
	}
	code := CodeCancelled
	switch {
	case errors.Is(cause, operator.ErrTimeout), errors.Is(cause, context.DeadlineExceeded):
		code = CodeTimeout
	case errors.Is(cause, operator.ErrLeaseLost):
		code = CodeLeaseLost
	case errors.Is(cause, operator.ErrStopping):
		code = CodeWorkerStopping
	case errors.Is(cause, operator.ErrCleared):
		code = CodeCleared
	}
	return New(code, cause.Error())
}

// Timeout is what an attempt that was ended by its execution_timeout failed
// with, said with the limit. It leaves alone an error that the step's rules, or
// the step itself, named otherwise.
func Timeout(limit time.Duration, e *dag.TaskError) *dag.TaskError {
	text := fmt.Sprintf("execution_timeout of %s passed", limit)
	switch {
	case e == nil:
		return New(CodeTimeout, text)
	case e.Code == CodeTimeout:
		out := *e
		out.Message = text
		return &out
	case e.Decided:
		return e
	}
	out := New(CodeTimeout, text)
	out.Stack = e.Stack
	if e.Message != "" {
		out.Message += "; the step said: " + e.Message
	}
	return out
}

// Context classifies a context that is done; nil while it is not.
func Context(ctx context.Context) *dag.TaskError {
	if ctx.Err() == nil {
		return nil
	}
	return Stopped(context.Cause(ctx))
}

// Error classifies any error of Go code: one that is classified already, one
// of the operating system or the network, or else INTERNAL_ERROR. nil gives nil.
func Error(err error) *dag.TaskError {
	if err == nil {
		return nil
	}
	var own *dag.TaskError
	if errors.As(err, &own) {
		e := *own
		return &e
	}
	if code := networkCode(err); code != "" {
		return New(code, err.Error())
	}
	if code := systemCode(err); code != "" {
		return New(code, err.Error())
	}
	var de *dag.Error
	if errors.As(err, &de) && de.Code == dag.ErrInvalid {
		return New(CodeInvalidArgument, err.Error())
	}
	return New(CodeInternal, err.Error())
}

// Network classifies the error of a network call: NETWORK_ERROR when nothing
// better is known. nil gives nil.
func Network(err error) *dag.TaskError {
	if err == nil {
		return nil
	}
	code := networkCode(err)
	switch {
	case code != "":
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		code = CodeConnectionReset
	default:
		code = CodeNetworkError
	}
	return New(code, err.Error())
}

// Connection classifies the error of looking a connection up. What it says of the
// connection's name goes before the code's own hint.
func Connection(err error) *dag.TaskError {
	if dag.CodeOf(err) == dag.ErrNotFound {
		e := New(CodeConnectionMissing, err.Error())
		var known *dag.Error
		if errors.As(err, &known) && known.Hint != "" {
			bare := *known
			bare.Hint = ""
			e.Message, e.Hint = bare.Error(), known.Hint
		}
		return e
	}
	return Error(err)
}

// networkCode is "" for an error that does not come from the network.
func networkCode(err error) string {
	var (
		dns      *net.DNSError
		timeout  net.Error
		op       *net.OpError
		unknown  x509.UnknownAuthorityError
		host     x509.HostnameError
		invalid  x509.CertificateInvalidError
		verify   *tls.CertificateVerificationError
		noTLS    tls.RecordHeaderError
		addrErr  *net.AddrError
		parseErr *net.ParseError
	)
	switch {
	case errors.As(err, &dns):
		return CodeDNSError
	case errors.As(err, &unknown), errors.As(err, &host), errors.As(err, &invalid), errors.As(err, &verify), errors.As(err, &noTLS):
		return CodeTLSError
	case errors.As(err, &addrErr), errors.As(err, &parseErr):
		return CodeConnectionInvalid
	case errors.Is(err, syscall.ECONNREFUSED):
		return CodeConnectionRefused
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.ECONNABORTED),
		errors.Is(err, net.ErrClosed): // the client closed its end because the other one was gone
		return CodeConnectionReset
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.ENETDOWN):
		return CodeHostUnreachable
	case errors.Is(err, syscall.ETIMEDOUT):
		return CodeNetworkTimeout
	case errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return CodeNetworkTimeout
	case errors.As(err, &op):
		return CodeNetworkError
	default:
		return ""
	}
}

// systemCode is "" for an error that is not the operating system's.
func systemCode(err error) string {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return CodeNoSpace
	case errors.Is(err, syscall.EROFS):
		return CodeReadOnly
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE), errors.Is(err, syscall.ENOMEM), errors.Is(err, syscall.EAGAIN):
		return CodeResourceExhausted
	case errors.Is(err, fs.ErrNotExist):
		return CodeFileNotFound
	case errors.Is(err, fs.ErrPermission):
		return CodePermissionDenied
	case errors.Is(err, syscall.EIO), errors.Is(err, syscall.ESTALE):
		return CodeIOError
	default:
		return ""
	}
}

// Start classifies the error of proc.Run: a child that could not be started.
func Start(err error) *dag.TaskError {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, exec.ErrNotFound):
		return New(CodeCommandNotFound, err.Error())
	case errors.Is(err, syscall.E2BIG):
		e := New(CodeInvalidArgument, err.Error())
		e.Hint = "the command and its environment are too long for the operating system: pass large values in a file"
		return e
	case errors.Is(err, syscall.ENOEXEC):
		return New(CodeCommandNotExecutable, err.Error())
	case errors.Is(err, fs.ErrPermission):
		return New(CodeCommandNotExecutable, err.Error())
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		e := New(CodeFileNotFound, err.Error())
		e.Class, e.Hint = dag.ClassConfiguration, "the program or its working folder is not there"
		return e
	}
	if code := systemCode(err); code != "" {
		return New(code, err.Error())
	}
	return New(CodeStartFailed, err.Error())
}

// FromPanic turns what recover gave into an error with the stack.
func FromPanic(v any, stack []byte) *dag.TaskError {
	e := New(CodePanic, fmt.Sprintf("panic: %v", v))
	e.Stack = tail(string(stack), dag.MaxStackTrace)
	return e
}
