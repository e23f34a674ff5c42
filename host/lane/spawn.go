package lane

import (
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"strings"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine"
	"github.com/greenroom-run/greenroom/host/serving"
)

// spawnedBy is who spawns, and actors of which type.
type spawnedBy struct{ key, typ string }

// Spawn implements [turn.Spawner]. The ID follows from what began the chain, from the actor
// that spawns, and from how many actors of the type it has spawned in the chain: another run
// gets it again, with which other hosts may have been called meanwhile. A repeated request, or
// another firing, begins in the same way once more. So an ID is passed over if its actor has a
// row: an earlier one has spawned it.
func (t *Run) Spawn(typ string) (row actor.RowWrite, code abi.Code, problem string) {
	app := t.Of.Inv.Key.App
	s, err := t.by.Deployments.Of(app, typ)
	switch {
	case errors.Is(err, actor.ErrTypeNotFound):
		return row, abi.CodeInvalid, fmt.Sprintf("the app %s has no type %q", app, cutName(typ))
	case err != nil:
		return row, abi.CodeNotReady, "the host cannot read what serves the type now"
	case s.Lane == serving.LaneStateless:
		return row, abi.CodeInvalid, "the type " + typ + " is placed stateless, and all of its actors are there"
	}
	root := t
	if t.Outermost != nil {
		root = t.Outermost
	}
	if root.spawned == nil {
		root.spawned = map[spawnedBy]int{}
	}
	if root.Of.Seed == "" {
		root.Of.Seed = t.by.NewName()
	}
	began, by := root.Of.Began(root.Of.Seed), spawnedBy{t.Of.Inv.Key.String(), typ}
	for {
		root.spawned[by]++
		key := actor.Key{App: s.Deployment.App, Type: s.Deployment.Type, ID: spawnedID(began, by, root.spawned[by])}
		if root.Of.Cause.Recorded() {
			var version uint64
			engine.Outside(t.Context(), func() { version, _, err = t.by.Store.Version(t.Context(), key) })
			if err != nil {
				return row, abi.CodeNotReady, "the store cannot be asked for the new actor now"
			}
			if version != 0 {
				continue
			}
		}
		return actor.RowWrite{
			Key: key, NewVersion: actor.FirstVersion(), Spawned: true, Generation: s.Deployment.Generation, StateSchema: s.StateSchema,
		}, 0, ""
	}
}

// spawnedID is short enough for [abi.MaxSpawnedIDLen], and says nothing.
func spawnedID(began string, by spawnedBy, n int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d\x00%s\x00%d\x00%s\x00%s\x00%d", len(began), began, len(by.key), by.key, by.typ, n))
	return strings.ToLower(base32.StdEncoding.EncodeToString(sum[:20]))
}

// cutName is a name that a guest gave, shortened for a text.
func cutName(name string) string { return name[:min(len(name), actor.MaxNameLen)] }
