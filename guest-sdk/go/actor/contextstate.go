package actor

import (
	"bytes"
	"encoding/json"
	"strconv"
)

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
		if err := c.readState(); err != nil {
			return nil, err
		}
		if c.readOnly && !checksReads {
			return c.state, nil // never saved, so nothing is compared with it
		}
		return c.state, c.keepState()
	}
	return c.state, nil
}

// readState decodes what the host holds into c.state, which is zero.
func (c *Context) readState() error {
	in := c.instance
	object, code := in.host.StateJSON(in.object[:0])
	if code < 0 {
		return codeError(code)
	}
	in.object = object
	if err := unmarshal(c.typ.state.plan, object, c.state); err != nil {
		return ErrBadState.Messagef("the stored state of %s %s; raise its StateSchema and add a Migrate hook", c.typ.spec.Name, jsonProblem(err))
	}
	return nil
}

// reloadState makes the struct what the host holds, which is of this revision.
func (c *Context) reloadState(revision uint64) error {
	c.typ.state.zero(c.state)
	if err := c.readState(); err != nil {
		return err
	}
	if err := c.keepState(); err != nil {
		return err
	}
	c.instance.keptRevision = revision
	return nil
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
	if !c.shared || c.passed {
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
