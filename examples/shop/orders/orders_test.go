package main

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/guest-sdk/go/actor"
	"github.com/greenroom-run/greenroom/guest-sdk/go/actortest"
)

// world fakes the stock of the other module: so many of each item.
type world struct{ stock map[string]int64 }

// wallet plays that of the other module: actors that send messages are no fakes.
type wallet struct {
	Spent int64 `json:"spent"`
}

func (w *wallet) Charge(ctx *actor.Context, in Bill) (actor.None, error) {
	if ctx.ID() == "poor" {
		return actor.None{}, actor.Errorf("insufficient_funds", "no money")
	}
	w.Spent += in.Cents
	return actor.None{}, actor.Send(ctx, actor.Ref{Type: "Order", ID: in.Order}, "Paid", nil)
}

func init() { actor.Register("Wallet", actor.Method("Charge", (*wallet).Charge, actor.Private())) }

func newWorld(t *testing.T) (*actortest.Harness, *world) {
	t.Helper()
	h, w := actortest.New(t), &world{stock: map[string]int64{"tea": 5, "cup": 1}}
	h.Fake("Stock", "Reserve", func(item string, in actor.Payload) (any, error) {
		count := int64(in.Data[0] - '0')
		if w.stock[item] < count {
			return nil, actor.Errorf("sold_out", "%d of %s are left", w.stock[item], item)
		}
		w.stock[item] -= count
		return w.stock[item], nil
	})
	h.Fake("Stock", "PutBack", func(item string, in actor.Payload) (any, error) {
		w.stock[item] += int64(in.Data[0] - '0')
		return w.stock[item], nil
	})
	return h, w
}

func checkout(t *testing.T, h *actortest.Harness, customer string, lines ...Line) (id string, err error) {
	t.Helper()
	for _, line := range lines {
		if err := h.Call("Cart", customer, "Add", line, nil); err != nil {
			t.Fatal(err)
		}
	}
	err = h.Call("Cart", customer, "Checkout", nil, &id)
	return id, err
}

func wantStatus(t *testing.T, h *actortest.Harness, id, status, why string) {
	t.Helper()
	var o Order
	if err := h.Call("Order", id, "View", nil, &o); err != nil || o.Status != status || o.Why != why {
		t.Errorf("the order is %q, %q, %v; want %q, %q", o.Status, o.Why, err, status, why)
	}
}

func wantEvents(t *testing.T, h *actortest.Harness, id string, names ...string) {
	t.Helper()
	var got []string
	for _, e := range h.Events("Order", id) {
		got = append(got, e.Name)
	}
	if !slices.Equal(got, names) {
		t.Errorf("the order has published %q, want %q", got, names)
	}
}

var tea, cup = Line{"tea", 2, 300}, Line{"cup", 1, 1000}

func TestOrderIsPaidAndShipped(t *testing.T) {
	h, w := newWorld(t)
	id, err := checkout(t, h, "ann", tea, cup)
	if err != nil {
		t.Fatal(err)
	}
	wantStatus(t, h, id, "", "")
	h.Deliver()
	wantStatus(t, h, id, Paid, "")
	if spent := h.State("Wallet", "ann")["spent"]; spent != "1600" {
		t.Errorf("spent %s", spent)
	}
	h.Advance(packing)
	wantStatus(t, h, id, Shipped, "")
	wantEvents(t, h, id, Waiting, Paid, Shipped)
	if w.stock["tea"] != 3 || w.stock["cup"] != 0 || len(h.State("Cart", "ann")) != 0 {
		t.Errorf("left %v, in the cart %v", w.stock, h.State("Cart", "ann"))
	}
	if err := h.Call("Order", id, "Paid", nil, nil); err == nil {
		t.Error("a caller from outside has paid")
	}
}

func TestUnpaidOrderGivesItemsBack(t *testing.T) {
	h, w := newWorld(t)
	id, err := checkout(t, h, "poor", tea, cup)
	if err != nil {
		t.Fatal(err)
	}
	h.Advance(4 * 24 * time.Hour)
	wantStatus(t, h, id, Unpaid, "insufficient_funds")
	wantEvents(t, h, id, Waiting, Unpaid)
	if w.stock["tea"] != 5 || w.stock["cup"] != 1 {
		t.Errorf("left %v", w.stock)
	}
}

// TestSoldOut: the order, the cart and the message are one transaction.
func TestSoldOut(t *testing.T) {
	h, _ := newWorld(t)
	_, err := checkout(t, h, "ann", tea, Line{"cup", 2, 1000})
	if e := (*actor.Error)(nil); !errors.As(err, &e) || e.Code != "sold_out" {
		t.Errorf("error %v", err)
	}
	if len(h.Sent()) != 0 || len(h.Actors()) != 1 {
		t.Errorf("sent %v, actors %v", h.Sent(), h.Actors())
	}
	if err := h.Call("Order", "made-up", "View", nil, nil); !errors.Is(err, actor.ErrPassedAway) {
		t.Errorf("an order that nobody placed: %v", err)
	}
}
