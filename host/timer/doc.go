// Package timer is the schedule of the timers that the actors of a host have set, and of the
// hosts and services that they watch: which timers are set, when each is due, which sessions and
// names are watched, and which changes of turns wait for their commits.
// It knows neither calls nor the store: package host runs the turns that timers ask for,
// and reports how they ended.
//
//	Schedule  the timers of the actors that share a lock; the caller has that lock
//	Clock     waits for the timers of all schedules, in Go's runtime
//	Changes   what a call does to the timers and watches of its actor, from its run to its answer
//
// The states of a timer, and the methods that change them:
//
//	          Settle                     Clock.fire                  Begin
//	(absent) ────────▶ waits in runtime ───────────▶ due, in mailbox ─────▶ its turn runs
//	                      ▲   │ Settle                  │ Begin: false          │ Ended
//	                      │   └──▶ (gone) ◀─────────────┘                       │
//	                      └───────────────── has a period, or no room before ◀──┘
//
// Invariants: changes take effect in the order of their turns, each when its call is
// answered. A firing begins once, however often its turn runs. A timer that is gone does
// not fire. A watch of a host has one notice at most, and none once it is gone; a watch of services
// has one on its way at most, the next of which has the newest list.
package timer
