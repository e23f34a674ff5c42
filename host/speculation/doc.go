// Package speculation decides about turns that run ahead of their commits: which commit
// carries a turn's effects, which commits an answer depends on, and what runs again when
// a commit is not applied. It is pure: it has no lock, no clock, no store and no
// goroutine. Package host performs the actions.
//
// # Words
//
// A member is one activation. The effects of its turns since the last commit are in
// at most two batches: the flight, whose commit is under way, and the pending batch
// behind it. A batch may have several members, whose rows then commit all or none
// (a chain of calls over several actors); one member is the usual case.
//
//	sealed turn ──▶ pending ──launch──▶ flight ──landed──▶ answers, or calls that go again
//
// A batch that carries no effects is a check: the store confirms the versions of
// its members.
//
// # Events and actions
//
//	event                       actions
//	Fold (a turn was sealed)    its call is held in the pending batch of all its members
//	Hold (a turn only looked)   its call is held in the latest batch that it could have seen;
//	                            a chain that only looked is folded, as a question
//	Launch                      the pending batch, when none of its members has a flight
//	Settle                      none: no turn of its members begins until it has landed
//	Landed, applied             answer, confirm or hold on; launch what waited
//	Landed, refused             drop; all calls go again, in their order
//	Landed, failed or unknown   drop; the calls whose effects it carried fail, others go again
//	Drop                        as refused, for members without a batch
//	Begin, End (of a turn)      what ends on dropped state goes again, after what was before it
//
// # Invariants
//
//   - A member has one flight at most, and a pending batch only behind a flight of
//     one of the batch's members.
//   - A call is held in one batch at most, and leaves it once.
//   - A call is answered only when every batch that it was folded into, or could have
//     seen, has landed and was applied.
//   - When a batch is not applied, every batch that was built on it is dropped too, and
//     every batch that was built on one of those.
//   - Calls go again in the order in which they were held, the turn that runs last.
//   - While the outcome of a flight is being settled no turn of its members begins.
package speculation
