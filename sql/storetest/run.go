package storetest

import "testing"

// Fresh gives the DSN of a new, empty database.
type Fresh func(tb testing.TB) string

// Run runs the suite, each test on a database of its own.
func Run(t *testing.T, fresh Fresh) {
	t.Helper()
	for _, c := range []struct {
		name string
		test func(t *testing.T, b *bundle)
	}{
		{"DAGs are synced by content", testSync},
		{"stale and paused DAGs start nothing", testStaleAndPaused},
		{"a plan is replaced by whoever knows it", testReplacePlan},
		{"import errors are replaced", testImportErrors},
		{"a run lives from none to success", testLife},
		{"dates keep their microseconds", testDates},
		{"a run exists once", testUniqueRuns},
		{"runs of many DAGs are made in one go", testRunsOfManyDAGs},
		{"two schedulers never give a slot twice", testPoolOfTwoSchedulers},
		{"a run is found by its logical date", testExternalRun},
		{"a test takes its date from an earlier one", testTestRuns},
		{"two schedulers make one run", testTwoSchedulersMakeOneRun},
		{"schedulers share the runs", testSchedulersShareRuns},
		{"a run waits for its day and for room", testRunLimits},
		{"a failing decision puts off its run only", testFailingDecision},
		{"a run that times out stops its tasks", testTimeout},
		{"failed runs pause their DAG", testConsecutiveFailures},
		{"the past is loaded", testPast},
		{"pools and limits give slots in order", testSlots},
		{"a pool that is missing or too small gives none", testPoolMissing},
		{"a freed slot goes to another run", testFreedSlot},
		{"a large DAG leaves claims to a small one", testFairClaims},
		{"a large and a small DAG begin together", testFairTogether},
		{"a large DAG leaves slots to a small one", testFairSlots},
		{"two DAGs with enough to do get the same", testFairForBoth},
		{"a chain does not go before what waits", testFairChain},
		{"priority goes before fairness", testFairBelowPriority},
		{"a task at its limit hides no other", testFullTaskHidesNothing},
		{"mapped tasks are expanded once", testExpand},
		{"the tasks of a mapped group are expanded together", testExpandGroup},
		{"a clear with the source makes the instances again", testClearExpandsAgain},
		{"a clear without the source keeps them", testClearKeepsInstances},
		{"an expansion that fails is sealed", testFailExpansion},
		{"claims are never shared", testClaimsAreNotShared},
		{"results are exchanged for work", testExchange},
		{"what follows from results is decided with them", testFollow},
		{"what others changed in a run is seen", testFollowForgets},
		{"what takes more than a look is left to the scheduler", testFollowLeaves},
		{"the scheduler is told of a cleared attempt that has stopped", testFollowTellsOfCleared},
		{"claims keep to queues, order and run", testClaimOrder},
		{"a lease is renewed, lost and reaped", testLeases},
		{"a batch with a stale result", testStaleInBatch},
		{"a result is applied once", testApplyTwice},
		{"budgets and tries are counted", testBudgets},
		{"a sensor goes on after a reschedule", testReschedule},
		{"nothing is sealed without its letter", testLetterFails},
		{"a letter is stored whatever is in it", testOddLetters},
		{"a result that the database refuses", testRefused},
		{"wrong results are refused", testWrongResults},
		{"letters are listed and grouped", testLetters},
		{"failures of media inputs are counted by content", testMediaInputs},
		{"counts of media inputs begin anew", testMediaInputWindow},
		{"progress is that of the running attempt", testProgress},
		{"clear sets back and resolves", testClear},
		{"clear of a running task takes its fence", testClearRunning},
		{"a letter is replayed", testReplay},
		{"a drain's decisions", testDrainDecisions},
		{"a drain's pace", testDrainPace},
		{"a drain's canary", testDrainCanary},
		{"a drain of GPU work", testDrainGPU},
		{"a drain shares its places between lanes", testDrainShares},
		{"live work goes before replays", testReplayPriority},
		{"clear of a replay", testClearOfAReplay},
		{"a replay runs the newest version", testReplayVersion},
		{"letters by hand", testLetterActs},
		{"a letter is edited", testEditLetter},
		{"letters go to a file and back", testLetterRecords},
		{"groups say what came back", testLetterGroupsComeBack},
		{"the tally of letters is their number", testTally},
		{"the tally is right while it is drawn together and counted anew", testTallyRace},
		{"the tally answers as a count does", testTallyGroups},
		{"events go out in order, once a lease", testEvents},
		{"events of one lane keep their order across dispatchers", testEventOrder},
		{"an event's lease is renewed by its owner", testEventLease},
		{"XComs", testXComs},
		{"pools, variables, connections", testSettings},
		{"check finds what is broken", testCheck},
		{"wake-ups", testNextWake},
		{"old runs go, and what is needed stays", testCleanRuns},
		{"a run waits for its callbacks to be delivered", testCleanWaits},
		{"old attempts and effect keys go", testCleanAttempts},
		{"old edits and replays go", testCleanDesk},
		{"incidents end with their last letter", testIncidents},
		{"a reset drops what Airlock made", testReset},
		{"figures for the metrics", testStats},
		{"a circuit is counted, opened and closed", testCircuits},
		{"a circuit opens once, whoever counts", testCircuitRace},
		{"random lives keep the promises", testRandomLives},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.test(t, newBundle(t, fresh))
		})
	}
}
