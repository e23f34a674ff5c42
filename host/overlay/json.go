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
// those of known have their strings.
func appendMembers(entries []envelope.Entry, data []byte, known []envelope.Entry) ([]envelope.Entry, error) {
	data = trimJSON(data)
	if len(data) == 0 || data[0] != '{' || !validJSON(data) {
		return nil, errNotObject
	}
	// The object is valid from here on: the scan only looks for boundaries.
	pos := skipSpace(data, 1)
	for data[pos] != '}' {
		end := skipString(data, pos)
		key, err := unquote(data[pos:end], known)
		if err != nil {
			return nil, err
		}
		if key == "" || len(key) > abi.MaxStateKeyLen {
			return nil, fmt.Errorf("it has a key of %d bytes; a key has 1 to %d", len(key), abi.MaxStateKeyLen)
		}
		pos = skipSpace(data, end)   // to the colon
		pos = skipSpace(data, pos+1) // to the value
		end = skipValue(data, pos)
		entries = append(entries, envelope.Entry{Key: key, Format: abi.FormatJSON, Value: data[pos:end:end]})
		pos = skipSpace(data, end)
		if data[pos] == ',' {
			pos = skipSpace(data, pos+1)
		}
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

func unquote(quoted []byte, known []envelope.Entry) (string, error) {
	inner := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		if at, ok := find(known, inner); ok {
			return known[at].Key, nil
		}
		return string(inner), nil
	}
	var key string
	if err := json.Unmarshal(quoted, &key); err != nil {
		return "", err
	}
	return key, nil
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

// skipString returns the position after the string that begins at pos.
func skipString(data []byte, pos int) int {
	for pos++; data[pos] != '"'; pos++ {
		if data[pos] == '\\' {
			pos++
		}
	}
	return pos + 1
}

// skipValue returns the position after the value that begins at pos. It counts
// brackets instead of recursing: nesting is the guest's choice.
func skipValue(data []byte, pos int) int {
	depth := 0
	for {
		switch data[pos] {
		case '"':
			pos = skipString(data, pos)
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
			return pos
		}
	}
}

// endsValue reports whether a value outside brackets ends before pos.
func endsValue(data []byte, pos int) bool {
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
