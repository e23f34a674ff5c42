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

// Move has an actor move to another host: its timers end, and its watches as well, which
// [Harness.Deliver] tells it.
func (h *Harness) Move(typ, id string) {
	moved := actor.Ref{Type: typ, ID: id}
	h.endWatches(actor.WatchMoved, func(by, _ actor.Ref) bool { return by == moved })
	h.Deactivate(typ, id)
}

// Watches returns the actors whose hosts an actor watches, and what it watches with
// [actor.WatchService] as an [actor.Service], with the methods of the watches.
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
			delete(h.listings, listing{by, of})
			notices = append(notices, newNotice(by, of, method, why))
		}
	}
	slices.SortFunc(notices, func(a, b *message) int {
		return cmp.Or(strings.Compare(a.to.String(), b.to.String()), strings.Compare(a.from.String(), b.from.String()))
	})
	for _, m := range notices {
		if m.from.Type == "" {
			postList(h, m, actor.Services{})
		} else {
			m.post(h)
		}
	}
}

// newNotice is the notice of a watch of another actor, or of services.
func newNotice(by, of actor.Ref, method, failed string) *message {
	return &message{
		Message: abi.Message{Method: method, Flags: abi.MessageVolatile},
		from:    of, to: by, returned: true, failed: failed, notice: true,
	}
}

// postList posts a notice of services with a list, in the place of an earlier one.
func postList(h *Harness, m *message, list actor.Services) {
	list.Services = append([]actor.NamedActor{}, list.Services...) // not null
	payload, err := encodePayload(list)
	if err != nil {
		h.t.Fatalf("actortest: %v", err)
	}
	m.ContentType, m.Payload = payload.ContentType, payload.Data
	h.inbox = slices.DeleteFunc(h.inbox, func(other *message) bool { return other.notice && other.to == m.to && other.from == m.from })
	m.post(h)
}

// listing is a watch of services.
type listing struct{ by, of actor.Ref }

// reportServices tells each watch of services the list, unless that is the one before.
func reportServices(h *Harness) {
	var of []listing
	for by, watches := range h.watches {
		for ref := range watches {
			if ref.Type == "" {
				of = append(of, listing{by, ref})
			}
		}
	}
	slices.SortFunc(of, func(a, b listing) int {
		return cmp.Or(strings.Compare(a.by.String(), b.by.String()), strings.Compare(a.of.ID, b.of.ID))
	})
	for _, w := range of {
		list := listed(h, w.of.ID)
		if last, told := h.listings[w]; told && last.More == list.More && slices.Equal(last.Services, list.Services) {
			continue
		}
		h.listings[w] = list
		postList(h, newNotice(w.by, w.of, h.watches[w.by][w.of], ""), list)
	}
}

// maxListed is how many services a list has.
const maxListed = 256

// listed are the actors that stand for a service, or for those of a group.
func listed(h *Harness, watched string) (list actor.Services) {
	group := strings.HasSuffix(watched, "/")
	for _, name := range slices.Sorted(maps.Keys(h.services)) {
		if name != watched && (!group || !strings.HasPrefix(name, watched)) {
			continue
		}
		if list.More = len(list.Services) == maxListed; list.More {
			break
		}
		list.Services = append(list.Services, actor.NamedActor{Name: name, Type: h.services[name].Type, ID: h.services[name].ID})
	}
	return list
}

// maxWatches is how many hosts and services an actor watches.
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
	problem := ""
	if typ == "" || id == "" {
		problem = "a watch needs the type and the ID of an actor"
	}
	return watch(h, actor.Ref{Type: strings.Clone(typ), ID: strings.Clone(id)}, method, problem)
}

// ServiceWatch has the actor watch services, or end that.
func (h *turnHost) ServiceWatch(name, method string) int32 {
	return watch(h, actor.Service(strings.Clone(name)), method, serviceProblem(name))
}

// watch has the actor watch something, unless there is a problem.
func watch(h *turnHost, of actor.Ref, method, problem string) int32 {
	if code := cmp.Or(h.mayAct(), mayKeep(h)); code != 0 {
		return int32(code)
	}
	w := watchChange{h.ref, of, strings.Clone(method)}
	if problem == "" && method != "" {
		problem = receiverProblem(h.harness, h.ref, method)
	}
	if problem != "" {
		return int32(h.refuse(problem))
	}
	c := h.harness.chain
	watched := c.watched(h.ref)
	_, replaced := watched[w.of]
	if method != "" && !replaced && len(watched) == maxWatches {
		return int32(h.refusedFor(abi.CodeTooMany, "an actor watches at most "+strconv.Itoa(maxWatches)+" hosts and services"))
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
			h.watches, h.listings = map[actor.Ref]map[actor.Ref]string{}, map[listing]actor.Services{}
		}
		if h.watches[w.by] == nil {
			h.watches[w.by] = map[actor.Ref]string{}
		}
		w.apply(h.watches[w.by])
		if w.method == "" {
			delete(h.listings, listing{w.by, w.of})
		}
	}
}
