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

// find says where a call of an actor goes.
func (r *routes) find(key actor.Key) whereTo {
	policy, ok := r.cfg.Policy(key.App, key.Type)
	if !ok {
		return whereTo{here: true}
	}
	w := r.cfg.Placement.Find(key, policy)
	return whereTo{here: w.Here, host: w.Host, wait: w.Wait, away: w.Away, lost: w.Lost}
}

// findReader says where a call goes that may be answered by others than the host of its
// actor; false: to that one. A call that is passed on is answered here or by that one.
func (r *routes) findReader(inv *actor.Invocation, passedOn bool) (whereTo, bool) {
	readers, reads := r.cfg.Readers(inv)
	if reads {
		return whereTo{here: true}, true
	}
	if len(readers) == 0 || passedOn {
		return whereTo{}, false
	}
	owner := r.find(inv.Key)
	if owner.here {
		return owner, true
	}
	// All that can answer have an equal part; where the owner is not known, the readers.
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

// reads reports whether the local host may answer a call as a reader. It has a copy, which
// is on the heap, since the call itself need not be.
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
