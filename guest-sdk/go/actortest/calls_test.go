package actortest_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/guest-sdk/go/actor"
	"github.com/greenroom-run/greenroom/guest-sdk/go/actortest"
)

// Payer calls other actors.
type Payer struct {
	Paid int `json:"paid"`
}

var deposit = actor.Remote[int, int]{Type: "Account", Method: "Deposit"}

// Pay deposits at another account, and takes it as paid if that worked.
func (p *Payer) Pay(ctx *actor.Context, amount int) (int, error) {
	p.Paid += amount
	return deposit.Call(ctx, "bob", amount)
}

// Own deposits at another account, in any way and in one transaction, and replies with whether that
// was committed on its own.
func (p *Payer) Own(ctx *actor.Context, amount int) (own [2]bool, err error) {
	own[1] = true
	_, first := deposit.Call(ctx, "bob", amount, actor.Committed(&own[0]))
	_, second := deposit.Call(ctx, "bob", amount, actor.Committed(&own[1]), actor.Atomic())
	if !errors.Is(second, actor.ErrNotAtomic) {
		return own, errors.Join(first, second)
	}
	unsent := true
	if _, err := actor.Call[int](ctx, actor.Ref{Type: "Account", ID: "bob"}, "Deposit", make(chan int), actor.Committed(&unsent)); err == nil || unsent {
		return own, fmt.Errorf("a call without a payload was committed: %t, %v", unsent, err)
	}
	return own, nil
}

// Check calls in a read-only method.
func (p *Payer) Check(ctx *actor.Context, method string) (int, error) {
	return actor.Call[int](ctx, actor.Ref{Type: "Ledger", ID: "bob"}, method, 1)
}

// Peek calls in a read-only method.
func (p *Payer) Peek(ctx *actor.Context, _ actor.None) (int, error) {
	return deposit.Call(ctx, "bob", 1)
}

// Crash panics, after a change.
func (p *Payer) Crash(*actor.Context, actor.None) (actor.None, error) {
	p.Paid = 1000
	panic("on purpose")
}

// Split adds amounts to ledgers, each of them if it is even.
func (p *Payer) Split(ctx *actor.Context, to map[string]int) (int, error) {
	for _, id := range slices.Sorted(maps.Keys(to)) {
		if _, err := actor.Call[int](ctx, actor.Ref{Type: "Ledger", ID: id}, "Add", to[id]); err == nil {
			p.Paid += to[id]
		}
	}
	if p.Paid > 100 {
		return 0, actor.Errorf("too_much", "%d", p.Paid)
	}
	return p.Paid, nil
}

// Down calls itself, with another ID, until it is refused.
func (p *Payer) Down(ctx *actor.Context, depth int) (int, error) {
	p.Paid = depth
	return actor.Call[int](ctx, actor.Ref{Type: "Payer", ID: strconv.Itoa(depth)}, "Down", depth+1)
}

// Many touches so many ledgers.
func (p *Payer) Many(ctx *actor.Context, n int) (actor.None, error) {
	for i := range n {
		if _, err := actor.Call[int](ctx, actor.Ref{Type: "Ledger", ID: strconv.Itoa(i)}, "Sum", nil); err != nil {
			return actor.None{}, err
		}
	}
	return actor.None{}, nil
}

// Loop calls itself back.
type Loop struct {
	Trace string `json:"trace"`
	Count int    `json:"count"`
	label string
}

// Start calls Inner of the same actor, or another method.
func (l *Loop) Start(ctx *actor.Context, method string) (string, error) {
	l.label, l.Trace = "kept", l.Trace+"("
	n, err := actor.Call[int](ctx, ctx.Self(), method, nil)
	if err != nil {
		l.Trace += "!" + err.(*actor.Error).Code
	} else {
		l.Trace += ")" + strconv.Itoa(n) + l.label
	}
	l.Count++
	return l.Trace, nil
}

// Wipe deletes the state before.
func (l *Loop) Wipe(ctx *actor.Context, method string) (string, error) {
	if _, err := ctx.State().DeleteAll(); err != nil {
		return "", err
	}
	return l.Start(ctx, method)
}

// Inner may be called back.
func (l *Loop) Inner(ctx *actor.Context, _ actor.None) (int, error) {
	l.Trace, l.Count = l.Trace+".", l.Count+10
	return l.Count, nil
}

// Refuse may be called back, and takes back what it did.
func (l *Loop) Refuse(ctx *actor.Context, _ actor.None) (int, error) {
	l.Trace, l.Count = l.Trace+".", l.Count+10
	return 0, actor.Errorf("no", "no")
}

// Peek is read-only.
func (l *Loop) Peek(*actor.Context, actor.None) (int, error) { return l.Count, nil }

// Ledger is what is called.
type Ledger struct {
	Sum int `json:"sum"`
}

// Total is read-only.
func (l *Ledger) Total(*actor.Context, actor.None) (int, error) { return l.Sum, nil }

// Add adds an amount, which is even.
func (l *Ledger) Add(ctx *actor.Context, amount int) (int, error) {
	l.Sum += amount
	err := errors.Join(
		actor.SetReminder(ctx, actor.Reminder{Name: "audit", Method: "Audit", Every: time.Minute, Times: 1}),
		actor.SetTimer(ctx, actor.Timer{Name: "audit", Method: "Audit", After: time.Second}),
	)
	if err != nil {
		return 0, err
	}
	if amount%2 != 0 {
		return 0, actor.Errorf("odd", "%d is odd", amount)
	}
	if c := ctx.Cause(); c.Kind != actor.CauseActor || c.From != (actor.Ref{Type: "Payer", ID: "a"}) {
		return 0, actor.Errorf("bad_cause", "%+v", c)
	}
	return l.Sum, nil
}

// Audit is what reminders and timers run.
func (l *Ledger) Audit(*actor.Context, actor.None) (actor.None, error) {
	l.Sum += 1000
	return actor.None{}, nil
}

// Ask calls a method, and returns its error.
func (p *Payer) Ask(ctx *actor.Context, to [3]string) (actor.None, error) {
	return actor.Call[actor.None](ctx, actor.Ref{Type: to[0], ID: to[1]}, to[2], nil)
}

func init() {
	actor.Register("Ledger", actor.Method("Add", (*Ledger).Add), actor.Method("Audit", (*Ledger).Audit, actor.Private()), actor.ReadOnly("Sum", (*Ledger).Total))
	actor.Register("Payer", actor.Method("Pay", (*Payer).Pay), actor.Method("Own", (*Payer).Own), actor.Method("Ask", (*Payer).Ask), actor.ReadOnly("Check", (*Payer).Check), actor.ReadOnly("Peek", (*Payer).Peek), actor.Method("Crash", (*Payer).Crash),
		actor.Method("Split", (*Payer).Split), actor.Method("Down", (*Payer).Down), actor.Method("Many", (*Payer).Many))
	actor.Register("Loop", actor.Method("Start", (*Loop).Start), actor.Method("Wipe", (*Loop).Wipe), actor.Method("Inner", (*Loop).Inner, actor.Reentrant()),
		actor.Method("Refuse", (*Loop).Refuse, actor.Reentrant()), actor.ReadOnly("Peek", (*Loop).Peek, actor.Reentrant()))
	actor.Register("Spiral", actor.AllReentrant(), actor.Method("Start", (*Loop).Start), actor.Method("Inner", (*Loop).Inner))
}

func TestFake(t *testing.T) {
	h := actortest.New(t)
	balance := 0
	h.Fake("Account", "Deposit", func(id string, in actor.Payload) (any, error) {
		if string(in.Data) == "13" {
			return nil, actor.Errorf("unlucky", "not %s for %s", in.Data, id).Retry(0)
		}
		balance += 5
		return balance, nil
	})
	var got int
	if err := h.Call("Payer", "a", "Pay", 5, &got); err != nil || got != 5 {
		t.Errorf("%d, %v", got, err)
	}
	var e *actor.Error
	if err := h.Call("Payer", "a", "Pay", 13, &got); !errors.As(err, &e) || e.Code != "unlucky" || e.Message != "not 13 for bob" || !e.Retryable {
		t.Errorf("got %v", err)
	}
	if state := h.State("Payer", "a"); state["paid"] != "5" {
		t.Errorf("state %v", state)
	}
	h = actortest.New(t)
	if err := h.Call("Payer", "a", "Pay", 5, &got); !errors.As(err, &e) || e.Code != "type_not_found" {
		t.Errorf("got %v", err)
	}
}

// TestElsewhere has a fake of actors at another server.
func TestElsewhere(t *testing.T) {
	h := actortest.New(t)
	balance := 0
	add := func(_ string, in actor.Payload) (any, error) {
		balance++
		if string(in.Data) == "13" {
			return "no number", nil
		}
		return balance, nil
	}
	var own [2]bool
	for _, step := range []struct {
		options []actortest.FakeOption
		amount  int
		own     [2]bool
		balance int
	}{
		{nil, 1, [2]bool{}, 2},
		{[]actortest.FakeOption{actortest.Elsewhere()}, 1, [2]bool{true, false}, 3},
		{[]actortest.FakeOption{actortest.Elsewhere()}, 13, [2]bool{true, false}, 4}, // with the error of a bad reply
	} {
		h.Fake("Account", "Deposit", add, step.options...)
		if err := h.Call("Payer", "a", "Own", step.amount, &own); err != nil || own != step.own || balance != step.balance {
			t.Errorf("%+v: %v, %d, %v", step, own, balance, err)
		}
	}
}

// TestReadOnlyFake: a read-only method calls no method that may change its actor.
func TestReadOnlyFake(t *testing.T) {
	h := actortest.New(t)
	five := func(string, actor.Payload) (any, error) { return 5, nil }
	var got int
	h.Fake("Account", "Deposit", five)
	if err := h.Call("Payer", "a", "Peek", nil, &got); !errors.Is(err, actor.ErrReadOnly) {
		t.Errorf("got %v", err)
	}
	h.Fake("Account", "Deposit", five, actortest.ReadOnly())
	if err := h.Call("Payer", "a", "Peek", nil, &got); err != nil || got != 5 {
		t.Errorf("%d, %v", got, err)
	}
}

// TestPanics: the panic of a called method is a trap to its caller, and that of a fake ends the test.
func TestPanics(t *testing.T) {
	h := actortest.New(t)
	var e *actor.Error
	err := h.Call("Payer", "a", "Ask", [3]string{"Payer", "b", "Crash"}, nil)
	if !errors.As(err, &e) || e.Code != "trap" || e.Message != "Payer.Crash trapped: on purpose" {
		t.Errorf("got %v", err)
	}
	if state := h.State("Payer", "b"); len(state) != 0 {
		t.Errorf("state %v", state)
	}
	h.Fake("Account", "Deposit", func(string, actor.Payload) (any, error) { panic("of the test") })
	h.Fake("Account", "Forward", func(string, actor.Payload) (any, error) { return nil, h.Call("Payer", "c", "Pay", 1, nil) })
	defer func() {
		if v := recover(); v != "of the test" {
			t.Errorf("panic %v", v)
		}
	}()
	err = h.Call("Payer", "a", "Ask", [3]string{"Account", "b", "Forward"}, nil)
	t.Errorf("no panic, and %v", err)
}

// TestForward has fakes that run turns of the test's own types.
func TestForward(t *testing.T) {
	h := actortest.New(t)
	h.Fake("Account", "Deposit", func(id string, in actor.Payload) (any, error) {
		var sum int
		err := h.Call("Ledger", id, "Add", in, &sum)
		return sum, err
	})
	var got int
	for want := 2; want <= 6; want += 2 {
		if err := h.Call("Payer", "a", "Pay", 2, &got); err != nil || got != want {
			t.Errorf("%d, %v; want %d", got, err, want)
		}
	}
	var e *actor.Error
	if err := h.Call("Payer", "a", "Pay", 3, &got); !errors.As(err, &e) || e.Code != "odd" {
		t.Errorf("got %v", err)
	}
	h.Fake("Account", "Deposit", func(id string, in actor.Payload) (any, error) {
		if err := h.Call("Ledger", id, "Add", in, nil); err != nil {
			return nil, err
		}
		return nil, actor.Errorf("no", "not for %s", id)
	})
	if err := h.Call("Payer", "a", "Pay", 4, &got); !errors.As(err, &e) || e.Code != "no" {
		t.Errorf("got %v", err)
	}
	if payer, ledger := h.State("Payer", "a"), h.State("Ledger", "bob"); payer["paid"] != "6" || ledger["sum"] != "6" {
		t.Errorf("state %v, %v", payer, ledger)
	}
	h.Fake("Account", "Deposit", func(id string, in actor.Payload) (any, error) {
		return nil, h.Call("Payer", "a", "Pay", in, nil)
	})
	if err := h.Call("Payer", "a", "Pay", 2, &got); !errors.Is(err, actor.ErrNotReentrant) {
		t.Errorf("got %v", err)
	}
	if err := h.Call("Payer", "b", "Pay", 2, &got); !errors.Is(err, actor.ErrNotReentrant) {
		t.Errorf("got %v", err)
	}
	if payer := h.State("Payer", "a"); payer["paid"] != "6" {
		t.Errorf("state %v", payer)
	}
}

// TestRefusedCalls has calls that a server does not run either.
func TestRefusedCalls(t *testing.T) {
	h := actortest.New(t)
	for _, name := range []string{"Account", "Payer"} {
		h.Fake(name, "Deposit", func(string, actor.Payload) (any, error) { return nil, nil })
	}
	for to, want := range map[[3]string]string{
		{"Account", "b", "Deposit"}: "",
		{"Account", "", "Deposit"}:  "invalid_call",
		{"", "b", "Deposit"}:        "service_not_found",
		{"", "", "Deposit"}:         "invalid_call",
		{"Account", "b", ""}:        "invalid_call",
		{"Payer", "a", "Deposit"}:   "not_reentrant",
		{"Payer", "b", "Deposit"}:   "",
		{"Account", "b", "Other"}:   "method_not_found",
		{"Other", "b", "Deposit"}:   "type_not_found",
	} {
		var got actor.Error
		if err := h.Call("Payer", "a", "Ask", to, nil); err != nil {
			got = *err.(*actor.Error)
		}
		if got.Code != want {
			t.Errorf("%q: got %+v, want %q", to, got, want)
		}
	}
}

// TestChain has types of the test that call each other in one transaction.
func TestChain(t *testing.T) {
	h := actortest.New(t)
	var got int
	if err := h.Call("Payer", "a", "Split", map[string]int{"x": 2, "y": 3, "z": 4}, &got); err != nil || got != 6 {
		t.Errorf("%d, %v", got, err)
	}
	for id, want := range map[string]string{"x": "2", "y": "", "z": "4"} {
		if state := h.State("Ledger", id); state["sum"] != want {
			t.Errorf("%s: %v, want %s", id, state, want)
		}
	}
	if n, m := len(h.Reminders()), len(h.Timers()); n != 2 || m != 2 { // none of y
		t.Errorf("%d reminders, %d timers", n, m)
	}
	var e *actor.Error
	if err := h.Call("Payer", "a", "Split", map[string]int{"v": 8, "x": 96}, &got); !errors.As(err, &e) || e.Code != "too_much" {
		t.Errorf("got %v", err)
	}
	if n, m := len(h.Reminders()), len(h.Timers()); n != 2 || m != 2 {
		t.Errorf("%d reminders, %d timers", n, m)
	}
	h.Advance(time.Minute)
	for id, want := range map[string]string{"v": "", "x": "2002", "y": "", "z": "2004"} {
		if state := h.State("Ledger", id); state["sum"] != want {
			t.Errorf("%s: %v, want %s", id, state, want)
		}
	}
	if err := h.Call("Ledger", "x", "Audit", nil, nil); !errors.As(err, &e) || e.Code != "method_private" {
		t.Errorf("got %v", err)
	}
	if err := h.Call("Payer", "a", "Ask", [3]string{"Ledger", "w", "Audit"}, nil); err != nil {
		t.Error(err)
	}
	if err := h.Call("Payer", "a", "Check", "Sum", &got); err != nil || got != 0 {
		t.Errorf("%d, %v", got, err)
	}
	if err := h.Call("Payer", "a", "Check", "Add", &got); !errors.Is(err, actor.ErrReadOnly) {
		t.Errorf("got %v", err)
	}
	if err := h.Call("Payer", "a", "Down", 0, &got); !errors.As(err, &e) || e.Code != "too_deep" {
		t.Errorf("got %v", err)
	}
	if err := h.Call("Payer", "a", "Many", 63, nil); err != nil {
		t.Error(err)
	}
	if err := h.Call("Payer", "a", "Many", 64, nil); !errors.As(err, &e) || e.Code != "too_many" {
		t.Errorf("got %v", err)
	}
}

// TestReentrant has methods that are called back: they find what the waiting turn has made
// of the state, and that turn finds what they left.
func TestReentrant(t *testing.T) {
	h := actortest.New(t)
	for _, step := range []struct{ method, calls, want, count string }{
		{"Start", "Inner", "(.)10", "11"},
		{"Start", "Refuse", "(.)10(!no", "12"},
		{"Start", "Peek", "(.)10(!no()12kept", "13"},
		{"Start", "Start", "(.)10(!no()12kept(!not_reentrant", "14"},
		{"Wipe", "Inner", "(.)10", "11"},
		{"Wipe", "Peek", "()0kept", "1"},
	} {
		var got string
		if err := h.Call("Loop", "l", step.method, step.calls, &got); err != nil || got != step.want {
			t.Errorf("%v: %q, %v", step, got, err)
		}
		if state := h.State("Loop", "l"); state["trace"] != strconv.Quote(step.want) || state["count"] != step.count {
			t.Errorf("%v: state %v", step, state)
		}
		h.DropInstance()
	}
	var got string
	if err := h.Call("Spiral", "s", "Start", "Inner", &got); err != nil || got != "(.)10" {
		t.Errorf("%q, %v", got, err)
	}
}
