package actor

import (
	"crypto/sha256"
	"encoding/hex"
)

// MaxSubscriptions is how many actors an actor subscribes to.
const MaxSubscriptions = 100

// Cursor makes a [Reminder] an actor's subscription to the events of another actor of its app:
// the reminder's key is the subscriber, and its method what an event runs. Its firing reads the next
// event, and the turn's commit puts a cursor after that event in its place, under the same name.
type Cursor struct {
	// Publisher is the actor whose events are delivered.
	Publisher Key
	// After is the position of the last event that was delivered.
	After EventPosition
}

// Pull is what a firing of a cursor has delivered.
type Pull struct {
	Cursor
	// Event is the event behind the cursor. Its zero value: it was not read yet.
	Event Event
	// Gone means that there are no events any more from After up to the position of Event, which
	// is not an event then.
	Gone bool
}

// CursorNames is what the names of all cursors begin with; no other name does. ReservedNamesEnd is
// above all names of messages and cursors in byte order, and not above any other name of a reminder.
const (
	CursorNames      = "\x03"
	ReservedNamesEnd = "\x04"
)

// CursorName returns the name of an actor's cursor for the events of a publisher. Names of
// publishers may be longer than names of reminders.
func CursorName(publisher Key) string {
	sum := sha256.Sum256([]byte(publisher.String()))
	return CursorNames + hex.EncodeToString(sum[:16])
}
