package main

import "github.com/greenroom-run/greenroom/guest-sdk/go/actor"

// What a caller can run into. The code is for programs, the message for people;
// returning one of them undoes whatever the turn did.
var (
	errItemNotFound = actor.NewError(actor.StatusNotFound, "item_not_found", "there is no such item in the cart")
	errInvalidItem  = actor.NewError(actor.StatusInvalidArgument, "invalid_item", "the item is not valid")
	errTooMany      = actor.NewError(actor.StatusOutOfRange, "too_many", "a cart holds at most 99 of an item")
	errCartFull     = actor.NewError(actor.StatusResourceExhausted, "cart_full", "a cart holds at most 50 different items; check out first")
	errCartEmpty    = actor.NewError(actor.StatusFailedPrecondition, "cart_empty", "the cart is empty; add an item first")
)

// TooMany is the detail of the error too_many.
type TooMany struct {
	SKU   string `json:"sku"`
	Asked int    `json:"asked"`
	Limit int    `json:"limit"`
}

func tooMany(item Item) error {
	return errTooMany.WithDetail(TooMany{SKU: item.SKU, Asked: item.Quantity, Limit: maxQuantity})
}

// validate refuses an item that could not even be alone in a cart, and names the
// first field that is wrong.
func (i Item) validate() error {
	switch {
	case i.SKU == "" || len(i.SKU) > 64:
		return errInvalidItem.Messagef("sku has %d bytes; give 1 to 64", len(i.SKU))
	case i.Quantity < 1:
		return errInvalidItem.Messagef("quantity is %d; give 1 or more", i.Quantity)
	case i.Quantity > maxQuantity:
		return tooMany(i)
	case i.PriceCents < 0 || i.PriceCents > 1e9:
		return errInvalidItem.Messagef("price_cents is %d; give 0 to 1000000000", i.PriceCents)
	}
	return nil
}
