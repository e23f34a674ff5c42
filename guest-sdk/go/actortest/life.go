package actortest

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/guest-sdk/go/actor"
)

// society is what a harness has of its actors beside their state.
type society struct {
	inbox    []*message // of all actors, in the order in which they were sent
	services map[string]actor.Ref
	spawned  uint64             // counts actors, for their IDs
	gone     map[actor.Ref]bool // spawned ones that have passed away
	events   []Event            // of all actors, in their order
	watches  map[actor.Ref]map[actor.Ref]string
	listings map[listing]actor.Services // that watches of services were told last
	// subscriptions are those of actors, by the subscriber and the publisher.
	subscriptions map[actor.Ref]map[actor.Ref]*subscription
	awake         map[actor.Ref]bool // whose state is in memory
	families      families
}

// nextMessage returns the first that is delivered until a time and does not wait for another method
// set; nil if there is none.
func (s *society) nextMessage(until time.Time, waits func(*message) bool) *message {
	type pair struct{ from, to actor.Ref }
	ahead := map[pair]bool{} // has a message that later ones wait for
	var first *message
	for _, m := range s.inbox { // in order
		if m.ordered() {
			p := pair{m.from, m.to}
			if ahead[p] {
				continue
			}
			ahead[p] = true
		}
		if !m.deliverAt.After(until) && !waits(m) && (first == nil || m.deliverAt.Before(first.deliverAt)) {
			first = m
		}
	}
	return first
}

// MethodSet is the set of methods that an actor accepts: [actor.Become]; empty: all.
func (h *Harness) MethodSet(typ, id string) string {
	if r := h.actors[actor.Ref{Type: typ, ID: id}]; r != nil {
		return r.set
	}
	return ""
}

// Service returns the actor that stands for a service, [actor.Claim]; false if there is none.
func (h *Harness) Service(name string) (actor.Ref, bool) {
	ref, found := h.services[name]
	return ref, found
}

// life is what a chain has done to an actor beside its state.
type life struct {
	methodSet *string // nil: as it is stored
	passed    bool
	// created and activated mean that the hooks have run.
	created, activated bool
}

// hooks runs what comes before the turn of an actor that may write.
func (c *chain) hooks(ref actor.Ref, m *member, spec *abi.TypeSpec, turn *abi.Turn) error {
	o := m.overlay
	if name := spec.Hooks.Created; name != "" && !m.stored.created && !o.created {
		if err := c.hook(ref, m, turn, name); err != nil {
			return err
		}
		o.created = true
	}
	if name := spec.Hooks.Activated; name != "" && !c.harness.awake[ref] && !o.activated {
		if err := c.hook(ref, m, turn, name); err != nil {
			return err
		}
		o.activated = true
	}
	return nil
}

// hook runs a hook as a part of a turn.
func (c *chain) hook(ref actor.Ref, m *member, of *abi.Turn, name string) error {
	turn := abi.Turn{
		What: abi.WhatMethod, App: of.App, Type: of.Type, ID: of.ID, Method: name,
		InvocationID: of.InvocationID, TimeUnixNano: of.TimeUnixNano, MethodSet: of.MethodSet,
	}
	_, err := c.run(ref, m, turn)
	if e := (*actor.Error)(nil); errors.As(err, &e) {
		return e.Messagef("the hook %s: %s", name, e.Message)
	}
	return err
}

// Leave asks an actor to leave, as a server does that gives it to another one or stops: the actor's
// hook leaving runs if there is one and the actor has a state in memory, and [Harness.Deactivate]
// follows. The error is that of the hook, which a server logs and no caller gets.
func (h *Harness) Leave(typ, id string) error {
	h.t.Helper()
	ref := actor.Ref{Type: typ, ID: id}
	spec, known := h.types[typ]
	if !known {
		h.t.Fatalf("actortest: leave: no actor type %q is registered", typ)
	}
	defer h.Deactivate(typ, id)
	if spec.Hooks.Leaving == "" || !h.awake[ref] || h.Version(typ, id) == 0 {
		return nil
	}
	_, err := h.invoke(ref, spec.Hooks.Leaving, actor.Payload{}, &cause{})
	return err
}

// exists says why there is no such actor.
func (c *chain) exists(ref actor.Ref, spec *abi.TypeSpec) error {
	h := c.harness
	r := h.actors[ref]
	switch {
	case slices.Contains(c.spawned, ref):
		return actor.ErrNotAtomic.Messagef("%s was spawned in this transaction, and takes calls once that is committed; send it a message", ref)
	case c.members[ref] != nil && c.members[ref].overlay.passed:
		return actor.ErrPassedAway.Messagef("%s has passed away in this transaction", ref)
	case isChild(ref) && (r == nil || !r.spawned):
		return noChild(ref)
	case h.gone[ref]:
		return actor.ErrPassedAway.Messagef("%s was spawned, and has passed away", ref)
	case spec.Spawn == abi.SpawnOnly && (r == nil || !r.spawned):
		return actor.ErrPassedAway.Messagef("no actor has spawned %s, and the type's actors exist only so", ref)
	}
	return nil
}

// accepts says why a call or a message cannot run a method of the actor.
func (m *member) accepts(ref actor.Ref, called *abi.MethodSpec) error {
	if set := m.methodSet(); set != "" && len(called.Sets) > 0 && !slices.Contains(called.Sets, set) {
		return actor.ErrNotAccepted.Messagef("%s is in the set %q of methods, which does not have %s", ref, set, called.Name)
	}
	return nil
}

// waitsOutside reports whether a message waits until its receiver has another method set.
func waitsOutside(h *Harness, m *message) bool {
	spec := h.types[m.to.Type]
	called, err := h.method(m.to.Type, m.Method)
	set := h.MethodSet(m.to.Type, m.to.ID)
	return err == nil && spec.OutsideSet == abi.OutsideSetWait && set != "" && !m.returned && len(called.Sets) > 0 && !slices.Contains(called.Sets, set)
}

func (m *member) methodSet() string {
	if m.overlay.methodSet != nil {
		return *m.overlay.methodSet
	}
	return m.stored.set
}

// maxSpawned is how many actors a turn may spawn, with those that it calls.
const maxSpawned = 64

// spawn returns the ID of a new actor, or why there is none.
func (c *chain) spawn(typ string) (id string, code abi.Code, problem string) {
	h := c.harness
	spec := h.types[typ]
	switch problem := unknownType(h, typ); {
	case problem != "":
		return "", abi.CodeInvalid, problem
	case spec.Placement == abi.PlacementStateless:
		return "", abi.CodeInvalid, typ + " is stateless: its actors need not be spawned"
	case len(c.spawned) == maxSpawned:
		return "", abi.CodeTooMany, "a turn may spawn " + strconv.Itoa(maxSpawned) + " actors"
	}
	id = "spawned-" + strconv.FormatUint(h.spawned+uint64(len(c.spawned))+1, 10)
	c.spawned = append(c.spawned, actor.Ref{Type: strings.Clone(typ), ID: id})
	return id, 0, ""
}

// become says why the actor cannot accept a set of methods.
func (c *chain) become(ref actor.Ref, o *overlay, set string) (problem string) {
	known := set == ""
	for _, m := range c.harness.types[ref.Type].Methods {
		known = known || slices.Contains(m.Sets, set)
	}
	if !known {
		return "no method of " + ref.Type + " is in a set " + strconv.Quote(set) + "; add actor.In to those that are accepted in it"
	}
	set = strings.Clone(set)
	o.methodSet = &set
	return ""
}

func serviceProblem(name string) string {
	if name == "" || len(name) > abi.MaxServiceLen || strings.ContainsFunc(name, unicode.IsControl) {
		return "the service has " + strconv.Itoa(len(name)) + " bytes; give 1 to " + strconv.Itoa(abi.MaxServiceLen) + " without control characters"
	}
	return ""
}

// claim gives a service to an actor, unless another one stands for it.
func (c *chain) claim(ref actor.Ref, name string) (abi.Code, string) {
	if problem := serviceProblem(name); problem != "" {
		return abi.CodeInvalid, problem
	}
	if by, found := c.service(name); found && by != ref {
		return abi.CodeTaken, by.String() + " stands for the service " + strconv.Quote(name)
	}
	c.services[strings.Clone(name)] = ref
	return 0, ""
}

// release takes a service back from an actor.
func (c *chain) release(ref actor.Ref, name string) bool {
	by, found := c.service(name)
	if !found || by != ref {
		return false
	}
	c.services[strings.Clone(name)] = actor.Ref{}
	return true
}

// commitLife makes what the chain has done beside state durable. waiting is the last message
// that was there when it began.
func (c *chain) commitLife(waiting uint64) {
	h := c.harness
	for name, ref := range c.services {
		if ref.Type == "" {
			delete(h.services, name)
		} else {
			h.services[name] = ref
		}
	}
	c.commitWatches()
	commitSubscriptions(c)
	h.events = append(h.events, c.events...)
	for ref, m := range c.members {
		if !m.written {
			continue
		}
		h.awake[ref] = true
		if set := m.overlay.methodSet; set != nil && h.MethodSet(ref.Type, ref.ID) != *set {
			h.commit(ref, h.types[ref.Type].StateSchema, h.actors[ref].state, h.actors[ref].revision)
			h.actors[ref].set = *set
		}
		if m.overlay.passed {
			passAway(h, ref, waiting)
		}
	}
	for _, m := range c.sent {
		m.post(h)
	}
	reportServices(h)
}

func passAway(h *Harness, ref actor.Ref, waiting uint64) {
	if h.actors[ref].spawned {
		h.gone[ref] = true
	}
	var ended, kept []*message
	for _, m := range h.inbox {
		if m.to == ref && m.order <= waiting {
			ended = append(ended, m)
		} else {
			kept = append(kept, m)
		}
	}
	h.inbox = nil
	remove(h, ref)
	h.inbox = kept
	if slices.ContainsFunc(h.events, func(e Event) bool { return e.From == ref }) {
		h.events = append(h.events, Event{From: ref, Name: passedAwayEvent, At: h.now})
	}
	for _, m := range ended {
		m.undelivered(h, actor.ErrPassedAway)
	}
}
