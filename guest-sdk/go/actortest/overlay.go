package actortest

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/abi/envelope"
)

// value is what one state key holds.
type value struct {
	data   []byte
	format abi.Format
}

func (v value) equal(w value) bool { return v.format == w.format && bytes.Equal(v.data, w.data) }

// transientFactor is how many times its limit a state may reach within a turn.
const transientFactor = 4

// overlay is an actor's state during a chain: abi/SPEC.md section 5.
type overlay struct {
	harness  *Harness // gives out revisions
	revision uint64
	values   map[string]value // owned; nil counts as empty
	limit    int              // bytes of the encoded state
	none     bool             // the type is stateless

	// reminders are those that were changed, by name; nil is one that is gone.
	reminders map[string]*reminder
	timers    []timerChange
	life
	turnOverlay
}

// turnOverlay is what an overlay has for one turn alone.
type turnOverlay struct {
	readOnly bool
	migrates bool
	operated int    // how often it has set or cancelled a reminder
	problem  string // why the last function with a problem was refused

	sent, sentBytes           int // messages
	published, publishedBytes int // events
}

func (o *overlay) move() { o.revision = o.harness.nextRevision() }

func (o *overlay) writable() abi.Code {
	switch {
	case o.none:
		return abi.CodeNoState
	case o.readOnly:
		return abi.CodeReadOnly
	case o.passed:
		return abi.CodeOver
	}
	return 0
}

func (o *overlay) get(key string) (value, abi.Code) {
	if o.none {
		return value{}, abi.CodeNoState
	}
	if !validKey(key) {
		return value{}, abi.CodeInvalid
	}
	v, ok := o.values[key]
	if !ok {
		return value{}, abi.CodeNotFound
	}
	return v, 0
}

func (o *overlay) set(key string, data []byte, format abi.Format) abi.Code {
	if code := o.writable(); code < 0 {
		return code
	}
	if code := checkSet(key, data, format); code < 0 {
		return code
	}
	v := value{data: bytes.Clone(data), format: format}
	if old, ok := o.values[key]; ok && old.equal(v) {
		return 0
	}
	if len(data) > transientFactor*o.limit {
		return abi.CodeTooLarge
	}
	if o.values == nil {
		o.values = map[string]value{}
	}
	o.values[key] = v
	o.move()
	return 0
}

func (o *overlay) delete(key string) (bool, abi.Code) {
	if code := o.writable(); code < 0 {
		return false, code
	}
	if !validKey(key) {
		return false, abi.CodeInvalid
	}
	if _, ok := o.values[key]; !ok {
		return false, 0
	}
	delete(o.values, key)
	o.move()
	return true, 0
}

func (o *overlay) deleteAll() (int, abi.Code) {
	if code := o.writable(); code < 0 {
		return 0, code
	}
	n := len(o.values)
	if n > 0 {
		o.values = nil
		o.move()
	}
	return n, 0
}

func (o *overlay) keys(prefix string) []string {
	var keys []string
	for key := range o.values {
		if strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// object appends the JSON object of all keys whose value is JSON.
func (o *overlay) object(dst []byte) []byte {
	dst = append(dst, '{')
	first := true
	for _, key := range slices.Sorted(maps.Keys(o.values)) {
		v := o.values[key]
		if v.format != abi.FormatJSON {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		name, _ := json.Marshal(key) // UTF-8 always encodes
		dst = append(append(append(dst, name...), ':'), v.data...)
	}
	return append(dst, '}')
}

func (o *overlay) patch(before, after []byte) (int, abi.Code) {
	if code := o.writable(); code < 0 {
		return 0, code
	}
	old, ok := members(before)
	next, ok2 := members(after)
	if !ok || !ok2 {
		return 0, abi.CodeInvalid
	}
	for key := range next {
		if !validKey(key) {
			return 0, abi.CodeInvalid
		}
	}
	changed := 0
	for key, data := range next {
		if was, ok := old[key]; !ok || !bytes.Equal(was, data) {
			if code := o.set(key, data, abi.FormatJSON); code < 0 {
				return 0, code
			}
			changed++
		}
	}
	for key := range old {
		if _, ok := next[key]; ok {
			continue
		}
		if existed, _ := o.delete(key); existed {
			changed++
		}
	}
	return changed, 0
}

// size is what the state has when it is encoded for storage.
func (o *overlay) size() int {
	var entries []envelope.Entry
	plain := false
	for key, v := range o.values {
		entries = append(entries, envelope.Entry{Key: key, Format: v.format, Value: v.data})
		plain = plain || v.format != abi.FormatJSON
	}
	if plain {
		return envelope.Size(entries)
	}
	return len(o.object(nil))
}

// members splits a JSON object; nothing at all counts as an empty one.
func members(object []byte) (map[string]json.RawMessage, bool) {
	m := map[string]json.RawMessage{}
	if len(object) == 0 {
		return m, true
	}
	err := json.Unmarshal(object, &m)
	return m, err == nil && m != nil
}

func validKey(key string) bool {
	return key != "" && len(key) <= abi.MaxStateKeyLen && utf8.ValidString(key)
}

func checkSet(key string, data []byte, format abi.Format) abi.Code {
	known := format == abi.FormatBytes || format == abi.FormatJSON && json.Valid(data)
	if !known || !validKey(key) {
		return abi.CodeInvalid
	}
	return 0
}
