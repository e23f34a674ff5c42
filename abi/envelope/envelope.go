// Package envelope is the codec of the state envelope, the binary form in which
// an actor's state is stored when one of its values is not JSON: abi/SPEC.md,
// section 4. Guests never see it.
package envelope

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"unicode/utf8"

	"github.com/greenroom-run/greenroom/abi"
)

// Magic is what every envelope begins with.
const Magic = "GRE1"

const (
	checksumLen = 4
	lengthLen   = 4
	formatLen   = 1
)

// ErrDamaged is wrapped by every error of [Decode].
var ErrDamaged = errors.New("the state envelope is damaged")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Entry is one key of an actor's state.
type Entry struct {
	Key    string
	Format abi.Format
	Value  []byte
}

// Size returns the length of the envelope of entries.
func Size(entries []Entry) int {
	n := len(Magic) + checksumLen
	for i := range entries {
		n += formatLen + lengthLen + len(entries[i].Key) + lengthLen + len(entries[i].Value)
	}
	return n
}

// Append appends the envelope of entries to dst. The keys must be valid state
// keys in strictly ascending byte order, as they are in an overlay: anything
// else would be written as something that [Decode] refuses, and panics. It
// allocates only when dst has not the capacity of [Size].
func Append(dst []byte, entries []Entry) []byte {
	start := len(dst)
	dst = append(dst, Magic...)
	for i := range entries {
		e := &entries[i]
		if i > 0 && entries[i-1].Key >= e.Key {
			panic(fmt.Sprintf("envelope: key %q does not come after key %q", e.Key, entries[i-1].Key))
		}
		if e.Format > abi.FormatJSON {
			panic(fmt.Sprintf("envelope: key %q has the unknown format %d", e.Key, e.Format))
		}
		if problem := keyProblem(e.Key); problem != "" {
			panic("envelope: " + problem)
		}
		dst = append(dst, byte(e.Format))
		dst = binary.LittleEndian.AppendUint32(dst, uint32(len(e.Key)))
		dst = append(dst, e.Key...)
		dst = binary.LittleEndian.AppendUint32(dst, uint32(len(e.Value)))
		dst = append(dst, e.Value...)
	}
	return binary.LittleEndian.AppendUint32(dst, crc32.Checksum(dst[start:], castagnoli))
}

// Decode returns the entries of an envelope, in ascending order of their keys.
// The values alias data. Any damage is an error that wraps [ErrDamaged] and says
// where; whether a JSON value is JSON is not looked at, since the checksum
// already shows that it is what was written.
func Decode(data []byte) ([]Entry, error) {
	if len(data) < len(Magic)+checksumLen {
		return nil, damaged(len(data), "it ends after %d bytes; the shortest has %d", len(data), len(Magic)+checksumLen)
	}
	if string(data[:len(Magic)]) != Magic {
		return nil, damaged(0, "it begins with %q, not %q", data[:len(Magic)], Magic)
	}
	end := len(data) - checksumLen
	stored, computed := binary.LittleEndian.Uint32(data[end:]), crc32.Checksum(data[:end], castagnoli)
	if stored != computed {
		return nil, damaged(end, "the checksum is %08x, the bytes have %08x", stored, computed)
	}
	// A wrong checksum is by far the likeliest damage; what follows guards
	// against a faulty writer.
	var entries []Entry
	for pos := len(Magic); pos < end; {
		e, next, err := decodeEntry(data[:end:end], pos)
		if err != nil {
			return nil, err
		}
		if n := len(entries); n > 0 && entries[n-1].Key >= e.Key {
			return nil, damaged(pos, "key %q does not come after key %q", e.Key, entries[n-1].Key)
		}
		entries = append(entries, e)
		pos = next
	}
	return entries, nil
}

func decodeEntry(data []byte, pos int) (e Entry, next int, err error) {
	start := pos
	e.Format = abi.Format(data[pos])
	if e.Format != abi.FormatBytes && e.Format != abi.FormatJSON {
		return e, 0, damaged(start, "the format %d is unknown", e.Format)
	}
	key, pos, ok := lengthPrefixed(data, pos+formatLen)
	if !ok {
		return e, 0, damaged(start, "it ends inside a key")
	}
	e.Key = string(key)
	if problem := keyProblem(e.Key); problem != "" {
		return e, 0, damaged(start, "%s", problem)
	}
	e.Value, pos, ok = lengthPrefixed(data, pos)
	if !ok {
		return e, 0, damaged(start, "it ends inside the value of key %q", e.Key)
	}
	return e, pos, nil
}

func lengthPrefixed(data []byte, pos int) (value []byte, next int, ok bool) {
	if len(data)-pos < lengthLen {
		return nil, 0, false
	}
	size := binary.LittleEndian.Uint32(data[pos:])
	pos += lengthLen
	if uint64(size) > uint64(len(data)-pos) {
		return nil, 0, false
	}
	next = pos + int(size)
	return data[pos:next:next], next, true
}

func keyProblem(key string) string {
	switch {
	case key == "":
		return "an empty key"
	case len(key) > abi.MaxStateKeyLen:
		return fmt.Sprintf("a key of %d bytes; at most %d are allowed", len(key), abi.MaxStateKeyLen)
	case !utf8.ValidString(key):
		return "a key that is not UTF-8"
	}
	return ""
}

func damaged(at int, format string, args ...any) error {
	return fmt.Errorf("%w: byte %d: "+format, append([]any{ErrDamaged, at}, args...)...)
}
