package actor

import "time"

// Payload is an opaque body and what it claims to be.
type Payload struct {
	ContentType string // a media type; empty means application/json
	Data        []byte
}

// ContentTypeJSON is the content type of a [Payload] that names none.
const ContentTypeJSON = "application/json"

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
}

// Reply is a turn's answer.
type Reply struct {
	Payload Payload
	// Version is the actor's version after the turn; 0 for an actor without a row.
	Version uint64
	// Fuel is what the run that answered used; see package engine/meter.
	Fuel uint64
}

// Effects is all that one turn asks for. Nothing of it is visible before it is
// committed. The zero value asks for nothing.
type Effects struct {
	// State is the whole new encoded state, nil when the turn left it as it was.
	State *EncodedState
	// Idempotency are the calls to record with the rest; several where several
	// turns of one actor are folded into one commit. No method and key twice.
	Idempotency []IdempotencyRecord
}

// Empty reports whether there is nothing to commit.
func (e Effects) Empty() bool { return e.State == nil && len(e.Idempotency) == 0 }

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
	// Deleted marks a tombstone: no state, but a version that still fences.
	Deleted bool
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

// CommitID identifies one attempt to commit; random, never used twice.
type CommitID [16]byte

// MaxCommitBytes bounds the state and the recorded replies of one commit
// together, since a database bounds its messages: 16 MiB on CockroachDB.
const MaxCommitBytes = 8 << 20

// Commit is the unit that the store makes durable, all or none: a row to write,
// or to stand on alone ([Commit.RecordsOnly]), with what is recorded; and, where
// several actors took part, Others. What a turn does beside that to other tables,
// as idempotency records are, is one more field of [Effects] each.
type Commit struct {
	// ID settles the commit if its outcome is lost. Required.
	ID  CommitID
	Key Key
	// ReadVersion is the version that the turn ran on: the fence. 0: the actor
	// had no row, and the commit inserts one.
	ReadVersion uint64
	// NewVersion is above ReadVersion; for an insert, [FirstVersion]. It is
	// ignored by a commit of records alone, see [Commit.RecordsOnly].
	NewVersion uint64
	// Delete leaves a tombstone instead of Effects.State.
	Delete bool
	// Fence moves the version on, so that no earlier commit of the actor can apply
	// any more, and leaves all else as it is: a live row stays live, a tombstone
	// stays a tombstone, and where there is no row a tombstone is left, which
	// sweeping removes like any other. Neither Delete nor Effects.State goes with
	// it, and Generation and StateSchema are not written.
	Fence       bool
	Generation  uint64
	StateSchema uint32
	Effects     Effects
	// Others are further rows of an all-or-none set: one of them that is not at its
	// ReadVersion refuses all. The commit then writes its own row, too, and no actor
	// is named twice.
	Others []RowChange
}

// RowChange is a further row of a [Commit]: Key, versions and what becomes of the
// row mean what the fields of a Commit do.
type RowChange struct {
	Key         Key
	ReadVersion uint64
	// NewVersion is 0 for a row that was only read: it must be at ReadVersion when
	// the commit applies, and stays as it is.
	NewVersion  uint64
	Delete      bool
	Fence       bool
	Generation  uint64
	StateSchema uint32
	State       *EncodedState
}

// ReadOnly reports whether the row is only to be as it was read.
func (r *RowChange) ReadOnly() bool { return r.NewVersion == 0 }

// Row returns what c does to its own row.
func (c *Commit) Row() RowChange {
	r := RowChange{
		Key: c.Key, ReadVersion: c.ReadVersion, NewVersion: c.NewVersion, Delete: c.Delete, Fence: c.Fence,
		Generation: c.Generation, StateSchema: c.StateSchema, State: c.Effects.State,
	}
	if c.RecordsOnly() {
		r.NewVersion = 0
	}
	return r
}

// Rows returns what c does to each row of its set, its own first.
func (c *Commit) Rows() []RowChange { return append([]RowChange{c.Row()}, c.Others...) }

// RecordsOnly reports whether c records calls and leaves the row alone: what
// turns commit that were given idempotency keys and changed nothing. The row
// must still be at ReadVersion (0: there is none), and stays there.
func (c *Commit) RecordsOnly() bool {
	return !c.Delete && !c.Fence && c.Effects.State == nil && len(c.Effects.Idempotency) > 0
}

// LoadOptions modifies how rows are read.
type LoadOptions struct {
	// AllowStale permits a past state, at most MaxStaleness old, where that
	// avoids waiting for a row lock.
	AllowStale bool
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
