// Package turn is one run of a guest: the overlay of the state that it changes, the
// host functions that it may call, and its effects when it is done. It knows neither
// mailboxes nor commits: package host chooses the state that a turn runs on, and applies
// its effects.
//
//	Prepare ─▶ Run (migrate, then the method) or Migrate ─▶ Seal, Effects ─▶ state, reminders, reply
//	             │ calls: state, reply, log, time, randomness, settings, HTTP, reminders,
//	             │ timers, messages, what happens to the actor's life
//	             └─ error, trap, deadline: no effects
//
// The files turn_*.go have the host functions, a file for each group of them, and turn_run.go runs the
// guest. The other files have the data, which knows no turn, and the interfaces of [Env].
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
//   - The turn copies what a guest passes in before it keeps it, and gives the guest no
//     memory that it keeps.
//   - A turn may write only if it is not read-only and its type has state.
//   - Before anything leaves the host, the turn calls [Leaver]; its error ends the guest.
//   - A turn reads its actor's reminders when everything that it could have observed is
//     durable. It sees one unchanging version of them, with its own changes applied.
//   - A turn is repeatable: what a guest sees follows from the [Spec], from what the interfaces
//     of [Env] answer, and from Env.Random. The clock is read only to time HTTP requests.
//   - One goroutine uses a turn. Its memory is used again, and keeps nothing of one run
//     for the next.
package turn
