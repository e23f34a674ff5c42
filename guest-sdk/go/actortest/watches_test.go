package actortest_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/greenroom-run/greenroom/guest-sdk/go/actor"
	"github.com/greenroom-run/greenroom/guest-sdk/go/actortest"
)

// Lobby watches the hosts of players.
type Lobby struct {
	Lost []string `json:"lost"`
}

func (l *Lobby) Join(ctx *actor.Context, player string) (actor.None, error) {
	return actor.None{}, actor.WatchHost(ctx, actor.Ref{Type: "Player", ID: player}, "Gone")
}

func (l *Lobby) JoinAndFail(ctx *actor.Context, player string) (actor.None, error) {
	if _, err := l.Join(ctx, player); err != nil {
		return actor.None{}, err
	}
	return actor.None{}, actor.Errorf("full", "the lobby is full")
}

// Try joins for a player in a called turn that fails.
func (l *Lobby) Try(ctx *actor.Context, player string) (actor.None, error) {
	_, err := actor.Call[actor.None](ctx, actor.Ref{Type: "Lobby", ID: "other"}, "JoinAndFail", player)
	if err == nil {
		return actor.None{}, errors.New("the called turn has not failed")
	}
	return actor.None{}, nil
}

func (l *Lobby) Leave(ctx *actor.Context, player string) (bool, error) {
	return actor.UnwatchHost(ctx, actor.Ref{Type: "Player", ID: player})
}

func (l *Lobby) Gone(ctx *actor.Context, _ actor.None) (actor.None, error) {
	c := ctx.Cause()
	l.Lost = append(l.Lost, fmt.Sprint(c.Kind, " ", c.From, " ", c.Failed))
	return actor.None{}, nil
}

func (l *Lobby) Close(ctx *actor.Context, _ actor.None) (actor.None, error) {
	if err := actor.PassAway(ctx); err != nil {
		return actor.None{}, err
	}
	err := actor.WatchHost(ctx, actor.Ref{Type: "Player", ID: "late"}, "Gone")
	if !errors.Is(err, actor.ErrLifeOver) {
		return actor.None{}, fmt.Errorf("after its end: %w", err)
	}
	return actor.None{}, nil
}

func (l *Lobby) Wrong(ctx *actor.Context, method string) (actor.None, error) {
	of := actor.Ref{Type: "Player", ID: "ann"}
	if method == "nobody" {
		of = actor.Service("ann")
	}
	return actor.None{}, actor.WatchHost(ctx, of, method)
}

func init() {
	actor.Register("Lobby",
		actor.Method("Join", (*Lobby).Join), actor.Method("JoinAndFail", (*Lobby).JoinAndFail), actor.Method("Try", (*Lobby).Try),
		actor.Method("Leave", (*Lobby).Leave), actor.Method("Gone", (*Lobby).Gone), actor.Method("Close", (*Lobby).Close),
		actor.Method("Wrong", (*Lobby).Wrong),
	)
}

func lost(t *testing.T, h *actortest.Harness, want ...string) {
	t.Helper()
	h.Deliver()
	var got []string
	if state := h.State("Lobby", "l")["lost"]; state != "" {
		if err := json.Unmarshal([]byte(state), &got); err != nil {
			t.Error(err)
		}
	}
	wantList(t, "learned", got, want...)
}

// A lobby learns once of each player whose host is lost, but for those that it does not watch.
func TestWatchedHostIsLost(t *testing.T) {
	h := actortest.New(t)
	for _, player := range []string{"ann", "bob", "cid"} {
		do(t, h, "Lobby", "l", "Join", player)
	}
	left := false
	if err := h.Call("Lobby", "l", "Leave", "bob", &left); err != nil {
		t.Error(err)
	}
	do(t, h, "Lobby", "l", "Try", "dan")
	if !left || len(h.Watches("Lobby", "l")) != 2 || len(h.Watches("Lobby", "other")) != 0 {
		t.Errorf("left: %v; watches %v", left, h.Watches("Lobby", "l"))
	}
	for _, player := range []string{"ann", "ann", "bob", "dan"} {
		h.Disconnect("Player", player)
	}
	want := []string{"disconnected Player||ann disconnected"}
	lost(t, h, want...)
	h.Move("Lobby", "l")
	h.Disconnect("Player", "cid")
	lost(t, h, append(want, "disconnected Player||cid moved")...)
}

// Watches end unsaid with a life; and what cannot be watched is refused.
func TestWatchesThatEndUnsaid(t *testing.T) {
	h := actortest.New(t)
	do(t, h, "Lobby", "l", "Join", "ann")
	do(t, h, "Lobby", "l", "Close", nil)
	h.Disconnect("Player", "ann")
	lost(t, h)
	for method, want := range map[string]string{"": "names no method", "Missing": `no method "Missing"`, "nobody": "the type and the ID"} {
		if err := h.Call("Lobby", "l", "Wrong", method, nil); !errors.Is(err, actor.ErrInvalidWatch) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", method, err, want)
		}
	}
	for i := range 100 {
		do(t, h, "Lobby", "l", "Join", fmt.Sprint(i))
	}
	if err := h.Call("Lobby", "l", "Join", "x", nil); !errors.Is(err, actor.ErrTooMany) {
		t.Errorf("one too many: %v", err)
	}
	do(t, h, "Lobby", "l", "Join", "7")
}
