// Package pipeline groups what many actors ask of a store: commits with
// commits, loads with loads, questions (for versions, for recorded calls) with
// questions of their kind. It knows neither turns nor activations.
//
// # Workers
//
//	          Submit                    a worker is free
//	(caller) ───────▶ queued, by app ─────────────────▶ in a group ──▶ answered
//	             │                                          │ store
//	             └─▶ refused: the queue is full,            └─ each on its own
//	                 or the store answers no worker
//
// A worker is the permission to have one group at the store. It takes all that is
// queued, up to [Config.GroupRows] and [Config.GroupBytes]. So an idle store gets each
// request at once, and a busy store gets larger groups. A worker is free again as soon as
// the store has answered, before it hands out the group's answers. No goroutine waits
// for work.
//
// The number of workers is fixed. Fewer workers at a moderate load would make larger
// groups, which saves some processor time, but callers would wait while a worker is free
// (bench/README.md).
//
// A caller that would only wait for its commit may be the worker itself
// ([Commits.Bring]): on an idle machine the two changes of goroutine cost more than
// the turn.
//
// Commits and loads have workers of their own, and so have loads that may be
// stale, loads beside locks and each kind of question: a group has one kind.
//
// # Invariants
//
//   - What is submitted is answered once: by an error of [Commits.Submit], or
//     by one call of its Done.
//   - Groups are taken of apps in turn, by rows and bytes, and of an app in the order of submission.
//     What is too large for the rest of a group begins the next one.
//   - An answer is that of the store to this one commit or key. A group that
//     fails as a whole gives each member that failure.
//   - A load begins after it was asked for, so that it shows all that had been
//     answered until then.
//   - The queue is bounded in members and in bytes, which apps share, and so is what a group of
//     loads reads: rows that the store left out for that go in the next one.
//
// A group of commits must not name an actor twice: the submitter has at most one commit
// of an actor under way. Loads may name an actor any number of times.
//
// # Failures
//
//   - A panic, in the store or in an answer, on the goroutine of a caller that is
//     the worker: the worker is free, the other members have their answers (commits
//     whose outcome is not known: actor.ErrAmbiguous), and then it goes on.
//   - Slow store: the queue fills up, and Submit and Load refuse what is above
//     its bounds with actor.ErrUnavailable, at once.
//   - Store that answers nothing for [Config.StallAfter], on any worker, while
//     others wait: those are refused with actor.ErrUnavailable, nothing of them
//     applied, and so are later ones, at once, until it answers again.
//   - Damaged row: the store names it, and the rest of the group is served. The
//     damaged one is read again alone, so that the error speaks of it only.
//   - A load that fails for another reason than a store that cannot be reached:
//     its members are read again one by one, so that one of them harms no other.
//   - All callers that waited for a group of loads have left: its context ends.
//   - The pipeline's context ends: groups under way are cut short, which for
//     commits means not applied or actor.ErrAmbiguous; later ones meet a context
//     that has ended, and are not applied.
package pipeline
