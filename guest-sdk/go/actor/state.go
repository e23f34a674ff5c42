package actor

import (
	"fmt"
	"iter"

	"github.com/greenroom-run/greenroom/abi"
)

// State reads and writes single keys of the actor's state. Writes are seen by
// reads at once, and become durable with the turn or not at all.
//
// A key is 1 to 512 bytes of UTF-8. Keys that are fields of the state struct
// belong to the struct, which is saved after the method, so that its fields win
// over what was set here.
type State struct{ ctx *Context }

// Get decodes the JSON value of a key into v; found is false, and v untouched,
// if there is no such key.
func (s State) Get(key string, v any) (found bool, err error) {
	in := s.ctx.live()
	value, format, code := in.host.StateGet(key, in.value[:0])
	switch {
	case code == abi.CodeNotFound:
		return false, nil
	case code < 0:
		return false, stateError("get", key, code)
	case format != abi.FormatJSON:
		return true, fmt.Errorf("get state key %q: %w", key, ErrBadState.Messagef("the value is bytes, not JSON; use GetBytes"))
	}
	in.value = value
	if err := unmarshalInto(value, v); err != nil {
		return true, fmt.Errorf("get state key %q: %w", key, ErrBadState.Messagef("the value %s", jsonProblem(err)))
	}
	return true, nil
}

// Set stores v as JSON.
func (s State) Set(key string, v any) error {
	in := s.ctx.live()
	value, err := in.values.encodeAny(v)
	if err != nil {
		return fmt.Errorf("set state key %q: %w", key, ErrNotJSON.Messagef("the value has no JSON form: %v", err))
	}
	return s.set(key, value, abi.FormatJSON)
}

// GetBytes returns a copy of the value of a key as it is stored: the bytes given
// to SetBytes, or the JSON text of what was given to Set.
func (s State) GetBytes(key string) (value []byte, found bool, err error) {
	in := s.ctx.live()
	value, _, code := in.host.StateGet(key, in.value[:0])
	switch {
	case code == abi.CodeNotFound:
		return nil, false, nil
	case code < 0:
		return nil, false, stateError("get", key, code)
	}
	in.value = value
	return append([]byte{}, value...), true, nil
}

// SetBytes stores bytes as they are.
func (s State) SetBytes(key string, value []byte) error { return s.set(key, value, abi.FormatBytes) }

func (s State) set(key string, value []byte, format abi.Format) error {
	if code := s.ctx.live().host.StateSet(key, value, format); code < 0 {
		return stateError("set", key, code)
	}
	s.ctx.touched = true
	return nil
}

// Delete removes a key and reports whether it was there.
func (s State) Delete(key string) (existed bool, err error) {
	existed, code := s.ctx.live().host.StateDelete(key)
	if code < 0 {
		return false, stateError("delete", key, code)
	}
	s.ctx.touched = true
	return existed, nil
}

// DeleteAll removes every key and sets the state struct to its zero value. It
// returns how many keys there were.
func (s State) DeleteAll() (int, error) {
	in := s.ctx.live()
	n, code := in.host.StateDeleteAll()
	if code < 0 {
		return 0, fmt.Errorf("delete all state keys: %w", codeError(code))
	}
	s.ctx.touched = true
	return n, s.ctx.resetState()
}

// Keys returns the keys that begin with prefix, in ascending byte order; all for
// an empty prefix. Fields of the state struct are among them as they were when
// the turn began.
func (s State) Keys(prefix string) ([]string, error) {
	in := s.ctx.live()
	list, code := in.host.StateKeys(prefix, in.value[:0])
	if code < 0 {
		return nil, fmt.Errorf("list state keys: %w", codeError(code))
	}
	in.value = list
	keys, err := abi.DecodeKeyList(list)
	if err != nil {
		return nil, fmt.Errorf("list state keys: %w", err)
	}
	return keys, nil
}

// Entry is a state key and what it holds.
type Entry[T any] struct {
	Key   string
	Value T
}

// Each goes through the keys that begin with prefix, in ascending byte order, and
// decodes the JSON of each:
//
//	for e, err := range actor.Each[Book](ctx, "book/") {
//		if err != nil {
//			return err
//		}
//		total += e.Value.Price
//	}
//
// The keys are those of its start; one that was deleted since is passed over. An
// error is the last step.
func Each[T any](ctx *Context, prefix string) iter.Seq2[Entry[T], error] {
	return func(yield func(Entry[T], error) bool) {
		keys, err := ctx.State().Keys(prefix)
		if err != nil {
			yield(Entry[T]{}, err)
			return
		}
		for _, key := range keys {
			e := Entry[T]{Key: key}
			found, err := ctx.State().Get(key, &e.Value)
			if err == nil && !found {
				continue
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

func stateError(op, key string, code abi.Code) error {
	return fmt.Errorf("%s state key %q: %w", op, key, codeError(code))
}
