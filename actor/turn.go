package actor

import (
	"strings"
	"time"
)

// Consistency is what a read-only method may read.
type Consistency uint8

const (
	// ConsistencyDefault reads the last state that this host knows to be
	// committed: on a store that others write to as well, one that was the newest
	// at some moment since [MaxReadAge] before the call. For types placed `any`, a
	// bounded past timestamp where the database offers one.
	ConsistencyDefault Consistency = iota
	// ConsistencyStrong confirms in the store that the state read was the
	// newest when the answer was given.
	ConsistencyStrong
)

// Invocation asks for one turn.
type Invocation struct {
	// ID is unique to the request; it is in logs and in the guest's turn frame.
	// Empty: the host makes one.
	ID      string
	Key     Key
	Method  string
	Payload Payload
	// ReadOnly refuses a method that is not declared read-only with
	// [ErrNotReadOnly].
	ReadOnly bool
	// Consistency counts for read-only methods only.
	Consistency Consistency
	// IdempotencyKey makes the call safe to repeat: within the window of the
	// actor type, every call of this actor and method with the same key and
	// payload has one effect and gets one reply. Empty: none. Otherwise
	// [ValidateIdempotencyKey] holds. Read-only methods need none and ignore it.
	IdempotencyKey string
	// Firing is the delivery of a reminder that asks for the turn: its commit has the
	// firing's step among its effects. Nil: a call. Not with an idempotency key.
	Firing *Firing
	// Message is the volatile message that asks for the turn; nil: none does. Not with an
	// idempotency key.
	Message *Message
	// Token is the name of the token with which the call was admitted, at whichever
	// host it entered the cluster; for logs. Empty: none was asked for. An actor that
	// calls is no token's: it is From of the turn's cause.
	Token string
	// Trace is the trace that the call belongs to, with the span of this host's part in
	// it. Nil: none.
	Trace *Trace
	// Origin is the turn that calls, of an actor of the same app at another host. Nil: the
	// call is not one of an actor.
	Origin *Origin
}

// Origin is a turn that calls an actor at another host.
type Origin struct {
	// From is the actor whose turn calls.
	From Key
	// Chain names the chain that the calling turn belongs to. What is called for it belongs
	// to a chain of the same name, at every host.
	Chain string
	// Depth is how many turns the called one is nested in.
	Depth int
	// Fuel is the most that the called turn may use, beside the limit of its type; 0: no
	// other bound.
	Fuel uint64
	// Waits names the calls of turns that wait for the called one at their hosts, the outermost
	// first; [MaxWaits] at most, of [MaxWaitLen] bytes at most. A call of an actor that a waiting
	// chain has runs in that chain. Empty: the caller's host is of an earlier version.
	Waits []string
	// Marks are what the commit of the called turn writes beside its own record, one for each of the
	// calls with a key that it is nested in, unless there is a record of that call by then.
	Marks []IdempotencyRecord
}

// Bounds of [Origin.Waits].
const (
	MaxWaits   = 64
	MaxWaitLen = 64
)

// Cause returns what causes the turn of the invocation.
func (i *Invocation) Cause() Cause {
	switch {
	case i.Firing != nil:
		return i.Firing.Cause()
	case i.IdempotencyKey != "":
		return CauseKeyedCall
	case i.Message != nil && (i.Message.Failed != "" || i.Message.IsNotice()):
		return CauseNotice
	case i.Message != nil:
		return CauseTell
	}
	return CauseCall
}

// Reply is a turn's answer.
type Reply struct {
	Payload Payload
	// Version is the actor's version after the turn; 0 for an actor without a row.
	Version uint64
	// Fuel is what the run that answered used, of [MethodAll] what its calls used; see package
	// engine/meter.
	Fuel uint64
	// Host is where clients reach the host that ran the turn, host:port, if that is
	// another one than they asked and its address is known. Hosts leave it empty; who
	// passes calls on sets it, also with an error.
	Host string
	// Joined is the first one of [Origin.Waits] in whose chain the turn ran, and with which it is
	// committed. Empty: the turn is committed, or only read.
	Joined string
	// Marked means that the store has all of [Origin.Marks].
	Marked bool
	// Callbacks means that the turn's commit may have recorded calls that have joined chains which
	// wait for it, under [CallbacksKey].
	Callbacks bool
}

// StateFormat is how a row's state column is encoded.
type StateFormat uint8

const (
	// FormatNone is a row without state: a fresh or deleted actor.
	FormatNone StateFormat = 0
	// FormatJSON is one JSON object in UTF-8, keys sorted, so that SQL can read it.
	FormatJSON StateFormat = 1
	// FormatEnvelope is the binary envelope of abi/SPEC.md.
	FormatEnvelope StateFormat = 2
)

// EncodedState is the state of one actor as it is stored: all keys in one value.
// An actor without any key left is stored as the empty JSON object.
type EncodedState struct {
	Format StateFormat
	Data   []byte
}

// Row is one actor as the store holds it.
type Row struct {
	// Unread marks a row that LoadOptions.MaxBytes left out; nothing else is set.
	Unread bool
	// Version is 0 for an actor without a row; everything else is then zero too.
	Version  uint64
	CommitID CommitID
	// Life counts how often the actor passed away.
	Life uint64
	// Born is when the life before this one ended, database time: what was sent to the actor
	// before is not for this life. Zero: it is the first one.
	Born time.Time
	// Deleted marks a tombstone: no state, but a version that still fences.
	Deleted bool
	// Spawned means that a turn made the actor: as a tombstone it is dead, and takes no
	// calls until the tombstone is swept, [SpawnedRetention] later.
	Spawned bool
	// MethodSet names the set of methods that the actor takes, by its turns' last Become.
	// Empty: all.
	MethodSet string
	// Generation is the deployment generation that last wrote the row.
	Generation uint64
	// StateSchema is the schema version that the state was written under.
	StateSchema uint32
	State       EncodedState
	// UpdatedAt is database time.
	UpdatedAt time.Time
}

// RowVersion is a [Row] without what is in it: what fences it.
type RowVersion struct {
	// Version is 0 for an actor without a row; everything else is then zero too.
	Version uint64
	Life    uint64
	Deleted bool
}

// LoadOptions modifies how rows are read.
type LoadOptions struct {
	// AllowStale permits a past state, at most MaxStaleness old, where that
	// avoids waiting for a row lock.
	AllowStale bool
	// BesideLocks asks for the newest committed state without waiting for a row lock,
	// which may take more than a read that waits.
	BesideLocks bool
	// MaxBytes bounds the states that are read: rows that come after so many bytes
	// may be left out, at least one is not. 0: all rows are read.
	MaxBytes int64
}

// MaxReadAge is how old an answer may be that no commit proves, of a host whose
// store others write to as well: what it reads from memory was the newest at some
// moment since so long before the call began.
const MaxReadAge = 100 * time.Millisecond

// MaxStaleness bounds what [LoadOptions] may allow.
const MaxStaleness = 5 * time.Second

// AnsweredBy reports whether a record has the reply to an invocation with an idempotency key.
func (i *Invocation) AnsweredBy(r *IdempotencyRecord) bool {
	return r.Mark == nil && r.Key == i.IdempotencyKey && strings.TrimPrefix(r.Method, donePrefix) == i.Method && r.Actor == i.Key
}
