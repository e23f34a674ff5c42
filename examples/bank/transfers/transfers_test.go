package main

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/greenroom-run/greenroom/guest-sdk/go/actor"
	"github.com/greenroom-run/greenroom/guest-sdk/go/actortest"
)

// bank stands for the accounts, which are in another module.
func bank(t *testing.T, h *actortest.Harness, balances map[string]int64) {
	t.Helper()
	move := func(sign int64) func(string, actor.Payload) (any, error) {
		return func(id string, in actor.Payload) (any, error) {
			var cents int64
			if err := json.Unmarshal(in.Data, &cents); err != nil {
				t.Fatal(err)
			}
			switch {
			case id == "closed":
				return nil, actor.Errorf("account_closed", "%s is closed", id)
			case id == "busy":
				return nil, actor.NewError(actor.StatusUnavailable, "busy", "too many calls wait")
			case balances[id]+sign*cents < 0:
				return nil, actor.Errorf("insufficient_funds", "%s has too little", id)
			}
			balances[id] += sign * cents
			return balances[id], nil
		}
	}
	h.Fake("Account", "Debit", move(-1))
	h.Fake("Account", "Credit", move(1))
}

func TestTransfer(t *testing.T) {
	h := actortest.New(t)
	balances := map[string]int64{"ann": 500}
	bank(t, h, balances)
	for range 2 { // the second time it is made already
		var made Transfer
		if err := h.Call("Transfer", "rent", "Make", Order{From: "ann", To: "bob", Cents: 300}, &made); err != nil || made.Paid != "bob" {
			t.Fatalf("%+v, %v", made, err)
		}
	}
	if balances["ann"] != 200 || balances["bob"] != 300 {
		t.Errorf("balances %v", balances)
	}
}

func TestRefusedTransfers(t *testing.T) {
	h := actortest.New(t)
	bank(t, h, map[string]int64{"ann": 500})
	for id, tt := range map[string]struct {
		in   Order
		want string
	}{
		"a": {Order{From: "ann", To: "bob", Cents: 501}, "insufficient_funds"},
		"b": {Order{From: "ann", To: "closed", Cents: 5}, "account_closed"},
		"c": {Order{From: "ann", To: "ann", Cents: 5}, "bad_order"},
		"d": {Order{From: "ann", To: "busy", Cents: 5, Else: "bob"}, "busy"},
	} {
		var e *actor.Error
		if err := h.Call("Transfer", id, "Make", tt.in, nil); !errors.As(err, &e) || e.Code != tt.want {
			t.Errorf("%+v: %v, want %s", tt.in, err, tt.want)
		}
		if state := h.State("Transfer", id); len(state) > 0 {
			t.Errorf("%+v left %v", tt.in, state)
		}
	}
}

func TestTransferToAnotherAccount(t *testing.T) {
	h := actortest.New(t)
	balances := map[string]int64{"ann": 500}
	bank(t, h, balances)
	var made Transfer
	in := Order{From: "ann", To: "closed", Cents: 300, Else: "bob"}
	if err := h.Call("Transfer", "rent", "Make", in, &made); err != nil || made.Paid != "bob" || balances["bob"] != 300 {
		t.Errorf("%+v, %v, %v", made, err, balances)
	}
	var e *actor.Error
	if err := h.Call("Transfer", "rent", "Make", Order{From: "bob", To: "ann", Cents: 1}, nil); !errors.As(err, &e) || e.Code != "reference_used" {
		t.Error(err)
	}
}
