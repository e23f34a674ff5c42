package routing

import (
	"context"

	"github.com/greenroom-run/greenroom/actor"
)

// Locate returns the host that holds an actor, once that is known, and this host. If this
// host does not know better than another one, the answer may be old. It waits as calls do:
// [actor.ErrNoOwner] if that takes too long.
func (r *Router) Locate(ctx context.Context, key actor.Key) (holder, self actor.HostID, err error) {
	self = r.cfg.Placement.Self()
	for t := (attempts{}); ; {
		w := r.find(key)
		switch {
		case w.here:
			return self, self, nil
		case w.host != "":
			return w.host, self, nil
		case w.away != "":
			return "", self, &actor.HostAwayError{Name: w.away}
		case w.lost:
			return "", self, actor.ErrUnavailable
		}
		if err := r.awaitChange(ctx, key, &t, w.wait); err != nil {
			return "", self, err
		}
	}
}
