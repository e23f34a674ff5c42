// Package executor bounds how many guests run at the same time, and deals the processors
// between pools of types, and in each pool between apps, while more guests want to run than may.
//
// A guest runs only while its turn has one of the [Slots]. Most turns find one free, which
// costs two atomic operations. Otherwise the turn waits in the queue of its [Pool], of package
// fair: apps have the processors in turn, and inside an app its actor types. What a slot costs its
// app, and its pool, is the fuel that the guest uses.
//
// # Pools
//
// A pool has a concurrency, the most slots that its turns may have at the same time, and a weight.
// While turns of several pools are ready (they wait, and their pool may have another slot), the
// pool with the least virtual time is dealt the next slot. Its virtual time grows by the fuel that its
// turns use, divided by its weight. A pool that begins to have ready turns continues at the virtual time
// of the pool that was dealt a slot last: it gets nothing for the time before. This is stride
// scheduling: Waldspurger and Weihl, "Stride Scheduling" (1995). A called turn runs in the pool of
// its caller, whose slot it has.
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
//   - No more guests run for long than there are slots, and no more of a pool than its
//     concurrency. No ready turn waits while a slot is free.
//   - While turns of two pools are ready, the fuel that each pool's guests use, divided by its
//     weight, differs by what one turn uses between two grants, for each slot.
//   - A turn that has a slot waits for nothing but a processor: not for a commit, an instance, an
//     answer from outside, another turn, or the store. So each slot is soon free again. Who reads
//     for a guest what is nearly always in memory, such as the settings of its app, gives the slot
//     back only if it has to wait ([engine.Outside]).
//   - A called turn has its caller's slot while it runs (TakeFrom), so that a chain of calls waits
//     in the queue no more often than a single turn that uses as much fuel.
//   - A turn gives its slot back once, however its guest ends; a turn whose context ends while
//     it waits has none.
//   - While turns of two apps of a pool wait, the fuel that each app's guests use differs by what
//     package fair states for costs of a slice, and by a slice for each slot.
package executor
