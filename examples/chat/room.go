package main

import (
	"slices"

	"github.com/greenroom-run/greenroom/guest-sdk/go/actor"
)

// Room is the state of a room. Members know its name, and not its ID: it stands for a service.
type Room struct {
	// Name is empty while the room is closed.
	Name string `json:"name,omitempty"`
	// Members are those who are there, in order.
	Members []string `json:"members,omitempty"`
}

// most is how many members a room has at most: as many as an actor watches.
const most = 100

// rooms is the group of the services that rooms stand for.
const rooms = "rooms/"

// service is the service that a room stands for.
func service(room string) actor.Ref { return actor.Service(rooms + room) }

func member(id string) actor.Ref { return actor.Ref{Type: "Member", ID: id} }

// Roster is the message that a member gets when it has entered a room.
type Roster struct {
	Room    string   `json:"room"`
	Members []string `json:"members"`
}

// Presence is that a member has come or gone.
type Presence struct {
	Who  string `json:"who"`
	Here bool   `json:"here"`
}

// Line is something that a member has said.
type Line struct {
	Who  string `json:"who"`
	Text string `json:"text"`
	// Lost is true for one that the room has not taken.
	Lost bool `json:"lost,omitempty"`
}

// Open opens the room under a name.
func (r *Room) Open(ctx *actor.Context, name string) (actor.None, error) {
	switch {
	case name == "":
		return actor.None{}, actor.NewError(actor.StatusInvalidArgument, "no_name", "a room has a name; give one")
	case r.Name != "":
		return actor.None{}, actor.Errorf("open", "the room is open as %s; close it first", r.Name)
	}
	r.Name = name
	return actor.None{}, actor.Claim(ctx, service(name).ID)
}

// Close closes the room, and tells the members.
func (r *Room) Close(ctx *actor.Context, _ actor.None) (actor.None, error) {
	if r.Name == "" {
		return actor.None{}, actor.Errorf("closed", "the room is not open")
	}
	for _, id := range r.Members {
		if _, err := actor.UnwatchHost(ctx, member(id)); err != nil {
			return actor.None{}, err
		}
		if err := actor.Tell(ctx, member(id), "Refused", r.Name); err != nil {
			return actor.None{}, err
		}
	}
	_, err := actor.Release(ctx, service(r.Name).ID)
	*r = Room{}
	return actor.None{}, err
}

// View reads the room.
func (r *Room) View(*actor.Context, actor.None) (Room, error) { return *r, nil }

// Enter lets a member in, or once more. The room watches the member's server before it tells the member
// anything: the member gets a message, or the room learns that the server was lost.
func (r *Room) Enter(ctx *actor.Context, room string) (actor.None, error) {
	who := ctx.Cause().From
	at, here := slices.BinarySearch(r.Members, who.ID)
	if room != r.Name || !here && len(r.Members) == most {
		return actor.None{}, actor.Tell(ctx, who, "Refused", room)
	}
	if err := actor.WatchHost(ctx, who, "Gone"); err != nil {
		return actor.None{}, err
	}
	if !here {
		if err := r.tell(ctx, "Present", Presence{who.ID, true}); err != nil {
			return actor.None{}, err
		}
		r.Members = slices.Insert(r.Members, at, who.ID)
	}
	return actor.None{}, actor.Tell(ctx, who, "Entered", Roster{r.Name, r.Members}, actor.OnUndelivered("Absent"))
}

// Exit lets a member out.
func (r *Room) Exit(ctx *actor.Context, _ actor.None) (actor.None, error) {
	return actor.None{}, r.remove(ctx, ctx.Cause().From.ID)
}

// Spread tells all members, the speaker as well, what one of them says.
func (r *Room) Spread(ctx *actor.Context, text string) (actor.None, error) {
	who := ctx.Cause().From.ID
	if _, here := slices.BinarySearch(r.Members, who); !here {
		return actor.None{}, actor.Errorf("not_here", "%s is not in the room", who)
	}
	return actor.None{}, r.tell(ctx, "Hear", Line{Who: who, Text: text})
}

// Absent gets back what a member did not take.
func (r *Room) Absent(ctx *actor.Context, _ actor.Payload) (actor.None, error) {
	return actor.None{}, r.remove(ctx, ctx.Cause().From.ID)
}

// Gone learns that the server of a member was lost. If it is the room that has moved to another server, it goes on
// to watch the member from there.
func (r *Room) Gone(ctx *actor.Context, _ actor.None) (actor.None, error) {
	who := ctx.Cause().From
	if _, here := slices.BinarySearch(r.Members, who.ID); here && ctx.Cause().Failed == actor.WatchMoved {
		return actor.None{}, actor.WatchHost(ctx, who, "Gone")
	}
	return actor.None{}, r.remove(ctx, who.ID)
}

// Woken watches the servers of all members, since watches are lost with the room's own server.
func (r *Room) Woken(ctx *actor.Context, _ actor.None) (actor.None, error) {
	for _, id := range r.Members {
		if err := actor.WatchHost(ctx, member(id), "Gone"); err != nil {
			return actor.None{}, err
		}
	}
	return actor.None{}, nil
}

// remove lets a member out, if it is there, and tells the others.
func (r *Room) remove(ctx *actor.Context, id string) error {
	at, here := slices.BinarySearch(r.Members, id)
	if !here {
		return nil
	}
	r.Members = slices.Delete(r.Members, at, at+1)
	if _, err := actor.UnwatchHost(ctx, member(id)); err != nil {
		return err
	}
	return r.tell(ctx, "Present", Presence{Who: id})
}

// tell tells all members something. Those who do not take it are removed.
func (r *Room) tell(ctx *actor.Context, method string, in any) error {
	for _, id := range r.Members {
		if err := actor.Tell(ctx, member(id), method, in, actor.OnUndelivered("Absent")); err != nil {
			return err
		}
	}
	return nil
}
