package actor

// Message makes a [Reminder] a durable message: the reminder's key is the receiver, and its
// method what the message runs. host/inbox has the protocol.
type Message struct {
	// From is the sender, an actor of the same app. Without an ID: a caller from outside.
	From Key
	// By is the actor that sent it on From's behalf. Without an ID: From itself.
	By Key
	// Undelivered is the method of From that gets the message back if nobody consumes it;
	// empty: none.
	Undelivered string
	// Forward is the actor that gets the message if nobody consumes it. Without an ID: none.
	Forward Key
	// Path lists the receivers that it was forwarded from, the first one first.
	Path []Key
	// Failed is not empty for a message that comes back to its sender: the code of the last
	// failure. From is then the receiver that did not consume it.
	Failed string
	// Cookie is the sender's own number, returned with the message.
	Cookie uint64
}
