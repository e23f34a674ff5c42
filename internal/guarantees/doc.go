// Package guarantees has a test for each promise that Greenroom makes about
// turns, by its number, run on every store and in every lane that it is about:
//
//	1  turns are serial per actor                  TestGuarantee1SerialTurns
//	2  a turn is atomic                            TestGuarantee2AtomicTurn
//	3  nothing is seen before it is durable        TestGuarantee3DurableBeforeSeen
//	4  stale owners cannot write                   TestGuarantee4StaleOwner
//	   and do not answer                           TestGuarantee4NoStaleAnswer
//	   nor older than before                       TestGuarantee4NeverBackwards
//	   a default read ages for a bounded time      TestDefaultReadsAgeABit
//	   what is held is answered under a lease      TestGuarantee4Leases
//	5  one host at a time runs an actor            TestGuarantee5OneActivation
//	6  a call with a key takes effect once         TestIdempotencyKeys
//	   also repeated on two hosts                  TestGuarantee6RepeatedOnTwoHosts
//	   its failure excludes earlier attempts       TestGuarantee6FailureBehindAFence
//	   its repetition sends nothing outside        TestRecordedCallSendsNothing
//	   a reminder's firing takes effect once       TestGuarantee6FiringOnce
//	   a message takes effect once, and in order   TestGuarantee6MessageOnce
//	   an event too, at an actor that subscribes   TestGuarantee6EventOnce
//	8  bad input gets a typed error, no effect     TestGuarantee8BadInput
//
// What a guest may not do (7) is tested where guests run. TestRequestsLeaveDurably and
// TestRefusedAfterRequest are about what 3 and 6 mean for a turn that sends requests.
//
// TestLinearizable checks the histories of concurrent callers on one host and on
// two of one store, under every fault of store/faultstore, against a register; it
// is the test of 1 to 4 together.
//
// TestChainsAgainstModel compares random programs of nested calls, messages, events, services and lives
// with a sequential model, on one host and on three. A test logs its seed; GREENROOM_TEST_SEED runs it again.
//
// Guests are native (host/hosttest): what Wasm adds is tested in engine/wasm. The
// stores are the embedded one, PostgreSQL (internal/pgtest), and CockroachDB
// when GREENROOM_TEST_COCKROACH_URL is set. A fault that was planned and never
// happened fails the test.
package guarantees
