package store

import (
	"context"
	"slices"
	"strings"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/greenroom-run/greenroom/actor"
)

// MessageQuery selects messages to one actor.
type MessageQuery struct {
	Key   actor.Key
	After string // a name, exclusive; empty: from the first
	Limit int    // 1 to [MaxList]
}

// ValidateMessageQuery checks a query, for drivers.
func ValidateMessageQuery(q *MessageQuery) error {
	if err := q.Key.Validate(); err != nil {
		return err
	}
	if q.After != "" {
		if err := actor.ValidateMessageName(q.After); err != nil {
			return err
		}
	}
	return ValidateLimit(q.Limit)
}

// EarlierMessage reports whether a message is there that the sender of an ordered one has sent to
// the same receiver before it.
func EarlierMessage(ctx context.Context, st Reminders, n actor.ReminderName) (bool, error) {
	sender, ok := actor.SenderOfOrdered(n.Name)
	if !ok {
		return false, nil
	}
	first := sender + strings.Repeat("0", len(n.Name)-len(sender)) // below all that the sender sends
	names, err := st.ReminderNames(ctx, ReminderNameQuery{Key: n.Key, Messages: true, After: first, Limit: 1})
	return len(names) > 0 && names[0] < n.Name, err
}

// InboxSize is how much an inbox holds.
type InboxSize struct {
	Messages int
	Bytes    int64 // of payloads
}

// ValidateInbox checks what [Reminders].Inbox is given, for drivers.
func ValidateInbox(key actor.Key, limit int) error {
	if err := key.Validate(); err != nil {
		return err
	}
	if limit < 1 || limit > MaxHeads {
		return &actor.ArgumentError{Field: "limit", Problem: "is not from 1 to 10,000"}
	}
	return nil
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

// MessageRecord is how a [actor.Message] is stored, in a [SpecRecord]. All actors are of the
// receiver's app.
type MessageRecord struct {
	From        ActorRecord   `json:"from,omitzero"`
	By          ActorRecord   `json:"by,omitzero"`
	Undelivered string        `json:"undelivered,omitempty"`
	Forward     ActorRecord   `json:"forward,omitzero"`
	Path        []ActorRecord `json:"path,omitempty"`
	Failed      string        `json:"failed,omitempty"`
	Cookie      uint64        `json:"cookie,omitempty"`
}

// ActorRecord names an actor of an app that is known; zero: none.
type ActorRecord struct {
	Type string `json:"type"`
	ID   string `json:"id"`
}

func (r ActorRecord) key(app string) actor.Key {
	if r == (ActorRecord{}) {
		return actor.Key{}
	}
	return actor.Key{App: app, Type: r.Type, ID: r.ID}
}

func actorRecordOf(k actor.Key) ActorRecord { return ActorRecord{k.Type, k.ID} }

// messageRecordOf returns how m is stored; nil for none.
func messageRecordOf(m *actor.Message) *MessageRecord {
	if m == nil {
		return nil
	}
	r := &MessageRecord{
		From: actorRecordOf(m.From), By: actorRecordOf(m.By), Undelivered: m.Undelivered, Forward: actorRecordOf(m.Forward), Failed: m.Failed, Cookie: m.Cookie,
	}
	for _, k := range m.Path {
		r.Path = append(r.Path, actorRecordOf(k))
	}
	return r
}

// message returns what was stored of a message to an actor of an app.
func (r *MessageRecord) message(app string) *actor.Message {
	if r == nil {
		return nil
	}
	m := &actor.Message{
		From: r.From.key(app), By: r.By.key(app), Undelivered: r.Undelivered, Forward: r.Forward.key(app), Failed: r.Failed, Cookie: r.Cookie,
	}
	for _, k := range r.Path {
		m.Path = append(m.Path, k.key(app))
	}
	return m
}

// OrderRange is a range of names of one actor's messages. A commit with an ordered step is
// refused while a message is in one of its ranges.
type OrderRange struct {
	Key  actor.Key
	From string // inclusive
	To   string // exclusive
}

// OrderRanges returns the ranges of the ordered steps of a commit, for drivers: from the first
// possible message of the sender, or from where o knows that the messages before are gone, and
// without the messages that the commit removes itself.
func (o *Order) OrderRanges(ops []ReminderOp) (ranges []OrderRange) {
	for i := range ops {
		op := &ops[i]
		if op.Step == nil || !op.Step.Ordered || op.Deleted {
			continue
		}
		r := OrderRange{Key: op.Key, From: o.first(op.ReminderName), To: op.Name}
		for _, name := range removedBetween(ops, &r) {
			ranges = append(ranges, OrderRange{Key: op.Key, From: r.From, To: name})
			r.From = name + "\x01" // above the name, and below any other: they have one length
		}
		ranges = append(ranges, r)
	}
	return ranges
}

// removedBetween returns the names in a range that a commit removes, in order.
func removedBetween(ops []ReminderOp, r *OrderRange) (names []string) {
	if len(ops) == 1 { // as good as always
		return nil
	}
	for i := range ops {
		if op := &ops[i]; op.Key == r.Key && op.Set == nil && op.Then == nil && r.From <= op.Name && op.Name < r.To {
			names = append(names, op.Name)
		}
	}
	slices.Sort(names)
	return names
}

// Order knows how far the ordered messages of senders to receivers are consumed, for drivers:
// what a commit applied before which there was no message, no later commit need look for. That
// spares a scan over what a database keeps of rows that are gone. It may forget, and other
// processes need not know: messages of one sender to one receiver are set in the order of
// their names, so what is gone stays gone. Its methods may be called concurrently.
type Order struct{ consumed *lru.Cache[pair, string] }

// pair is a receiver and what the names of one sender's messages to it begin with.
type pair struct {
	to     actor.Key
	sender string
}

// orderKnown is how many pairs are remembered, at some 300 bytes each.
const orderKnown = 1 << 14

// NewOrder returns an Order that knows nothing.
func NewOrder() *Order {
	c, _ := lru.New[pair, string](orderKnown) // fails for sizes below 1 alone
	return &Order{c}
}

// first returns the name from which an earlier message may be there.
func (o *Order) first(n actor.ReminderName) string {
	sender, _ := actor.SenderOfOrdered(n.Name)
	// A sender whose row was removed and made anew may have begun at a lower version.
	if known, ok := o.consumed.Get(pair{n.Key, sender}); ok && known <= n.Name {
		return known
	}
	return sender
}

// Applied notes the ordered steps of a commit that is durable.
func (o *Order) Applied(c *actor.Commit) {
	for i := range c.Reminders.Steps {
		if s := &c.Reminders.Steps[i]; s.Ordered {
			sender, _ := actor.SenderOfOrdered(s.Name)
			o.consumed.Add(pair{s.Key, sender}, s.Name)
		}
	}
}
