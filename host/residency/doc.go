// Package residency is what a host knows of the states of actors: what is in memory of
// each, whether that is the newest, and what may have been answered of actors that are not
// in memory any more. It is a pure state machine: it reads no clock, has no lock, asks no
// store, and knows neither calls nor batches. Package host has one History for each lock,
// and one Known for each activation.
//
//	Row        an actor's row as turns need it, and the commits that rest on it
//	Known      the states of one actor in memory
//	History    what is known beyond: what left memory, Answered and Unsettled
//	Answered   versions that were answered lately of actors not in memory
//	Unsettled  actors with a commit that may still land
//
// What the readers of an actor in memory see:
//
//	                    NoteNewer, NoteOther                      Show
//	Loaded (committed) ─────────────────────▶ nothing: they load ──────▶ what was found
//	   ▲     ▲                                        │ Install of it,       │
//	   │     └────────────────────────────────────────┘ or a later one       │
//	   └──────────────────────────── CatchUp, Install ◀──────────────────────┘
//
// Invariant: once a version was answered, or heard of, nothing older is shown.
package residency
