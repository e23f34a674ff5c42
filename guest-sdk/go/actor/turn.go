package actor

import (
	"strconv"
	"strings"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/guest-sdk/go/internal/bridge"
)

// instance is the memory of one guest instance: the state that it keeps decoded
// between turns, and buffers.
//
// What it keeps is the state of one actor, good only while actor and revision
// are both those of the turn (abi/SPEC.md section 5): another instance, or
// a turn that failed, may have changed or undone it.
type instance struct {
	host bridge.Host
	reg  *registry

	kept         any // the *S, nil for none
	keptAt       place
	keptRevision uint64
	// saved is the JSON of kept as the host holds it: what a method's changes
	// are measured against.
	saved []byte

	last place // of the last turn, so that a warm actor's is not copied again

	states, values, replies jsonBuffer
	object, value           []byte // from the host
	word                    [8]byte
}

func newInstance(h bridge.Host, r *registry) *instance { return &instance{host: h, reg: r} }

// Turn implements [bridge.Instance].
func (in *instance) Turn(frame []byte) int32 {
	ctx := &Context{instance: in}
	in.reg.turns.begin()
	defer in.reg.turns.end()
	err := in.turn(ctx, frame)
	if ctx.shared && (err != nil || ctx.touched) {
		// The struct no longer is what the host holds: the host drops what
		// a failed turn did, and keys were written past it in the other case.
		in.kept = nil
	}
	ctx.instance, ctx.frame, ctx.state = nil, abi.Turn{}, nil
	if err != nil {
		// The frame is well formed, so the host takes it.
		in.host.Fail(errorFrame(err))
		return abi.TurnFailed
	}
	return abi.TurnDone
}

func (in *instance) turn(ctx *Context, frame []byte) error {
	t := &ctx.frame
	if err := abi.DecodeTurn(frame, t); err != nil {
		return NewError(StatusInternal, "bad_frame", err.Error())
	}
	typ := in.reg.types[t.Type]
	if typ == nil {
		return NewError(StatusUnimplemented, "unknown_type", "the module has no actor type "+strconv.Quote(t.Type))
	}
	if in.last.ref.ID != t.ID || in.last.ref.Type != t.Type || in.last.app != t.App {
		in.last = place{app: strings.Clone(t.App), ref: Ref{Type: typ.spec.Name, ID: strings.Clone(t.ID)}}
	}
	ctx.at, ctx.typ = in.last, typ
	ctx.readOnly = t.Flags&abi.FlagReadOnly != 0

	switch t.What {
	case abi.WhatMethod:
		m := typ.methods[t.Method]
		if m == nil {
			return NewError(StatusUnimplemented, "unknown_method", "actor type "+typ.spec.Name+" has no method "+strconv.Quote(t.Method))
		}
		ctx.method, ctx.readOnly = m.spec.Name, ctx.readOnly || m.spec.ReadOnly
		return m.run(ctx)
	case abi.WhatMigrate:
		if typ.migrate == nil {
			return NewError(StatusUnimplemented, "no_migration", "actor type "+typ.spec.Name+" has no Migrate hook")
		}
		if err := typ.migrate(ctx, t.StoredSchema); failed(err) {
			return err
		}
		return nil
	}
	return NewError(StatusUnimplemented, "unknown_turn", "this module knows no turns of kind "+strconv.Itoa(int(t.What))+"; build it with a newer SDK")
}
