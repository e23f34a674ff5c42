// Package throttle admits turns by the rules of their app ([actor.Rules]): pauses of types, quotas of the app, and
// limits of types and methods.
//
//	Governor   the rules of all apps, from memory; reads them again as they age
//	Type       what the rules say of one actor type; what serves the type refers to it
//
// # When a call is refused, and when it waits
//
// [Type.Admit] decides when a call arrives. It refuses a firing of a paused type, any call of a type that
// is paused with Refuse, and a call above a quota or a rate: with an [*actor.LimitError], which is safe to
// retry and says when. A call that is refused takes nothing of any quota or rate.
//
// [Type.Enter] decides when the turn is to begin, on the goroutine that runs it. There calls of a paused type wait, and
// turns above a concurrency. Keys have the places in turn ([fair]). The wait ends when the caller's
// context ends, after the time that a turn of the type may take, when the host stops, and, within [lookEvery], when the host
// gives the actor up, or a chain waits for the actor. A turn that waits has no slot, no instance and no lock of a row, but it keeps its place at the head of
// the actor's mailbox.
//
// A turn that another turn calls, of this host or of another one, is admitted like any call, but never waits here, since its callers are held meanwhile:
// a paused type refuses it, and it has no place of a concurrency.
//
// # Rates
//
// A rate is a token bucket: Burst tokens at most, PerSecond more each second, one for each turn. The
// fuel of a turn is known when it has ended, so its tokens may go below zero; calls are refused until
// they are above zero again.
//
// # What is stored
//
// [Type.Grow] decides when a turn is sealed, and [Governor.Grow] when a request sets a reminder or sends a
// message. A count of what an app stores would cost each commit a row that all commits of the app write. So the
// host counts in the background, in steps, while the app grows: every 30 s, and every 2 s once half of what it may
// grow by is used up, but not more than a twentieth of the time. In between, it adds what its own turns grow by, when they are
// sealed: also those that are not committed after all, which the next count forgets. Other hosts add as well: of what
// was left at the last count, each adds its part, or one growth. So a quota may be passed by the commits that were
// under way when a count began, and by one growth of each other host; and before the first count, which the
// first growth begins, by all. An app whose quotas bound nothing that is stored pays a look at its rules.
//
// # Several hosts
//
// The host that runs a turn admits it. What is bounded for an app, or for a type, is divided by the
// number of hosts, and each host enforces its share: like Envoy's local rate limit with a
// local cluster. No call waits for another host, and no host counts for others. If the actors of an app are unevenly
// spread, a busy host refuses calls though others have tokens left. A rate for each actor of a
// type whose actors have one place each is not divided, and exact: one host has all turns of an actor.
//
// # Freshness and failures
//
// Rules in memory are used for MaxAge; then the next call has them read again, and goes on with
// what is known. Only the first call of an app waits for the store, and is refused with
// [actor.ErrUnavailable] if the store cannot be read. While the store does not answer, the last known rules hold. A
// change that is made at this host holds when its method returns ([Governor.Changed]).
//
// Tokens and places are in memory: a host that starts has full buckets. A limit that changes begins anew, and
// others keep their tokens. A bucket of a key that was evicted, since an app has more than [maxKeys], is full again.
package throttle
