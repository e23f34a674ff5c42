// Command lives is a guest whose actors change their method sets, spawn others, stand for services and
// pass away as they are told to.
package main

import (
	"errors"

	"github.com/greenroom-run/greenroom/guest-sdk/go/actor"
)

// Door counts who enters.
type Door struct {
	Entered int         `json:"entered"`
	Made    []actor.Ref `json:"made"` // what it has spawned
}

// Enter counts one more; only an open door does.
func (d *Door) Enter(*actor.Context, actor.None) (int, error) {
	d.Entered++
	return d.Entered, nil
}

// Open opens a closed door.
func (d *Door) Open(ctx *actor.Context, _ actor.None) (int, error) {
	return d.Entered, actor.Become(ctx, "open")
}

// Close closes an open door.
func (d *Door) Close(ctx *actor.Context, _ actor.None) (int, error) {
	return d.Entered, actor.Become(ctx, "closed")
}

// End ends the door's life.
func (d *Door) End(ctx *actor.Context, _ actor.None) (int, error) {
	return d.Entered, actor.PassAway(ctx)
}

// Make spawns a guest, and sends it a first message.
func (d *Door) Make(ctx *actor.Context, _ actor.None) (string, error) {
	made, err := actor.Spawn(ctx, "Guest")
	if err != nil {
		return "", err
	}
	d.Made = append(d.Made, made)
	return made.ID, actor.Send(ctx, made, "Greet", actor.None{})
}

// Claim has the door stand for a service, and reports whether it does.
func (d *Door) Claim(ctx *actor.Context, service string) (bool, error) {
	err := actor.Claim(ctx, service)
	if errors.Is(err, actor.ErrTaken) {
		return false, nil
	}
	return err == nil, err
}

// Release ends that.
func (d *Door) Release(ctx *actor.Context, service string) (bool, error) {
	return actor.Release(ctx, service)
}

// Look returns what the door is.
func (d *Door) Look(*actor.Context, actor.None) (Door, error) { return *d, nil }

// Guest is an actor that is there only if a door has spawned it.
type Guest struct {
	Greeted int `json:"greeted"`
}

// Greet counts.
func (g *Guest) Greet(*actor.Context, actor.None) (int, error) {
	g.Greeted++
	return g.Greeted, nil
}

// Leave ends the guest's life.
func (g *Guest) Leave(ctx *actor.Context, _ actor.None) (int, error) {
	return g.Greeted, actor.PassAway(ctx)
}

// Look returns how often it was greeted.
func (g *Guest) Look(*actor.Context, actor.None) (int, error) { return g.Greeted, nil }

func init() {
	actor.Register("Door",
		actor.Method("Enter", (*Door).Enter, actor.In("open")), actor.Method("Open", (*Door).Open, actor.In("closed")), actor.Method("Close", (*Door).Close, actor.In("open")),
		actor.Method("End", (*Door).End), actor.Method("Make", (*Door).Make), actor.Method("Claim", (*Door).Claim), actor.Method("Release", (*Door).Release),
		actor.ReadOnly("Look", (*Door).Look))
	actor.Register("Guest", actor.SpawnOnly(), actor.Method("Greet", (*Guest).Greet), actor.Method("Leave", (*Guest).Leave), actor.ReadOnly("Look", (*Guest).Look))
}

func main() {}
