package overlay

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/abi/envelope"
	"github.com/greenroom-run/greenroom/actor"
)

// State is the state of one actor after a turn. It is immutable and safe for
// concurrent use. The zero value is the state of an actor that has none.
type State struct {
	entries []envelope.Entry
	format  actor.StateFormat
	encoded []byte // as stored; nil: made when asked for
	sums    sums
	// retained is how many bytes of memory the values may keep alive, their own
	// included.
	retained int
}

// Empty is a state without any key, as it is stored: of an actor that has one.
var Empty = &State{format: actor.FormatJSON}

// sums is what the size of an encoding is made of, kept so that a change costs
// only what it changes.
type sums struct {
	raw    int // bytes of keys and values
	quoted int // bytes of the members of a JSON object, without commas
	binary int // entries that are not JSON
}

func (s *sums) add(e *envelope.Entry) { s.count(e, 1) }

func (s *sums) remove(e *envelope.Entry) { s.count(e, -1) }

func (s *sums) count(e *envelope.Entry, by int) {
	s.raw += by * (len(e.Key) + len(e.Value))
	s.quoted += by * (quotedLen(e.Key) + len(":") + len(e.Value))
	if e.Format != abi.FormatJSON {
		s.binary += by
	}
}

// encoding returns how n entries are encoded, and in how many bytes.
func (s *sums) encoding(n int) (actor.StateFormat, int) {
	if s.binary > 0 {
		return actor.FormatEnvelope, envelope.Size(nil) + n*entryOverhead + s.raw
	}
	return actor.FormatJSON, len("{}") + max(n-1, 0) + s.quoted
}

// entryOverhead is what the envelope has for an entry beside its key and value:
// the format and two lengths (abi/SPEC.md section 4).
const entryOverhead = 1 + 4 + 4

// Decode reads a stored state; the result keeps stored.Data. Any damage is an
// error that wraps actor.ErrStateDamaged and says where.
func Decode(stored actor.EncodedState) (*State, error) {
	s := &State{format: stored.Format, encoded: stored.Data, retained: len(stored.Data)}
	var err error
	switch stored.Format {
	case actor.FormatNone:
		if len(stored.Data) > 0 {
			err = fmt.Errorf("%d bytes without a format", len(stored.Data))
		}
	case actor.FormatJSON:
		s.entries, err = decodeJSON(stored.Data)
	case actor.FormatEnvelope:
		s.entries, err = envelope.Decode(stored.Data)
	default:
		err = fmt.Errorf("the state format %d is unknown", stored.Format)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", actor.ErrStateDamaged, err)
	}
	for i := range s.entries {
		s.sums.add(&s.entries[i])
	}
	return s, nil
}

// Entries returns the state in ascending order of keys. It is shared: read only.
func (s *State) Entries() []envelope.Entry { return s.entries }

// Encoded returns the state as it is stored. Its bytes may be shared: read only.
// A state that was never stored is encoded each time.
func (s *State) Encoded() actor.EncodedState {
	data := s.encoded
	if data == nil && s.format != actor.FormatNone {
		data = s.AppendEncoded(nil)
	}
	return actor.EncodedState{Format: s.format, Data: data}
}

// AppendEncoded appends the bytes of Encoded to dst.
func (s *State) AppendEncoded(dst []byte) []byte {
	dst = slices.Grow(dst, s.Size())
	switch {
	case s.encoded != nil:
		return append(dst, s.encoded...)
	case s.format == actor.FormatEnvelope:
		return envelope.Append(dst, s.entries)
	case s.format == actor.FormatJSON:
		return appendJSON(dst, s.entries)
	default:
		return dst
	}
}

// Format is how the state is encoded.
func (s *State) Format() actor.StateFormat { return s.format }

// Size returns how many bytes the encoded state has.
func (s *State) Size() int {
	if s.encoded != nil || s.format == actor.FormatNone {
		return len(s.encoded)
	}
	_, size := s.sums.encoding(len(s.entries))
	return size
}

// Memory returns how many bytes of memory the state keeps in use, roughly.
func (s *State) Memory() int { return s.retained + len(s.entries)*int(unsafe.Sizeof(envelope.Entry{})) }

// newState returns the state of entries, whose keys are valid and in order and
// whose values keep so many bytes alive. It takes the slice over.
func newState(entries []envelope.Entry, sums sums, retained int, limit int64) (*State, error) {
	format, size := sums.encoding(len(entries))
	if int64(size) > limit {
		return nil, tooLarge(entries, size, limit)
	}
	s := &State{entries: entries, format: format, sums: sums, retained: retained}
	if retained > retainedFactor*size+retainedAlways {
		s.compact()
	}
	return s, nil
}

// retainedFactor and retainedAlways bound what values keep alive that others were once
// next to: so many times the size of the state, and some more.
const retainedFactor, retainedAlways = 2, 4 << 10

// compact encodes the state and makes every value point into that.
func (s *State) compact() {
	s.encoded = s.Encoded().Data
	s.retained = len(s.encoded)
	data, pos := s.encoded, 0
	if s.format == actor.FormatEnvelope {
		pos = len(envelope.Magic)
	}
	for i := range s.entries {
		e := &s.entries[i]
		if s.format == actor.FormatEnvelope {
			pos += 1 + 4 + len(e.Key) + 4
		} else {
			pos += 1 + quotedLen(e.Key) + 1 // { or comma, key, colon
		}
		end := pos + len(e.Value)
		e.Value = data[pos:end:end]
		pos = end
	}
}

// largestKeys is how many keys a StateTooLargeError names.
const largestKeys = 5

func tooLarge(entries []envelope.Entry, size int, limit int64) error {
	e := &actor.StateTooLargeError{Size: size, Limit: int(limit)}
	for i := range entries {
		k := actor.KeySize{Key: entries[i].Key, Size: len(entries[i].Value)}
		at := len(e.Largest)
		for at > 0 && e.Largest[at-1].Size < k.Size {
			at--
		}
		if at == largestKeys {
			continue
		}
		if len(e.Largest) < largestKeys {
			e.Largest = append(e.Largest, actor.KeySize{})
		}
		copy(e.Largest[at+1:], e.Largest[at:])
		e.Largest[at] = k
	}
	return e
}

// find returns the position of key, or where it would be.
func (s *State) find(key []byte) (pos int, ok bool) { return find(s.entries, key) }
