package main

import (
	"fmt"
	"time"

	"github.com/greenroom-run/greenroom/guest-sdk/go/actor"
)

// Order is a cart that was checked out.
type Order struct {
	Number   int       `json:"number"`
	PlacedAt time.Time `json:"placed_at"`
	Contents
}

// History is all orders of a customer, oldest first.
type History struct {
	Orders []Order `json:"orders"`
}

// Checkout turns the cart into an order and empties it. Both happen or neither:
// all that a method stores is one turn.
func (*Cart) Checkout(ctx *actor.Context, _ actor.None) (Order, error) {
	c, err := contents(ctx)
	if err != nil {
		return Order{}, err
	}
	if len(c.Items) == 0 {
		return Order{}, errCartEmpty
	}
	placed, err := ctx.State().Keys(orderPrefix)
	if err != nil {
		return Order{}, err
	}
	// The time is the turn's, not the machine's, so that a turn that has to run
	// again does the same again.
	order := Order{Number: len(placed) + 1, PlacedAt: ctx.Now(), Contents: c}
	if err := ctx.State().Set(fmt.Sprintf("%s%06d", orderPrefix, order.Number), order); err != nil {
		return Order{}, err
	}
	for _, item := range c.Items {
		if _, err := ctx.State().Delete(itemPrefix + item.SKU); err != nil {
			return Order{}, err
		}
	}
	ctx.Log().Info("order placed", "number", order.Number, "total_cents", order.TotalCents)
	return order, nil
}

// Orders answers the orders of the customer.
func (*Cart) Orders(ctx *actor.Context, _ actor.None) (History, error) {
	h := History{Orders: []Order{}}
	for order, err := range actor.Each[Order](ctx, orderPrefix) {
		if err != nil {
			return History{}, err
		}
		h.Orders = append(h.Orders, order.Value)
	}
	return h, nil
}
