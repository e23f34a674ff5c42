package lane

import (
	"context"
	"time"

	"github.com/greenroom-run/greenroom/abi/envelope"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/call"
	"github.com/greenroom-run/greenroom/host/residency"
)

// View is an actor as people and tools see it.
type View struct {
	Key         actor.Key
	Version     uint64
	Generation  uint64 // of the deployment that last wrote the row
	StateSchema uint32
	MethodSet   string    // that the actor accepts; empty: all
	Life        uint64    // how often it has passed away
	Spawned     bool      // another actor made it
	StateSize   int64     // bytes as stored
	UpdatedAt   time.Time // database time
	// Entries is the committed state in ascending byte order of the keys. It is
	// the caller's to read, not to change.
	Entries []envelope.Entry
	// Active reports whether the actor is in this host's memory; QueueDepth is how many
	// invocations wait in its mailbox.
	Active     bool
	QueueDepth int
	// Timers are those that the actor has on this host, in order of their names and without
	// payloads.
	Timers []actor.Timer
}

// View is Host.View.
func (rd *Reads) View(ctx context.Context, key actor.Key) (View, error) {
	// Not with the loads of turns, which end with the host.
	s := rd.Table.Shard(key)
	s.Mu.Lock()
	forgets, asked := s.History.Forgets(), time.Now()
	s.Mu.Unlock()
	var row actor.Row
	rows, err := rd.Store.Committer.LoadActors(ctx, []actor.Key{key}, actor.LoadOptions{})
	if err == nil {
		row = rows[0]
	}
	l, err := residency.ReadRow(key, row, err)
	switch {
	case err != nil:
		if ctx.Err() != nil {
			err = call.ContextError(ctx)
		}
	case !l.Exists:
		err = actor.ErrActorNotFound
	case l.Damage != nil:
		err = l.Damage
	}
	if err != nil {
		return View{}, &actor.TurnError{Key: key, Err: err}
	}
	v := View{
		Key:         key,
		Version:     l.Version,
		Generation:  l.Generation,
		StateSchema: l.StateSchema,
		MethodSet:   l.MethodSet,
		Life:        l.Life,
		Spawned:     l.Spawned,
		StateSize:   int64(l.State.Size()),
		UpdatedAt:   l.UpdatedAt,
		Entries:     l.State.Entries(),
	}
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if a := s.Actors[key]; a != nil && a.Loaded != nil {
		s.Show(a, l, asked, forgets)
	} else {
		s.NoteNewer(a, l.Version)
	}
	s.History.Answered.Note(key, l.Version, time.Now())
	v.Timers = s.Timers.All(key)
	if a := s.Actors[key]; a != nil {
		v.Active, v.QueueDepth = true, a.Calls.Len()
	}
	return v, nil
}
