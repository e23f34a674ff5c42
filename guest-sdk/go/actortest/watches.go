package actortest

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/guest-sdk/go/actor"
)

// Disconnect has the host of an actor be lost for the actors that watch it with
// [actor.WatchHost]: [Harness.Deliver] runs their methods. The actor itself notices nothing.
func (h *Harness) Disconnect(typ, id string) {
	lost := actor.Ref{Type: typ, ID: id}
	h.endWatches(actor.WatchDisconnected, func(_, of actor.Ref) bool { return of == lost })
}

// Move has an actor move to another host: its timers end, and its watches of hosts as well, which
// [Harness.Deliver] tells it.
func (h *Harness) Move(typ, id string) {
	moved := actor.Ref{Type: typ, ID: id}
	h.endWatches(actor.WatchMoved, func(by, _ actor.Ref) bool { return by == moved })
	h.Deactivate(typ, id)
}

// Watches returns the actors whose hosts an actor watches, with the method that runs when a watch
// ends.
func (h *Harness) Watches(typ, id string) map[actor.Ref]string {
	return maps.Clone(h.watches[actor.Ref{Type: typ, ID: id}])
}

// endWatches ends watches of an actor by another one, in the order of their names, and sends
// notices of that.
func (h *Harness) endWatches(why string, ends func(by, of actor.Ref) bool) {
	var notices []*message
	for by, watches := range h.watches {
		for of, method := range watches {
			if !ends(by, of) {
				continue
			}
			delete(watches, of)
			notices = append(notices, &message{
				Message: abi.Message{Method: method, Flags: abi.MessageVolatile},
				from:    of, to: by, returned: true, failed: why, notice: true,
			})
		}
	}
	slices.SortFunc(notices, func(a, b *message) int {
		return cmp.Or(strings.Compare(a.to.String(), b.to.String()), strings.Compare(a.from.String(), b.from.String()))
	})
	for _, m := range notices {
		m.post(h)
	}
}

// maxWatches is how many hosts an actor watches.
const maxWatches = 100

// watchChange is what a chain does to a watch.
type watchChange struct {
	by, of actor.Ref
	method string // empty: it ends
}

// watched are the watches of an actor, as the chain sees them.
func (c *chain) watched(by actor.Ref) map[actor.Ref]string {
	watched := maps.Clone(c.harness.watches[by])
	if watched == nil {
		watched = map[actor.Ref]string{}
	}
	for _, w := range c.watches {
		if w.by == by {
			w.apply(watched)
		}
	}
	return watched
}

func (w *watchChange) apply(to map[actor.Ref]string) {
	if to[w.of] = w.method; w.method == "" {
		delete(to, w.of)
	}
}

// HostWatch has the actor watch a host, or end that.
func (h *turnHost) HostWatch(typ, id, method string) int32 {
	if code := cmp.Or(h.mayAct(), mayKeep(h)); code != 0 {
		return int32(code)
	}
	w := watchChange{h.ref, actor.Ref{Type: strings.Clone(typ), ID: strings.Clone(id)}, strings.Clone(method)}
	if typ == "" || id == "" {
		return int32(h.refuse("a watch needs the type and the ID of an actor"))
	}
	if method != "" {
		if problem := receiverProblem(h.harness, h.ref, method); problem != "" {
			return int32(h.refuse(problem))
		}
	}
	c := h.harness.chain
	watched := c.watched(h.ref)
	_, replaced := watched[w.of]
	if method != "" && !replaced && len(watched) == maxWatches {
		return int32(h.refusedFor(abi.CodeTooMany, "an actor watches at most "+strconv.Itoa(maxWatches)+" hosts"))
	}
	c.watches = append(c.watches, w)
	if replaced {
		return 1
	}
	return 0
}

// commitWatches makes what the chain has done to watches hold.
func (c *chain) commitWatches() {
	h := c.harness
	for _, w := range c.watches {
		if h.watches == nil {
			h.watches = map[actor.Ref]map[actor.Ref]string{}
		}
		if h.watches[w.by] == nil {
			h.watches[w.by] = map[actor.Ref]string{}
		}
		w.apply(h.watches[w.by])
	}
}
