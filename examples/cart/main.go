// Command cart is a Greenroom guest with one actor type, Cart: a shopping cart
// with its orders. It shows two things that package counter does not need:
//
//   - State as single keys. A Cart is an empty struct, so nothing is loaded before
//     a method; a method reads and writes only the keys that it needs.
//   - Errors that a caller can tell apart, with a code and a detail (errors.go).
package main

import "github.com/greenroom-run/greenroom/guest-sdk/go/actor"

// Cart is the cart of one customer, whose ID is the actor's. Its state keys are
// "item/<sku>", an [Item] each, and "order/<number>", an [Order] each.
type Cart struct{}

const (
	itemPrefix  = "item/"
	orderPrefix = "order/"

	maxItems    = 50 // different ones in a cart
	maxQuantity = 99 // of one item
)

// Item is one line of a cart.
type Item struct {
	SKU        string `json:"sku"`
	Name       string `json:"name"`
	PriceCents int64  `json:"price_cents"`
	Quantity   int    `json:"quantity"`
}

// Contents is what is in a cart, in order of SKU.
type Contents struct {
	Items      []Item `json:"items"`
	TotalCents int64  `json:"total_cents"`
}

// ItemRef names an item of the cart.
type ItemRef struct {
	SKU string `json:"sku"`
}

// Quantity is how many of an item the cart shall have.
type Quantity struct {
	SKU      string `json:"sku"`
	Quantity int    `json:"quantity"`
}

// AddItem puts an item into the cart, or more of one that is there. Name and
// price are those of this call.
func (*Cart) AddItem(ctx *actor.Context, in Item) (Contents, error) {
	if err := in.validate(); err != nil {
		return Contents{}, err
	}
	var item Item
	found, err := ctx.State().Get(itemPrefix+in.SKU, &item)
	if err != nil {
		return Contents{}, err
	}
	if !found {
		others, err := ctx.State().Keys(itemPrefix)
		if err != nil {
			return Contents{}, err
		}
		if len(others) == maxItems {
			return Contents{}, errCartFull
		}
	}
	in.Quantity += item.Quantity
	if err := putItem(ctx, in); err != nil {
		return Contents{}, err
	}
	return contents(ctx)
}

// SetQuantity changes how many of an item are in the cart; 0 removes it.
func (*Cart) SetQuantity(ctx *actor.Context, in Quantity) (Contents, error) {
	item, err := getItem(ctx, in.SKU)
	if err != nil {
		return Contents{}, err
	}
	if in.Quantity < 0 {
		return Contents{}, errInvalidItem.Messagef("quantity is %d; give 0 or more", in.Quantity)
	}
	item.Quantity = in.Quantity
	if err := putItem(ctx, item); err != nil {
		return Contents{}, err
	}
	return contents(ctx)
}

// RemoveItem takes an item out of the cart.
func (*Cart) RemoveItem(ctx *actor.Context, in ItemRef) (Contents, error) {
	if _, err := getItem(ctx, in.SKU); err != nil {
		return Contents{}, err
	}
	if _, err := ctx.State().Delete(itemPrefix + in.SKU); err != nil {
		return Contents{}, err
	}
	return contents(ctx)
}

// View answers what is in the cart.
func (*Cart) View(ctx *actor.Context, _ actor.None) (Contents, error) { return contents(ctx) }

// Clear forgets everything of this customer, orders too.
func (*Cart) Clear(ctx *actor.Context, _ actor.None) (actor.None, error) {
	_, err := ctx.State().DeleteAll()
	return actor.None{}, err
}

// getItem returns an item that must be in the cart.
func getItem(ctx *actor.Context, sku string) (Item, error) {
	var item Item
	found, err := ctx.State().Get(itemPrefix+sku, &item)
	if err == nil && !found {
		err = errItemNotFound.Messagef("there is no item %q in the cart", sku)
	}
	return item, err
}

// putItem stores an item, or removes it if there is none of it left.
func putItem(ctx *actor.Context, item Item) error {
	if item.Quantity > maxQuantity {
		return tooMany(item)
	}
	if item.Quantity == 0 {
		_, err := ctx.State().Delete(itemPrefix + item.SKU)
		return err
	}
	return ctx.State().Set(itemPrefix+item.SKU, item)
}

func contents(ctx *actor.Context) (Contents, error) {
	c := Contents{Items: []Item{}}
	for item, err := range actor.Each[Item](ctx, itemPrefix) {
		if err != nil {
			return Contents{}, err
		}
		c.Items = append(c.Items, item.Value)
		c.TotalCents += item.Value.PriceCents * int64(item.Value.Quantity)
	}
	return c, nil
}

func init() {
	actor.Register("Cart",
		actor.Method("AddItem", (*Cart).AddItem),
		actor.Method("SetQuantity", (*Cart).SetQuantity, actor.Idempotent()),
		actor.Method("RemoveItem", (*Cart).RemoveItem),
		actor.ReadOnly("View", (*Cart).View),
		actor.Method("Checkout", (*Cart).Checkout),
		actor.ReadOnly("Orders", (*Cart).Orders),
		actor.Method("Clear", (*Cart).Clear, actor.Idempotent()),
	)
}

func main() {}
