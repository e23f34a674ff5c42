package main

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/greenroom-run/greenroom/guest-sdk/go/actor"
	"github.com/greenroom-run/greenroom/guest-sdk/go/actortest"
)

func do(t *testing.T, h *actortest.Harness, typ, id, method string, in any) {
	t.Helper()
	if err := h.Call(typ, id, method, in, nil); err != nil {
		t.Fatalf("%s %s %s: %v", typ, id, method, err)
	}
	h.Deliver()
}

func fails(t *testing.T, h *actortest.Harness, typ, id, method string, in any, want string) {
	t.Helper()
	var e *actor.Error
	if err := h.Call(typ, id, method, in, nil); !errors.As(err, &e) || e.Code != want {
		t.Errorf("%s %s %s: %v, want %s", typ, id, method, err, want)
	}
}

func see(t *testing.T, h *actortest.Harness, id string) (m Member) {
	t.Helper()
	if err := h.Call("Member", id, "View", nil, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// wantPresent checks who is there, for the room and for each who is.
func wantPresent(t *testing.T, h *actortest.Harness, ids ...string) {
	t.Helper()
	var r Room
	if err := h.Call("Room", "r1", "View", nil, &r); err != nil || strings.Join(r.Members, " ") != strings.Join(ids, " ") {
		t.Errorf("the room has %q, %v, want %q", r.Members, err, ids)
	}
	for _, id := range ids {
		if m := see(t, h, id); m.At != "r1" || strings.Join(m.Members, " ") != strings.Join(ids, " ") {
			t.Errorf("%s is at %q and sees %q, want %q", id, m.At, m.Members, ids)
		}
	}
	if n := len(h.Watches("Room", "r1")); n != len(ids) {
		t.Errorf("the room watches %d servers", n)
	}
}

func wantLines(t *testing.T, h *actortest.Harness, id string, want ...Line) {
	t.Helper()
	if got := see(t, h, id).Lines; len(got)+len(want) > 0 && !reflect.DeepEqual(got, want) {
		t.Errorf("%s has heard %v, want %v", id, got, want)
	}
}

// open has members join a room.
func open(t *testing.T, ids ...string) *actortest.Harness {
	t.Helper()
	h := actortest.New(t)
	do(t, h, "Room", "r1", "Open", "lobby")
	for _, id := range ids {
		do(t, h, "Member", id, "Join", "lobby")
	}
	return h
}

func TestTalk(t *testing.T) {
	h := open(t, "bob", "ann")
	wantPresent(t, h, "ann", "bob")
	do(t, h, "Member", "ann", "Say", "hello")
	do(t, h, "Member", "cid", "Join", "lobby")
	wantPresent(t, h, "ann", "bob", "cid")
	do(t, h, "Member", "bob", "Say", "hi")
	hello, hi := Line{Who: "ann", Text: "hello"}, Line{Who: "bob", Text: "hi"}
	wantLines(t, h, "ann", hello, hi)
	wantLines(t, h, "bob", hello, hi)
	wantLines(t, h, "cid", hi)
	do(t, h, "Member", "bob", "Leave", nil)
	wantPresent(t, h, "ann", "cid")
	do(t, h, "Member", "ann", "Say", "bye")
	wantLines(t, h, "bob", hello, hi)
	for i := range kept + 5 {
		do(t, h, "Member", "cid", "Say", fmt.Sprint(i))
	}
	if lines := see(t, h, "ann").Lines; len(lines) != kept || lines[kept-1].Text != fmt.Sprint(kept+4) {
		t.Errorf("kept %v", lines)
	}
}

// A service is one room's. Members of one that is closed are in none, and the next one of that name is
// another actor.
func TestRoomsHaveNames(t *testing.T) {
	h := open(t, "ann")
	fails(t, h, "Room", "r2", "Open", "lobby", "taken")
	fails(t, h, "Room", "r1", "Open", "den", "open")
	fails(t, h, "Room", "r2", "Open", "", "no_name")
	fails(t, h, "Room", "r2", "Close", nil, "closed")
	fails(t, h, "Member", "ann", "Join", "den", "in_a_room")
	fails(t, h, "Member", "bob", "Join", "den", "service_not_found")
	fails(t, h, "Member", "bob", "Say", "hello", "nowhere")
	do(t, h, "Room", "r1", "Close", nil)
	if m := see(t, h, "ann"); m.Room != "" || len(h.Watches("Member", "ann"))+len(h.Watches("Room", "r1")) != 0 {
		t.Errorf("after the end %+v", m)
	}
	do(t, h, "Room", "r2", "Open", "lobby")
	do(t, h, "Member", "ann", "Join", "lobby")
	if m := see(t, h, "ann"); m.At != "r2" {
		t.Errorf("ann is at %q", m.At)
	}
}

func TestFullRoom(t *testing.T) {
	h := open(t)
	for i := range most + 1 {
		do(t, h, "Member", fmt.Sprintf("m%03d", i), "Join", "lobby")
	}
	last := fmt.Sprintf("m%03d", most)
	if m := see(t, h, last); m.Room != "" {
		t.Errorf("the room has let %+v in", m)
	}
	do(t, h, "Member", "m000", "Leave", nil)
	do(t, h, "Member", last, "Join", "lobby")
	if m := see(t, h, last); len(m.Members) != most {
		t.Errorf("it sees %d members", len(m.Members))
	}
}

// A member whose server is lost leaves the room, and the other members learn of it. So does a member that refuses a line.
func TestLostMember(t *testing.T) {
	h := open(t, "ann", "bob", "cid")
	h.Disconnect("Member", "bob")
	h.Deliver()
	wantPresent(t, h, "ann", "cid")
	h.Fake("Member", "Hear", func(id string, _ actor.Payload) (any, error) {
		if id == "ann" {
			return nil, actor.Errorf("broken", "no")
		}
		return nil, nil
	})
	do(t, h, "Member", "cid", "Say", "hello")
	wantPresent(t, h, "cid")
}

// Members enter once more if the room's server is lost, and if they have moved; a room that has moved, or that was
// loaded anew, watches them as before.
func TestLostRoom(t *testing.T) {
	h := open(t, "ann", "bob")
	h.Disconnect("Room", "r1")
	h.Deliver()
	wantPresent(t, h, "ann", "bob")
	h.Move("Member", "ann")
	h.Deliver()
	wantPresent(t, h, "ann", "bob")
	h.Move("Room", "r1")
	h.Deliver()
	wantPresent(t, h, "ann", "bob")
	h.Disconnect("Member", "bob")
	h.Deliver()
	wantPresent(t, h, "ann")
}

// What the room does not take comes back.
func TestUnsaid(t *testing.T) {
	h := open(t, "ann", "bob")
	h.Fake("Room", "Spread", func(string, actor.Payload) (any, error) { return nil, actor.Errorf("not_here", "no") })
	do(t, h, "Member", "ann", "Say", "hello")
	wantLines(t, h, "ann", Line{Who: "ann", Text: "hello", Lost: true})
	wantLines(t, h, "bob")
}

// A directory lists the rooms that are open, wherever it is.
func TestDirectory(t *testing.T) {
	h := open(t)
	lists := func(want ...string) {
		t.Helper()
		var d Directory
		if err := h.Call("Directory", "all", "View", nil, &d); err != nil || !slices.Equal(d.Rooms, want) {
			t.Errorf("the directory has %q, %v, want %q", d.Rooms, err, want)
		}
	}
	do(t, h, "Directory", "all", "Follow", nil)
	lists("lobby")
	do(t, h, "Room", "r2", "Open", "den")
	lists("den", "lobby")
	h.Move("Directory", "all")
	h.Deliver()
	do(t, h, "Room", "r1", "Close", nil)
	lists("den")
	do(t, h, "Room", "r2", "Close", nil)
	lists()
}
