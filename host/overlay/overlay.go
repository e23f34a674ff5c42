package overlay

import (
	"bytes"
	"slices"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/abi/envelope"
	"github.com/greenroom-run/greenroom/actor"
)

// Revisions hands out revision numbers, each once. One of them serves all
// instances that could ever see the same actor. It is safe for concurrent use.
type Revisions struct{ last atomic.Uint64 }

// Next returns a number above every one before.
func (r *Revisions) Next() uint64 { return r.last.Add(1) }

// TransientFactor is how many times its limit a state may reach within a turn,
// before it is sealed: room to write the new before deleting the old, and a
// bound on what a turn can make the host hold.
const TransientFactor = 4

// entryCost is what an entry takes in memory beside its bytes, roughly; without
// it, a great many tiny keys would cost a multiple of the bound.
const entryCost = 32

// Overlay is one turn's view of a state. One goroutine at a time uses it. The
// zero value must be Reset before use.
type Overlay struct {
	base    *State
	first   *State // what the turn began on
	revs    *Revisions
	rev     uint64
	limit   int64 // bytes of the encoded state
	cleared bool  // DeleteAll hid the base
	changes changes
	count   int              // visible keys
	size    int64            // bytes of visible keys and values
	entry   envelope.Entry   // what each hands out
	was, is []envelope.Entry // buffers for what Patch is given
	key     []byte           // what bytes returns
}

// Reset begins a turn on base, whose visible state has the revision rev; limit
// bounds the encoded state, in bytes.
func (o *Overlay) Reset(base *State, revs *Revisions, rev uint64, limit int64) {
	o.first, o.revs, o.limit = base, revs, limit
	o.Replace(base, rev)
}

// Replace makes what another turn has left of the state visible, in the place of what the overlay
// shows. The state has the revision rev.
func (o *Overlay) Replace(state *State, rev uint64) {
	o.base, o.rev = state, rev
	o.cleared = false
	o.changes.clear()
	o.count, o.size = len(state.entries), int64(state.sums.raw)
}

// Revision names the visible state.
func (o *Overlay) Revision() uint64 { return o.rev }

// Get returns the value of key.
func (o *Overlay) Get(key []byte) (value []byte, format abi.Format, ok bool) {
	if c, found := o.changes.get(key); found {
		return c.value, c.format, !c.deleted
	}
	if o.cleared {
		return nil, 0, false
	}
	if at, found := o.base.find(key); found {
		e := &o.base.entries[at]
		return e.Value, e.Format, true
	}
	return nil, 0, false
}

// Set gives key a value, copied. The code is abi.CodeInvalid for a key, value or
// format outside abi/SPEC.md, abi.CodeTooLarge above several times the limit.
// Setting what is already there changes nothing.
func (o *Overlay) Set(key, value []byte, format abi.Format) abi.Code {
	if !validKey(key) {
		return abi.CodeInvalid
	}
	switch format {
	case abi.FormatBytes:
	case abi.FormatJSON:
		value = trimJSON(value)
		if !validJSON(value) {
			return abi.CodeInvalid
		}
	default:
		return abi.CodeInvalid
	}
	_, code := o.set(key, value, format)
	return code
}

// set is Set for arguments that are known to be valid.
func (o *Overlay) set(key, value []byte, format abi.Format) (changed bool, code abi.Code) {
	old, oldFormat, existed := o.Get(key)
	if existed && oldFormat == format && bytes.Equal(old, value) {
		return false, 0
	}
	size, count := o.size+int64(len(value)), o.count
	if existed {
		size -= int64(len(old))
	} else {
		size += int64(len(key))
		count++
	}
	if size+int64(count)*entryCost > TransientFactor*o.limit {
		return false, abi.CodeTooLarge
	}
	o.size, o.count = size, count
	// A non-nil copy: the value of a key that exists is never nil.
	o.changes.put(change{key: o.name(key), format: format, value: append([]byte{}, value...)})
	o.rev = o.revs.Next()
	return true, 0
}

// name returns key as a string, the base's own where it has one.
func (o *Overlay) name(key []byte) string {
	if at, ok := o.base.find(key); ok {
		return o.base.entries[at].Key
	}
	return string(key)
}

// Delete removes key and reports whether it was there.
func (o *Overlay) Delete(key []byte) (existed bool, code abi.Code) {
	if !validKey(key) {
		return false, abi.CodeInvalid
	}
	return o.remove(key), 0
}

func (o *Overlay) remove(key []byte) (existed bool) {
	old, _, existed := o.Get(key)
	if !existed {
		return false
	}
	o.count--
	o.size -= int64(len(key) + len(old))
	if at, inBase := o.base.find(key); inBase && !o.cleared {
		o.changes.put(change{key: o.base.entries[at].Key, deleted: true})
	} else {
		o.changes.remove(key)
	}
	o.rev = o.revs.Next()
	return true
}

// DeleteAll removes every key and returns how many there were.
func (o *Overlay) DeleteAll() int {
	n := o.count
	if n == 0 {
		return 0
	}
	o.changes.clear()
	o.cleared, o.count, o.size = true, 0, 0
	o.rev = o.revs.Next()
	return n
}

// AppendKeys appends the key list of all keys with the prefix.
func (o *Overlay) AppendKeys(dst []byte, prefix []byte) []byte {
	var one [1]string
	o.each(func(e *envelope.Entry) {
		if strings.HasPrefix(e.Key, string(prefix)) {
			one[0] = e.Key
			dst = abi.AppendKeyList(dst, one[:])
		}
	})
	return dst
}

// AppendJSON appends one JSON object of all keys whose format is JSON.
func (o *Overlay) AppendJSON(dst []byte) []byte {
	dst = append(dst, '{')
	first := true
	o.each(func(e *envelope.Entry) {
		if e.Format != abi.FormatJSON {
			return
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = appendMember(dst, e)
	})
	return append(dst, '}')
}

// Patch applies the difference of two JSON objects, as abi/SPEC.md says of
// state_patch, and returns how many keys it changed. It applies whole or not at
// all.
func (o *Overlay) Patch(before, after []byte) (changed int, code abi.Code) {
	defer o.forget()
	was, ok := o.members(&o.was, before)
	if !ok {
		return 0, abi.CodeInvalid
	}
	is, ok := o.members(&o.is, after)
	if !ok {
		return 0, abi.CodeInvalid
	}
	available := TransientFactor*o.limit - o.size - int64(o.count)*entryCost
	for i := range is {
		available -= int64(len(is[i].Key) + len(is[i].Value) + entryCost)
	}
	if available < 0 {
		return 0, abi.CodeTooLarge
	}
	// Both are in order of keys: one pass over the two.
	for len(was) > 0 || len(is) > 0 {
		switch {
		case len(is) == 0 || len(was) > 0 && was[0].Key < is[0].Key:
			if o.remove(o.bytes(was[0].Key)) {
				changed++
			}
			was = was[1:]
		case len(was) == 0 || is[0].Key < was[0].Key:
			if set, _ := o.set(o.bytes(is[0].Key), is[0].Value, abi.FormatJSON); set {
				changed++
			}
			is = is[1:]
		default:
			if !bytes.Equal(was[0].Value, is[0].Value) {
				if set, _ := o.set(o.bytes(is[0].Key), is[0].Value, abi.FormatJSON); set {
					changed++
				}
			}
			was, is = was[1:], is[1:]
		}
	}
	return changed, 0
}

// members splits an argument of Patch, which is empty or an object, in the buffer
// an earlier one.
func (o *Overlay) members(buffer *[]envelope.Entry, object []byte) ([]envelope.Entry, bool) {
	if len(object) == 0 {
		return nil, true
	}
	entries, err := appendMembers((*buffer)[:0], object, o.base.entries)
	if err == nil {
		*buffer = entries
	}
	return entries, err == nil
}

// keptMembers is how many members of a patch the overlay keeps a buffer for.
const keptMembers = 64

// forget drops what the last patch was given, which is the guest's.
func (o *Overlay) forget() {
	for _, buffer := range []*[]envelope.Entry{&o.was, &o.is} {
		if cap(*buffer) > keptMembers {
			*buffer = nil
		}
		clear(*buffer)
		*buffer = (*buffer)[:0]
	}
}

// bytes returns key in memory that is good until the next call.
func (o *Overlay) bytes(key string) []byte {
	o.key = append(o.key[:0], key...)
	return o.key
}

// Seal returns the state that the turn leaves, and whether it differs from the
// one it began with. Above the limit the error is an [*actor.StateTooLargeError].
// The overlay stays as it is. Nothing is encoded but what would keep too much
// memory alive otherwise.
func (o *Overlay) Seal() (next *State, changed bool, err error) {
	if !o.cleared && o.changes.len() == 0 {
		return o.base, o.base != o.first, nil
	}
	if o.count == 0 && o.base.format == actor.FormatNone {
		return o.base, o.base != o.first, nil
	}
	from := o.base
	if o.cleared {
		from = &State{}
	}
	base, sums, retained := from.entries, from.sums, from.retained
	entries := make([]envelope.Entry, 0, o.count)
	changed = o.cleared || o.base.format == actor.FormatNone
	for _, c := range o.changes.inOrder() {
		at, found := find(base, c.key)
		entries = append(entries, base[:at]...)
		base = base[at:]
		if found {
			if c.deleted || c.format != base[0].Format || !bytes.Equal(c.value, base[0].Value) {
				changed = true
			}
			sums.remove(&base[0])
			base = base[1:]
		}
		if c.deleted {
			continue
		}
		e := envelope.Entry{Key: c.key, Format: c.format, Value: c.value}
		changed = changed || !found
		sums.add(&e)
		retained += len(c.value)
		entries = append(entries, e)
	}
	entries = append(entries, base...)
	if !changed || o.cleared && o.base.format != actor.FormatNone && slices.EqualFunc(entries, o.base.entries, sameEntry) {
		return o.base, o.base != o.first, nil
	}
	next, err = newState(entries, sums, retained, o.limit)
	return next, err == nil, err
}

func sameEntry(a, b envelope.Entry) bool {
	return a.Key == b.Key && a.Format == b.Format && bytes.Equal(a.Value, b.Value)
}

// each calls f with every visible entry, in ascending order of keys.
func (o *Overlay) each(f func(*envelope.Entry)) {
	var base []envelope.Entry
	if !o.cleared {
		base = o.base.entries
	}
	for _, c := range o.changes.inOrder() {
		for len(base) > 0 && base[0].Key < c.key {
			f(&base[0])
			base = base[1:]
		}
		if len(base) > 0 && base[0].Key == c.key {
			base = base[1:]
		}
		if !c.deleted {
			o.entry = envelope.Entry{Key: c.key, Format: c.format, Value: c.value}
			f(&o.entry)
		}
	}
	for i := range base {
		f(&base[i])
	}
}

func validKey(key []byte) bool {
	return len(key) > 0 && len(key) <= abi.MaxStateKeyLen && utf8.Valid(key)
}
