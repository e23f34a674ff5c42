// Command wallet is a guest whose clients are generated: its actors serve the Protobuf service
// wallet.v1.WalletService.
package main

import (
	"time"

	"github.com/greenroom-run/greenroom/examples/wallet/walletv1"
	"github.com/greenroom-run/greenroom/guest-sdk/go/actor"
)

//go:generate greenroom generate --lang go --out walletv1 --id wallet_id -I proto proto/wallet/v1/wallet.proto

// Wallet is the state of an actor.
type Wallet struct {
	Cents   int64     `json:"cents"`
	Changed time.Time `json:"changed,omitzero"`
}

var (
	errAmount       = actor.NewError(actor.StatusInvalidArgument, "bad_amount", "give a positive number of cents")
	errInsufficient = actor.NewError(actor.StatusFailedPrecondition, "insufficient", "there is not enough money in the wallet")
)

func (w *Wallet) balance() walletv1.Balance {
	b := walletv1.Balance{Cents: w.Cents}
	if !w.Changed.IsZero() {
		b.ChangedAt = w.changed()
	}
	return b
}

func (w *Wallet) changed() *walletv1.Timestamp {
	return &walletv1.Timestamp{Seconds: w.Changed.Unix(), Nanos: int32(w.Changed.Nanosecond())}
}

// change puts money in or takes it out, and publishes that to the clients of Watch.
func (w *Wallet) change(ctx *actor.Context, cents int64) error {
	w.Cents += cents
	w.Changed = ctx.Now()
	return walletv1.PublishWatch(ctx, walletv1.WalletEvent{Cents: cents, Balance: w.Cents, At: w.changed()})
}

// Deposit puts money in.
func (w *Wallet) Deposit(ctx *actor.Context, in walletv1.DepositRequest) (walletv1.Balance, error) {
	if in.Cents <= 0 {
		return walletv1.Balance{}, errAmount.Messagef("cents is %d; give a positive number", in.Cents)
	}
	if err := w.change(ctx, in.Cents); err != nil {
		return walletv1.Balance{}, err
	}
	return w.balance(), nil
}

// Pay moves money to another wallet, in one transaction.
func (w *Wallet) Pay(ctx *actor.Context, in walletv1.PayRequest) (walletv1.Balance, error) {
	switch {
	case in.Cents <= 0:
		return walletv1.Balance{}, errAmount.Messagef("cents is %d; give a positive number", in.Cents)
	case in.Cents > w.Cents:
		return walletv1.Balance{}, errInsufficient.Messagef("the wallet has %d cents, and %d were to be paid", w.Cents, in.Cents)
	}
	to := walletv1.WalletServiceRef{Ref: actor.Ref{Type: "Wallet", ID: in.To}}
	if _, err := to.Deposit(ctx, walletv1.DepositRequest{WalletId: in.To, Cents: in.Cents}, actor.Atomic()); err != nil {
		return walletv1.Balance{}, err
	}
	if err := w.change(ctx, -in.Cents); err != nil {
		return walletv1.Balance{}, err
	}
	return w.balance(), nil
}

// GetBalance changes nothing.
func (w *Wallet) GetBalance(*actor.Context, walletv1.GetBalanceRequest) (walletv1.Balance, error) {
	return w.balance(), nil
}

func init() { walletv1.RegisterWalletService[Wallet]("Wallet") }

func main() {}
