package fault

import (
	"strings"

	"github.com/airlock-dag/airlock/dag"
)

// Error codes. Codes lists them with their classes and meanings.
const (
	// Processes.
	ExitCode             = "EXIT_CODE"
	KilledSignal         = "KILLED_SIGNAL"
	OOMKilled            = "OOM_KILLED"
	Timeout              = "TIMEOUT"
	Stalled              = "STALLED"
	TemporaryFailure     = "TEMPORARY_FAILURE"
	DataError            = "DATA_ERROR"
	CommandNotFound      = "COMMAND_NOT_FOUND"
	CommandNotExecutable = "COMMAND_NOT_EXECUTABLE"
	StartFailed          = "START_FAILED"

	// The engine's own.
	WorkerLost         = "WORKER_LOST"
	LeaseLost          = "LEASE_LOST"
	WorkerStopping     = "WORKER_STOPPING"
	Cleared            = "CLEARED"
	Cancelled          = "CANCELLED"
	MarkedFailed       = "MARKED_FAILED"
	Panic              = "PANIC"
	Internal           = "INTERNAL_ERROR"
	StateDBUnavailable = "STATE_DB_UNAVAILABLE"
	CircuitOpen        = "CIRCUIT_OPEN"

	// DAG files and settings.
	TemplateError     = "TEMPLATE_ERROR"
	InvalidArgument   = "INVALID_ARGUMENT"
	UnknownOperator   = "UNKNOWN_OPERATOR"
	ExpansionTooLarge = "EXPANSION_TOO_LARGE"
	ExpansionFailed   = "EXPANSION_FAILED"
	ConnectionMissing = "CONNECTION_MISSING"
	ConnectionInvalid = "CONNECTION_INVALID"
	VariableMissing   = "VARIABLE_MISSING"
	CapabilityMissing = "CAPABILITY_MISSING"
	BranchInvalid     = "BRANCH_INVALID"
	DAGNotFound       = "DAG_NOT_FOUND"

	// What tasks leave for each other, and other runs.
	XComTooLarge       = "XCOM_TOO_LARGE"
	XComNotJSON        = "XCOM_NOT_JSON"
	XComMissing        = "XCOM_MISSING"
	TriggerFailed      = "TRIGGER_FAILED"
	SensorTimeout      = "SENSOR_TIMEOUT"
	ExternalTaskFailed = "EXTERNAL_TASK_FAILED"

	// Python.
	PythonException = "PYTHON_EXCEPTION"
	PythonFail      = "PYTHON_FAIL"
	ImportError     = "IMPORT_ERROR"

	// Files and the machine.
	FileNotFound      = "FILE_NOT_FOUND"
	PermissionDenied  = "PERMISSION_DENIED"
	NoSpace           = "NO_SPACE"
	ReadOnly          = "READ_ONLY"
	IOError           = "IO_ERROR"
	ResourceExhausted = "RESOURCE_EXHAUSTED"
	HashMismatch      = "HASH_MISMATCH"

	// The network.
	ConnectionRefused = "CONNECTION_REFUSED"
	ConnectionReset   = "CONNECTION_RESET"
	DNSError          = "DNS_ERROR"
	NetworkTimeout    = "NETWORK_TIMEOUT"
	HostUnreachable   = "HOST_UNREACHABLE"
	TLSError          = "TLS_ERROR"
	NetworkError      = "NETWORK_ERROR"
	ResponseInvalid   = "RESPONSE_INVALID"

	// Databases; the numbered codes are MYSQL_1213, SQLITE_5 and their like.
	SQLError            = "SQL_ERROR"
	IdempotencyConflict = "IDEMPOTENCY_CONFLICT"
)

// Code is one entry of the closed list.
type Code struct {
	Code   string
	Class  dag.ErrorClass
	Budget dag.Budget // BudgetFailures when empty
	// Meaning is one line for people.
	Meaning string
	// Hint is what to do about it; "" when the message says it all.
	Hint string
}

// Codes is the closed list, in the order of the documentation, without the
// HTTP statuses (HTTPCodes) and the families (Families).
func Codes() []Code {
	const (
		transient  = dag.ClassTransient
		permanent  = dag.ClassPermanent
		config     = dag.ClassConfiguration
		capability = dag.ClassCapability
		poison     = dag.ClassPoison
	)
	return []Code{
		{ExitCode, transient, "", "the process ended with an exit code that no rule knows", ""},
		{KilledSignal, transient, dag.BudgetCrashes, "a signal that Airlock did not send ended the process", ""},
		{OOMKilled, transient, dag.BudgetCrashes, "the kernel ended the process because memory ran out", "give the worker more memory or run fewer tasks at once"},
		{Timeout, transient, "", "execution_timeout passed and the step was ended", ""},
		{Stalled, transient, "", "the step made no progress for its stall_timeout and was ended", ""},
		{TemporaryFailure, transient, "", "the step said that it may work later (exit code 75)", ""},
		{DataError, permanent, "", "the step said that its input is wrong (exit code 65)", ""},
		{CommandNotFound, config, "", "the command does not exist (exit code 127 of a shell, or the program is not in PATH)", "install it on the worker or correct its name"},
		{CommandNotExecutable, config, "", "the command exists and cannot be executed (exit code 126 of a shell)", "check the file's permissions and its first line"},
		{StartFailed, transient, "", "the operating system could not start a process", ""},

		{WorkerLost, transient, dag.BudgetCrashes, "the worker died or lost the state database, and the lease of the task ended", ""},
		{LeaseLost, transient, dag.BudgetCrashes, "the worker could not renew its lease, so the attempt was ended", ""},
		{WorkerStopping, transient, "", "the worker was stopped and the task did not end in its time", ""},
		{Cleared, transient, "", "somebody cleared the task while it ran", ""},
		{Cancelled, transient, "", "the attempt was cancelled", ""},
		{MarkedFailed, permanent, "", "somebody marked the task as failed", ""},
		{Panic, transient, "", "a fault in Airlock itself", "report it with the stack trace"},
		{Internal, transient, "", "an unexpected error", ""},
		{StateDBUnavailable, transient, "", "the state database could not be reached", ""},
		{CircuitOpen, transient, dag.BudgetThrottling, "the circuit breaker of what the step depends on is open", ""},

		{TemplateError, config, "", "a template could not be rendered", "try it with `airlock tasks test`"},
		{InvalidArgument, config, "", "a key of the step has a value that the operator cannot use", ""},
		{UnknownOperator, config, "", "this worker has no such operator", "run the same version on all workers"},
		{ExpansionTooLarge, config, "", "a mapped task would have more instances than allowed", ""},
		{ExpansionFailed, config, "", "the values of a mapped task could not be read", ""},
		{ConnectionMissing, config, "", "there is no such connection", "add it with `airlock connections add`"},
		{ConnectionInvalid, config, "", "the connection does not fit the step", ""},
		{VariableMissing, config, "", "there is no such variable", "add it with `airlock variables set`"},
		{CapabilityMissing, capability, "", "the worker lacks something that the step needs", ""},
		{BranchInvalid, config, "", "a branch names a task that is not directly downstream", ""},
		{DAGNotFound, config, "", "there is no such DAG", ""},

		{XComTooLarge, permanent, "", "a value for other tasks is larger than allowed", "write it to a file and pass the path"},
		{XComNotJSON, permanent, "", "a value for other tasks cannot be written as JSON", "return text, numbers, lists and mappings only"},
		{XComMissing, permanent, "", "the value of an upstream task is not there", ""},
		{TriggerFailed, transient, "", "the run of another DAG could not be made", ""},
		{SensorTimeout, permanent, "", "what a sensor waits for did not come within its timeout", ""},
		{ExternalTaskFailed, permanent, "", "the task or run of another DAG that is waited for has failed", ""},

		{PythonException, transient, "", "the Python callable raised an exception", ""},
		{PythonFail, permanent, "", "the Python callable raised AirflowFailException", ""},
		{ImportError, config, "", "the Python file or a module that it imports could not be loaded", "install the module for the interpreter of the step (key `python`)"},

		{FileNotFound, permanent, "", "a file does not exist", ""},
		{PermissionDenied, config, "", "the operating system denied access", "check owner and permissions on the worker"},
		{NoSpace, transient, "", "no space is left on the device", "free space on the worker"},
		{ReadOnly, config, "", "the file system is read-only", ""},
		{IOError, transient, "", "reading or writing a file failed", ""},
		{ResourceExhausted, transient, "", "the machine is out of memory, processes or file handles", ""},
		{HashMismatch, poison, "", "a file or payload is not the one whose hash was recorded", ""},

		{ConnectionRefused, transient, "", "the host refused the connection", ""},
		{ConnectionReset, transient, "", "the connection was closed in the middle", ""},
		{DNSError, transient, "", "the host name could not be resolved", ""},
		{NetworkTimeout, transient, "", "the other side did not answer in time", ""},
		{HostUnreachable, transient, "", "there is no route to the host", ""},
		{TLSError, config, "", "the other side's certificate is not accepted", "check the host name, the certificate and the machine's clock"},
		{NetworkError, transient, "", "another network error", ""},
		{ResponseInvalid, permanent, "", "the answer does not pass the step's check", ""},

		{SQLError, transient, "", "a database error without a known number", ""},
		{IdempotencyConflict, poison, "", "the idempotency key was used before with another payload", ""},
	}
}

// Families are the prefixes of codes that other tables make, with what makes
// them.
func Families() []Code {
	return []Code{
		{Code: "MYSQL_", Meaning: "error numbers of MySQL and MariaDB"},
		{Code: "SQLITE_", Meaning: "result codes of SQLite"},
		{Code: "SQL_", Meaning: "the SQL steps' own findings"},
		{Code: "MERGE_", Meaning: "findings of the merge step"},
		{Code: "MEDIA_", Meaning: "findings about a media file"},
		{Code: "FFMPEG_", Meaning: "endings of ffmpeg and ffprobe"},
		{Code: "GPU_", Meaning: "devices and encoders"},
	}
}

// Lookup finds a code of the closed list, HTTP codes included.
func Lookup(code string) (Code, bool) {
	for _, list := range [][]Code{Codes(), httpCodes()} {
		for _, c := range list {
			if c.Code == code {
				return c, true
			}
		}
	}
	return Code{}, false
}

// Known tells whether a code is on the closed list or of a known family.
func Known(code string) bool {
	if _, ok := Lookup(code); ok {
		return true
	}
	for _, f := range Families() {
		if strings.HasPrefix(code, f.Code) && len(code) > len(f.Code) {
			return true
		}
	}
	return false
}

// New makes an error of a code with the code's class, budget and hint. A code
// that is not on the list is transient.
func New(code, message string) *dag.TaskError {
	c, ok := Lookup(code)
	if !ok {
		c = Code{Class: dag.ClassTransient}
	}
	return &dag.TaskError{Class: c.Class, Code: code, Message: message, Hint: c.Hint, Budget: c.Budget}
}
