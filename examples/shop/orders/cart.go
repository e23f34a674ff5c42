package main

import "github.com/greenroom-run/greenroom/guest-sdk/go/actor"

// Cart is the state of a customer's cart. Its ID is the customer's.
type Cart struct {
	Lines []Line `json:"lines,omitempty"`
}

// Line is some of one item.
type Line struct {
	Item  string `json:"item"`
	Count int64  `json:"count"`
	Cents int64  `json:"cents"` // for one
}

// place makes an order of a cart.
var place = actor.Remote[Placed, actor.None]{Type: "Order", Method: "Place"}

// Add puts something into the cart.
func (c *Cart) Add(_ *actor.Context, in Line) (Cart, error) {
	if in.Item == "" || in.Count <= 0 || in.Cents <= 0 {
		return *c, actor.NewError(actor.StatusInvalidArgument, "bad_line", "a line has an item, a count and a price")
	}
	c.Lines = append(c.Lines, in)
	return *c, nil
}

// Checkout makes an order of what is in the cart, and empties it. The answer is the order's
// ID. If an item is sold out, nothing of it has happened: the cart, the order and the other
// items are one transaction.
func (c *Cart) Checkout(ctx *actor.Context, _ actor.None) (string, error) {
	if len(c.Lines) == 0 {
		return "", actor.Errorf("empty_cart", "there is nothing in the cart")
	}
	order, err := actor.Spawn(ctx, "Order")
	if err != nil {
		return "", err
	}
	if _, err := place.Call(ctx, order.ID, Placed{Customer: ctx.ID(), Lines: c.Lines}, actor.Atomic()); err != nil {
		return "", err
	}
	c.Lines = nil
	return order.ID, nil
}

// View reads the cart.
func (c *Cart) View(*actor.Context, actor.None) (Cart, error) { return *c, nil }
