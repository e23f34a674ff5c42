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

// loadState returns the actor's state as a *S.
func (c *Context) loadState() (any, error) {
	in, st := c.instance, c.typ.state
	switch {
	case !st.kept:
		c.state = st.make()
	case in.kept != nil && in.keptAt == c.at && in.keptRevision == c.frame.Revision && (checksReads || !c.readOnly):
		c.state, c.shared = in.kept, true
	default:
		c.state = st.make()
		if err := c.decodeState(); err != nil {
			return nil, err
		}
		if c.readOnly && !checksReads {
			return c.state, nil // never saved, so nothing is compared with it
		}
		return c.state, c.keepState()
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
	in.kept, in.keptAt, in.keptRevision = c.state, c.at, c.frame.Revision
	c.shared = true
	return nil
}

// saveState sends what the method changed in the struct to the host.
func (c *Context) saveState() error {
	in := c.instance
	if !c.shared {
		return nil // there is nothing to save
	}
	data, err := c.encodeState()
	if err != nil {
		return err
	}
	if bytes.Equal(data, in.saved) {
		return nil
	}
	if c.readOnly {
		return ErrReadOnly.Messagef("the read-only method %s changed %s of its state; register it with actor.Method, or let it change a copy",
			c.method, changed(in.saved, data))
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

// changed names the first field, in order of names, that two states differ in.
func changed(before, after []byte) string {
	var was, is map[string]json.RawMessage
	_, _ = json.Unmarshal(before, &was), json.Unmarshal(after, &is) // our own JSON
	first := ""
	for _, fields := range []map[string]json.RawMessage{was, is} {
		for name := range fields {
			if !bytes.Equal(was[name], is[name]) && (first == "" || name < first) {
				first = name
			}
		}
	}
	return "the field " + strconv.Quote(first)
}

func (c *Context) encodeState() ([]byte, error) {
	data, err := c.instance.states.encode(c.typ.state.plan, c.state)
	if err != nil {
		return nil, NewError(StatusInternal, "bad_state", "the state of "+c.typ.spec.Name+" has no JSON form: "+err.Error())
	}
	if string(data) == "null" { // a nil map
		return nil, nil
	}
	if data[0] != '{' {
		return nil, NewError(StatusInternal, "bad_state", "the state of "+c.typ.spec.Name+" is not a JSON object; mend its MarshalJSON")
	}
	return data, nil
}
