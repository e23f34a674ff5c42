package actortest

import (
	"bytes"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/guest-sdk/go/actor"
)

// Message is one that was sent and that nobody has consumed yet.
type Message struct {
	// From is the sender; zero: the test itself. By sent it on From's behalf; zero: From.
	From, By actor.Ref
	To       actor.Ref
	Method   string
	In       actor.Payload
	// Due is when it is due: when it was sent, or later.
	Due time.Time
	// DeliverAt is when it is delivered: Due, or later after a failure.
	DeliverAt time.Time
	// Failures counts the failed deliveries.
	Failures int
	Cookie   uint64
	// Failed is the code of the last failure of a message that comes back to its sender.
	// From is then the actor that did not consume it.
	Failed string
	// Volatile is true for a message of [actor.Tell].
	Volatile bool
}

// Sent returns the messages that nobody has consumed yet, in the order in which they were
// sent.
func (h *Harness) Sent() []Message {
	var list []Message
	for _, m := range h.inbox {
		list = append(list, m.exported())
	}
	return list
}

// Send sends a message from outside, as a client does. It fails the test if there is no such
// method that a message can run.
func (h *Harness) Send(typ, id, method string, in any) {
	h.t.Helper()
	payload, err := encodePayload(in)
	if err != nil {
		h.t.Fatalf("actortest: send %s.%s: the input has no JSON form: %v", typ, method, err)
	}
	m := &message{Message: abi.Message{Method: method, ContentType: payload.ContentType, Payload: payload.Data}, to: actor.Ref{Type: typ, ID: id}}
	problem := receiverProblem(h, m.to, method)
	if spec, err := h.method(typ, method); err == nil && spec.Private {
		problem = "the method " + method + " of " + typ + " is private"
	}
	if problem != "" {
		h.t.Fatalf("actortest: send %s.%s: %s", typ, method, problem)
	}
	m.post(h)
}

// Deliver delivers the messages and events that are due now, those that their turns send included, and
// returns how many deliveries it made. A delivery that fails is repeated later, as the
// receiver's [actor.MessagePolicy] says: [Harness.Advance] delivers messages as well. What a
// fake stands for is delivered to the fake.
func (h *Harness) Deliver() int {
	h.t.Helper()
	if h.chain != nil {
		h.t.Fatal("actortest: Deliver while a turn runs; messages are sent when it has committed")
	}
	for delivered := 0; ; delivered++ {
		m := h.nextMessage(h.now, func(m *message) bool { return waitsOutside(h, m) })
		s, _ := nextEvent(h, h.now)
		switch {
		case m == nil && s == nil:
			return delivered
		case delivered == maxFirings && m == nil:
			h.t.Fatalf("actortest: Deliver has delivered %d messages and events, last to %s; mend actors that answer each event with another", delivered, s.by)
		case m == nil:
			s.deliver(h)
			continue
		case delivered == maxFirings:
			h.t.Fatalf("actortest: Deliver has delivered %d messages, last %s to %s; mend actors that answer each message with another, or give one a Delay", delivered, m.Method, m.to)
		}
		m.deliver(h)
	}
}

// message is one of an inbox.
type message struct {
	abi.Message // owns its bytes; names no service
	from, by    actor.Ref
	to          actor.Ref
	sent        time.Time
	due         time.Time
	deliverAt   time.Time
	order       uint64 // in which messages, reminders and timers were set
	failures    uint32
	path        []actor.Ref // that it was forwarded from
	returned    bool        // to the sender, with failed
	failed      string
	notice      bool // of a watch of from, which is a service or a group if it has no type; failed says why it has ended
}

// ordered reports whether the message waits for those of its sender that came before it.
func (m *message) ordered() bool {
	return m.from.Type != "" && m.DelayNano == 0 && m.DueUnixNano == 0 && !m.returned && len(m.path) == 0
}

func (m *message) volatile() bool { return m.Flags&abi.MessageVolatile != 0 }

func (m *message) exported() Message {
	return Message{
		From: m.from, By: m.by, To: m.to, Method: m.Method, In: m.input(), Due: m.due, DeliverAt: m.deliverAt,
		Failures: int(m.failures), Cookie: m.Cookie, Failed: m.failed, Volatile: m.volatile(),
	}
}

func (m *message) input() actor.Payload {
	return actor.Payload{ContentType: m.ContentType, Data: m.Payload}
}

// post puts a message into its receiver's inbox.
func (m *message) post(h *Harness) {
	m.sent, m.due = h.now, h.now.Add(time.Duration(m.DelayNano))
	if at := time.Unix(0, m.DueUnixNano).UTC(); m.DueUnixNano != 0 && at.After(h.now) {
		m.due = at
	}
	h.reminded++
	m.deliverAt, m.order = m.due, h.reminded
	h.inbox = append(h.inbox, m)
}

const (
	defaultAttempts = 25
	defaultInterval = 200 * time.Millisecond
	defaultLongest  = 5 * time.Minute
	defaultMaxAge   = 3 * 24 * time.Hour
)

// deliver runs the turn of a message.
func (m *message) deliver(h *Harness) {
	policy := h.types[m.to.Type].Messages
	at := slices.Index(h.inbox, m)
	h.inbox = slices.Delete(h.inbox, at, at+1)
	if h.now.Sub(m.due) > durationOr(policy.AgeMillis, defaultMaxAge) {
		m.undelivered(h, actor.NewError(actor.StatusDeadlineExceeded, "message_too_old", "the message is older than it may be"))
		return
	}
	err := m.consume(h)
	if err == nil {
		return
	}
	if m.failures++; m.volatile() {
		h.comesBack(m, err)
		return
	}
	h.t.Logf("%s: message %s, try %d: %v", m.to, m.Method, m.failures, err)
	if int(m.failures) >= limitOr(int64(policy.Attempts), defaultAttempts) {
		m.undelivered(h, err)
		return
	}
	wait := durationOr(policy.IntervalMillis, defaultInterval)
	longest := max(wait, durationOr(policy.MaxMillis, defaultLongest))
	for range m.failures - 1 {
		wait = min(2*wait, longest)
	}
	m.deliverAt = h.now.Add(wait)
	after, _ := slices.BinarySearchFunc(h.inbox, m, func(a, b *message) int { return int(a.order) - int(b.order) })
	h.inbox = slices.Insert(h.inbox, after, m)
}

func durationOr(millis int64, otherwise time.Duration) time.Duration {
	if millis == 0 {
		return otherwise
	}
	return time.Duration(millis) * time.Millisecond
}

// consume has a fake or a turn of the receiver take a message.
func (m *message) consume(h *Harness) error {
	if f := h.fakes[method{m.to.Type, m.Method}]; f != nil {
		_, err := f.answer(m.to.ID, actor.Payload{ContentType: m.ContentType, Data: bytes.Clone(m.Payload)})
		return err
	}
	by := &cause{kind: abi.CauseMessage, due: m.sent, attempt: m.failures + 1, message: m}
	switch {
	case m.notice && m.from.Type == "":
		by.kind, by.name = abi.CauseServices, m.from.ID
	case m.notice:
		by.kind = abi.CauseDisconnected
	case m.returned:
		by.kind = abi.CauseUndelivered
	}
	_, err := h.invoke(m.to, m.Method, m.input(), by)
	return err
}

// undelivered sends a message on that nobody has consumed, or back, and keeps it as a dead
// letter.
func (m *message) undelivered(h *Harness, err error) {
	if forward := (actor.Ref{Type: m.ForwardType, ID: m.ForwardID}); forward.Type != "" && forward != m.to && !slices.Contains(m.path, forward) {
		again := *m
		again.to, again.path, again.failures = forward, append(slices.Clone(m.path), m.to), 0
		again.DelayNano, again.DueUnixNano = 0, 0
		again.post(h)
		return
	}
	dead := m.exported()
	h.dead = append(h.dead, DeadLetter{Message: &dead, Err: err, At: h.now})
	h.comesBack(m, err)
}

// comesBack sends a message back to its sender, if that has asked for it.
func (h *Harness) comesBack(m *message, err error) {
	if m.Undelivered == "" || m.returned {
		return
	}
	back := &message{
		Message: abi.Message{Method: m.Undelivered, ContentType: m.ContentType, Payload: m.Payload, Cookie: m.Cookie, Flags: m.Flags},
		from:    m.to, to: m.from, returned: true, failed: codeOf(err),
	}
	back.post(h)
}

// codeOf is the code of a failure, as a sender gets it.
func codeOf(err error) string {
	var e *actor.Error
	if errors.As(err, &e) && e.Code != "" {
		return e.Code
	}
	return "guest_error"
}

// Bounds of abi/SPEC.md section 5, Messages.
const (
	maxMessages     = 256
	maxMessageBytes = 1 << 20
	maxMessage      = 64 << 10
	maxInbox        = 10_000
)

// receiverProblem says why a method cannot take messages, empty if it can.
func receiverProblem(h *Harness, to actor.Ref, name string) string {
	if to.Type == "" || to.ID == "" || name == "" {
		return "a message needs a type, an ID and a method"
	}
	spec, err := h.method(to.Type, name)
	if fake := h.fakes[method{to.Type, name}]; fake != nil && err != nil {
		spec, err = abi.MethodSpec{ReadOnly: fake.readOnly}, nil
	}
	switch {
	case err != nil:
		return err.(*actor.Error).Message
	case spec.ReadOnly:
		return "the method " + name + " of " + to.Type + " is read-only; a message runs one that may change the actor"
	}
	return ""
}

// send takes a message frame of an actor whose turn runs, and returns why it cannot be.
func (c *chain) send(from actor.Ref, o *overlay, frame []byte) (abi.Code, string) {
	h := c.harness
	m := &message{from: from}
	if err := abi.DecodeMessage(bytes.Clone(frame), &m.Message); err != nil {
		return abi.CodeInvalid, err.Error()
	}
	m.to = actor.Ref{Type: m.Type, ID: m.ID}
	if m.Service != "" {
		to, found := c.service(m.Service)
		switch {
		case m.Type != "" || m.ID != "":
			return abi.CodeInvalid, "the message names a service and an actor; give one of them"
		case !found:
			return abi.CodeNotFound, "no actor stands for the service " + strconv.Quote(m.Service)
		}
		m.to = to
	}
	if m.OnBehalfType != "" {
		m.from, m.by = actor.Ref{Type: m.OnBehalfType, ID: m.OnBehalfID}, from
	}
	if !m.volatile() && isChild(from) {
		return abi.CodeNoState, "a volatile child has nothing in the store; have its parent do it"
	}
	problem := untold(h, from, m.to)
	switch {
	case problem != "":
	case isChild(from) && m.OnBehalfType != "":
		problem = "a volatile child sends messages for itself alone"
	case !m.volatile() && isChild(m.to):
		problem = "a volatile child takes no durable message; send a volatile one"
	}
	if problem == "" && !m.volatile() { // otherwise it is undelivered
		problem = receiverProblem(h, m.to, m.Method)
	}
	size := len(m.Payload) + len(m.ContentType) + len(m.Method) + len(m.to.ID)
	waiting := 0
	for _, list := range [][]*message{h.inbox, c.sent} {
		for _, other := range list {
			if other.to == m.to {
				waiting++
			}
		}
	}
	switch {
	case problem != "":
	case m.Flags&^abi.MessageVolatile != 0 || m.LimitMillis != 0:
		problem = "only calls are atomic or have a timeout"
	case m.volatile() && (m.Service != "" || m.ForwardType != ""):
		problem = "a volatile message is sent to an actor, and is not forwarded"
	case !m.volatile() && m.Channel != 0:
		problem = "only volatile messages have a channel"
	case m.DelayNano < 0:
		problem = "the delay is below zero"
	case m.DelayNano != 0 && m.DueUnixNano != 0:
		problem = "the message has a delay and a time; give one of them"
	case m.Undelivered != "":
		if problem = receiverProblem(h, m.from, m.Undelivered); problem != "" {
			problem = "undelivered: " + problem
		}
	}
	if problem == "" && m.ForwardType != "" {
		if problem = receiverProblem(h, actor.Ref{Type: m.ForwardType, ID: m.ForwardID}, m.Method); problem != "" {
			problem = "forward: " + problem
		}
	}
	switch {
	case problem != "":
		return abi.CodeInvalid, problem
	case len(m.Payload) > maxMessage && !m.volatile():
		return abi.CodeTooLarge, "the input has " + strconv.Itoa(len(m.Payload)) + " bytes; at most " + strconv.Itoa(maxMessage) + " are allowed"
	case o.sent == maxMessages:
		return abi.CodeTooMany, "a turn sends at most " + strconv.Itoa(maxMessages) + " messages"
	case o.sentBytes+size > maxMessageBytes:
		return abi.CodeTooLarge, "the messages of this turn have more than " + strconv.Itoa(maxMessageBytes) + " bytes; keep the data in the state, and name it in the message"
	case waiting >= maxInbox:
		return abi.CodeFull, "the inbox of " + m.to.String() + " has " + strconv.Itoa(maxInbox) + " messages, which is as many as it may"
	}
	o.sent++
	o.sentBytes += size
	c.sent = append(c.sent, m)
	return 0, ""
}

// service returns the actor that stands for a service, as the chain sees it.
func (c *chain) service(name string) (actor.Ref, bool) {
	ref, changed := c.services[name]
	if !changed {
		ref = c.harness.services[strings.Clone(name)]
	}
	return ref, ref.Type != ""
}
