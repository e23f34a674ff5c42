package main

import (
	"errors"
	"slices"

	"github.com/greenroom-run/greenroom/guest-sdk/go/actor"
)

// Member is the state of a member.
type Member struct {
	// Room is the name of the room that the member has joined; empty: none.
	Room string `json:"room,omitempty"`
	// At is the actor that lets the member in; empty while the member waits for it.
	At string `json:"at,omitempty"`
	// Members are those who are there, in order.
	Members []string `json:"members,omitempty"`
	// Lines are the last that the member has heard.
	Lines []Line `json:"lines,omitempty"`
}

// kept is how many lines a member keeps.
const kept = 20

func room(id string) actor.Ref { return actor.Ref{Type: "Room", ID: id} }

// Join enters a room: the member is there when the room has answered.
func (m *Member) Join(ctx *actor.Context, name string) (actor.None, error) {
	if m.Room != "" {
		return actor.None{}, actor.Errorf("in_a_room", "%s is in the room %s; leave it first", ctx.ID(), m.Room)
	}
	m.Room = name
	return actor.None{}, m.enter(ctx)
}

// enter asks for the room by its name, which another actor may stand for than before. The message is durable: it
// waits until a server runs the room.
func (m *Member) enter(ctx *actor.Context) error {
	m.At, m.Members = "", nil
	return actor.Send(ctx, service(m.Room), "Enter", m.Room)
}

// Entered learns that the room has let the member in, and who else is there.
func (m *Member) Entered(ctx *actor.Context, in Roster) (actor.None, error) {
	from := ctx.Cause().From
	if in.Room != m.Room { // it has left meanwhile
		return actor.None{}, actor.Send(ctx, from, "Exit", nil)
	}
	m.At, m.Members = from.ID, in.Members
	return actor.None{}, actor.WatchHost(ctx, from, "Lost")
}

// Refused learns that a room is closed or full.
func (m *Member) Refused(ctx *actor.Context, name string) (actor.None, error) {
	if name != m.Room {
		return actor.None{}, nil
	}
	return actor.None{}, m.forget(ctx)
}

// Leave leaves the room.
func (m *Member) Leave(ctx *actor.Context, _ actor.None) (actor.None, error) {
	if m.At != "" {
		if err := actor.Send(ctx, room(m.At), "Exit", nil); err != nil {
			return actor.None{}, err
		}
	}
	return actor.None{}, m.forget(ctx)
}

// forget ends what the member has to do with a room.
func (m *Member) forget(ctx *actor.Context) error {
	at := m.At
	m.Room, m.At, m.Members = "", "", nil
	if at == "" {
		return nil
	}
	_, err := actor.UnwatchHost(ctx, room(at))
	return err
}

// Say says something in the room.
func (m *Member) Say(ctx *actor.Context, text string) (actor.None, error) {
	if m.At == "" {
		return actor.None{}, actor.Errorf("nowhere", "%s is in no room; join one first", ctx.ID())
	}
	return actor.None{}, actor.Tell(ctx, room(m.At), "Spread", text, actor.OnUndelivered("Unsaid"))
}

// Unsaid gets back what the room did not take.
func (m *Member) Unsaid(ctx *actor.Context, text string) (actor.None, error) {
	m.keep(Line{Who: ctx.ID(), Text: text, Lost: true})
	return actor.None{}, nil
}

// Hear hears what a member says.
func (m *Member) Hear(ctx *actor.Context, in Line) (actor.None, error) {
	if ctx.Cause().From.ID == m.At {
		m.keep(in)
	}
	return actor.None{}, nil
}

func (m *Member) keep(l Line) {
	m.Lines = append(m.Lines, l)
	m.Lines = m.Lines[max(0, len(m.Lines)-kept):]
}

// Present learns that another member has come or gone.
func (m *Member) Present(ctx *actor.Context, in Presence) (actor.None, error) {
	at, here := slices.BinarySearch(m.Members, in.Who)
	switch {
	case ctx.Cause().From.ID != m.At:
	case in.Here && !here:
		m.Members = slices.Insert(m.Members, at, in.Who)
	case !in.Here && here:
		m.Members = slices.Delete(m.Members, at, at+1)
	}
	return actor.None{}, nil
}

// Lost learns that the server of the room was lost, or that this member has moved to another server: what
// the room has told meanwhile may be lost as well, so the member enters once more.
func (m *Member) Lost(ctx *actor.Context, _ actor.None) (actor.None, error) {
	if m.At == "" || ctx.Cause().From.ID != m.At {
		return actor.None{}, nil
	}
	err := m.enter(ctx)
	if errors.Is(err, actor.ErrServiceNotFound) { // it was closed
		m.Room, err = "", nil
	}
	return actor.None{}, err
}

// View reads the member.
func (m *Member) View(*actor.Context, actor.None) (Member, error) { return *m, nil }
