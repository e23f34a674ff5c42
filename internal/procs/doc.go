// Package procs runs a server on one processor while its calls come one at a
// time, and on all of them otherwise.
//
// Go's scheduler wakes a thread for each goroutine that becomes ready while a
// processor is idle. To a busy server that is right. A call that is alone changes
// goroutine half a dozen times, network and log included, and has nothing to give
// to a second thread: it pays for waking it, shares the processor with its looking
// around for work, and is moved from one core's cache to the other's. With one
// processor such calls take up to a fifth less time, and a fifth less of the
// processor (bench/README.md, bar 4).
//
//	        calm for 500 ms
//	all ──────────────────────▶ one
//	     ◀──────────────────────
//	      two calls at once, or a processor's worth of work
//
// Calm is: no two calls at once, and less work than fills a processor, whoever does
// it: calls, the collector, a compaction, the compiler of modules.
//
// # Invariants
//
//   - A second call has all processors as soon as the scheduler lets it say so; work
//     without calls has them after 100 ms.
//   - A change stops the world for some 20 µs, and there are at most four in a
//     second.
//   - Whoever sets GOMAXPROCS has decided: then nothing is changed. So it is where
//     there is one processor.
//
// # Failures
//
// None: where the use of the processor cannot be read, calls decide alone.
package procs
