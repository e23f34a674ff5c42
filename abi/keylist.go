package abi

import (
	"encoding/binary"
	"strconv"
	"unicode/utf8"
)

const keyList = "key list"

// AppendKeyList appends the key list of keys to dst. The keys must ascend and be
// valid state keys. It allocates only when dst has not the capacity.
func AppendKeyList(dst []byte, keys []string) []byte {
	for _, k := range keys {
		dst = binary.LittleEndian.AppendUint32(dst, uint32(len(k)))
		dst = append(dst, k...)
	}
	return dst
}

// DecodeKeyList decodes a key list; the strings are copies. A list that ends
// early, whose keys do not ascend, or with something that cannot be a state key
// in it, is a [*FrameError].
func DecodeKeyList(list []byte) ([]string, error) {
	fail := func(at int, problem string) error {
		return &FrameError{Frame: keyList, Offset: at, Problem: problem}
	}
	var keys []string
	for pos := 0; pos < len(list); {
		rest := list[pos:]
		if len(rest) < 4 {
			return nil, fail(pos, "ends inside a length")
		}
		size := binary.LittleEndian.Uint32(rest)
		rest = rest[4:]
		switch {
		case size == 0:
			return nil, fail(pos, "an empty key")
		case size > MaxStateKeyLen:
			return nil, fail(pos, "a key of "+strconv.FormatUint(uint64(size), 10)+" bytes; at most "+
				strconv.Itoa(MaxStateKeyLen)+" are allowed")
		case int(size) > len(rest):
			return nil, fail(pos, "a key of "+strconv.Itoa(int(size))+" bytes, "+strconv.Itoa(len(rest))+" are left")
		case !utf8.Valid(rest[:size]):
			return nil, fail(pos, "a key that is not UTF-8")
		}
		key := string(rest[:size])
		if n := len(keys); n > 0 && keys[n-1] >= key {
			return nil, fail(pos, "a key that does not come after the one before it")
		}
		keys = append(keys, key)
		pos += 4 + int(size)
	}
	return keys, nil
}
