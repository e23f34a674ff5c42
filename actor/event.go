package actor

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Bounds of events.
const (
	// MaxEventName is the longest name, in bytes.
	MaxEventName = 128
	// MaxEventPayload is the largest payload, in bytes.
	MaxEventPayload = 64 << 10
	// MaxEvents is how many events a turn publishes, and MaxEventBytes what they take together.
	MaxEvents     = 256
	MaxEventBytes = 1 << 20
)

// ReservedEvents begins the names of the events that hosts publish. Guests cannot publish such names.
const ReservedEvents = "greenroom."

// PassedAwayEvent is the name of the last event of a life of an actor that has published: its host
// publishes it with the commit of the end, without a payload.
const PassedAwayEvent = ReservedEvents + "passed_away"

// EndOfLife returns the last event of a life of an actor, with the link of the call that ends it.
func EndOfLife(key Key, life uint64, link SpanLink) EventWrite {
	return EventWrite{Key: key, Life: life, Name: PassedAwayEvent, Link: link}
}

// Event is something that an actor has published, in the commit of a turn.
type Event struct {
	Position EventPosition
	// Life is the life of the actor that published it.
	Life    uint64
	Name    string
	Payload Payload
	At      time.Time // database time, set by the store
	Link    SpanLink  // the span in which it was published, if that was sampled
}

// EventPosition is the place of an event among those of its actor: the version of the row that
// its commit wrote, and its place among the events of that commit. The zero value comes before
// all events.
type EventPosition struct {
	Version uint64
	Index   uint32
}

// Before reports whether p comes before q.
func (p EventPosition) Before(q EventPosition) bool {
	return p.Version < q.Version || p.Version == q.Version && p.Index < q.Index
}

// Previous returns the last position before p; the zero value has none and returns itself.
func (p EventPosition) Previous() EventPosition {
	switch {
	case p.Index > 0:
		p.Index--
	case p.Version > 0:
		p = EventPosition{p.Version - 1, math.MaxInt32}
	}
	return p
}

// String returns p for people and programs, who keep it as it is.
func (p EventPosition) String() string {
	return strconv.FormatUint(p.Version, 16) + "-" + strconv.FormatUint(uint64(p.Index), 16)
}

// ParseEventPosition reads what String wrote. The error is an [*ArgumentError].
func ParseEventPosition(text string) (p EventPosition, err error) {
	version, index, _ := strings.Cut(text, "-")
	if p.Version, err = strconv.ParseUint(version, 16, 63); err == nil {
		var n uint64
		n, err = strconv.ParseUint(index, 16, 31)
		p.Index = uint32(n)
	}
	if err != nil {
		return EventPosition{}, &ArgumentError{Field: "position", Problem: fmt.Sprintf("is %q; give the position of an event as it was received", text)}
	}
	return p, nil
}

// EventWrite publishes an event of an actor whose row the same [Commit] writes.
type EventWrite struct {
	Key     Key
	Life    uint64
	Name    string
	Payload Payload
	Link    SpanLink // as Event has it
}

// Size is about how many bytes the event takes in a commit.
func (e *EventWrite) Size() int { return eventOverhead + len(e.Name) + len(e.Payload.Data) }

// SizeOfEvents is about how many bytes events take in a commit.
func SizeOfEvents(events []EventWrite) (size int) {
	for i := range events {
		size += events[i].Size()
	}
	return size
}

// eventOverhead is about what an event takes beside its name and payload.
const eventOverhead = 160

// ValidateEventName checks the name of an event: 1 to [MaxEventName] bytes of UTF-8 without
// control characters. The error is an [*ArgumentError].
func ValidateEventName(name string) error {
	switch {
	case name == "" || len(name) > MaxEventName:
		return argument("event name", "has %d bytes; give 1 to %d", len(name), MaxEventName)
	case strings.ToValidUTF8(name, "") != name:
		return argument("event name", "is not valid UTF-8")
	}
	return refuseControls("event name", name)
}

// Validate checks an event. Errors are [*ArgumentError].
func (e *EventWrite) Validate() error {
	if err := e.Key.Validate(); err != nil {
		return err
	}
	if err := ValidateEventName(e.Name); err != nil {
		return err
	}
	if n := len(e.Payload.Data); n > MaxEventPayload {
		return argument("event payload", "has %d bytes; at most %d are allowed: keep the data in the actor's state, and name it in the event", n, MaxEventPayload)
	}
	if n := len(e.Payload.ContentType); n > MaxContentType {
		return argument("event content type", "has %d bytes; at most %d are allowed", n, MaxContentType)
	}
	return refuseControls("event content type", e.Payload.ContentType)
}

// EventQuery selects events of an actor.
type EventQuery struct {
	Key   Key
	After EventPosition // exclusive
	Limit int           // 1 to 1000
	// MaxBytes bounds the payloads: events that come after so many bytes are left out, at
	// least one is not. 0: no bound.
	MaxBytes int
}

// EventPage is what a store returns of the events of an actor.
type EventPage struct {
	Events  []Event
	Trimmed EventPosition // zero: nothing was
}

// EventsKept is how many events of an actor are kept.
type EventsKept struct {
	Count  int       // at most so many, at least 1
	Bytes  int64     // names and payloads together; 1 or more
	Before time.Time // those from before are removed, by database time; zero: none for that
}
