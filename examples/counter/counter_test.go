package main

import (
	"errors"
	"math"
	"testing"

	"github.com/greenroom-run/greenroom/guest-sdk/go/actor"
	"github.com/greenroom-run/greenroom/guest-sdk/go/actortest"
)

func call(t *testing.T, h *actortest.Harness, id, method string, in any) int64 {
	t.Helper()
	var v Value
	if err := h.Call("Counter", id, method, in, &v); err != nil {
		t.Fatal(err)
	}
	return v.Count
}

func TestCountersAreApart(t *testing.T) {
	h := actortest.New(t)
	call(t, h, "a", "Add", Add{Amount: 2})
	call(t, h, "b", "Add", Add{Amount: -7})
	call(t, h, "a", "Add", Add{Amount: 3})
	h.DropInstance() // what counts is what was stored
	if a, b := call(t, h, "a", "Get", nil), call(t, h, "b", "Get", nil); a != 5 || b != -7 {
		t.Errorf("got %d and %d, want 5 and -7", a, b)
	}
}

func TestReset(t *testing.T) {
	h := actortest.New(t)
	call(t, h, "a", "Add", Add{Amount: 2})
	if was := call(t, h, "a", "Reset", nil); was != 2 {
		t.Errorf("reset answered %d, want 2", was)
	}
	if now := call(t, h, "a", "Get", nil); now != 0 {
		t.Errorf("after reset: %d, want 0", now)
	}
}

func TestOverflowChangesNothing(t *testing.T) {
	h := actortest.New(t)
	for _, edge := range []struct{ full, more int64 }{{math.MaxInt64, 1}, {math.MinInt64, -1}} {
		call(t, h, "a", "Reset", nil)
		call(t, h, "a", "Add", Add{Amount: edge.full})
		err := h.Call("Counter", "a", "Add", Add{Amount: edge.more}, nil)
		var e *actor.Error
		if !errors.As(err, &e) || e.Code != "overflow" {
			t.Errorf("got %v, want overflow", err)
		}
		if now := call(t, h, "a", "Get", nil); now != edge.full {
			t.Errorf("got %d, want %d", now, edge.full)
		}
	}
}
