// Package worker sees to it that the calls of activations are run and answered. Of each
// activation one goroutine at a time is the worker, as long as there is work: it runs the
// calls of the mailbox one after the other, takes them to package speculation, and performs
// what that decides. When the pipeline knows the outcome of a commit, what rested on it is
// answered, or runs again. What a turn is, it does not know: Config.Run runs one.
//
//	         Deliver             idle: RunHere, or a new worker     run
//	(caller) ───────▶ in mailbox ─────────────────────────────────▶ turn ─▶ dispose
//	                     ▲                                                    │
//	                     │ again: refused, dropped                            ├─▶ answered
//	                     │                                                    ▼
//	                     └──────────────────── landed ◀── commit ◀── folded into a batch
//
// What is decided is performed under the locks of the shards of all activations that it
// concerns. What is left to be done without them is a followUp.
package worker
