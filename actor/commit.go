package actor

// MaxCommitBytes bounds the state and the recorded replies of one commit
// together, since a database bounds its messages: 16 MiB on CockroachDB.
const MaxCommitBytes = 8 << 20

// Commit is the unit that the store makes durable: a set, all or none, of rows that
// it writes, rows that must be as they were read, and what a turn does to anything
// else, one list for each kind of effect. It is applied only if all of it holds, which
// is decided before any of it is written. A list may be empty, but something is
// written: a commit of a type without state may have records and no row at all.
//
// Most commits have one row; [CommitOf] makes those.
type Commit struct {
	// ID settles the commit if its outcome is lost. Required.
	ID CommitID
	// Rows are written. No actor is named twice in Rows and Fences.
	Rows []RowWrite
	// Fences are of actors that were read and stay as they are.
	Fences []RowFence
	// Records are calls to record, of any actors: no call twice, and no call that is recorded
	// already.
	Records []IdempotencyRecord
	// Reminders are stepped on, cancelled and set.
	Reminders ReminderEffects
	// Events are published, those of one actor in their order.
	Events []EventWrite
	// Services are claimed and released, none of them twice, by actors that the commit writes.
	Services []ServiceChange
}

// CommitOf returns a commit with a new ID that writes rows, and nothing else yet.
func CommitOf(rows ...RowWrite) Commit { return Commit{ID: NewCommitID(), Rows: rows} }

// OneRow reports whether c writes one row and does nothing else: what most commits
// do, and stores can do at less cost.
func (c *Commit) OneRow() bool {
	return len(c.Rows) == 1 && len(c.Fences) == 0 && len(c.Records) == 0 && c.Reminders.Empty() && len(c.Events)+len(c.Services) == 0
}

// Anchor returns the row that stands for c where one has to: in messages, and when c
// is settled, which moves that row on to keep all of c out. It is the first that c
// writes, or, if it writes none, the first of its fences; the zero RowFence if c has
// no row.
func (c *Commit) Anchor() RowFence {
	switch {
	case len(c.Rows) > 0:
		return c.Rows[0].Fence()
	case len(c.Fences) > 0:
		return c.Fences[0]
	}
	return RowFence{}
}

// RowWrite is what a [Commit] does to an actor's row: the given state replaces the
// current one; with Delete, a tombstone does. With neither, a live row keeps its state,
// and a new row and a tombstone become a live row of [FormatNone].
type RowWrite struct {
	Key Key
	// ReadVersion is the version that the turn ran on: the fence. 0: the actor
	// had no row, and the commit inserts one.
	ReadVersion uint64
	// NewVersion is above ReadVersion; for an insert, [FirstVersion].
	NewVersion uint64
	// Delete leaves a tombstone instead of State. The method set goes with the state.
	Delete bool
	// NewLife counts the life of the actor on: it passes away. Only with Delete. Messages to
	// the actor stay, and everything else that a deletion removes goes.
	NewLife bool
	// Spawned marks a row that is inserted, of an actor that a turn made. Only with
	// ReadVersion 0, and with neither Delete nor Bump.
	Spawned bool
	// MethodSet replaces the method set; nil keeps it. Neither with Delete nor with Bump.
	MethodSet *string
	// Bump moves the version on, so that no earlier commit of the actor can apply
	// any more, and leaves all else as it is: a live row stays live, a tombstone
	// stays a tombstone, and where there is no row a tombstone is left, which
	// sweeping removes like any other. Neither Delete nor State goes with it, and
	// Generation and StateSchema are not written.
	Bump        bool
	Generation  uint64
	StateSchema uint32
	// State is the whole new encoded state, nil when the turn left it as it was.
	State *EncodedState
}

// Fence returns the row as it was read.
func (w *RowWrite) Fence() RowFence { return RowFence{Key: w.Key, Version: w.ReadVersion} }

// RowFence is a row that was read and that a [Commit] does not write: it must be at
// its version when the commit applies, and stays as it is, its commit ID and time too.
type RowFence struct {
	Key Key
	// Version is 0 for an actor without a row: there must be none.
	Version uint64
}
