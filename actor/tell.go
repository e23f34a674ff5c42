package actor

import "time"

// Bounds of volatile messages of one turn, and of watches.
const (
	// MaxTells is how many a turn sends, and MaxTellBytes what their payloads have together.
	MaxTells     = 1024
	MaxTellBytes = 4 << 20
	// MaxWatches is how many hosts and services an actor watches.
	MaxWatches = 100
)

// Tell is a volatile message: it is in memory and on the way between hosts alone, is delivered
// at most once, and those of one sender, receiver and channel are delivered in their order.
type Tell struct {
	To      Key
	Method  string
	Payload Payload
	// Delay is how long after the end of the sender's turn it is delivered. One with a delay
	// has no order.
	Delay time.Duration
	// Message has the sender, and what happens if the message is not delivered. It has no
	// Forward.
	Message Message
	// Channel is a number of the sender's, which the receiver does not see.
	Channel uint32
	// Link is the span in which it was sent, if that was sampled.
	Link SpanLink
	// Ended, if it is not nil, is called once: when the message's turn has ended, or cannot run
	// on this host. again reports whether the turn has not begun, and may later.
	Ended func(again bool)
}

// Size is what the message takes in memory beside a fixed part, in bytes.
func (t *Tell) Size() int64 {
	return int64(len(t.To.ID) + len(t.Payload.Data) + len(t.Payload.ContentType))
}
