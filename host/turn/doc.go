// Package turn is one run of a guest: the overlay of the state that it changes, the
// calls that it may make meanwhile, and the effects that are left when it is done.
// It knows neither mailboxes nor commits: package host says on which state a turn
// runs, and what becomes of what it asks for.
//
//	Prepare ─▶ Run (migrate, then the method) or Migrate ─▶ Seal, Effects ─▶ state, reminders, reply
//	             │ calls: state, reply, log, time, randomness, what was granted, HTTP, reminders,
//	             │ timers
//	             └─ error, trap, deadline: nothing of it remains
//
// # Adding an effect
//
// What a turn asks for beside its state is a list of actor.Commit, gathered by a
// method of [Turn] that the guest calls, checked against its bounds there, and
// handed over by Effects: reminders are one. The host function that leads to the method is in
// engine/wasm (abi/SPEC.md section 5 has them all). Timers are no list of a commit: they
// are kept in memory alone, and TimerEffects hands them to the host, which does them when
// the turn is answered. Each store has one writer for
// the list: a clause in sqlstore, a function of the writer's decision in embedded.
//
// # Invariants
//
//   - Nothing that a guest passes in is kept without a copy, and nothing is handed
//     to it that is kept.
//   - A turn may write only if it is not read-only and its type has state.
//   - Before anything leaves the host, [Leaver] is asked; its error ends the guest.
//   - A turn sees of its actor's reminders what the store has when all that the turn could
//     have observed is durable, the same all along, and over it what it does itself.
//   - A turn is used by one goroutine. What it is made of is used again: nothing of
//     one run is left in the next.
package turn
