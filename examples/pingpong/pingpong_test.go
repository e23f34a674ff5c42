package main

import (
	"errors"
	"testing"

	"github.com/greenroom-run/greenroom/guest-sdk/go/actor"
	"github.com/greenroom-run/greenroom/guest-sdk/go/actortest"
)

func want(t *testing.T, h *actortest.Harness, id string, want Player) {
	t.Helper()
	var got Player
	if err := h.Call("Player", id, "View", nil, &got); err != nil || got != want {
		t.Errorf("%s: %+v, %v, want %+v", id, got, err, want)
	}
}

func serve(t *testing.T, h *actortest.Harness, id string, game Game) {
	t.Helper()
	if err := h.Call("Player", id, "Serve", game, nil); err != nil {
		t.Fatal(err)
	}
}

// Each of the players hits the ball once in a round, and then nobody plays any more.
func TestGame(t *testing.T) {
	h := actortest.New(t)
	serve(t, h, "ann", Game{Against: "bob", Rounds: 3})
	want(t, h, "ann", Player{Hits: 1, Against: "bob"})
	h.Deliver()
	want(t, h, "ann", Player{Hits: 3, Won: 1})
	want(t, h, "bob", Player{Hits: 3})
	serve(t, h, "bob", Game{Against: "ann", Rounds: 1})
	h.Deliver()
	want(t, h, "bob", Player{Hits: 4, Won: 1})
	if left := len(h.Watches("Player", "ann")) + len(h.Watches("Player", "bob")); left != 0 {
		t.Errorf("%d servers are watched after the games", left)
	}
}

// A game is lost with the server of the opponent, and when the player moves; one that is over is not.
func TestLostServer(t *testing.T) {
	h := actortest.New(t)
	serve(t, h, "ann", Game{Against: "bob", Rounds: 3})
	h.Fake("Player", "Return", func(string, actor.Payload) (any, error) { return nil, nil }) // the ball is lost with bob's server
	h.Disconnect("Player", "bob")
	h.Deliver()
	want(t, h, "ann", Player{Hits: 1, Lost: 1})
	serve(t, h, "ann", Game{Against: "bob", Rounds: 3})
	h.Move("Player", "ann")
	h.Deliver()
	want(t, h, "ann", Player{Hits: 2, Lost: 2})
}

// A ball that nobody takes comes back, and the game is lost.
func TestMissedBall(t *testing.T) {
	h := actortest.New(t)
	serve(t, h, "ann", Game{Against: "bob", Rounds: 3})
	h.Fake("Player", "Return", func(string, actor.Payload) (any, error) { return nil, actor.Errorf("asleep", "no") })
	h.Deliver()
	want(t, h, "ann", Player{Hits: 1, Lost: 1})
}

func TestGamesThatCannotBe(t *testing.T) {
	h := actortest.New(t)
	serve(t, h, "ann", Game{Against: "bob", Rounds: 1})
	for code, game := range map[string]Game{"no_opponent": {Against: "ann", Rounds: 1}, "no_rounds": {Against: "bob"}, "playing": {Against: "cid", Rounds: 1}} {
		var e *actor.Error
		if err := h.Call("Player", "ann", "Serve", game, nil); !errors.As(err, &e) || e.Code != code {
			t.Errorf("%s: %v", code, err)
		}
	}
}
