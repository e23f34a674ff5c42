package actor

import (
	"bytes"
	"encoding/json"
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
	keptKey      Key
	keptRevision uint64
	// saved is the JSON of kept as the host holds it: what a method's changes
	// are measured against.
	saved []byte

	lastKey Key // of the last turn, so that a warm actor's is not copied again

	states, values, replies jsonBuffer
	object, value           []byte // from the host
	word                    [8]byte
}

func newInstance(h bridge.Host, r *registry) *instance { return &instance{host: h, reg: r} }

// Turn implements [bridge.Instance].
func (in *instance) Turn(frame []byte) int32 {
	ctx := &Context{instance: in}
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
		return NewError(Internal, "bad_frame", err.Error())
	}
	typ := in.reg.types[t.Type]
	if typ == nil {
		return NewError(Unimplemented, "unknown_type", "the module has no actor type "+strconv.Quote(t.Type))
	}
	if in.lastKey.ID != t.ID || in.lastKey.Type != t.Type || in.lastKey.App != t.App {
		in.lastKey = Key{App: strings.Clone(t.App), Type: typ.spec.Name, ID: strings.Clone(t.ID)}
	}
	ctx.key, ctx.typ = in.lastKey, typ
	ctx.readOnly = t.Flags&abi.FlagReadOnly != 0

	switch t.What {
	case abi.WhatMethod:
		m := typ.methods[t.Method]
		if m == nil {
			return NewError(Unimplemented, "unknown_method", "actor type "+typ.spec.Name+" has no method "+strconv.Quote(t.Method))
		}
		ctx.readOnly = ctx.readOnly || m.spec.ReadOnly
		return m.run(ctx)
	case abi.WhatMigrate:
		if typ.migrate == nil {
			return NewError(Unimplemented, "no_migration", "actor type "+typ.spec.Name+" has no Migrate hook")
		}
		return typ.migrate(ctx, t.StoredSchema)
	}
	return NewError(Unimplemented, "unknown_turn", "this module knows no turns of kind "+strconv.Itoa(int(t.What))+"; build it with a newer SDK")
}

// loadState returns the actor's state as a *S.
func (c *Context) loadState() (any, error) {
	in, st := c.instance, c.typ.state
	switch {
	case !st.kept:
		c.state = st.make()
	case in.kept != nil && in.keptKey == c.key && in.keptRevision == c.frame.Revision:
		c.state, c.shared = in.kept, true
	default:
		object, code := in.host.StateJSON(in.object[:0])
		if code < 0 {
			return nil, codeError(code)
		}
		in.object = object
		c.state = st.make()
		if err := json.Unmarshal(object, c.state); err != nil {
			return nil, ErrBadState.Messagef("the stored state of %s %s; raise its StateSchema and add a Migrate hook", c.typ.spec.Name, jsonProblem(err))
		}
		if !c.readOnly {
			return c.state, c.keepState()
		}
	}
	return c.state, nil
}

// keepState makes c.state, as it is now, what the host is taken to hold. The JSON
// is not the host's but that of the struct, so that only what a method changes
// is saved, and keys that the struct does not know are left alone.
func (c *Context) keepState() error {
	in := c.instance
	data, err := c.encodeState()
	if err != nil {
		return err
	}
	in.saved = append(in.saved[:0], data...)
	in.kept, in.keptKey, in.keptRevision = c.state, c.key, c.frame.Revision
	c.shared = true
	return nil
}

// saveState sends what the method changed in the struct to the host.
func (c *Context) saveState() error {
	in := c.instance
	if !c.shared {
		return nil // nothing to save, or a read-only method on a copy of its own
	}
	data, err := c.encodeState()
	if err != nil {
		return err
	}
	if bytes.Equal(data, in.saved) {
		return nil
	}
	if c.readOnly {
		in.kept = nil
		return nil
	}
	if _, code := in.host.StatePatch(in.saved, data); code < 0 {
		return codeError(code)
	}
	in.saved = append(in.saved[:0], data...)
	in.keptRevision = in.host.StateRevision()
	return nil
}

// resetState sets the struct to its zero value after all keys were deleted.
func (c *Context) resetState() error {
	if c.state == nil || !c.typ.state.kept {
		return nil
	}
	c.typ.state.zero(c.state)
	return c.keepState()
}

func (c *Context) encodeState() ([]byte, error) {
	data, err := c.instance.states.encode(c.state)
	if err != nil {
		return nil, NewError(Internal, "bad_state", "the state of "+c.typ.spec.Name+" has no JSON form: "+err.Error())
	}
	if string(data) == "null" { // a nil map
		return nil, nil
	}
	if data[0] != '{' {
		return nil, NewError(Internal, "bad_state", "the state of "+c.typ.spec.Name+" is not a JSON object; mend its MarshalJSON")
	}
	return data, nil
}
