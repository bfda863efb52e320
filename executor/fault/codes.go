package fault

import (
	"strings"

	"github.com/airlock-dag/airlock/dag"
)

// Error codes: TaskError.Code. Codes lists them with their classes and meanings.
const (
	// Processes.
	CodeExitCode             = "EXIT_CODE"
	CodeKilledSignal         = "KILLED_SIGNAL"
	CodeOOMKilled            = "OOM_KILLED"
	CodeTimeout              = "TIMEOUT"
	CodeStalled              = "STALLED"
	CodeTemporaryFailure     = "TEMPORARY_FAILURE"
	CodeDataError            = "DATA_ERROR"
	CodeCommandNotFound      = "COMMAND_NOT_FOUND"
	CodeCommandNotExecutable = "COMMAND_NOT_EXECUTABLE"
	CodeStartFailed          = "START_FAILED"

	// The engine's own.
	CodeWorkerLost     = "WORKER_LOST"
	CodeLeaseLost      = "LEASE_LOST"
	CodeWorkerStopping = "WORKER_STOPPING"
	CodeCleared        = "CLEARED"
	CodeCancelled      = "CANCELLED"
	CodeMarkedFailed   = "MARKED_FAILED"
	CodePanic          = "PANIC"
	CodeInternal       = "INTERNAL_ERROR"
	CodeStateDatabase  = "STATE_DB_UNAVAILABLE"
	CodeTaskRemoved    = "TASK_REMOVED"
	CodeUnknown        = "UNKNOWN"
	CodeCircuitOpen    = "CIRCUIT_OPEN"

	// DAG files and settings.
	CodeTemplate          = "TEMPLATE_ERROR"
	CodeInvalidArgument   = "INVALID_ARGUMENT"
	CodeUnknownOperator   = "UNKNOWN_OPERATOR"
	CodeExpansionTooLarge = "EXPANSION_TOO_LARGE"
	CodeExpansionSource   = "EXPANSION_FAILED"
	CodeConnectionMissing = "CONNECTION_MISSING"
	CodeConnectionInvalid = "CONNECTION_INVALID"
	CodeVariableMissing   = "VARIABLE_MISSING"
	CodeCapabilityMissing = "CAPABILITY_MISSING"
	CodeBranchUnknownTask = "BRANCH_UNKNOWN_TASK"
	CodeDAGNotFound       = "DAG_NOT_FOUND"

	// What tasks leave for each other, and other runs.
	CodeXComTooLarge       = "XCOM_TOO_LARGE"
	CodeXComNotJSON        = "XCOM_NOT_JSON"
	CodeXComMissing        = "XCOM_MISSING"
	CodeTriggerFailed      = "TRIGGER_FAILED"
	CodeSensorTimeout      = "SENSOR_TIMEOUT"
	CodeSensorFailed       = "SENSOR_FAILED"
	CodeExternalTaskFailed = "EXTERNAL_TASK_FAILED"

	// Python.
	CodePythonException = "PYTHON_EXCEPTION"
	CodePythonFail      = "PYTHON_FAIL"
	CodeImportError     = "IMPORT_ERROR"

	// Files and the machine.
	CodeFileNotFound      = "FILE_NOT_FOUND"
	CodePermissionDenied  = "PERMISSION_DENIED"
	CodeNoSpace           = "NO_SPACE"
	CodeReadOnly          = "READ_ONLY"
	CodeIOError           = "IO_ERROR"
	CodeResourceExhausted = "RESOURCE_EXHAUSTED"
	CodeHashMismatch      = "HASH_MISMATCH"

	// The network.
	CodeConnectionRefused = "CONNECTION_REFUSED"
	CodeConnectionReset   = "CONNECTION_RESET"
	CodeDNSError          = "DNS_ERROR"
	CodeNetworkTimeout    = "NETWORK_TIMEOUT"
	CodeHostUnreachable   = "HOST_UNREACHABLE"
	CodeTLSError          = "TLS_ERROR"
	CodeNetworkError      = "NETWORK_ERROR"
	CodeResponseInvalid   = "RESPONSE_INVALID"

	// Databases; the numbered codes are MYSQL_1213, SQLITE_5 and their like.
	CodeSQLError            = "SQL_ERROR"
	CodeIdempotencyConflict = "IDEMPOTENCY_CONFLICT"
	CodeEffectKeyReused     = "EFFECT_KEY_REUSED"
	CodeTooManyBadRows      = "TOO_MANY_BAD_ROWS"

	// Stores that files are uploaded to.
	CodeObjectExists   = "OBJECT_EXISTS"
	CodeUploadMismatch = "UPLOAD_MISMATCH"
	CodeDigestRefused  = "DIGEST_REFUSED"
	CodeUploadLost     = "UPLOAD_LOST"
	CodeBucketMissing  = "BUCKET_MISSING"
	CodeSlowDown       = "SLOW_DOWN"
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
	list := []Code{
		{CodeExitCode, transient, "", "the process ended with an exit code that no rule knows", ""},
		{CodeKilledSignal, transient, dag.BudgetCrashes, "a signal that Airlock did not send ended the process", ""},
		{CodeOOMKilled, transient, dag.BudgetCrashes, "the kernel ended the process because memory ran out", "give the worker more memory or run fewer tasks at once"},
		{CodeTimeout, transient, "", "execution_timeout passed and the step was ended", ""},
		{CodeStalled, transient, "", "the step made no progress for its stall_timeout and was ended", ""},
		{CodeTemporaryFailure, transient, "", "the step said that it may work later (exit code 75)", ""},
		{CodeDataError, permanent, "", "the step said that its input is wrong (exit code 65)", ""},
		{CodeCommandNotFound, config, "", "the command does not exist (exit code 127 of a shell, or the program is not in PATH)", "install it on the worker or correct its name"},
		{CodeCommandNotExecutable, config, "", "the command exists and cannot be executed (exit code 126 of a shell)", "check the file's permissions and its first line"},
		{CodeStartFailed, transient, "", "the operating system could not start a process", ""},

		{CodeWorkerLost, transient, dag.BudgetCrashes, "the worker died or lost the state database, and the lease of the task ended", ""},
		{CodeLeaseLost, transient, dag.BudgetCrashes, "the worker could not renew its lease, so the attempt was ended", ""},
		{CodeWorkerStopping, transient, "", "the worker was stopped and the task did not end in its time", ""},
		{CodeCleared, transient, "", "somebody cleared the task while it ran", ""},
		{CodeCancelled, transient, "", "the attempt was cancelled", ""},
		{CodeMarkedFailed, permanent, "", "somebody marked the task as failed", ""},
		{CodePanic, transient, "", "a fault in Airlock itself", "report it with the stack trace"},
		{CodeInternal, transient, "", "an unexpected error", ""},
		{CodeStateDatabase, transient, "", "the state database could not be reached", ""},
		{CodeTaskRemoved, config, "", "the DAG has no such task any more", ""},
		{CodeUnknown, transient, "", "the step failed and said nothing", ""},
		{CodeCircuitOpen, transient, dag.BudgetThrottling, "the circuit breaker of what the step depends on is open", ""},

		{CodeTemplate, config, "", "a template could not be rendered", "try it with `airlock tasks test`"},
		{CodeInvalidArgument, config, "", "a key of the step has a value that the operator cannot use", ""},
		{CodeUnknownOperator, config, "", "this worker has no such operator", "run the same version on all workers"},
		{CodeExpansionTooLarge, config, "", "a mapped task would have more instances than allowed", ""},
		{CodeExpansionSource, config, "", "the values of a mapped task could not be read", ""},
		{CodeConnectionMissing, config, "", "there is no such connection", "add it with `airlock connections add`"},
		{CodeConnectionInvalid, config, "", "the connection does not fit the step", ""},
		{CodeVariableMissing, config, "", "there is no such variable", "add it with `airlock variables set`"},
		{CodeCapabilityMissing, capability, "", "the worker lacks something that the step needs", ""},
		{CodeBranchUnknownTask, config, "", "a branch names a task or group that the DAG does not have", ""},
		{CodeDAGNotFound, config, "", "there is no such DAG", ""},

		{CodeXComTooLarge, permanent, "", "a value for other tasks is larger than allowed", "write it to a file and pass the path"},
		{CodeXComNotJSON, permanent, "", "a value for other tasks cannot be written as JSON", "return text, numbers, lists and mappings only"},
		{CodeXComMissing, permanent, "", "the value of an upstream task is not there", ""},
		{CodeTriggerFailed, transient, "", "the run of another DAG could not be made", ""},
		{CodeSensorTimeout, permanent, "", "what a sensor waits for did not come within its timeout", ""},
		{CodeSensorFailed, transient, "", "a sensor found what its failure criterion or fail_on_empty forbids", ""},
		{CodeExternalTaskFailed, permanent, "", "the task or run of another DAG that is waited for has failed", ""},

		{CodePythonException, transient, "", "the Python callable raised an exception", ""},
		{CodePythonFail, permanent, "", "the Python callable raised AirflowFailException", ""},
		{CodeImportError, config, "", "the Python file or a module that it imports could not be loaded", "install the module for the interpreter of the step (key `python`)"},

		{CodeFileNotFound, permanent, "", "a file does not exist", ""},
		{CodePermissionDenied, config, "", "the operating system denied access", "check owner and permissions on the worker"},
		{CodeNoSpace, transient, "", "no space is left on the device", "free space on the worker"},
		{CodeReadOnly, config, "", "the file system is read-only", ""},
		{CodeIOError, transient, "", "reading or writing a file failed", ""},
		{CodeResourceExhausted, transient, "", "the machine is out of memory, processes or file handles", ""},
		{CodeHashMismatch, poison, "", "a file or payload is not the one whose hash was recorded", ""},

		{CodeConnectionRefused, transient, "", "the host refused the connection", ""},
		{CodeConnectionReset, transient, "", "the connection was closed in the middle", ""},
		{CodeDNSError, transient, "", "the host name could not be resolved", ""},
		{CodeNetworkTimeout, transient, "", "the other side did not answer in time", ""},
		{CodeHostUnreachable, transient, "", "there is no route to the host", ""},
		{CodeTLSError, config, "", "the other side's certificate is not accepted", "check the host name, the certificate and the machine's clock"},
		{CodeNetworkError, transient, "", "another network error", ""},
		{CodeResponseInvalid, permanent, "", "the answer does not pass the step's check", ""},

		{CodeSQLError, transient, "", "a database error without a known number", ""},
		{CodeIdempotencyConflict, poison, "", "the idempotency key was used before with another payload", ""},
		{CodeEffectKeyReused, poison, "", "the effect key of a SQL step stands for another effect in the target database", "give the step another idempotency_key"},
		{CodeTooManyBadRows, permanent, "", "a merge step has more bad rows than bad_rows allows; nothing was written", "correct the source or the columns, or raise bad_rows"},
	}
	return append(append(list, mediaCodes()...), uploadCodes()...)
}

// Families are the prefixes of codes that other tables make, with what makes
// them.
func Families() []Code {
	return []Code{
		{Code: "MYSQL_", Meaning: "error numbers of MySQL and MariaDB"},
		{Code: "SQLITE_", Meaning: "result codes of SQLite"},
		{Code: "SQL_", Meaning: "the SQL steps' own findings"},
		{Code: "MERGE_", Meaning: "findings of the merge step"},
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
