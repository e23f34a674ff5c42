package actor

import (
	"testing"

	"github.com/greenroom-run/greenroom/abi"
)

// Whatever frame comes, the guest answers, and with an error frame if it failed.
func FuzzTurn(f *testing.F) {
	r := newRegistry()
	add(r, "Basket", Method("Add", (*basket).Add), ReadOnly("View", (*basket).View))
	turn := abi.Turn{What: abi.WhatMethod, App: "a", Type: "Basket", ID: "i", Method: "Add", Revision: 1, Payload: []byte(`"x"`)}
	f.Add(abi.AppendTurn(nil, &turn))
	turn.Payload = []byte(`{"Items": [`)
	f.Add(abi.AppendTurn(nil, &turn))
	turn.Method, turn.Flags, turn.Payload = "View", abi.FlagReadOnly, nil
	f.Add(abi.AppendTurn(nil, &turn))
	turn.What = abi.WhatMigrate
	f.Add(abi.AppendTurn(nil, &turn))
	h := &objectHost{}
	in := newInstance(h, r)
	f.Fuzz(func(t *testing.T, frame []byte) {
		h.fail = abi.Error{}
		failed := in.Turn(frame) == abi.TurnFailed
		if failed != (h.fail.Status != 0) {
			t.Fatalf("failed is %t, the error %+v", failed, h.fail)
		}
	})
}
