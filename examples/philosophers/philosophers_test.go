package main

import (
	"errors"
	"strconv"
	"testing"

	"github.com/greenroom-run/greenroom/guest-sdk/go/actor"
	"github.com/greenroom-run/greenroom/guest-sdk/go/actortest"
)

func TestMeals(t *testing.T) {
	h := actortest.New(t)
	const seats = 5
	for _, method := range []string{"Eat", "EatInOrder"} {
		for i := range seats {
			if err := h.Call("Philosopher", strconv.Itoa(i), method, Table{seats}, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := range seats {
		var f Fork
		if err := h.Call("Fork", strconv.Itoa(i), "View", nil, &f); err != nil || f.Used != 4 {
			t.Errorf("fork %d: %+v, %v", i, f, err)
		}
		var p Philosopher
		if err := h.Call("Philosopher", strconv.Itoa(i), "View", nil, &p); err != nil || p.Meals != 2 {
			t.Errorf("philosopher %d: %+v, %v", i, p, err)
		}
	}
}

func TestSeats(t *testing.T) {
	h := actortest.New(t)
	for id, seats := range map[string]int{"0": 1, "5": 5, "-1": 5, "plato": 5} {
		var e *actor.Error
		if err := h.Call("Philosopher", id, "Eat", Table{seats}, nil); !errors.As(err, &e) || e.Code != "no_seat" {
			t.Errorf("%s of %d: %v", id, seats, err)
		}
	}
}
