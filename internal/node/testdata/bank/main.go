// Command bank is a guest whose accounts call each other.
package main

import (
	"cmp"

	"github.com/greenroom-run/greenroom/guest-sdk/go/actor"
)

// Account is the state.
type Account struct {
	Balance int `json:"balance"`
}

// Transfer is the input of its method.
type Transfer struct {
	// Type is the type of the others; empty: Account.
	Type   string `json:"type,omitzero"`
	To     string `json:"to"`
	Amount int    `json:"amount"`
	// Retry is another account to which the amount goes if the first one refuses it.
	Retry string `json:"retry,omitzero"`
}

var deposit = actor.Remote[int, int]{Type: "Account", Method: "Deposit"}

// Deposit adds to the balance. Nobody can deposit 13 at once, which is found out late.
func (a *Account) Deposit(_ *actor.Context, amount int) (int, error) {
	a.Balance += amount
	if amount == 13 {
		return 0, actor.Errorf("unlucky", "nobody deposits %d", amount)
	}
	return a.Balance, nil
}

// Transfer moves an amount to another account, and answers what is left.
func (a *Account) Transfer(ctx *actor.Context, in Transfer) (int, error) {
	deposit := deposit
	deposit.Type = cmp.Or(in.Type, deposit.Type)
	a.Balance -= in.Amount
	_, err := deposit.Call(ctx, in.To, in.Amount)
	if err != nil && in.Retry != "" {
		_, err = deposit.Call(ctx, in.Retry, in.Amount+1)
		a.Balance--
	}
	if err == nil && a.Balance < 0 { // late, when the other one has it
		err = actor.Errorf("insufficient", "%d are missing", -a.Balance)
	}
	return a.Balance, err
}

// PayBack has another account pay back what it is given, and answers what the two have by then.
func (a *Account) PayBack(ctx *actor.Context, in Transfer) (seen [2]int, err error) {
	a.Balance -= in.Amount
	reply, err := actor.Call[int](ctx, actor.Ref{Type: "Account", ID: in.To}, "Return", Transfer{To: ctx.ID(), Amount: in.Amount})
	return [2]int{a.Balance, reply}, err
}

// Return gives an amount back to an account that waits for it, and fails late for 12.
func (a *Account) Return(ctx *actor.Context, in Transfer) (int, error) {
	a.Balance++ // of interest
	left, err := actor.Call[int](ctx, actor.Ref{Type: "Account", ID: in.To}, "Receive", in.Amount)
	if err == nil && in.Amount == 12 {
		err = actor.Errorf("unlucky", "nobody returns %d", in.Amount)
	}
	return left, err
}

// Reconsider has PayBack fail, and goes on.
func (a *Account) Reconsider(ctx *actor.Context, to string) (int, error) {
	a.Balance--
	_, err := actor.Call[int](ctx, actor.Ref{Type: "Account", ID: to}, "Return", Transfer{To: ctx.ID(), Amount: 12})
	if err == nil {
		return 0, actor.Errorf("lucky", "no error")
	}
	a.Balance -= 2
	return a.Balance, nil
}

// Trap writes and traps.
func (a *Account) Trap(_ *actor.Context, _ actor.None) (int, error) {
	a.Balance = 1 << 30
	panic("on purpose")
}

// CallTrap calls a method that traps, and answers the code.
func (a *Account) CallTrap(ctx *actor.Context, id string) (string, error) {
	_, err := actor.Call[int](ctx, actor.Ref{Type: "Account", ID: id}, "Trap", nil)
	e, _ := err.(*actor.Error)
	if e == nil {
		return "", err
	}
	return e.Code, nil
}

// Get answers the balance.
func (a *Account) Get(_ *actor.Context, _ actor.None) (int, error) { return a.Balance, nil }

// Worth answers what this account and another one have together.
func (a *Account) Worth(ctx *actor.Context, other string) (int, error) {
	n, err := actor.Call[int](ctx, actor.Ref{Type: "Account", ID: other}, "Get", nil)
	return a.Balance + n, err
}

func init() {
	actor.Register("Account",
		actor.Method("Deposit", (*Account).Deposit),
		actor.Method("Transfer", (*Account).Transfer),
		actor.Method("Receive", (*Account).Deposit, actor.Reentrant()),
		actor.Method("PayBack", (*Account).PayBack),
		actor.Method("Return", (*Account).Return),
		actor.Method("Reconsider", (*Account).Reconsider),
		actor.Method("Trap", (*Account).Trap),
		actor.Method("CallTrap", (*Account).CallTrap),
		actor.ReadOnly("Get", (*Account).Get),
		actor.ReadOnly("Worth", (*Account).Worth),
	)
}

func main() {}
