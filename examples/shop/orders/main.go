// Command orders is a guest with two actor types, Cart and Order. What they sell and what it
// is paid with are actors of another module, in Rust: Stock and Wallet.
package main

import "github.com/greenroom-run/greenroom/guest-sdk/go/actor"

func init() {
	// Placed any: a server that runs a checkout can hold all that takes part, so that it is
	// one transaction wherever it runs.
	actor.Register("Cart", actor.PlacementAny,
		actor.Method("Add", (*Cart).Add), actor.Method("Clear", (*Cart).Clear), actor.Method("Checkout", (*Cart).Checkout),
		actor.ReadOnly("View", (*Cart).View))
	actor.Register("Order", actor.PlacementAny, actor.SpawnOnly(),
		actor.Method("Place", (*Order).Place, actor.Private()), actor.ReadOnly("View", (*Order).View),
		actor.Method("Paid", (*Order).Paid, actor.Private(), actor.In("placed")),
		actor.Method("NotPaid", (*Order).NotPaid, actor.Private()),
		actor.Method("Ship", (*Order).Ship, actor.Private()))
}

func main() {}
