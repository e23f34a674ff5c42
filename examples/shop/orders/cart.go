package main

import (
	"cmp"
	"slices"

	"github.com/greenroom-run/greenroom/guest-sdk/go/actor"
)

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

var (
	// reserve takes items for an order. It is a method of the other module.
	reserve = actor.Remote[int64, int64]{Type: "Stock", Method: "Reserve"}
	// place makes an order of a cart.
	place = actor.Remote[Placed, actor.None]{Type: "Order", Method: "Place"}
)

// Add puts something into the cart.
func (c *Cart) Add(_ *actor.Context, in Line) (Cart, error) {
	if in.Item == "" || in.Count <= 0 || in.Cents <= 0 {
		return *c, actor.NewError(actor.StatusInvalidArgument, "bad_line", "a line has an item, a count and a price")
	}
	c.Lines = append(c.Lines, in)
	return *c, nil
}

// Checkout reserves what is in the cart, makes an order of it, and empties the cart. The answer
// is the order's ID. The cart, its items and the order are one transaction: if an item is sold
// out, nothing of it has happened.
func (c *Cart) Checkout(ctx *actor.Context, _ actor.None) (string, error) {
	if len(c.Lines) == 0 {
		return "", actor.Errorf("empty_cart", "there is nothing in the cart")
	}
	// In order of items, so that two checkouts never wait for each other in a circle.
	slices.SortFunc(c.Lines, func(a, b Line) int { return cmp.Compare(a.Item, b.Item) })
	for _, line := range c.Lines {
		if _, err := reserve.Call(ctx, line.Item, line.Count, actor.Atomic()); err != nil {
			return "", err
		}
	}
	order, err := actor.Spawn(ctx, "Order")
	if err != nil {
		return "", err
	}
	if err := place.Send(ctx, order.ID, Placed{Customer: ctx.ID(), Lines: c.Lines}); err != nil {
		return "", err
	}
	c.Lines = nil
	return order.ID, nil
}

// Clear empties the cart.
func (c *Cart) Clear(*actor.Context, actor.None) (actor.None, error) {
	c.Lines = nil
	return actor.None{}, nil
}

// View reads the cart.
func (c *Cart) View(*actor.Context, actor.None) (Cart, error) { return *c, nil }
