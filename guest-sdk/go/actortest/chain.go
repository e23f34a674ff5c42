package actortest

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/guest-sdk/go/actor"
	"github.com/greenroom-run/greenroom/guest-sdk/go/internal/bridge"
)

const (
	maxDepth  = 32 // of turns that call each other
	maxActors = 64 // of a chain
)

// chain is a turn that no actor called and the turns that it calls: one transaction over
// their actors.
type chain struct {
	harness *Harness
	members map[actor.Ref]*member
	open    []actor.Ref // whose turns run, the outermost first
	faking  bool        // a fake runs, or has panicked
	leaving bool        // the turn is the hook of an actor that leaves

	sent     []*message
	events   []Event
	spawned  []actor.Ref
	services map[string]actor.Ref // that it has changed; zero: released
	watches  []watchChange

	subscriptions []subscriptionChange
	consumes      *subscription // whose event asks for the turn
}

// member is an actor of a chain, as the chain has changed it so far.
type member struct {
	stored  *row
	overlay *overlay
	schema  uint32 // of what the overlay has
	written bool   // a turn that may change the actor has ended well
}

// savepoint is what the chain and its members were like before a call, by value.
type savepoint struct {
	members               map[actor.Ref]saved
	sent, spawned, events int
	watches               int
	subscriptions         int
	services              map[string]actor.Ref
}

type saved struct {
	values    map[string]value
	revision  uint64
	reminders map[string]*reminder
	timers    []timerChange
	life      life
	schema    uint32
	written   bool
}

// invoke runs one turn to its commit, as a host does; one that a fake forwards, to its end.
//
// by is what asks for the turn, nil for a call: of an actor, or from outside.
func (h *Harness) invoke(ref actor.Ref, method string, payload actor.Payload, by *cause) (actor.Payload, error) {
	if h.chain != nil {
		return h.chain.nested(ref, method, payload)
	}
	if isChild(ref) && by == nil { // nobody outside knows it
		return actor.Payload{}, noChild(ref)
	}
	if spec, err := h.method(ref.Type, method); err == nil && spec.Private && by == nil {
		return actor.Payload{}, actor.NewError(actor.StatusPermissionDenied, "method_private", "only actors, their reminders and their timers call "+ref.Type+"."+method)
	}
	c := &chain{harness: h, members: map[actor.Ref]*member{}, services: map[string]actor.Ref{}, leaving: by != nil && by.kind == 0}
	if by != nil {
		c.consumes = by.event
	}
	waiting := h.reminded
	h.chain = c
	defer func() { h.chain = nil }()
	reply, err := c.turn(ref, method, payload, by)
	if err != nil {
		return actor.Payload{}, err
	}
	h.spawned += uint64(len(c.spawned))
	for _, ref := range c.spawned {
		h.commit(ref, h.types[ref.Type].StateSchema, nil, h.nextRevision())
		h.actors[ref].spawned = true
	}
	for ref, m := range c.members {
		if m.written {
			c.commit(ref, m)
		}
	}
	c.commitLife(waiting)
	return reply, nil
}

func (c *chain) commit(ref actor.Ref, m *member) {
	h := c.harness
	if o := m.overlay; !maps.EqualFunc(m.stored.state, o.values, value.equal) || o.created {
		h.commit(ref, h.types[ref.Type].StateSchema, o.values, o.revision)
		h.actors[ref].created = true
	}
	h.commitReminders(ref, m.overlay.reminders)
	h.commitTimers(ref, m.overlay.timers)
}

// call answers a call that a guest makes, in a turn that is perhaps read-only. own reports whether
// the called turn was committed on its own.
func (c *chain) call(m *abi.Message, readOnly bool) (reply actor.Payload, own bool, err error) {
	if c.leaving {
		return reply, false, actor.ErrNotAtomic.Messagef("the hook of an actor that leaves cannot call others; send a message")
	}
	to := actor.Ref{Type: strings.Clone(m.Type), ID: strings.Clone(m.ID)}
	if m.Service != "" && to == (actor.Ref{}) {
		var found bool
		if to, found = c.service(m.Service); !found {
			return reply, false, actor.ErrServiceNotFound.Messagef("no actor stands for the service %q", m.Service)
		}
	}
	name := method{to.Type, strings.Clone(m.Method)}
	in := actor.Payload{ContentType: strings.Clone(m.ContentType), Data: bytes.Clone(m.Payload)}
	if to.Type == "" || to.ID == "" || name.name == "" {
		return reply, false, actor.NewError(actor.StatusInvalidArgument, abi.CallInvalid, "a call needs a type, an ID and a method")
	}
	if err := unrelated(c, to); err != nil {
		return reply, false, err
	}
	spec, err := c.harness.method(to.Type, name.name)
	fake := c.harness.fakes[name]
	if fake != nil && err != nil {
		spec, err = abi.MethodSpec{ReadOnly: fake.readOnly}, nil
	}
	switch {
	case err != nil:
		return reply, false, err
	case readOnly && !spec.ReadOnly:
		return reply, false, actor.ErrReadOnly.Messagef("a read-only method calls %s.%s, which is not read-only", to.Type, name.name)
	}
	if fake != nil {
		switch {
		case slices.Contains(c.open, to):
			return reply, false, notReentrant(to)
		case fake.elsewhere && m.Flags&abi.MessageAtomic != 0:
			return reply, false, actor.ErrNotAtomic.Messagef("%s is at another server, as its fake says", to)
		}
		before := c.save()
		c.faking = true
		answer, err := fake.answer(to.ID, in)
		c.faking = false
		if err != nil {
			c.goBack(before)
			return reply, false, err
		}
		reply, err = encodePayload(answer)
		return reply, fake.elsewhere, err
	}
	reply, err = c.nested(to, name.name, in)
	return reply, false, err
}

// method returns what a type says of a method.
func (h *Harness) method(typ, name string) (abi.MethodSpec, error) {
	spec := h.types[typ]
	if at := slices.IndexFunc(spec.Methods, func(m abi.MethodSpec) bool { return m.Name == name }); at >= 0 {
		return spec.Methods[at], nil
	}
	if problem := unknownType(h, typ); problem != "" {
		return abi.MethodSpec{}, actor.NewError(actor.StatusNotFound, "type_not_found", problem)
	}
	return abi.MethodSpec{}, actor.NewError(actor.StatusNotFound, "method_not_found", fmt.Sprintf("actor type %s has no method %q", typ, name))
}

// unknownType says that a type is neither registered nor faked; empty if it is.
func unknownType(h *Harness, typ string) string {
	_, ok := h.types[typ]
	for of := range h.fakes {
		ok = ok || of.typ == typ
	}
	if ok {
		return ""
	}
	return fmt.Sprintf("no actor type %q is registered, and no method of it is faked", typ)
}

func notReentrant(ref actor.Ref) error {
	return actor.ErrNotReentrant.Messagef("a turn of %s %s is waiting for this call", ref.Type, ref.ID)
}

// nested runs a called turn. One that fails changes nothing.
func (c *chain) nested(ref actor.Ref, method string, payload actor.Payload) (actor.Payload, error) {
	spec, err := c.harness.method(ref.Type, method)
	switch _, known := c.members[ref]; {
	case err != nil:
		return actor.Payload{}, err
	case slices.Contains(c.open, ref) && !spec.Reentrant:
		return actor.Payload{}, notReentrant(ref)
	case len(c.open) > maxDepth:
		return actor.Payload{}, actor.NewError(actor.StatusFailedPrecondition, abi.CallTooDeep, "calls are nested at most "+strconv.Itoa(maxDepth)+" deep")
	case !known && len(c.members) == maxActors:
		return actor.Payload{}, actor.NewError(actor.StatusResourceExhausted, abi.CallTooMany, "a turn and what it calls have at most "+strconv.Itoa(maxActors)+" actors")
	}
	before := c.save()
	reply, err := c.turn(ref, method, payload, nil)
	if err != nil {
		c.goBack(before)
	}
	return reply, err
}

func (c *chain) save() savepoint {
	s := savepoint{map[actor.Ref]saved{}, len(c.sent), len(c.spawned), len(c.events), len(c.watches), len(c.subscriptions), maps.Clone(c.services)}
	for ref, m := range c.members {
		o := m.overlay
		s.members[ref] = saved{maps.Clone(o.values), o.revision, maps.Clone(o.reminders), slices.Clone(o.timers), o.life, m.schema, m.written}
	}
	return s
}

func (c *chain) goBack(to savepoint) {
	c.sent, c.spawned, c.events, c.services = c.sent[:to.sent], c.spawned[:to.spawned], c.events[:to.events], to.services
	c.watches = c.watches[:to.watches]
	c.subscriptions = c.subscriptions[:to.subscriptions]
	for ref, m := range c.members {
		s, known := to.members[ref]
		if !known {
			delete(c.members, ref)
			continue
		}
		o := m.overlay
		if o.revision != s.revision {
			o.values = s.values
			o.move()
		}
		o.reminders, o.timers, o.life, m.schema, m.written = s.reminders, s.timers, s.life, s.schema, s.written
	}
}

// member returns an actor of the chain.
func (c *chain) member(ref actor.Ref, spec *abi.TypeSpec) (*member, error) {
	h := c.harness
	if m := c.members[ref]; m != nil {
		return m, nil
	}
	stored := h.actors[ref]
	if stored == nil {
		stored = &row{revision: h.nextRevision()}
		h.actors[ref] = stored
	}
	if stored.schema > spec.StateSchema {
		return nil, actor.NewError(actor.StatusFailedPrecondition, "schema_newer",
			fmt.Sprintf("the state has schema %d, the module knows %d", stored.schema, spec.StateSchema))
	}
	m := &member{stored: stored, schema: stored.schema, overlay: &overlay{
		harness: h, revision: stored.revision, values: maps.Clone(stored.state),
		limit: limitOr(spec.Limits.StateBytes, defaultStateBytes), none: spec.Placement == abi.PlacementStateless,
	}}
	c.members[ref] = m
	return m, nil
}

// turn runs a turn to its end: a migration first if the stored schema is old.
func (c *chain) turn(ref actor.Ref, method string, payload actor.Payload, by *cause) (actor.Payload, error) {
	h := c.harness
	called, err := h.method(ref.Type, method)
	if err != nil {
		return actor.Payload{}, err
	}
	spec := h.types[ref.Type]
	if limit := limitOr(spec.Limits.PayloadBytes, defaultPayloadBytes); len(payload.Data) > limit {
		return actor.Payload{}, tooLarge(actor.StatusInvalidArgument, "payload", len(payload.Data), limit)
	}
	if err := c.exists(ref, &spec); err != nil {
		return actor.Payload{}, err
	}
	m, err := c.member(ref, &spec)
	if err != nil {
		return actor.Payload{}, err
	}
	if by == nil || by.kind == abi.CauseMessage {
		if err := m.accepts(ref, &called); err != nil {
			return actor.Payload{}, err
		}
	}
	o := m.overlay
	if by != nil && by.firing != nil {
		o.reminders = map[string]*reminder{by.name: by.firing.then}
	}
	turn := abi.Turn{
		App: App, Type: ref.Type, ID: ref.ID, InvocationID: fmt.Sprintf("invocation-%d", h.turns+1),
		TimeUnixNano: h.now.UnixNano(), StoredSchema: m.schema,
	}
	if spec.Migrate && m.stored.version > 0 && m.schema < spec.StateSchema {
		turn.What = abi.WhatMigrate
		if _, err := c.run(ref, m, turn); err != nil {
			return actor.Payload{}, err
		}
		m.schema = spec.StateSchema
	}
	turn.What, turn.Method, turn.StoredSchema = abi.WhatMethod, method, 0
	turn.ContentType, turn.Payload, turn.MethodSet = payload.ContentType, payload.Data, m.methodSet()
	if hooked := by == nil || by.kind != 0; hooked && !called.ReadOnly {
		if err := c.hooks(ref, m, &spec, &turn); err != nil {
			return actor.Payload{}, err
		}
	}
	if by != nil && by.kind != 0 {
		turn.Cause, turn.CauseName, turn.DueUnixNano = by.kind, by.name, by.due.UnixNano()
		turn.Attempt, turn.Missed, turn.Metadata = by.attempt, by.missed, by.metadata
		if m := by.message; m != nil {
			turn.CallerType, turn.CallerID, turn.ByType, turn.ByID = m.from.Type, m.from.ID, m.by.Type, m.by.ID
			turn.Cookie, turn.Failed = m.Cookie, m.failed
			if by.kind == abi.CauseServices {
				turn.CallerID = ""
			}
		}
		if s := by.event; s != nil {
			turn.CallerType, turn.CallerID = s.to.Type, s.to.ID
			if by.name == passedAwayEvent {
				turn.CauseName, turn.Failed = "", abi.PublisherPassedAway
			}
		}
	} else if n := len(c.open); n > 0 {
		turn.Cause, turn.CallerType, turn.CallerID = abi.CauseCall, c.open[n-1].Type, c.open[n-1].ID
	}
	if called.ReadOnly {
		turn.Flags |= abi.FlagReadOnly
	}
	reply, err := c.run(ref, m, turn)
	if err != nil {
		return actor.Payload{}, err
	}
	if o.size() > o.limit {
		err := tooLarge(actor.StatusFailedPrecondition, "state", o.size(), o.limit)
		if len(c.open) > 0 {
			err = actor.NewError(actor.StatusInternal, abi.CallFailed, err.Message)
		}
		return actor.Payload{}, err
	}
	m.written = m.written || !called.ReadOnly
	return reply, nil
}

// run hands one frame to the guest: to the harness's instance, or to a new one if another
// turn waits for it.
func (c *chain) run(ref actor.Ref, m *member, turn abi.Turn) (reply actor.Payload, failure error) {
	h, o := c.harness, m.overlay
	instance, host, frame := h.instance, h.host, &h.frame
	if len(c.open) > 0 {
		host, frame = &turnHost{harness: h}, new([]byte)
		instance = bridge.NewInstance(host)
		faking := c.faking // a fake calls
		c.faking = false
		defer func() {
			if c.faking { // the panic of a fake ends the test
				return
			}
			if v := recover(); v != nil {
				h.t.Logf("%s: %s panicked: %v\n%s", ref, turn.Method, v, debug.Stack())
				reply, failure = actor.Payload{}, actor.NewError(actor.StatusInternal, abi.CallTrap, fmt.Sprintf("%s.%s trapped: %v", ref.Type, turn.Method, v))
			}
			c.faking = faking
		}()
	} else if ref != h.last {
		h.DropInstance()
		instance, h.last = h.instance, ref
	}
	outer := o.turnOverlay // of the turn that waits, if the actor is entered again
	o.turnOverlay = turnOverlay{readOnly: turn.Flags&abi.FlagReadOnly != 0, migrates: turn.What == abi.WhatMigrate}
	c.open = append(c.open, ref)
	defer func() { c.open, o.turnOverlay = c.open[:len(c.open)-1], outer }()

	h.turns++
	turn.Revision = o.revision
	host.begin(ref, m.stored.version, o)
	*frame = abi.AppendTurn((*frame)[:0], &turn)
	result := instance.Turn(*frame)
	// A guest that keeps a part of the frame is found out.
	for i := range *frame {
		(*frame)[i] = 0xAA
	}
	reply, failed := host.end()
	switch {
	case result == abi.TurnDone:
		return reply, nil
	case failed == nil:
		return actor.Payload{}, actor.NewError(actor.StatusInternal, "guest_protocol", "the turn failed and gave no error")
	}
	return actor.Payload{}, failed
}

// resultOf returns the result frame of a call.
func resultOf(reply actor.Payload, own bool, err error) []byte {
	r := abi.Result{ContentType: reply.ContentType, Payload: reply.Data}
	if own {
		r.Flags = abi.ResultCommitted
	}
	var e *actor.Error
	switch {
	case errors.As(err, &e):
		r.Error = abi.Error{
			Status: cmp.Or(uint16(e.Status), abi.StatusUnknown), Code: e.Code, Message: e.Message, Retryable: e.Retryable,
			RetryAfterMillis:  uint32(min(max(e.RetryAfter, 0)/time.Millisecond, math.MaxUint32)),
			DetailContentType: e.Detail.ContentType, Detail: e.Detail.Data,
		}
	case err != nil:
		r.Error = abi.Error{Status: abi.StatusUnknown, Message: err.Error()}
	}
	return abi.AppendResult(nil, &r)
}
