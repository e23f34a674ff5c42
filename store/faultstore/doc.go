// Package faultstore wraps any store with the faults that a database, a disk
// and a network have, for tests: each has a name, happens on demand or at a
// seeded rate, and is counted, so a test can fail if a planned fault never happened.
//
// A fault never makes a store lie. It keeps the promises of package store: it
// returns an error that means "not applied" only for commits that were not applied,
// and actor.ErrAmbiguous for any other failure.
//
// # Faults
//
//	operation    fault               applied   answer
//	LoadActors   LoadFails           –         actor.ErrUnavailable
//	Versions     VersionsFail        –         actor.ErrUnavailable
//	LoadIdem-
//	potency      RecordLoadFails     –         actor.ErrUnavailable
//	Commit       CommitFails         no        actor.ErrUnavailable
//	             CommitPartlyFails   but one   actor.ErrUnavailable for that one
//	             CommitLost          no        actor.ErrAmbiguous
//	             CommitReplyLost     yes       actor.ErrAmbiguous
//	LockedTurn   TurnRetried         no        fn is called again, with the row anew
//	             TurnFails           no        actor.ErrUnavailable
//	             TurnLost            no        the commit and actor.ErrAmbiguous
//	             TurnReplyLost       yes       the commit and actor.ErrAmbiguous
//	Settle       SettleFails         no        actor.ErrUnavailable
//	             SettleReplyLost     yes       actor.ErrUnavailable
//	PutModule,   ModuleWriteFails    no        actor.ErrUnavailable
//	DeleteModule,
//	Deploy
//	PutSetting,  SettingFails        no        actor.ErrUnavailable
//	ReplaceSetting,
//	DeleteSetting,
//	Settings,
//	SettingApps
//	hosts and    LeaseFails          no        actor.ErrUnavailable
//	leases       LeaseReplyLost      yes       actor.ErrUnavailable
//	buckets and  BucketFails         no        actor.ErrUnavailable
//	dead letters BucketReplyLost     yes       actor.ErrUnavailable
//	reading      ReminderReadFails   –         actor.ErrUnavailable
//	reminders
//
// CommitPartlyFails and TurnRetried are serialization failures (40001, 40P01): a
// driver that gives up on one answers actor.ErrUnavailable, and a locked turn
// runs again. CommitPartlyFails happens only to groups without a commit that is refused
// on sight. The faults of locked turns happen only to turns that commit something.
//
// # Delays
//
// [Store.Hold] stops the next operation at a point until the test lets it go: no
// sleeps. The context of the operation still ends it.
//
// # Determinism
//
// Armed faults happen to the next operations that they fit, in order. Faults at
// a rate are drawn from one generator with the seed of the Config: the same
// operations in the same order meet the same faults. Concurrent operations meet
// the same number of draws, in the order in which they come.
package faultstore
