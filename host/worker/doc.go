// Package worker runs the calls of activations, and answers them. While an activation has work, one
// goroutine at a time is its worker: it runs the calls of the mailbox one after the other, passes
// them to package speculation, and performs what that decides. When the pipeline reports the
// outcome of a commit, the calls that rest on it are answered, or run again. The package does not
// know what a turn is: Config.Run runs one.
//
//	         Deliver             idle: RunHere, or a new worker     run
//	(caller) ───────▶ in mailbox ─────────────────────────────────▶ turn ─▶ dispose
//	                     ▲                                                    │
//	                     │ again: refused, dropped                            ├─▶ answered
//	                     │                                                    ▼
//	                     └──────────────────── landed ◀── commit ◀── folded into a batch
//
// Decisions are performed under the locks of the shards of all activations that they concern. A
// followUp is what remains to be done without the locks.
package worker
