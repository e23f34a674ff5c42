package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/guest-sdk/go/actor"
	"github.com/greenroom-run/greenroom/guest-sdk/go/actortest"
)

var (
	tea = Item{SKU: "tea", Name: "Green tea", PriceCents: 450, Quantity: 2}
	cup = Item{SKU: "cup", Name: "Cup", PriceCents: 1200, Quantity: 1}
)

// call runs a method and returns the code of its error, empty for none.
func call(t *testing.T, h *actortest.Harness, method string, in, out any) string {
	t.Helper()
	err := h.Call("Cart", "ada", method, in, out)
	var e *actor.Error
	if errors.As(err, &e) {
		return e.Code
	}
	if err != nil {
		t.Fatal(err)
	}
	return ""
}

func want(t *testing.T, h *actortest.Harness, total int64, skus ...string) {
	t.Helper()
	var c Contents
	if code := call(t, h, "View", nil, &c); code != "" {
		t.Fatal(code)
	}
	got := []string{}
	for _, item := range c.Items {
		got = append(got, item.SKU)
	}
	if fmt.Sprint(got) != fmt.Sprint(skus) || c.TotalCents != total {
		t.Errorf("in the cart: %v for %d, want %v for %d", got, c.TotalCents, skus, total)
	}
}

func TestShopping(t *testing.T) {
	h := actortest.New(t)
	call(t, h, "AddItem", tea, nil)
	call(t, h, "AddItem", cup, nil)
	call(t, h, "AddItem", tea, nil)
	want(t, h, 4*450+1200, "cup", "tea")
	call(t, h, "SetQuantity", Quantity{SKU: "tea", Quantity: 1}, nil)
	want(t, h, 450+1200, "cup", "tea")
	call(t, h, "RemoveItem", ItemRef{SKU: "cup"}, nil)
	want(t, h, 450, "tea")
	call(t, h, "SetQuantity", Quantity{SKU: "tea", Quantity: 0}, nil)
	want(t, h, 0)
}

func TestCheckout(t *testing.T) {
	h := actortest.New(t)
	for n := 1; n <= 2; n++ {
		call(t, h, "AddItem", tea, nil)
		h.Advance(time.Hour)
		var order Order
		if code := call(t, h, "Checkout", nil, &order); code != "" {
			t.Fatal(code)
		}
		if order.Number != n || order.TotalCents != 900 || !order.PlacedAt.Equal(h.Now()) {
			t.Errorf("order: got %+v", order)
		}
		want(t, h, 0)
	}
	var history History
	if call(t, h, "Orders", nil, &history); len(history.Orders) != 2 || history.Orders[1].Number != 2 {
		t.Errorf("orders: got %+v", history.Orders)
	}
	call(t, h, "Clear", nil, nil)
	if left := h.State("Cart", "ada"); len(left) != 0 {
		t.Errorf("after Clear: %v", left)
	}
}

func TestErrorsUndoNothingElse(t *testing.T) {
	h := actortest.New(t)
	call(t, h, "AddItem", tea, nil)
	for _, c := range []struct {
		method string
		in     any
		code   string
	}{
		{"AddItem", Item{Quantity: 1}, "invalid_item"},
		{"AddItem", Item{SKU: "x"}, "invalid_item"},
		{"AddItem", Item{SKU: "x", Quantity: 1, PriceCents: -1}, "invalid_item"},
		{"AddItem", Item{SKU: "tea", Quantity: 98}, "too_many"},
		{"AddItem", Item{SKU: "tea", Quantity: math.MaxInt}, "too_many"},
		{"SetQuantity", Quantity{SKU: "tea", Quantity: -1}, "invalid_item"},
		{"SetQuantity", Quantity{SKU: "tea", Quantity: 100}, "too_many"},
		{"SetQuantity", Quantity{SKU: "cup", Quantity: 1}, "item_not_found"},
		{"RemoveItem", ItemRef{SKU: "cup"}, "item_not_found"},
	} {
		if code := call(t, h, c.method, c.in, nil); code != c.code {
			t.Errorf("%s %+v: got code %q, want %q", c.method, c.in, code, c.code)
		}
		want(t, h, 900, "tea")
	}
}

func TestTooManySaysHowMany(t *testing.T) {
	h := actortest.New(t)
	err := h.Call("Cart", "ada", "AddItem", Item{SKU: "tea", Quantity: 120}, nil)
	var e *actor.Error
	if !errors.As(err, &e) {
		t.Fatal(err)
	}
	var detail TooMany
	if err := json.Unmarshal(e.Detail.Data, &detail); err != nil || detail != (TooMany{SKU: "tea", Asked: 120, Limit: 99}) {
		t.Errorf("detail %s: %v", e.Detail.Data, err)
	}
}

func TestLimits(t *testing.T) {
	h := actortest.New(t)
	if code := call(t, h, "Checkout", nil, nil); code != "cart_empty" {
		t.Errorf("checkout of nothing: got %q", code)
	}
	for i := range maxItems {
		if code := call(t, h, "AddItem", Item{SKU: fmt.Sprint(i), Quantity: 1}, nil); code != "" {
			t.Fatal(code)
		}
	}
	if code := call(t, h, "AddItem", tea, nil); code != "cart_full" {
		t.Errorf("item %d: got %q", maxItems+1, code)
	}
	if code := call(t, h, "AddItem", Item{SKU: "7", Quantity: 1}, nil); code != "" {
		t.Errorf("more of an item in a full cart: got %q", code)
	}
}
