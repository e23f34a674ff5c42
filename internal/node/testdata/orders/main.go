// Command orders is a guest whose types are placed with one group.
package main

import (
	"github.com/greenroom-run/greenroom/guest-sdk/go/actor"
)

// Order counts what was paid for it.
type Order struct {
	Paid int `json:"paid"`
}

// Payment counts what was paid by one card.
type Payment struct {
	Sum int `json:"sum"`
}

var book = actor.Remote[int, int]{Type: "Payment", Method: "Book"}

// Pay pays by two cards of the order, and answers what all have paid.
func (o *Order) Pay(ctx *actor.Context, amount int) (int, error) {
	sum := 0
	for _, card := range []string{"/a", "/b/1"} {
		n, err := book.Call(ctx, ctx.ID()+card, amount)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	o.Paid += 2 * amount
	if o.Paid != sum {
		return 0, actor.Errorf("torn", "the order has %d, and its payments %d", o.Paid, sum)
	}
	return o.Paid, nil
}

// Book adds to the sum.
func (p *Payment) Book(_ *actor.Context, amount int) (int, error) {
	p.Sum += amount
	return p.Sum, nil
}

func init() {
	actor.Register("Order", actor.CoLocate{Group: "orders"}, actor.Method("Pay", (*Order).Pay))
	actor.Register("Payment", actor.CoLocate{Group: "orders", Separator: "/"}, actor.Method("Book", (*Payment).Book))
}

func main() {}
