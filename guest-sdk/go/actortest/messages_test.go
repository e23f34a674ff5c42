package actortest_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/guest-sdk/go/actor"
	"github.com/greenroom-run/greenroom/guest-sdk/go/actortest"
)

// Depot receives messages.
type Depot struct {
	Got    []string `json:"got"`
	Closed bool     `json:"closed"`
}

// Take notes what came, and from whom.
func (d *Depot) Take(ctx *actor.Context, item string) (actor.None, error) {
	if d.Closed {
		return actor.None{}, actor.Errorf("closed", "no %s", item)
	}
	c := ctx.Cause()
	d.Got = append(d.Got, fmt.Sprintf("%s %s from %s by %s cookie %d try %d", c.Kind, item, c.From, c.By, c.Cookie, c.Attempt))
	return actor.None{}, nil
}

func (d *Depot) Close(_ *actor.Context, closed bool) (actor.None, error) {
	d.Closed = closed
	return actor.None{}, nil
}

// Serve has the depot stand for a service.
func (d *Depot) Serve(ctx *actor.Context, name string) (actor.None, error) {
	return actor.None{}, actor.Claim(ctx, name)
}

func (d *Depot) Unserve(ctx *actor.Context, name string) (bool, error) {
	return actor.Release(ctx, name)
}

// Shop sends messages.
type Shop struct {
	Back []string `json:"back"`
}

// order is what Shop.Send sends.
type order struct {
	To      actor.Ref
	Items   []string
	Delay   time.Duration
	At      time.Time
	Forward string
	Refuse  bool
}

var take = actor.Remote[string, actor.None]{Type: "Depot", Method: "Take"}

func (s *Shop) Send(ctx *actor.Context, o order) (actor.None, error) {
	for i, item := range o.Items {
		options := []actor.SendOption{actor.OnUndelivered("Lost"), actor.Cookie(uint64(i + 1))}
		if o.Delay != 0 {
			options = append(options, actor.Delay(o.Delay))
		}
		if !o.At.IsZero() {
			options = append(options, actor.At(o.At))
		}
		if o.Forward != "" {
			options = append(options, actor.Forward(actor.Ref{Type: "Depot", ID: o.Forward}))
		}
		if err := actor.Send(ctx, o.To, "Take", item, options...); err != nil {
			return actor.None{}, err
		}
	}
	if o.Refuse {
		return actor.None{}, actor.Errorf("refused", "on purpose")
	}
	return actor.None{}, nil
}

func (s *Shop) Agent(ctx *actor.Context, of string) (actor.None, error) {
	return actor.None{}, take.Send(ctx, "north", "tea", actor.OnBehalf(actor.Ref{Type: "Shop", ID: of}), actor.OnUndelivered("Lost"))
}

// Nested sends, and has another shop send in a call that fails.
func (s *Shop) Nested(ctx *actor.Context, o order) (actor.None, error) {
	if err := take.Send(ctx, "north", "before"); err != nil {
		return actor.None{}, err
	}
	o.Refuse = true
	if _, err := actor.Call[actor.None](ctx, actor.Ref{Type: "Shop", ID: "other"}, "Send", o); err == nil {
		return actor.None{}, errors.New("not refused")
	}
	return actor.None{}, take.Send(ctx, "north", "after")
}

// Lost gets back what nobody consumed.
func (s *Shop) Lost(ctx *actor.Context, item string) (actor.None, error) {
	c := ctx.Cause()
	s.Back = append(s.Back, fmt.Sprintf("%s %s not to %s cookie %d: %s", c.Kind, item, c.From, c.Cookie, c.Failed))
	return actor.None{}, nil
}

// Wrong sends what cannot be.
func (s *Shop) Wrong(ctx *actor.Context, how string) (actor.None, error) {
	to, method, in, options := actor.Ref{Type: "Depot", ID: "d"}, "Take", any("x"), []actor.SendOption(nil)
	switch how {
	case "type":
		to.Type = "Nobody"
	case "no ID":
		to.ID = ""
	case "method":
		method = "Fly"
	case "read-only":
		method = "Look"
	case "payload":
		in = strings.Repeat("x", 65536)
	case "undelivered":
		options = append(options, actor.OnUndelivered("Fly"))
	case "forward":
		options = append(options, actor.Forward(actor.Ref{Type: "Nobody", ID: "d"}))
	case "delay":
		options = append(options, actor.Delay(-1))
	case "late":
		options = append(options, actor.At(time.Date(2300, 1, 1, 0, 0, 0, 0, time.UTC)))
	case "service":
		to = actor.Service("nobody")
	case "many":
		for range 257 {
			if err := actor.Send(ctx, to, method, in); err != nil {
				return actor.None{}, err
			}
		}
	case "bytes":
		for range 17 {
			if err := actor.Send(ctx, to, method, strings.Repeat("x", 65000)); err != nil {
				return actor.None{}, err
			}
		}
	}
	return actor.None{}, actor.Send(ctx, to, method, in, options...)
}

func (s *Shop) Peek(ctx *actor.Context, _ actor.None) (actor.None, error) {
	return actor.None{}, take.Send(ctx, "d", "x")
}

func init() {
	actor.Register("Depot", actor.MessagePolicy{Attempts: 3, Interval: time.Second, Longest: 2 * time.Second, MaxAge: time.Hour},
		actor.Method("Take", (*Depot).Take, actor.Private()), actor.Method("Close", (*Depot).Close),
		actor.Method("Serve", (*Depot).Serve), actor.Method("Unserve", (*Depot).Unserve),
		actor.ReadOnly("Look", func(d *Depot, _ *actor.Context, _ actor.None) ([]string, error) { return d.Got, nil }))
	actor.Register("Shop", actor.Method("Send", (*Shop).Send), actor.Method("Agent", (*Shop).Agent), actor.Method("Nested", (*Shop).Nested),
		actor.Method("Lost", (*Shop).Lost, actor.Private()), actor.Method("Wrong", (*Shop).Wrong), actor.ReadOnly("Peek", (*Shop).Peek))
}

func do(t *testing.T, h *actortest.Harness, typ, id, method string, in any) {
	t.Helper()
	if err := h.Call(typ, id, method, in, nil); err != nil {
		t.Fatalf("%s.%s: %v", typ, method, err)
	}
}

func stock(t *testing.T, h *actortest.Harness, id string) []string {
	t.Helper()
	var got []string
	if err := h.Call("Depot", id, "Look", nil, &got); err != nil {
		t.Fatal(err)
	}
	return got
}

func wantList(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

var north = actor.Ref{Type: "Depot", ID: "north"}

func TestMessagesArriveOnceAndInOrder(t *testing.T) {
	h := actortest.New(t)
	do(t, h, "Shop", "a", "Send", order{To: north, Items: []string{"tea", "milk"}})
	do(t, h, "Shop", "b", "Agent", "c")
	if err := h.Call("Shop", "a", "Send", order{To: north, Items: []string{"salt"}, Refuse: true}, nil); err == nil {
		t.Fatal("not refused")
	}
	h.Send("Depot", "north", "Close", false)
	if sent := h.Sent(); len(sent) != 4 || sent[0].From.ID != "a" || sent[0].To != north || string(sent[1].In.Data) != `"milk"` || sent[2].By.ID != "b" || sent[3].From.Type != "" {
		t.Errorf("sent %+v", sent)
	}
	wantList(t, "before", stock(t, h, "north"))
	if n := h.Deliver(); n != 4 || len(h.Sent()) != 0 || h.Deliver() != 0 {
		t.Errorf("delivered %d, left %v", n, h.Sent())
	}
	wantList(t, "after", stock(t, h, "north"),
		"message tea from Shop||a by service|| cookie 1 try 1", "message milk from Shop||a by service|| cookie 2 try 1",
		"message tea from Shop||c by Shop||b cookie 0 try 1")
}

func TestMessageThatFailsHoldsBackItsSendersLaterOnes(t *testing.T) {
	h := actortest.New(t)
	do(t, h, "Depot", "north", "Close", true)
	do(t, h, "Shop", "a", "Send", order{To: north, Items: []string{"tea"}})
	if n := h.Deliver(); n != 1 || h.Sent()[0].Failures != 1 || h.Sent()[0].DeliverAt != h.Now().Add(time.Second) {
		t.Fatalf("delivered %d, left %+v", n, h.Sent())
	}
	do(t, h, "Depot", "north", "Close", false)
	do(t, h, "Shop", "a", "Send", order{To: north, Items: []string{"milk"}})
	do(t, h, "Shop", "b", "Send", order{To: north, Items: []string{"salt"}})
	do(t, h, "Shop", "a", "Send", order{To: north, Items: []string{"late"}, Delay: 10 * time.Second})
	if n := h.Deliver(); n != 1 {
		t.Fatalf("delivered %d", n)
	}
	h.Advance(5 * time.Second)
	h.Advance(5 * time.Second)
	wantList(t, "order", stock(t, h, "north"),
		"message salt from Shop||b by service|| cookie 1 try 1", "message tea from Shop||a by service|| cookie 1 try 2",
		"message milk from Shop||a by service|| cookie 1 try 1", "message late from Shop||a by service|| cookie 1 try 1")
}

func TestUndeliveredMessages(t *testing.T) {
	h := actortest.New(t)
	do(t, h, "Depot", "north", "Close", true)
	do(t, h, "Shop", "a", "Send", order{To: north, Items: []string{"tea"}})
	do(t, h, "Shop", "a", "Send", order{To: north, Items: []string{"milk"}, Forward: "south"})
	do(t, h, "Depot", "south", "Close", true)
	h.Advance(time.Minute)
	var back []string
	for key, value := range h.State("Shop", "a") {
		back = append(back, key+" "+value)
	}
	wantList(t, "back", back, `back ["undelivered tea not to Depot||north cookie 1: closed","undelivered milk not to Depot||south cookie 1: closed"]`)
	if dead := h.DeadLetters(); len(dead) != 2 || dead[0].Message.Failures != 3 || dead[1].Message.To.ID != "south" || dead[1].Err == nil {
		t.Errorf("dead letters %+v", dead)
	}
	// A message that comes back to a receiver it was at is undelivered: the forward loop ends.
	do(t, h, "Shop", "a", "Send", order{To: north, Items: []string{"loop"}, Forward: "north"})
	h.Advance(time.Minute)
	// One that is too old is not delivered.
	do(t, h, "Shop", "b", "Send", order{To: north, Items: []string{"old"}, At: h.Now().Add(time.Minute)})
	h.Advance(2 * time.Hour)
	if got := h.State("Shop", "b")["back"]; len(h.DeadLetters()) != 4 || len(h.Sent()) != 0 || !strings.Contains(got, "closed") {
		t.Errorf("got %s, dead letters %+v, left %+v", got, h.DeadLetters(), h.Sent())
	}
}

func TestMessageThatWaitsTooLongIsUndelivered(t *testing.T) {
	h := actortest.New(t)
	patient := 0
	h.Fake("Slow", "Do", func(string, actor.Payload) (any, error) { patient++; return nil, errors.New("not now") })
	h.Send("Slow", "s", "Do", 1)
	h.Advance(4 * 24 * time.Hour)
	// 25 attempts: 200 ms, twice as long each time up to 5 minutes.
	if len(h.DeadLetters()) != 1 || patient != 25 || h.DeadLetters()[0].Message.Failures != 25 {
		t.Errorf("%d tries, dead letters %+v", patient, h.DeadLetters())
	}
}

func TestFailedCallSendsNothing(t *testing.T) {
	h := actortest.New(t)
	do(t, h, "Shop", "a", "Nested", order{To: north, Items: []string{"tea"}})
	var sent []string
	for _, m := range h.Sent() {
		sent = append(sent, string(m.In.Data))
	}
	wantList(t, "sent", sent, `"before"`, `"after"`)
}

func TestFakesTakeMessages(t *testing.T) {
	h := actortest.New(t)
	var got []string
	h.Fake("Depot", "Take", func(id string, in actor.Payload) (any, error) {
		got = append(got, id+" "+string(in.Data))
		if len(got) == 1 {
			return nil, errors.New("not yet")
		}
		return nil, nil
	})
	do(t, h, "Shop", "a", "Send", order{To: north, Items: []string{"tea", "milk"}})
	h.Deliver()
	h.Advance(time.Second)
	wantList(t, "fake", got, `north "tea"`, `north "tea"`, `north "milk"`)
}

func TestServices(t *testing.T) {
	h := actortest.New(t)
	do(t, h, "Depot", "north", "Serve", "shipping")
	do(t, h, "Depot", "north", "Serve", "shipping")
	if err := h.Call("Depot", "south", "Serve", "shipping", nil); !errors.Is(err, actor.ErrTaken) {
		t.Errorf("a second claim: %v", err)
	}
	do(t, h, "Shop", "a", "Send", order{To: actor.Service("shipping"), Items: []string{"tea"}})
	if sent := h.Sent(); len(sent) != 1 || sent[0].To != north {
		t.Errorf("sent %+v", sent)
	}
	var held bool
	if err := h.Call("Depot", "south", "Unserve", "shipping", &held); err != nil || held {
		t.Errorf("released %t, %v", held, err)
	}
	if err := h.Call("Depot", "north", "Unserve", "shipping", &held); err != nil || !held {
		t.Errorf("released %t, %v", held, err)
	}
	if ref, found := h.Service("shipping"); found {
		t.Errorf("%v stands for the service", ref)
	}
	err := h.Call("Depot", "north", "Serve", strings.Repeat("s", 257), nil)
	if e := (*actor.Error)(nil); !errors.As(err, &e) || e.Code != "invalid_service" {
		t.Errorf("a long name: %v", err)
	}
}

func TestMessagesThatCannotBe(t *testing.T) {
	h := actortest.New(t)
	for how, want := range map[string]string{
		"type": `no actor type "Nobody"`, "no ID": "needs a type", "method": `no method "Fly"`, "read-only": "is read-only",
		"undelivered": `undelivered: actor type Shop has no method "Fly"`, "forward": "forward: no actor type", "delay": "below zero", "late": "before 2262",
	} {
		err := h.Call("Shop", "a", "Wrong", how, nil)
		var e *actor.Error
		if !errors.Is(err, actor.ErrInvalidMessage) || !errors.As(err, &e) || !strings.Contains(e.Message, want) {
			t.Errorf("%s: %v, want %q", how, err, want)
		}
	}
	for how, want := range map[string]error{"service": actor.ErrServiceNotFound, "many": actor.ErrTooMany, "payload": actor.ErrTooLarge, "bytes": actor.ErrTooLarge} {
		if err := h.Call("Shop", "a", "Wrong", how, nil); !errors.Is(err, want) {
			t.Errorf("%s: %v", how, err)
		}
	}
	if err := h.Call("Shop", "a", "Peek", nil, nil); !errors.Is(err, actor.ErrReadOnly) {
		t.Errorf("in a read-only method: %v", err)
	}
	if len(h.Sent()) != 0 {
		t.Errorf("sent %v", h.Sent())
	}
}
