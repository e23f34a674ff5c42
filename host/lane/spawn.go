package lane

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"strings"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine"
	"github.com/greenroom-run/greenroom/host/call"
	"github.com/greenroom-run/greenroom/host/children"
	"github.com/greenroom-run/greenroom/host/serving"
	"github.com/greenroom-run/greenroom/host/storage"
)

// Spawner names the actors that turns spawn.
type Spawner struct {
	Deployments *serving.Deployments
	Store       *storage.Store
	NewName     func() string // makes random names
	Children    *children.Families
}

// spawned counts the actors that a chain has spawned, by who spawned them, and their type.
type spawned map[spawnedBy]int

// next counts one more, and returns how many there are by now.
func (s *spawned) next(by spawnedBy) int {
	if *s == nil {
		*s = spawned{}
	}
	(*s)[by]++
	return (*s)[by]
}

type spawnedBy struct{ key, typ string }

// spawn is what [turn.Spawner] says, for a turn of the actor by, in a chain that c began.
//
// The ID follows from what began the chain, from the actor that spawns, and from how many actors
// of the type it has spawned in the chain: another run gets it again, with which other hosts may
// have been called meanwhile. A repeated request, or another firing, begins in the same way once
// more. So an ID is passed over if its actor has a row: an earlier one has spawned it.
func (sp *Spawner) spawn(ctx context.Context, c *call.Call, before *spawned, key actor.Key, typ string) (row actor.RowWrite, code abi.Code, problem string) {
	s, code, problem := sp.served(c, key.App, typ)
	if code != 0 {
		return row, code, problem
	}
	began, by := c.Began(c.Seed), spawnedBy{key.String(), typ}
	for {
		child := actor.Key{App: s.Deployment.App, Type: s.Deployment.Type, ID: by.id(began, before.next(by))}
		if c.Cause.Recorded() {
			var version uint64
			var err error
			engine.Outside(ctx, func() { version, _, err = sp.Store.Version(ctx, child) })
			if err != nil {
				return row, abi.CodeNotReady, "the store cannot be asked for the new actor now"
			}
			if version != 0 {
				continue
			}
		}
		return firstRow(child, s), 0, ""
	}
}

// served returns what serves the type of an actor that is to be spawned, and gives c a seed.
func (sp *Spawner) served(c *call.Call, app, typ string) (s *serving.Type, code abi.Code, problem string) {
	s, err := sp.Deployments.Of(app, typ)
	switch {
	case errors.Is(err, actor.ErrTypeNotFound):
		return nil, abi.CodeInvalid, fmt.Sprintf("the app %s has no type %q", app, typ[:min(len(typ), actor.MaxNameLen)])
	case err != nil:
		return nil, abi.CodeNotReady, "the host cannot read what serves the type now"
	case s.Lane == serving.LaneStateless:
		return nil, abi.CodeInvalid, "the type " + typ + " is placed stateless, and all of its actors are there"
	}
	if c.Seed == "" {
		c.Seed = sp.NewName()
	}
	return s, 0, ""
}

// firstRow is the row of an actor that a turn spawns.
func firstRow(key actor.Key, s *serving.Type) actor.RowWrite {
	return actor.RowWrite{Key: key, NewVersion: actor.FirstVersion(), Spawned: true, Generation: s.Deployment.Generation, StateSchema: s.StateSchema}
}

// spawnChild is spawn of a volatile child. It gets the same ID again when c is run again, as long as the
// parent's activation lives, and no other child ever does. made is how many children the chain has made
// for the parent before.
func (sp *Spawner) spawnChild(c *call.Call, before *spawned, parent actor.Key, typ string, sharing bool, made int) (row actor.RowWrite, code abi.Code, problem string) {
	s, code, problem := sp.served(c, parent.App, typ)
	switch {
	case code != 0:
		return row, code, problem
	case s.Lane != serving.LaneWarm:
		return row, abi.CodeInvalid, "the type " + typ + " is placed any, and no host keeps its actors in memory"
	case sp.Children.Count(parent)+made >= children.Max:
		return row, abi.CodeTooMany, fmt.Sprintf("an actor has at most %d volatile children; have some pass away", children.Max)
	}
	by := spawnedBy{parent.String(), typ}
	id := sp.Children.ID(parent, by.id(c.Seed, before.next(by)), sharing)
	return firstRow(actor.Key{App: s.Deployment.App, Type: s.Deployment.Type, ID: id}, s), 0, ""
}

// id is short enough for [abi.MaxSpawnedIDLen], and says nothing.
func (by *spawnedBy) id(began string, n int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d\x00%s\x00%d\x00%s\x00%s\x00%d", len(began), began, len(by.key), by.key, by.typ, n))
	return strings.ToLower(base32.StdEncoding.EncodeToString(sum[:20]))
}
