package main

import (
	"errors"
	"slices"
	"testing"

	"github.com/greenroom-run/greenroom/examples/wallet/walletv1"
	"github.com/greenroom-run/greenroom/guest-sdk/go/actor"
	"github.com/greenroom-run/greenroom/guest-sdk/go/actortest"
)

func TestPay(t *testing.T) {
	h := actortest.New(t)
	var b walletv1.Balance
	if err := h.Call("Wallet", "ann", "Deposit", walletv1.DepositRequest{Cents: 100}, &b); err != nil || b.Cents != 100 || b.ChangedAt == nil {
		t.Fatalf("got %+v, %v", b, err)
	}
	if err := h.Call("Wallet", "ann", "Pay", walletv1.PayRequest{To: "bob", Cents: 30}, &b); err != nil || b.Cents != 70 {
		t.Fatalf("got %+v, %v", b, err)
	}
	h.DropInstance() // what counts is what was stored
	for id, cents := range map[string]int64{"ann": 70, "bob": 30, "carl": 0} {
		var b walletv1.Balance
		if err := h.Call("Wallet", id, "GetBalance", walletv1.GetBalanceRequest{}, &b); err != nil || b.Cents != cents {
			t.Errorf("%s: got %+v, %v, want %d", id, b, err, cents)
		}
	}
	var e *actor.Error
	if err := h.Call("Wallet", "ann", "Pay", walletv1.PayRequest{To: "bob", Cents: 71}, nil); !errors.As(err, &e) || e.Code != "insufficient" {
		t.Errorf("got %v", err)
	}
}

// Each wallet publishes its changes, and none for a turn that fails.
func TestWatch(t *testing.T) {
	h := actortest.New(t)
	for _, call := range []struct {
		id, method string
		in         any
		fails      bool
	}{
		{"ann", "Deposit", walletv1.DepositRequest{Cents: 100}, false},
		{"ann", "Pay", walletv1.PayRequest{To: "bob", Cents: 30}, false},
		{"ann", "Pay", walletv1.PayRequest{To: "bob", Cents: 71}, true},
	} {
		if err := h.Call("Wallet", call.id, call.method, call.in, nil); err != nil != call.fails {
			t.Fatalf("%s.%s: %v", call.id, call.method, err)
		}
	}
	for id, want := range map[string][]int64{"ann": {100, 100, -30, 70}, "bob": {30, 30}} {
		var got []int64 // what came or went, and the balance after it
		for _, e := range h.Events("Wallet", id) {
			var change walletv1.WalletEvent
			if err := e.Decode(&change); err != nil || e.Name != "Watch" || change.At == nil {
				t.Errorf("%s: got %+v, %v", id, e, err)
			}
			got = append(got, change.Cents, change.Balance)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", id, got, want)
		}
	}
}

// The methods take Protobuf's binary form alone; the server makes it of JSON.
func TestOtherPayloads(t *testing.T) {
	h := actortest.New(t)
	for name, in := range map[string]any{
		"JSON":    map[string]int{"cents": 1},
		"bytes":   []byte("x"),
		"garbage": actor.Payload{ContentType: "application/protobuf", Data: []byte{0xff}},
	} {
		var e *actor.Error
		if err := h.Call("Wallet", "ann", "Deposit", in, nil); !errors.As(err, &e) || e.Code != "bad_protobuf" || e.Status != actor.StatusInvalidArgument {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
