package actor

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// Bounds of an actor's inbox. They count the messages that nobody has consumed yet.
const (
	// MaxInboxMessages is how many messages an inbox holds, and MaxInboxBytes how many bytes
	// of payloads.
	MaxInboxMessages = 10_000
	MaxInboxBytes    = 64 << 20
	// MaxForwards is how many receivers a message is forwarded to at most.
	MaxForwards = 16
)

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
	// Disconnected means that it reports the end of the receiver's watch of the host that held
	// From. Failed is then why: [abi.WatchDisconnected] or [abi.WatchMoved].
	Disconnected bool
	// Service is the service or the group of services that the receiver watches, whose notice it
	// is; From is zero then. The payload says who stands for it, or Failed why the watch has ended.
	Service string
}

// IsNotice reports whether the message is a notice of a watch.
func (m *Message) IsNotice() bool { return m.Disconnected || m.Service != "" }

// Names of messages begin with a control character, which no name that a user chooses has.
const (
	orderedMark   = "\x01"
	unorderedMark = "\x02"
	// senderLen is the length of the part of an ordered message's name that all messages of
	// its sender have in common: the mark, and 16 bytes in hexadecimal.
	senderLen = len(orderedMark) + 32
	// orderedLen is the length of the whole name: with a version of 16 and an index of 6
	// digits.
	orderedLen = senderLen + 16 + 6
	// maxMessageIndex is the highest index of a message in its commit.
	maxMessageIndex = 999_999
)

// MessageName returns the name of an ordered message: the one of this index among those that
// a commit sends from an actor, whose row it writes at version. Names of one sender sort as
// the messages were sent.
func MessageName(from Key, version uint64, index int) string {
	if index < 0 || index > maxMessageIndex {
		panic(fmt.Sprintf("a commit sends message %d; %d fit into one", index, maxMessageIndex+1)) // [MaxCommitBytes] is reached before
	}
	sum := sha256.Sum256([]byte(from.String()))
	return orderedMark + hex.EncodeToString(sum[:16]) + fmt.Sprintf("%016x%06d", version, index)
}

// UnorderedMessageName returns the name of a message without an order, from its token.
func UnorderedMessageName(id ReminderID) string {
	return unorderedMark + strings.TrimPrefix(id.String(), reminderPrefix)
}

// IsMessageName reports whether a name is that of a message.
func IsMessageName(name string) bool {
	return strings.HasPrefix(name, orderedMark) || strings.HasPrefix(name, unorderedMark)
}

// MessageNamesEnd is above all names of messages in byte order, and not above any other name
// of a reminder.
const MessageNamesEnd = "\x03"

// SenderOfOrdered returns what the names of all ordered messages of one sender begin with, from
// one of them; false for another name.
func SenderOfOrdered(name string) (prefix string, ok bool) {
	if len(name) != orderedLen || !strings.HasPrefix(name, orderedMark) {
		return "", false
	}
	return name[:senderLen], true
}

// ValidateMessageName checks the name of a message: one that [MessageName] or
// [UnorderedMessageName] makes.
func ValidateMessageName(name string) error {
	const field = "message name"
	rest := name[min(1, len(name)):]
	switch {
	case strings.HasPrefix(name, orderedMark) && len(name) == orderedLen && strings.Trim(rest, "0123456789abcdef") == "":
		return nil
	case strings.HasPrefix(name, unorderedMark):
		if _, err := ParseReminderID(reminderPrefix + rest); err == nil {
			return nil
		}
	}
	return argument(field, "is %q, which no message has", shown(name))
}

// size is about how many bytes m takes in a commit beside what every reminder takes.
func (m *Message) size() int {
	if m == nil {
		return 0
	}
	size := 0
	for _, k := range append([]Key{m.From, m.By, m.Forward}, m.Path...) {
		size += len(k.Type) + len(k.ID)
	}
	return size
}
