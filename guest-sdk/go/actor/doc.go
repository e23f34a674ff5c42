// Package actor is the Greenroom SDK for guests written in Go, compiled with
// TinyGo or with standard Go.
//
// An actor type is a struct and its methods. The struct is the actor's state:
// each of its top-level JSON fields is one state key, loaded before a method and
// saved after it.
//
//	type Counter struct {
//		Count int `json:"count"`
//	}
//
//	func (c *Counter) Add(ctx *actor.Context, amount int) (int, error) {
//		c.Count += amount
//		return c.Count, nil
//	}
//
//	func init() {
//		actor.Register("Counter", actor.Method("Add", (*Counter).Add))
//	}
//
//	func main() {}
//
// # Turns
//
// A method runs as one turn: alone on its actor, and atomic. When it returns nil
// everything that it changed is made durable together, and only then is its
// answer given; when it returns an error, panics or runs out of time, nothing
// happened. See [Error] for errors that callers can tell apart.
//
// # Input and output
//
// Input and output are any types that encoding/json knows. [None] stands for no
// input or no output, []byte and [Payload] for raw bytes. No payload at all is the
// zero value of a struct or a map.
//
// # State
//
// Stored keys that the struct has no field for are left alone, so that an older
// module does not lose what a newer one wrote. As in encoding/json, a key that
// differs from a field's name only in case is taken for the field. Unexported
// fields are not state: they may vanish between any two turns, and deploying the
// type warns of them. Actors with much state, of which a turn needs little, use an
// empty struct and [Context.State], which reads and writes single keys; [Each] goes
// through those with a prefix.
//
// A method registered with [ReadOnly] never saves. One that returns with a changed
// struct fails with [ErrReadOnly] in the test kit; on a server the change is dropped.
//
// # Beyond the state
//
// Packages actor/config and actor/http are what an app can grant: configuration
// values, secrets, requests. A type declares what it uses in [Capabilities].
//
// [SetReminder] has a method of the actor run at a later time, or at many of them, also
// if no server runs in between. [SetTimer] does the same while the actor is in memory, and
// costs next to nothing. [Context.Cause] tells a firing from a call.
//
// # Other actors
//
// [Call] runs a method of another actor and returns its reply; a [Remote] has the types of one.
// The turn and all that it calls are one transaction, committed together or not at all. At
// another server a call commits on its own, unless [Atomic] or the method's [RequireAtomic]
// refuses that, or a [CoLocate] group keeps the actors on one server. An error takes back what
// the called turn has changed, and its caller may go on.
//
// [Send] sends a message instead, which takes effect exactly once and later. What nobody
// consumes comes back ([OnUndelivered]) or goes to another actor ([Forward]). [Tell] sends in
// memory alone. [Spawn] makes an actor, [SpawnChild] one in memory alone, [PassAway] ends one, [Become] changes which
// methods it accepts, [Claim] gives it a name, [Hooks] run as it comes and goes, [WatchHost] and [WatchService] report.
//
// # Determinism
//
// A turn must not depend on anything but its input, its state and its [Context]:
// take the time from [Context.Now] and chance from [Context.Random]. Package
// variables are shared by the actors that an instance happens to serve, and are
// lost with it: keep nothing of an actor there.
//
// # What TinyGo does without
//
// There are no goroutines, and recover does nothing: a panic ends turn and instance.
package actor
