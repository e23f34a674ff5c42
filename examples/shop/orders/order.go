package main

import (
	"time"

	"github.com/greenroom-run/greenroom/guest-sdk/go/actor"
)

// The states of an order.
const (
	Waiting = "placed" // its items are reserved, and it waits for the money
	Paid    = "paid"
	Shipped = "shipped"
	Unpaid  = "unpaid" // its items were given back
)

// packing is how long an order lies until it is shipped.
const packing = time.Second

// Order is the state of an order.
type Order struct {
	Placed
	Status string `json:"status"`
	// Why says why it was not paid.
	Why string `json:"why,omitempty"`
}

// Change is the event that tells of a new status, and is named after it.
type Change struct {
	Why string `json:"why,omitempty"`
}

// mark gives the order a new status, and publishes it.
func (o *Order) mark(ctx *actor.Context, status, why string) error {
	o.Status, o.Why = status, why
	return actor.Publish(ctx, status, Change{Why: why})
}

// Placed is who has ordered what.
type Placed struct {
	Customer string `json:"customer"`
	Lines    []Line `json:"lines"`
}

// Bill is what a wallet is charged for.
type Bill struct {
	Order string `json:"order"`
	Cents int64  `json:"cents"`
}

// The methods of the other module that orders use.
var (
	putBack = actor.Remote[int64, int64]{Type: "Stock", Method: "PutBack"}
	charge  = actor.Remote[Bill, actor.None]{Type: "Wallet", Method: "Charge"}
)

// Place is the message of the cart that has spawned the order. It sends the bill.
func (o *Order) Place(ctx *actor.Context, in Placed) (actor.None, error) {
	o.Placed = in
	if err := o.mark(ctx, Waiting, ""); err != nil {
		return actor.None{}, err
	}
	bill := Bill{Order: ctx.ID()}
	for _, line := range o.Lines {
		bill.Cents += line.Count * line.Cents
	}
	if err := charge.Send(ctx, in.Customer, bill, actor.OnUndelivered("NotPaid")); err != nil {
		return actor.None{}, err
	}
	return actor.None{}, actor.Become(ctx, "placed")
}

// Paid is the message of a wallet that was charged.
func (o *Order) Paid(ctx *actor.Context, _ actor.None) (actor.None, error) {
	if err := o.mark(ctx, Paid, ""); err != nil {
		return actor.None{}, err
	}
	if err := actor.SetReminder(ctx, actor.Reminder{Name: "ship", Method: "Ship", After: packing}); err != nil {
		return actor.None{}, err
	}
	return actor.None{}, actor.Become(ctx, "")
}

// Ship is what the reminder runs.
func (o *Order) Ship(ctx *actor.Context, _ actor.None) (actor.None, error) {
	return actor.None{}, o.mark(ctx, Shipped, "")
}

// NotPaid gets the bill back that no wallet took, however often it was tried: the order ends,
// and its items go back to where they were.
func (o *Order) NotPaid(ctx *actor.Context, _ Bill) (actor.None, error) {
	if err := o.mark(ctx, Unpaid, ctx.Cause().Failed); err != nil {
		return actor.None{}, err
	}
	for _, line := range o.Lines {
		if err := putBack.Send(ctx, line.Item, line.Count); err != nil {
			return actor.None{}, err
		}
	}
	return actor.None{}, nil
}

// View reads the order.
func (o *Order) View(*actor.Context, actor.None) (Order, error) { return *o, nil }
