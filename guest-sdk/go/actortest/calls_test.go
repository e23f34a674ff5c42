package actortest_test

import (
	"errors"
	"testing"

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

// Check calls in a read-only method.
func (p *Payer) Check(ctx *actor.Context, _ actor.None) (int, error) {
	return deposit.Call(ctx, "bob", 1)
}

// Ledger is what a fake forwards to.
type Ledger struct {
	Sum int `json:"sum"`
}

// Add adds an amount, which is even.
func (l *Ledger) Add(ctx *actor.Context, amount int) (int, error) {
	l.Sum += amount
	if amount%2 != 0 {
		return 0, actor.Errorf("odd", "%d is odd", amount)
	}
	if c := ctx.Cause(); c.Kind != actor.CauseActor || c.From != (actor.Ref{Type: "Payer", ID: "a"}) {
		return 0, actor.Errorf("bad_cause", "%+v", c)
	}
	return l.Sum, nil
}

// Ask calls a method, and returns its error.
func (p *Payer) Ask(ctx *actor.Context, to [3]string) (actor.None, error) {
	return actor.Call[actor.None](ctx, actor.Ref{Type: to[0], ID: to[1]}, to[2], nil)
}

func init() {
	actor.Register("Ledger", actor.Method("Add", (*Ledger).Add))
	actor.Register("Payer", actor.Method("Pay", (*Payer).Pay), actor.Method("Ask", (*Payer).Ask), actor.ReadOnly("Check", (*Payer).Check))
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
	if err := h.Call("Payer", "a", "Check", nil, &got); !errors.As(err, &e) || e.Code != actor.ErrReadOnly.Code {
		t.Errorf("got %v", err)
	}
	h = actortest.New(t)
	if err := h.Call("Payer", "a", "Pay", 5, &got); !errors.As(err, &e) || e.Code != "type_not_found" {
		t.Errorf("got %v", err)
	}
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
		{"", "b", "Deposit"}:        "invalid_call",
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
