// Package executor bounds how many guests run at the same time, and deals the processors
// between apps while more guests want to run than may.
//
// A guest runs only while its turn has one of the [Slots]. Most turns find one free, which
// costs an atomic operation. Otherwise the turn waits in a queue of package fair: apps have the
// processors in turn, and inside an app its actor types. What a slot costs its app is the fuel
// that the guest uses.
//
//	       Enter: a slot is free                     Leave: the turn has ended
//	(out) ────────────────────────────▶ running ───────────────────────────▶ (out)
//	  │  Enter: none is                ▲   │  ▲
//	  ▼                          dealt │   │  │ Resume, as Enter
//	waits ─────────────────────────────┤   ▼  │
//	  │                                │  paused: waits for something else
//	  │ the context ends               │
//	  ▼                                └── waits ◀── running
//	(out)                                      Yield: others wait
//
// New turns have [Beginners] times as many slots while none waits, until their guests
// have used the fuel of a short turn. A turn that has a slot may have no processor: Go's scheduler
// has preempted it, or has not run it yet. If new turns waited for it, so would all that follow:
// each turn would cost a change of goroutine, and over a stream a new goroutine, which doubled the
// processor time of a call.
//
// A guest comes by after each grant of fuel ([engine.Yield]), which is less than a tenth of a
// millisecond's work. If others wait and it has used what it was dealt, it goes behind those of
// its type, and the slot goes to the turn that is next, whose guest may have begun before. So an
// app whose guests loop has its share and no more, and no turn waits for the end of another.
//
// # Invariants
//
//   - No more guests run for long than there are slots, and none waits while a slot is free.
//   - A turn that has a slot waits for nothing but a processor: not for a commit, an instance, an
//     answer from outside, another turn, or the store. So each slot is soon free again. Who reads
//     for a guest what is nearly always in memory, such as the settings of its app, gives the slot
//     back only if it has to wait ([engine.Outside]).
//   - A called turn has its caller's slot while it runs (TakeFrom), so that a chain of calls waits
//     in the queue no more often than a single turn that uses as much fuel.
//   - A turn gives its slot back once, however its guest ends; a turn whose context ends while
//     it waits has none.
//   - While turns of two apps wait, the fuel that each app's guests use differs by what
//     package fair states for costs of a slice, and by a slice for each slot.
package executor
