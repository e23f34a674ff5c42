package actor

import (
	"encoding/binary"
	"strings"
	"time"

	"github.com/greenroom-run/greenroom/abi"
)

// Ref is the address of an actor inside its app. Without a type it is that of the actor which
// stands for the service ID: [Service].
type Ref struct{ Type, ID string }

// String returns type||id, and service||name for a [Service].
func (r Ref) String() string {
	if r.Type == "" {
		return "service||" + r.ID
	}
	return r.Type + "||" + r.ID
}

// parts is r as a message frame has it.
func (r Ref) parts() (typ, id, service string) {
	if r.Type == "" {
		return "", "", r.ID
	}
	return r.Type, r.ID, ""
}

// place is where a turn runs: what a kept state belongs to.
type place struct {
	app string
	ref Ref
}

// Context is one turn, seen from its method. It is good until the method
// returns; used later, it panics.
//
// It has what every turn has. Whatever an actor may do beyond that is a function
// that takes a Context, here or in a package of its own (actor/http, actor/config):
// a program keeps every method of a type whose methods can be reached by name, and
// would ask its host for what its types do not declare.
type Context struct {
	instance *instance // nil once the turn is over
	typ      *actorType
	at       place
	method   string   // empty in a migration
	frame    abi.Turn // aliases the host's buffer
	readOnly bool
	// state is the *S that was loaded, nil before.
	state any
	// shared says that state is instance.kept, and instance.saved its JSON as it
	// was loaded.
	shared bool
	// touched says that keys were written past the struct.
	touched bool
	// passed says that the turn has ended its actor's life.
	passed bool
}

func (c *Context) live() *instance {
	if c.instance == nil {
		panic("actor: a Context was used after its turn; do not keep it")
	}
	return c.instance
}

// Self is the address of the actor whose turn this is.
func (c *Context) Self() Ref { return c.at.ref }

// App is the app of the actor.
func (c *Context) App() string { return c.at.app }

// Type is the actor's type.
func (c *Context) Type() string { return c.at.ref.Type }

// ID is the actor's ID.
func (c *Context) ID() string { return c.at.ref.ID }

// Method is the name under which the running method is registered, empty in
// a [Migrate] hook.
func (c *Context) Method() string { return c.method }

// MethodSet is the set of methods that the actor accepts in this turn, as [Become] has chosen
// it before; empty: all.
func (c *Context) MethodSet() string {
	c.live()
	return strings.Clone(c.frame.MethodSet)
}

// InvocationID is unique to the request that the turn answers. A turn that runs
// again keeps it.
func (c *Context) InvocationID() string {
	c.live()
	return strings.Clone(c.frame.InvocationID)
}

// Now is the time at which the turn began, in UTC. It does not advance.
func (c *Context) Now() time.Time {
	c.live()
	return time.Unix(0, c.frame.TimeUnixNano).UTC()
}

// Version is the stored version that the turn reads: it is another one whenever
// the actor was changed, and 0 for an actor with nothing stored.
func (c *Context) Version() uint64 { return c.live().host.StateVersion() }

// State reads and writes single keys of the actor's state.
func (c *Context) State() State { return State{c} }

// Random is chance that belongs to the turn.
func (c *Context) Random() Random { return Random{c} }

// Log writes to the actor's log.
func (c *Context) Log() Logger { return Logger{c} }

// Random is the turn's stream of random numbers. It is an [io.Reader] and
// a source for math/rand/v2: rand.New(ctx.Random()).
type Random struct{ ctx *Context }

// Read fills p. It never fails.
func (r Random) Read(p []byte) (int, error) {
	r.ctx.live().host.Random(p)
	return len(p), nil
}

// Uint64 returns a random number of the whole range.
func (r Random) Uint64() uint64 {
	in := r.ctx.live()
	in.host.Random(in.word[:])
	return binary.LittleEndian.Uint64(in.word[:])
}
