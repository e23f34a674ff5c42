// Command bank is a guest that moves money between the accounts of ../bank-rust, and keeps a
// ledger of it: a Teller in one transaction, a Cashier by calls that may commit on their own.
package main

import (
	"errors"
	"time"

	"github.com/greenroom-run/greenroom/guest-sdk/go/actor"
)

// Desk is the state of both types.
type Desk struct {
	// Made has the transfers in the order in which they were made. A transfer that was made twice
	// is in it twice.
	Made []Made `json:"made"`
}

// Made is one transfer.
type Made struct {
	Transfer string `json:"transfer"`
	// Outcome is the ID of the account that was paid, or one of the words below.
	Outcome string `json:"outcome"`
}

// What a Cashier replies if it has paid nobody.
const (
	refused  = "refused"  // the payer has too little
	returned = "returned" // the payee is closed, and the payer has its money back
	doubtful = "doubtful" // the debit was given up after Order.GiveUp
)

// Order is the input of Make.
type Order struct {
	Transfer string `json:"transfer"`
	From     string `json:"from"`
	To       string `json:"to"`
	Cents    int64  `json:"cents"`
	// Else is paid by a Teller if To is closed.
	Else string `json:"else,omitzero"`
	// Nested has the payer itself pay the payee, at a Teller.
	Nested bool `json:"nested,omitzero"`
	// Late has the payer fail when the payee has the money; then the payer pays again.
	Late bool `json:"late,omitzero"`
	// GiveUp is how long a Cashier waits for the answer of the payer, in milliseconds.
	GiveUp int64 `json:"give_up_ms,omitzero"`
}

// Entry is the input of accounts, and their reply.
type Entry struct {
	Transfer string `json:"transfer"`
	Cents    int64  `json:"cents"`
}

// Send is the input of Purse.Send.
type Send struct {
	Entry
	To   string `json:"to"`
	Late bool   `json:"late,omitzero"`
}

var (
	errInsufficient = actor.NewError(actor.StatusFailedPrecondition, "insufficient", "")
	errClosed       = actor.NewError(actor.StatusFailedPrecondition, "closed", "")
	errLate         = actor.NewError(actor.StatusFailedPrecondition, "late", "")
	errTimeout      = actor.NewError(actor.StatusDeadlineExceeded, "timeout", "")
)

// Teller moves money between purses of its group: all of it or nothing.
type Teller struct{ Desk }

// Make makes a transfer. The error of a purse takes back everything.
func (t *Teller) Make(ctx *actor.Context, in Order) (string, error) {
	entry := Entry{in.Transfer, in.Cents}
	pay := func(to string) error {
		if in.Nested {
			payer := actor.Ref{Type: "Purse", ID: in.From}
			_, err := actor.Call[Entry](ctx, payer, "Send", Send{entry, to, in.Late}, actor.Atomic())
			if errors.Is(err, errLate) {
				_, err = actor.Call[Entry](ctx, payer, "Send", Send{entry, to, false}, actor.Atomic())
			}
			return err
		}
		_, err := actor.Call[Entry](ctx, actor.Ref{Type: "Purse", ID: to}, "Credit", entry, actor.Atomic())
		return err
	}
	if !in.Nested {
		if _, err := actor.Call[Entry](ctx, actor.Ref{Type: "Purse", ID: in.From}, "Debit", entry, actor.Atomic()); err != nil {
			return "", err
		}
	}
	paid := in.To
	err := pay(paid)
	if errors.Is(err, errClosed) && in.Else != "" {
		paid = in.Else
		err = pay(paid)
	}
	if err != nil {
		return "", err
	}
	t.Made = append(t.Made, Made{in.Transfer, paid})
	return paid, nil
}

// callTime bounds each call of a Cashier, since chains of several hosts may wait for each other.
const callTime = 2 * time.Second

// Cashier moves money between any accounts, in calls that commit on their own at other hosts.
type Cashier struct{ Desk }

// Make makes a transfer, or finds that it cannot be made. It returns the error of a call that says
// nothing about the account: then it is to be called again with the same idempotency key.
func (c *Cashier) Make(ctx *actor.Context, in Order) (string, error) {
	call := func(id, method string, limit time.Duration) error {
		_, err := actor.Call[Entry](ctx, actor.Ref{Type: "Account", ID: id}, method, Entry{in.Transfer, in.Cents}, actor.Timeout(limit))
		return err
	}
	limit := callTime
	if in.GiveUp > 0 {
		limit = time.Duration(in.GiveUp) * time.Millisecond
	}
	outcome := in.To
	switch err := call(in.From, "Debit", limit); {
	case errors.Is(err, errInsufficient):
		outcome = refused
	case errors.Is(err, errTimeout) && in.GiveUp > 0:
		outcome = doubtful
	case err != nil:
		return "", err
	default:
		err := call(in.To, "Credit", callTime)
		if errors.Is(err, errClosed) {
			outcome = returned
			err = call(in.From, "Credit", callTime)
		}
		if err != nil {
			return "", err
		}
	}
	c.Made = append(c.Made, Made{in.Transfer, outcome})
	return outcome, nil
}

// Book answers what was made.
func (d *Desk) Book(*actor.Context, actor.None) ([]Made, error) { return d.Made, nil }

// Relay is an actor that passes visits on.
type Relay struct {
	// Visits has the names of visits in their order. A visit that took effect twice is in it twice.
	Visits []string `json:"visits"`
}

// Visit is the input of Relay.Visit.
type Visit struct {
	Name string   `json:"name"`
	Path []string `json:"path"` // of relays, to be visited next
}

// Visit records a visit before it passes it on, and again after that.
func (r *Relay) Visit(ctx *actor.Context, in Visit) (string, error) {
	if len(in.Path) > 0 {
		r.Visits = append(r.Visits, in.Name)
		next := Visit{in.Name, in.Path[1:]}
		if _, err := actor.Call[string](ctx, actor.Ref{Type: "Relay", ID: in.Path[0]}, "Visit", next, actor.Timeout(callTime)); err != nil {
			return "", err
		}
	}
	r.Visits = append(r.Visits, in.Name)
	return "visited", nil
}

// Book answers the visits.
func (r *Relay) Book(*actor.Context, actor.None) ([]string, error) { return r.Visits, nil }

func init() {
	actor.Register("Relay", actor.AllReentrant(), actor.Method("Visit", (*Relay).Visit), actor.ReadOnly("Book", (*Relay).Book))
	actor.Register("Teller", actor.CoLocate{Group: "bank", Separator: "/"},
		actor.Method("Make", (*Teller).Make),
		actor.ReadOnly("Book", (*Teller).Book))
	actor.Register("Cashier",
		actor.Method("Make", (*Cashier).Make),
		actor.ReadOnly("Book", (*Cashier).Book))
}

func main() {}
