// Package crashpoint names the moments at which a test may end or stop the
// process: before, inside and after a transaction, between an effect and its
// acknowledgement, and their like. In the binary that users run a point is an
// empty function; only a build with the tag `crash` acts on it, as its
// environment says:
//
//	AIRLOCK_CRASH_AT     "NAME" or "NAME#N": the point, and at which of its hits
//	AIRLOCK_CRASH_DO     "kill" (the default): SIGKILL for the own process;
//	                     "stop": SIGSTOP, until somebody sends SIGCONT
//	AIRLOCK_CRASH_TRACE  a file that gets the name of each point, once
//	AIRLOCK_CRASH_CLOCK  how far the machine's clock is off, as "5m" or "-5m", or
//	                     a file that says so and may change
//
// It imports the standard library and dag, and any room may import it.
package crashpoint
