package routing

import (
	"context"
	"math/rand/v2"

	"github.com/greenroom-run/greenroom/actor"
)

// routes is what the router's calls share: where they go, where they wait, and the sessions to
// other hosts.
type routes struct {
	cfg     Config
	waiting *waiting
	peers   *peers
	ctx     context.Context // of everything in the background
}

// find returns where a call of an actor goes.
func (r *routes) find(key actor.Key) whereTo {
	policy, ok := r.cfg.Policy(key.App, key.Type)
	if !ok {
		return whereTo{here: true}
	}
	w := r.cfg.Placement.Find(key, policy)
	return whereTo{here: w.Here, host: w.Host, wait: w.Wait, away: w.Away, lost: w.Lost}
}

// findReader returns where a call goes that readers may answer; ok is false if the call goes to
// the actor's host. A forwarded call goes to no further reader.
func (r *routes) findReader(inv *actor.Invocation, forwarded bool) (to whereTo, ok bool) {
	readers, reads := r.cfg.Readers(inv)
	if reads {
		return whereTo{here: true}, true
	}
	if len(readers) == 0 || forwarded {
		return whereTo{}, false
	}
	owner := r.find(inv.Key)
	if owner.here {
		return owner, true
	}
	// All hosts that can answer have equal shares, the owner too if it is known.
	n := len(readers)
	if owner.host != "" {
		n++
	}
	id, reader := owner.host, false
	if i := rand.IntN(n); i < len(readers) { //nolint:gosec // to spread calls
		id, reader = readers[i], true
	}
	if _, _, ok := r.cfg.Placement.Peer(id); !ok || id == r.cfg.Placement.Self() {
		return whereTo{}, false
	}
	return whereTo{host: id, reader: reader}, true
}

// reads reports whether the local host may answer a call as a reader. The call is a copy, so that
// only the copy escapes to the heap.
func (r *routes) reads(inv actor.Invocation) bool {
	_, here := r.cfg.Readers(&inv)
	return here
}

// whereTo is a [placement.Where], or a reader of the actor.
type whereTo struct {
	here   bool
	host   actor.HostID
	wait   <-chan struct{}
	away   string
	lost   bool
	reader bool // host is a reader, and is not known to hold the actor
}

// id names the host.
func (w whereTo) id() actor.HostID {
	if w.here {
		return here
	}
	return w.host
}
