// Command transfers is a guest with one actor type, Transfer: a move of money between two
// accounts, which are actors of another module, in Rust. The ID of a Transfer is the
// reference of the payment: a call that is repeated moves nothing twice.
package main

import (
	"errors"

	"github.com/greenroom-run/greenroom/guest-sdk/go/actor"
)

// Transfer is the state of a transfer. Without a payer it has not been made.
type Transfer struct {
	Order
	// Paid is the account that got the money.
	Paid string `json:"paid,omitempty"`
}

// Order is the input of Make.
type Order struct {
	From  string `json:"from"`
	To    string `json:"to"`
	Cents int64  `json:"cents"`
	// Else gets the money if To is closed. Empty: nobody does.
	Else string `json:"else,omitempty"`
}

// The methods of accounts that transfers call, with their input and reply.
var (
	debit  = actor.Remote[int64, int64]{Type: "Account", Method: "Debit"}
	credit = actor.Remote[int64, int64]{Type: "Account", Method: "Credit"}
)

// Make moves the money. It returns an error as soon as it meets one: then nothing of the
// transfer remains, whatever it has called before.
func (t *Transfer) Make(ctx *actor.Context, in Order) (Transfer, error) {
	switch {
	case t.Order == in:
		return *t, nil // made before
	case t.From != "":
		return Transfer{}, actor.Errorf("reference_used", "the reference stands for another transfer")
	case in.From == "" || in.To == "" || in.From == in.To:
		return Transfer{}, actor.Errorf("bad_order", "name two accounts")
	}
	t.Order, t.Paid = in, in.To
	// In order of IDs, so that transfers between the same accounts do not wait for each
	// other in a circle.
	if in.To < in.From {
		if err := t.pay(ctx); err != nil {
			return Transfer{}, err
		}
	}
	if _, err := debit.Call(ctx, in.From, in.Cents, actor.Atomic()); err != nil {
		return Transfer{}, err
	}
	if in.To > in.From {
		if err := t.pay(ctx); err != nil {
			return Transfer{}, err
		}
	}
	return *t, nil
}

// errClosed is the error of accounts that are closed.
var errClosed = actor.NewError(actor.StatusFailedPrecondition, "account_closed", "the account is closed")

// pay gives the money to the payee, or to another account if the payee's is closed: what a
// failed call has changed is taken back, and the turn may go on. Other errors, such as busy,
// say nothing about the account, and end the transfer.
func (t *Transfer) pay(ctx *actor.Context) error {
	_, err := credit.Call(ctx, t.To, t.Cents, actor.Atomic())
	if errors.Is(err, errClosed) && t.Else != "" {
		ctx.Log().Warn("refused", "by", t.To, "error", err.Error())
		t.Paid = t.Else
		_, err = credit.Call(ctx, t.Else, t.Cents, actor.Atomic())
	}
	return err
}

// View reads the transfer.
func (t *Transfer) View(*actor.Context, actor.None) (Transfer, error) { return *t, nil }

func init() {
	actor.Register("Transfer", actor.Method("Make", (*Transfer).Make), actor.ReadOnly("View", (*Transfer).View))
}

func main() {}
