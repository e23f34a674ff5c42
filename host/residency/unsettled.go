package residency

import (
	"maps"
	"slices"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// Unsettled are the actors for which this host has sent a commit whose outcome it did not
// find out: the commit may still land, until a later one has.
type Unsettled struct {
	keys map[actor.Key]struct{}
	more time.Time // when there was last one that is not in keys
}

// MaxUnsettled bounds what an [Unsettled] remembers; above it all actors count, for
// UnsettledFor, which is far above every timeout of a statement.
const (
	MaxUnsettled = 1024
	UnsettledFor = time.Hour
)

// Note adds an actor.
func (u *Unsettled) Note(key actor.Key, now time.Time) {
	switch {
	case u.keys == nil:
		u.keys = map[actor.Key]struct{}{key: {}}
	case len(u.keys) < MaxUnsettled:
		u.keys[key] = struct{}{}
	default:
		u.more = now
	}
}

// Has reports whether a commit of an actor may still land.
func (u *Unsettled) Has(key actor.Key, now time.Time) bool {
	_, ok := u.keys[key]
	return ok || u.Full(now)
}

// Full reports whether there may be some that are not in keys.
func (u *Unsettled) Full(now time.Time) bool {
	return !u.more.IsZero() && now.Sub(u.more) < UnsettledFor
}

// Keys returns the actors that are remembered.
func (u *Unsettled) Keys() []actor.Key { return slices.Collect(maps.Keys(u.keys)) }

// Delete forgets an actor: no commit of it can land any more.
func (u *Unsettled) Delete(key actor.Key) { delete(u.keys, key) }
