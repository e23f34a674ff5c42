package main

import (
	"strings"

	"github.com/greenroom-run/greenroom/guest-sdk/go/actor"
)

// Directory is the state of a directory, which lists the rooms that are open.
type Directory struct {
	// Rooms are their names, in order.
	Rooms []string `json:"rooms"`
}

// Follow watches the rooms. It is also the hook that runs when the directory is loaded, since a watch
// is lost with the directory's server.
func (d *Directory) Follow(ctx *actor.Context, _ actor.None) (actor.None, error) {
	return actor.None{}, actor.WatchService(ctx, rooms, "Changed")
}

// Changed learns which rooms are open now, or that the directory has moved to another server.
func (d *Directory) Changed(ctx *actor.Context, now actor.Services) (actor.None, error) {
	if ctx.Cause().Failed == actor.WatchMoved {
		return d.Follow(ctx, actor.None{})
	}
	d.Rooms = make([]string, 0, len(now.Services))
	for _, room := range now.Services {
		d.Rooms = append(d.Rooms, strings.TrimPrefix(room.Name, rooms))
	}
	return actor.None{}, nil
}

// View reads the directory.
func (d *Directory) View(*actor.Context, actor.None) (Directory, error) { return *d, nil }
