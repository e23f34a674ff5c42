// Package host runs turns. It keeps actors in memory, gives each actor one turn at a time,
// runs guests on an overlay of the actor's state, and releases a reply only when everything
// that the reply depends on is durable.
//
// It declares the interfaces that it needs and knows neither Wasm nor a database:
// [engine.Engine] runs guests, [ModuleSource] says which guest serves a type, [Committer]
// stores actors, [Ownership] says which actors this host holds. [Host.Invoke] waits for the end
// of a call; [Host.Begin] does not wait, and hands the answer to a receiver.
//
// Its packages:
//
//	serving      the lane, the methods and the limits of what serves a type
//	call         a request, from its arrival to its answer
//	mailbox      the order and the bounds of an actor's calls
//	activation   the actors in memory, and which of them this host may run
//	residency    what of an actor's state is in memory and current
//	worker       runs the calls of activations, and answers them when what they rest on is durable
//	speculation  decides which commit carries a turn, and what runs again if it is not applied
//	lane         runs turns, each in its lane
//	turn         runs one method on a state, which package overlay has
//	nested       runs the turns that turns call, here and at other hosts
//	chain        finds chains of calls that wait for each other
//	callback     brings calls that come back to the chains that wait for their callers
//	timer        the timers and the watches of actors
//	follow       reads who stands for the services that actors watch
//	children     the rows of volatile children, in memory before the store
//	instance     keeps instances of guests
//	executor     bounds the guests that run, and deals the processors between apps
//	storage      asks the store, in groups that package pipeline makes
//	egress       sends the HTTP requests of guests
//
// [Host] has the methods that others call, and wires all parts; its admission chooses where a call
// runs, and what serves it. No file uses one of a part above it; a lower part reports to a higher one by
// calling a function that it was given: when the pipeline knows the outcome of a commit, when a timer is due,
// and when a guest calls another actor.
//
// # Lanes
//
// The method and the type's placement choose the lane of a turn, when the turn starts:
//
//	lane       for                  exclusive by                   commits by
//	warm       ring, sticky         the activation's one worker    Commit, under the version
//	locked     any, without calls   the same, and the row's lock   LockedTurn, under the version
//	read-only  read-only methods    nothing: committed state       never
//	stateless  stateless types      nothing: there is no state     never
//
// # States of an activation
//
//	          invoke                       first turn starts
//	(absent) ─────────▶ queued ──────────────────────────────▶ running, cold
//	   ▲                  ▲                                       │ row loaded
//	   │                  │ invoke                                ▼
//	   │                  │       no call, no commit            running, warm ◀─┐
//	   │                 idle ◀────────────────────────────────── │ ──────────┘
//	   │                  │                                       │   next turn
//	   └──────────────────┘                                       │ refused or unknown
//	     unused for Limits.IdleTimeout (never sticky types),      │ commit: state dropped
//	     room needed (Config.MaxActivations), stop, actor moved,  ▼
//	     or nothing kept: locked lane, failed load             running, cold
//
// # States of a turn
//
//	queued ─▶ started ─▶ load ─▶ instance ─▶ run ─▶ sealed ─▶ committed ─▶ released
//	   │          └──── error, trap, deadline ────┘      ├─ stale: drop state, start again
//	   ▼                       ▼                         └─ ambiguous: settle
//	never started       leaves no trace
//
// protocol.md beside this file has the rest: speculation, chains of calls, what is current, who holds an
// actor, what leaves the host, idempotency keys, reminders, timers, the invariants, and the
// behaviour under each failure.
package host
