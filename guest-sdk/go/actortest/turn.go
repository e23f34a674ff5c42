package actortest

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/guest-sdk/go/actor"
)

// Limits of a host that was not told others.
const (
	defaultStateBytes   = 1 << 20
	defaultPayloadBytes = 4 << 20
)

// row is the stored state of one actor; an actor that was called and stored
// nothing has one of version 0, for its revision.
type row struct {
	version  uint64
	revision uint64
	schema   uint32
	state    map[string]value
}

// cause is the reminder or timer that asks for a turn.
type cause struct {
	kind            uint8
	name            string
	due             time.Time
	attempt, missed uint32
	metadata        []abi.Header
	firing          *firing // of a reminder
}

// invoke runs one turn to its commit, as a host does: a migration first if the
// stored schema is old, both on one overlay, all of it kept or none.
//
// by is what asks for the turn, nil for a call: of the actor whose call a fake forwards, or
// from outside.
func (h *Harness) invoke(ref actor.Ref, method string, payload actor.Payload, by *cause) (actor.Payload, error) {
	if slices.Contains(h.host.callers, ref) {
		return actor.Payload{}, actor.ErrNotReentrant
	}
	spec, ok := h.types[ref.Type]
	if !ok {
		return actor.Payload{}, actor.NewError(actor.StatusNotFound, "type_not_found", fmt.Sprintf("no actor type %q is registered", ref.Type))
	}
	at := slices.IndexFunc(spec.Methods, func(m abi.MethodSpec) bool { return m.Name == method })
	if at < 0 {
		return actor.Payload{}, actor.NewError(actor.StatusNotFound, "method_not_found", fmt.Sprintf("actor type %s has no method %q", ref.Type, method))
	}
	if limit := limitOr(spec.Limits.PayloadBytes, defaultPayloadBytes); len(payload.Data) > limit {
		return actor.Payload{}, tooLarge(actor.StatusInvalidArgument, "payload", len(payload.Data), limit)
	}
	if ref != h.last {
		h.DropInstance()
		h.last = ref
	}
	stored := h.actors[ref]
	if stored == nil {
		stored = &row{revision: h.nextRevision()}
		h.actors[ref] = stored
	}
	if stored.schema > spec.StateSchema {
		return actor.Payload{}, actor.NewError(actor.StatusFailedPrecondition, "schema_newer",
			fmt.Sprintf("the state has schema %d, the module knows %d", stored.schema, spec.StateSchema))
	}

	o := &overlay{
		harness: h, revision: stored.revision, values: maps.Clone(stored.state),
		limit: limitOr(spec.Limits.StateBytes, defaultStateBytes), none: spec.Placement == abi.PlacementStateless,
	}
	if by != nil && by.firing != nil {
		o.reminders = map[string]*reminder{by.name: by.firing.then}
	}
	turn := abi.Turn{
		App: App, Type: ref.Type, ID: ref.ID, InvocationID: fmt.Sprintf("invocation-%d", h.turns+1),
		TimeUnixNano: h.now.UnixNano(), StoredSchema: stored.schema,
	}
	if spec.Migrate && stored.version > 0 && stored.schema < spec.StateSchema {
		turn.What = abi.WhatMigrate
		if _, err := h.run(ref, stored.version, o, turn); err != nil {
			return actor.Payload{}, err
		}
	}
	turn.What, turn.Method, turn.StoredSchema = abi.WhatMethod, method, 0
	turn.ContentType, turn.Payload = payload.ContentType, payload.Data
	if by != nil {
		turn.Cause, turn.CauseName, turn.DueUnixNano = by.kind, by.name, by.due.UnixNano()
		turn.Attempt, turn.Missed, turn.Metadata = by.attempt, by.missed, by.metadata
	} else if n := len(h.host.callers); n > 0 {
		from := h.host.callers[n-1]
		turn.Cause, turn.CallerType, turn.CallerID = abi.CauseCall, from.Type, from.ID
	}
	readOnly := spec.Methods[at].ReadOnly
	if readOnly {
		turn.Flags |= abi.FlagReadOnly
		o.readOnly = true
	}
	reply, err := h.run(ref, stored.version, o, turn)
	if err != nil {
		return actor.Payload{}, err
	}
	if o.size() > o.limit {
		return actor.Payload{}, tooLarge(actor.StatusFailedPrecondition, "state", o.size(), o.limit)
	}
	if !readOnly && !maps.EqualFunc(stored.state, o.values, value.equal) {
		h.commit(ref, spec.StateSchema, o.values, o.revision)
	}
	h.commitReminders(ref, o.reminders)
	h.commitTimers(ref, o.timers)
	return reply, nil
}

// run hands one frame to the guest. The buffer of the frame is the same for all
// turns and overwritten after each, so that a guest that keeps a part of it is
// found out.
func (h *Harness) run(ref actor.Ref, version uint64, o *overlay, turn abi.Turn) (actor.Payload, error) {
	h.turns++
	turn.Revision = o.revision
	h.host.begin(ref, version, o)
	h.frame = abi.AppendTurn(h.frame[:0], &turn)
	result := h.instance.Turn(h.frame)
	for i := range h.frame {
		h.frame[i] = 0xAA
	}
	reply, failure := h.host.end()
	switch {
	case result == abi.TurnDone:
		return reply, nil
	case failure == nil:
		return actor.Payload{}, actor.NewError(actor.StatusInternal, "guest_protocol", "the turn failed and gave no error")
	}
	return actor.Payload{}, failure
}

func (h *Harness) commit(ref actor.Ref, schema uint32, state map[string]value, revision uint64) {
	h.actors[ref] = &row{version: h.Version(ref.Type, ref.ID) + 1, revision: revision, schema: schema, state: state}
}

func (h *Harness) nextRevision() uint64 {
	h.revision++
	return h.revision
}

func limitOr(limit int64, otherwise int) int {
	if limit == 0 {
		return otherwise
	}
	return int(limit)
}

func tooLarge(status actor.Status, what string, size, limit int) error {
	return actor.NewError(status, what+"_too_large", fmt.Sprintf("the %s has %d bytes; at most %d are allowed", what, size, limit))
}
