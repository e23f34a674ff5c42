// Package mailbox is the order and the bounds of the calls of one actor: which call is next,
// how many wait, and how a caller that gives up leaves the middle of a queue at no cost. It
// knows neither the store nor who runs the calls. Calls are of a type C.
//
//	Mailbox  the calls of one actor: those that wait, and before them those that run again
//	Answers  calls that are in no list any more, on the way to their callers
//	Repeats  which actors were lately sent calls again that were recorded already
//
// One lock guards a Mailbox, and all lists (package list) that exchange calls with it.
//
//	         Put             Take                      Answered
//	(absent) ───▶ waiting ───────▶ runs ─▶ in a batch ─────────▶ (gone)
//	                 │ GiveUp       │          │
//	                 ▼              ▼ Again    ▼ Again
//	               (gone)           waiting, before all others
package mailbox
