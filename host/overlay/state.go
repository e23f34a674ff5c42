package overlay

import (
	"fmt"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/abi/envelope"
	"github.com/greenroom-run/greenroom/actor"
)

// State is the committed state of one actor. It is immutable and safe for
// concurrent use. The zero value is the state of an actor that has none.
type State struct {
	entries []envelope.Entry
	encoded actor.EncodedState
	size    int // bytes of keys and values
}

// Decode reads a stored state; the result keeps stored.Data. Any damage is an
// error that wraps actor.ErrStateDamaged and says where.
func Decode(stored actor.EncodedState) (*State, error) {
	s := &State{encoded: stored}
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
		s.size += len(s.entries[i].Key) + len(s.entries[i].Value)
	}
	return s, nil
}

// Entries returns the state in ascending order of keys. It is shared: read only.
func (s *State) Entries() []envelope.Entry { return s.entries }

// Encoded returns the state as it is stored. Its bytes are shared: read only.
func (s *State) Encoded() actor.EncodedState { return s.encoded }

// Size returns how many bytes the encoded state has.
func (s *State) Size() int { return len(s.encoded.Data) }

// find returns the position of key, or where it would be.
func (s *State) find(key []byte) (pos int, ok bool) {
	lo, hi := 0, len(s.entries)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if s.entries[mid].Key < string(key) {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo, lo < len(s.entries) && s.entries[lo].Key == string(key)
}

// newState encodes entries, whose keys are valid and in order. It takes the
// slice over and makes its values alias the encoded state.
func newState(entries []envelope.Entry, limit int64) (*State, error) {
	format := actor.FormatJSON
	for i := range entries {
		if entries[i].Format != abi.FormatJSON {
			format = actor.FormatEnvelope
			break
		}
	}
	size := sizeJSON(entries)
	if format == actor.FormatEnvelope {
		size = envelope.Size(entries)
	}
	if int64(size) > limit {
		return nil, tooLarge(entries, size, limit)
	}
	data := make([]byte, 0, size)
	s := &State{entries: entries}
	if format == actor.FormatEnvelope {
		data = envelope.Append(data, entries)
	} else {
		data = appendJSON(data, entries)
	}
	s.encoded = actor.EncodedState{Format: format, Data: data}
	s.alias()
	return s, nil
}

// alias makes every value point into the encoded state, where it was just
// written.
func (s *State) alias() {
	data, pos := s.encoded.Data, 0
	if s.encoded.Format == actor.FormatEnvelope {
		pos = len(envelope.Magic)
	}
	for i := range s.entries {
		e := &s.entries[i]
		if s.encoded.Format == actor.FormatEnvelope {
			pos += 1 + 4 + len(e.Key) + 4
		} else {
			pos += 1 + quotedLen(e.Key) + 1 // { or comma, key, colon
		}
		end := pos + len(e.Value)
		e.Value = data[pos:end:end]
		pos = end
		s.size += len(e.Key) + len(e.Value)
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
