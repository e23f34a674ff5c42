package overlay

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/abi/envelope"
)

var errNotObject = errors.New("it is not one JSON object")

// validJSON reports whether value is one JSON text in UTF-8. encoding/json alone
// lets broken UTF-8 pass inside strings, which SQL would refuse.
func validJSON(value []byte) bool { return utf8.Valid(value) && json.Valid(value) }

// trimJSON cuts the white space of JSON around value.
func trimJSON(value []byte) []byte {
	if n := len(value); n > 0 && value[0] > ' ' && value[n-1] > ' ' {
		return value // what guests write
	}
	return bytes.Trim(value, " \t\r\n")
}

// decodeJSON splits a JSON object into its members, in ascending order of keys;
// the values alias data. Keys are state keys: 1 to 512 bytes, each once.
func decodeJSON(data []byte) ([]envelope.Entry, error) { return appendMembers(nil, data, nil) }

// appendMembers is decodeJSON, into entries, which is empty. Keys that are among
// those of known, which are in order, have their strings; a value that is byte for
// byte that of known is not validated again.
func appendMembers(entries []envelope.Entry, data []byte, known []envelope.Entry) ([]envelope.Entry, error) {
	data = trimJSON(data)
	if len(data) == 0 || data[0] != '{' {
		return nil, errNotObject
	}
	pos := skipSpace(data, 1)
	if is(data, pos, '}') {
		return entries, onlySpace(data, pos+1)
	}
	for {
		end, ok := skipString(data, pos)
		if !ok {
			return nil, errNotObject
		}
		key, value, err := member(data[pos:end], known)
		if err != nil {
			return nil, err
		}
		if key == "" || len(key) > abi.MaxStateKeyLen {
			return nil, fmt.Errorf("it has a key of %d bytes; a key has 1 to %d", len(key), abi.MaxStateKeyLen)
		}
		if pos = skipSpace(data, end); !is(data, pos, ':') {
			return nil, errNotObject
		}
		pos = skipSpace(data, pos+1)
		if same := pos + len(value); value != nil && bytes.HasPrefix(data[pos:], value) && endsValue(data, same) {
			end = same
		} else if end, ok = skipValue(data, pos); !ok || !validJSON(data[pos:end]) {
			return nil, errNotObject
		}
		entries = append(entries, envelope.Entry{Key: key, Format: abi.FormatJSON, Value: data[pos:end:end]})
		switch pos = skipSpace(data, end); {
		case is(data, pos, ','):
			pos = skipSpace(data, pos+1)
			continue
		case !is(data, pos, '}'):
			return nil, errNotObject
		}
		if err := onlySpace(data, pos+1); err != nil {
			return nil, err
		}
		break
	}
	byKey := func(a, b envelope.Entry) int { return strings.Compare(a.Key, b.Key) }
	if !slices.IsSortedFunc(entries, byKey) {
		slices.SortFunc(entries, byKey)
	}
	for i := 1; i < len(entries); i++ {
		if entries[i].Key == entries[i-1].Key {
			return nil, fmt.Errorf("it has the key %q twice", entries[i].Key)
		}
	}
	return entries, nil
}

// member returns the key that is quoted, and the JSON that known has for it.
func member(quoted []byte, known []envelope.Entry) (key string, value []byte, err error) {
	inner := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		if at, ok := find(known, inner); ok {
			if known[at].Format == abi.FormatJSON {
				value = known[at].Value
			}
			return known[at].Key, value, nil
		}
	}
	if !validJSON(quoted) {
		return "", nil, errNotObject
	}
	if err := json.Unmarshal(quoted, &key); err != nil {
		return "", nil, err
	}
	return key, nil, nil
}

func is(data []byte, pos int, c byte) bool { return pos < len(data) && data[pos] == c }

func onlySpace(data []byte, pos int) error {
	if skipSpace(data, pos) < len(data) {
		return errNotObject
	}
	return nil
}

func skipSpace(data []byte, pos int) int {
	for pos < len(data) {
		switch data[pos] {
		case ' ', '\t', '\r', '\n':
			pos++
		default:
			return pos
		}
	}
	return pos
}

// skipString returns the position after the string that begins at pos, and false if
// none does. What is in it may be no JSON.
func skipString(data []byte, pos int) (end int, ok bool) {
	if !is(data, pos, '"') {
		return 0, false
	}
	for pos++; pos < len(data); pos++ {
		switch data[pos] {
		case '"':
			return pos + 1, true
		case '\\':
			pos++
		}
	}
	return 0, false
}

// skipValue returns the position after the value that begins at pos, and false if it
// has no end. What is in it may be no JSON; if it is, that is all of the value. It
// counts brackets instead of recursing: nesting is the guest's choice.
func skipValue(data []byte, pos int) (end int, ok bool) {
	depth := 0
	for pos < len(data) {
		switch data[pos] {
		case '"':
			if pos, ok = skipString(data, pos); !ok {
				return 0, false
			}
		case '{', '[':
			depth++
			pos++
		case '}', ']':
			depth--
			pos++
		default:
			pos++
		}
		if depth == 0 && endsValue(data, pos) {
			return pos, true
		}
	}
	return 0, false
}

// endsValue reports whether a value outside brackets ends before pos.
func endsValue(data []byte, pos int) bool {
	if pos >= len(data) {
		return false // it is in an object
	}
	switch data[pos] {
	case ',', '}', ']', ' ', '\t', '\r', '\n':
		return true
	}
	return false
}

// appendJSON appends the object of entries, all of which are JSON.
func appendJSON(dst []byte, entries []envelope.Entry) []byte {
	dst = append(dst, '{')
	for i := range entries {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendMember(dst, &entries[i])
	}
	return append(dst, '}')
}

func appendMember(dst []byte, e *envelope.Entry) []byte {
	dst = appendQuoted(dst, e.Key)
	dst = append(dst, ':')
	return append(dst, e.Value...)
}

// appendQuoted appends key as a JSON string. Nothing is escaped that need not
// be, so that a key has exactly one form.
func appendQuoted(dst []byte, key string) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	if quotedLen(key) == len(`""`)+len(key) {
		return append(append(dst, key...), '"')
	}
	for i := range len(key) {
		switch c := key[i]; {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < ' ':
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&0xf])
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}

func quotedLen(key string) int {
	n := len(`""`) + len(key)
	for i := range len(key) {
		switch c := key[i]; {
		case c == '"' || c == '\\':
			n++
		case c < ' ':
			n += len(`\u0000`) - 1
		}
	}
	return n
}

func find[K string | []byte](entries []envelope.Entry, key K) (pos int, ok bool) {
	lo, hi := 0, len(entries)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if entries[mid].Key < string(key) {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo, lo < len(entries) && entries[lo].Key == string(key)
}
