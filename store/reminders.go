package store

import (
	"context"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// Reminders is the part of a [Store] that reads reminders, and that keeps the buckets
// which their tokens come from. Reminders are written by commits alone
// ([actor.ReminderEffects]), with whatever else these do.
type Reminders interface {
	// AllocateBucket gives a host the next bucket of an app, from which that host alone
	// ever creates. An app without a prefix gets the next one; when the buckets of a lap
	// are used up, and for the first, fresh becomes the vector of the next lap. If the
	// answer is lost the bucket is there all the same: see Buckets.
	AllocateBucket(ctx context.Context, app string, creator actor.HostID, fresh actor.Vector) (actor.BucketRow, error)
	// AssignBucket gives a bucket to a scheduler instance if its epoch is still epoch,
	// and reports whether it did; the row has the next epoch. An empty owner frees it.
	AssignBucket(ctx context.Context, b actor.Bucket, epoch uint64, owner actor.HostID) (actor.BucketRow, bool, error)
	// CloseBucket marks a bucket that its creator will never create from again.
	CloseBucket(ctx context.Context, b actor.Bucket) error
	// SaveBuckets writes down how far buckets are used and delivered. One whose epoch
	// has moved on keeps its DeliveredTill and Rate; Used and DeliveredTill never go back; a
	// bucket that is gone is none.
	SaveBuckets(ctx context.Context, progress []BucketProgress) error
	// RemoveBucket removes a bucket that was closed before a database time and has no
	// reminders, and reports whether it is gone. Its range is free for the next lap. The
	// caller leaves an hour at least, far above every timeout of a commit.
	RemoveBucket(ctx context.Context, b actor.Bucket, closedBefore time.Time) (bool, error)
	// Buckets returns bucket rows above a position in the order of prefix, vector and
	// index, at most limit (1 to [MaxList]) of them.
	Buckets(ctx context.Context, after actor.Bucket, limit int) ([]actor.BucketRow, error)

	// DueReminders returns what is to be delivered of a bucket, in the order of time and
	// token. Paused reminders are not among them.
	DueReminders(ctx context.Context, q DueQuery) ([]ReminderHead, error)
	// RecentReminders returns the reminders of a bucket whose tokens are in one of the
	// ranges, at most limit (1 to [MaxHeads]), in no order; paused ones are left out.
	RecentReminders(ctx context.Context, b actor.Bucket, ranges []TokenRange, limit int) ([]ReminderHead, error)
	// LoadReminders reads whole reminders, in the order of their IDs; one that is not
	// there is the zero Reminder. Rows own their bytes. If rows are damaged the error is a
	// [*DamagedReminders] and the result has the others.
	LoadReminders(ctx context.Context, ids []actor.ReminderID) ([]actor.Reminder, error)
	// FindReminders reads whole reminders by name, likewise.
	FindReminders(ctx context.Context, names []actor.ReminderName) ([]actor.Reminder, error)
	// ListReminders returns reminders in byte order of type, actor ID and name, without messages and
	// cursors, or one of these kinds alone, and the position after which the list goes on: the zero
	// name if that was all.
	// Of a query that sifts ([ReminderQuery.Sifts]) no more than [MaxExamined] reminders and
	// messages are looked at, so that fewer than Limit, or none, may be returned where there are
	// others. It is for people and tools.
	ListReminders(ctx context.Context, q ReminderQuery) (list []actor.Reminder, next actor.ReminderName, err error)

	// ReminderNames returns the names of an actor's reminders in byte order. Of those that
	// cannot be decoded the names are among them.
	ReminderNames(ctx context.Context, q ReminderNameQuery) ([]string, error)

	// ListMessages returns messages to an actor in byte order of their names, and the name
	// after which the list goes on; empty if that was all. It is for people and tools.
	ListMessages(ctx context.Context, q MessageQuery) (list []actor.Reminder, next string, err error)
	// Inbox counts the messages to an actor, at most limit (1 to [MaxHeads]) of them.
	Inbox(ctx context.Context, key actor.Key, limit int) (InboxSize, error)

	// CountReminders counts reminders of an app and messages in it, in the order of type, actor ID and
	// name, at most limit (1 to [MaxExamined]) of both together after a position, and returns where
	// the count goes on: the zero name if that was all. Those that cannot be decoded count.
	CountReminders(ctx context.Context, app string, after actor.ReminderName, limit int) (count ReminderCount, next actor.ReminderName, err error)

	// ListDeadLetters returns dead letters of an app in the order of reminder ID and
	// occurrence. AfterID may be of another app: callers choose it.
	ListDeadLetters(ctx context.Context, q DeadLetterQuery) ([]actor.DeadLetter, error)
	// RemoveDeadLetter removes one, and reports whether it was there.
	RemoveDeadLetter(ctx context.Context, id actor.ReminderID, due time.Time) (bool, error)
}

// MaxHeads is the highest limit of [Reminders].DueReminders and RecentReminders.
const MaxHeads = 10_000

// MaxExamined is how many rows a list looks at in one step where it returns only some of
// them: reminders by due times, for which there is no index, and actors among tombstones.
const MaxExamined = 5000

// BucketProgress is what a creator or an owner writes down of a bucket.
type BucketProgress struct {
	Bucket actor.Bucket
	// Used is how many tokens were handed out; 0: not said.
	Used uint32
	// DeliveredTill counts if the bucket is still at Epoch; zero: not said.
	DeliveredTill time.Time
	// Rate is [actor.BucketRow].Rate from now on, if the bucket is still at Epoch.
	Rate  uint32
	Epoch uint64 // 0: no owner's, who alone says the two above; epochs begin at 1
}

// ReminderHead is what a scheduler keeps in memory of a reminder.
type ReminderHead struct {
	ID     actor.ReminderID
	FireAt time.Time
}

// DueQuery selects reminders of a bucket by when they are to be delivered.
type DueQuery struct {
	Bucket actor.Bucket
	// AfterTime and AfterToken are a position, exclusive: that of the last head of the
	// page before. Reading begins there in the index too, and never meets the rows before
	// it that are gone. A time alone: everything from that time on, inclusive.
	AfterTime  time.Time
	AfterToken *uint32
	// Before is exclusive.
	Before time.Time
	Limit  int // 1 to [MaxHeads]
}

// TokenRange is a range of tokens of a bucket, both ends inclusive.
type TokenRange struct{ From, To uint32 }

// ReminderQuery selects reminders for a list.
type ReminderQuery struct {
	App    string
	Type   string // empty: all
	ID     string // of the actor, with Type; empty: all
	Prefix string // of names, with Type and ID; empty: all
	// Messages asks for messages in the place of reminders, and Cursors for cursors. A query has
	// one of the two at most, and then no Prefix.
	Messages, Cursors bool
	// DueFrom is inclusive, DueBefore exclusive; zero: no bound.
	DueFrom, DueBefore time.Time
	// After is exclusive; its App is not looked at. The zero value: from the first. It may name
	// a message or a cursor, where a list went no further.
	After actor.ReminderName
	Limit int // 1 to [MaxList]
}

// ByDue reports whether due times select.
func (q *ReminderQuery) ByDue() bool { return !q.DueFrom.IsZero() || !q.DueBefore.IsZero() }

// Names returns the bounds of the names that the query asks for: from is inclusive, before is
// exclusive, and an empty one is no bound.
func (q *ReminderQuery) Names() (from, before string) {
	switch {
	case q.Messages:
		return "", actor.MessageNamesEnd
	case q.Cursors:
		return actor.CursorNames, actor.ReservedNamesEnd
	}
	return actor.ReservedNamesEnd, ""
}

// Sifts reports whether a list passes over some of what it reads: reminders of other due times,
// or, of several actors, what each of them has of the other kinds.
func (q *ReminderQuery) Sifts() bool { return q.ByDue() || q.ID == "" }

// Due reports whether a due time is one that the query asks for.
func (q *ReminderQuery) Due(t time.Time) bool {
	return !t.Before(q.DueFrom) && (q.DueBefore.IsZero() || t.Before(q.DueBefore))
}

// ReminderNameQuery selects names of one actor's reminders.
type ReminderNameQuery struct {
	Key    actor.Key
	Prefix string // [actor.CursorNames]: cursors; empty: all reminders
	After  string // exclusive; empty: from the first
	// Messages asks for the names of messages to the actor and of its cursors as well, which come
	// first.
	Messages bool
	Limit    int // 1 to [MaxList]
}

// First returns what the first of the names is not below.
func (q *ReminderNameQuery) First() string {
	if q.Prefix == "" && !q.Messages {
		return actor.ReservedNamesEnd
	}
	return q.Prefix
}

// MessageQuery selects messages to one actor.
type MessageQuery struct {
	Key   actor.Key
	After string // a name, exclusive; empty: from the first
	Limit int    // 1 to [MaxList]
}

// InboxSize is how much an inbox holds.
type InboxSize struct {
	Messages int
	Bytes    int64 // of payloads
}

// ReminderCount is how many reminders and messages there are.
type ReminderCount struct{ Reminders, Messages int }

// Add counts the reminder or message of a name.
func (c *ReminderCount) Add(name string) {
	if actor.IsMessageName(name) {
		c.Messages++
	} else {
		c.Reminders++
	}
}

// ReminderKind selects what reminders are: for lists.
type ReminderKind uint8

// The kinds of reminders.
const (
	AnyKind ReminderKind = iota
	OnlyReminders
	OnlyMessages
)

// Selects reports whether a reminder is of the kind.
func (k ReminderKind) Selects(message bool) bool {
	return k == AnyKind || message == (k == OnlyMessages)
}

// DeadLetterQuery selects dead letters.
type DeadLetterQuery struct {
	App  string
	Type string // empty: all
	Kind ReminderKind
	// AfterID and AfterDue are exclusive; zero: from the first.
	AfterID  actor.ReminderID
	AfterDue time.Time
	Limit    int // 1 to [MaxList]
}

// DamagedReminders is the error of reads that met reminders which cannot be decoded.
type DamagedReminders struct {
	Reminders []DamagedReminder
}

// DamagedReminder is one of them.
type DamagedReminder struct {
	ID     actor.ReminderID
	Reason string
}

func (e *DamagedReminders) Error() string {
	return e.Reminders[0].ID.String() + " cannot be decoded: " + e.Reminders[0].Reason
}

// Unwrap makes it [actor.ErrStateDamaged].
func (e *DamagedReminders) Unwrap() error { return actor.ErrStateDamaged }
