package actor

import (
	"strconv"
	"time"

	"github.com/greenroom-run/greenroom/abi"
)

// Placement says which host runs an actor of the type, and whether it is kept
// warm. A type that says nothing is [PlacementRing].
type Placement string

const (
	// PlacementAny runs each turn under a lock in the database, on whichever host was
	// asked: nothing is kept warm.
	PlacementAny Placement = abi.PlacementAny
	// PlacementRing keeps actors warm on the host that the ring of hosts gives them, and
	// puts them away when idle.
	PlacementRing Placement = abi.PlacementRing
	// PlacementSticky keeps actors warm on one host for as long as that host lives.
	PlacementSticky Placement = abi.PlacementSticky
	// PlacementStateless actors have no state and run anywhere.
	PlacementStateless Placement = abi.PlacementStateless
	// PlacementCheckout divides the actors into partitions that hosts lease, in the
	// database; whoever deploys may choose how many.
	PlacementCheckout Placement = abi.PlacementCheckout
)

// PlacementStatic gives each actor by a fixed formula to one of the hosts with these
// names, and to no other. Whoever deploys may name others.
func PlacementStatic(hosts ...string) Placement {
	placement, before := abi.PlacementStatic, ":"
	for _, name := range hosts {
		placement += before + name
		before = ","
	}
	return Placement(placement)
}

// PlacementRingOf is [PlacementRing] with so many hosts for each range of actors, from 1
// to 16: each actor is kept warm on one of them, and the others may answer its read-only
// methods, which are confirmed in the database. Whoever deploys may choose another number.
func PlacementRingOf(hosts int) Placement {
	return PlacementRing + Placement(":"+strconv.Itoa(hosts))
}

// CoLocate puts actors of several types on one host, so that calls among them can be one
// transaction: all actors of the types of a group whose group keys are equal. The types have
// one placement, which is neither [PlacementAny] nor [PlacementStateless].
type CoLocate struct {
	Group string // 1 to 64 of the characters A-Z a-z 0-9 . _ -
	// Separator is the text between the parts of an ID, whose first parts are the group key:
	// with "/", order/42 is of the key order by one part, and of order/42 by two. Without a
	// separator, and for an ID with no more parts than the key, the key is the whole ID.
	Separator string
	// Parts is how many parts the key has; 0 means 1.
	Parts int
}

// Instance says how actors of the type share Wasm instances. A type that says
// nothing is [InstanceShared], or [InstanceDedicated] if it is [PlacementSticky].
type Instance string

const (
	// InstanceShared instances serve any actor of the type, one turn after another.
	InstanceShared Instance = abi.InstanceShared
	// InstanceDedicated gives each warm actor an instance of its own, in which its
	// decoded state stays.
	InstanceDedicated Instance = abi.InstanceDedicated
)

// Pool says with whom actors of the type share execution slots. A type that says
// nothing is in [PoolUser].
type Pool string

const (
	// PoolUser is the pool of ordinary types.
	PoolUser Pool = abi.PoolUser
	// PoolBatch is the pool of slow types. Hosts record it, and do not yet keep pools
	// apart.
	PoolBatch Pool = abi.PoolBatch
)

// StateSchema is the version of the form of the type's state. A module never runs
// on state that was written under a higher one.
type StateSchema uint32

// Limits are the type's own limits; zero means the host's default, and a host
// lowers what is above its own limit.
type Limits struct {
	StateBytes   int64         // of one actor's encoded state
	PayloadBytes int64         // of one input or output
	Mailbox      int64         // turns waiting for one actor
	TurnTime     time.Duration // of one turn, rounded up to milliseconds
	MemoryBytes  int64         // of one Wasm instance
	// Fuel is what one turn may compute, in units of about one simple instruction.
	// It is the same on every machine, as time is not. Tests outside of a host do
	// not count it. The runtime of standard Go needs up to a million by itself
	// in the first turn of an instance.
	Fuel int64
	// IdempotencyWindow is for how long a call with an idempotency key is remembered:
	// until then, the same call with the same key gets the same reply and has no
	// further effect. Rounded up to milliseconds.
	IdempotencyWindow time.Duration
}

// Migrate sets the hook that brings stored state of an older [StateSchema] into
// its present form, key by key through [Context.State]. It runs as part of the
// first turn that meets such state, before the method; what it returns as an
// error fails that turn. from is the schema that the state was written under.
func Migrate(hook func(ctx *Context, from uint32) error) Part { return migration(hook) }

type migration func(ctx *Context, from uint32) error

func (p Placement) addTo(t *actorType)   { t.spec.Placement = string(p) }
func (c CoLocate) addTo(t *actorType)    { t.spec.CoLocate = abi.CoLocate(c) }
func (i Instance) addTo(t *actorType)    { t.spec.Instance = string(i) }
func (p Pool) addTo(t *actorType)        { t.spec.Pool = string(p) }
func (s StateSchema) addTo(t *actorType) { t.spec.StateSchema = uint32(s) }

func (m migration) addTo(t *actorType) {
	if m == nil {
		panic("actor.Register(" + strconv.Quote(t.spec.Name) + "): Migrate got no hook; give it a function")
	}
	t.spec.Migrate = true
	t.migrate = m
}

func (l Limits) addTo(t *actorType) {
	t.spec.Limits = abi.Limits{
		StateBytes: l.StateBytes, PayloadBytes: l.PayloadBytes, Mailbox: l.Mailbox,
		TurnMillis: milliseconds(l.TurnTime), MemoryBytes: l.MemoryBytes,
		Fuel: l.Fuel, IdempotencyMillis: milliseconds(l.IdempotencyWindow),
	}
}

// milliseconds rounds up.
func milliseconds(d time.Duration) int64 { return (d + time.Millisecond - 1).Milliseconds() }
