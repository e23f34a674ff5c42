package abi_test

import (
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"
	"math"
	"strings"
)

// raw is a field of a field list written by hand, as the format says it and not
// as the codec writes it.
type raw struct {
	tag   uint16
	value string
}

func list(kind byte, fields ...raw) string {
	b := []byte{1, kind}
	for _, f := range fields {
		b = binary.LittleEndian.AppendUint16(b, f.tag)
		b = binary.LittleEndian.AppendUint32(b, uint32(len(f.value)))
		b = append(b, f.value...)
	}
	return string(b)
}

func u16(v uint16) string { return string(binary.LittleEndian.AppendUint16(nil, v)) }
func u32(v uint32) string { return string(binary.LittleEndian.AppendUint32(nil, v)) }
func u64(v uint64) string { return string(binary.LittleEndian.AppendUint64(nil, v)) }

func refused(name, data, why string) frameVector {
	return frameVector{Name: name, Hex: hex.EncodeToString([]byte(data)), Refused: why}
}

func turnOK(name, data string, canonical bool, v turnValue) frameVector {
	if v.Metadata == nil {
		v.Metadata = []headerValue{}
	}
	return frameVector{Name: name, Hex: hex.EncodeToString([]byte(data)), Canonical: canonical, Turn: &v}
}

func errorOK(name, data string, canonical bool, v errorValue) frameVector {
	return frameVector{Name: name, Hex: hex.EncodeToString([]byte(data)), Canonical: canonical, Error: &v}
}

func turnVectors() []frameVector {
	method := []raw{
		{1, "\x01"}, {2, u32(1)}, {3, "shop"}, {4, "Cart"}, {5, "user/42||💚 a"}, {6, "View"}, {7, "inv-1"},
		{8, u64(1_800_000_000_123_456_789)}, {9, u64(math.MaxUint64)}, {11, "text/plain"}, {12, "\x00\xffhi"},
		{13, "\x03"}, {16, "expire 💚"}, {17, u64(1_800_000_000_000_000_001)}, {18, u32(2)}, {19, u32(math.MaxUint32)},
		{20, u64(math.MaxUint64 - 1)}, {21, "open"}, {22, "out_of_stock"}, {23, header("plan", "gold") + header("x", "")}, {24, "Agent"}, {25, "smith 💚"},
	}
	value := turnValue{What: 1, Flags: 1, App: "shop", Type: "Cart", ID: "user/42||💚 a", Method: "View", InvocationID: "inv-1",
		TimeUnixNano: 1_800_000_000_123_456_789, Revision: math.MaxUint64, ContentType: "text/plain", Payload: "00ff6869",
		Cause: 3, CauseName: "expire 💚", DueUnixNano: 1_800_000_000_000_000_001, Attempt: 2, Missed: math.MaxUint32,
		Metadata: []headerValue{{"plan", "gold"}, {"x", ""}},
		Cookie:   math.MaxUint64 - 1, MethodSet: "open", Failed: "out_of_stock", ByType: "Agent", ByID: "smith 💚"}
	withUnknown := append(append([]raw{}, method...), raw{26, "from a newer host"}, raw{65535, ""})
	return []frameVector{
		turnOK("nothing but version and kind", list(1), true, turnValue{}),
		turnOK("a method with every field", list(1, method...), true, value),
		turnOK("a migration", list(1, raw{1, "\x02"}, raw{3, "default"}, raw{4, "T"}, raw{5, "a"}, raw{8, u64(1)}, raw{9, u64(7)}, raw{10, u32(math.MaxUint32)}), true,
			turnValue{What: 2, App: "default", Type: "T", ID: "a", TimeUnixNano: 1, Revision: 7, StoredSchema: math.MaxUint32}),
		turnOK("a call of another actor", list(1, raw{1, "\x01"}, raw{6, "Deposit"}, raw{13, "\x01"}, raw{14, "Account"}, raw{15, "ada 💚"}), true,
			turnValue{What: 1, Method: "Deposit", Cause: 1, CallerType: "Account", CallerID: "ada 💚"}),
		turnOK("a message", list(1, raw{1, "\x01"}, raw{6, "Ship"}, raw{13, "\x02"}, raw{14, "Cart"}, raw{15, "ada"}, raw{17, u64(1_800_000_000_000_000_000)}, raw{18, u32(3)}, raw{20, u64(7)}, raw{24, "Desk"}, raw{25, "1"}), true,
			turnValue{What: 1, Method: "Ship", Cause: 2, CallerType: "Cart", CallerID: "ada", DueUnixNano: 1_800_000_000_000_000_000, Attempt: 3, Cookie: 7, ByType: "Desk", ByID: "1"}),
		turnOK("an event", list(1, raw{1, "\x01"}, raw{6, "OnOrder"}, raw{12, "12"}, raw{13, "\x05"}, raw{14, "Order"}, raw{15, "17"}, raw{16, "paid"}, raw{17, u64(1_800_000_000_000_000_000)}, raw{18, u32(1)}), true,
			turnValue{What: 1, Method: "OnOrder", Payload: "3132", Cause: 5, CallerType: "Order", CallerID: "17", CauseName: "paid", DueUnixNano: 1_800_000_000_000_000_000, Attempt: 1}),
		turnOK("the end of a publisher's life", list(1, raw{1, "\x01"}, raw{6, "OnOrder"}, raw{13, "\x05"}, raw{14, "Order"}, raw{15, "17"}, raw{17, u64(1770000000000000000)}, raw{18, u32(1)}, raw{22, "passed_away"}), true,
			turnValue{What: 1, Method: "OnOrder", Cause: 5, CallerType: "Order", CallerID: "17", DueUnixNano: 1770000000000000000, Attempt: 1, Failed: "passed_away"}),
		turnOK("events that are gone", list(1, raw{1, "\x01"}, raw{6, "OnOrder"}, raw{13, "\x05"}, raw{14, "Order"}, raw{15, "17"}, raw{18, u32(2)}, raw{22, "position_gone"}), true,
			turnValue{What: 1, Method: "OnOrder", Cause: 5, CallerType: "Order", CallerID: "17", Attempt: 2, Failed: "position_gone"}),
		turnOK("an undelivered message", list(1, raw{1, "\x01"}, raw{6, "NotShipped"}, raw{13, "\x06"}, raw{14, "Depot"}, raw{15, "north"}, raw{20, u64(7)}, raw{22, "closed"}), true,
			turnValue{What: 1, Method: "NotShipped", Cause: 6, CallerType: "Depot", CallerID: "north", Cookie: 7, Failed: "closed"}),
		turnOK("a time before 1970", list(1, raw{1, "\x01"}, raw{8, u64(math.MaxUint64)}), true, turnValue{What: 1, TimeUnixNano: -1}),
		turnOK("flags of a newer host", list(1, raw{1, "\x01"}, raw{2, u32(0x80000001)}), true, turnValue{What: 1, Flags: 0x80000001}),
		turnOK("zero and empty fields written out", list(1, raw{1, "\x01"}, raw{2, u32(0)}, raw{3, ""}, raw{9, u64(0)}, raw{12, ""}), false, turnValue{What: 1}),
		turnOK("unknown tags after the known", list(1, withUnknown...), false, value),

		refused("empty", "", "turn frame, byte 0: ends before version and kind"),
		refused("version alone", "\x01", "turn frame, byte 0: ends before version and kind"),
		refused("version 2", "\x02\x01", "turn frame, byte 0: version 2, not 1"),
		refused("an error frame", list(2), "turn frame, byte 1: kind 2, not 1"),
		refused("ends inside a tag", list(1)+"\x01", "turn frame, byte 2: ends inside a field's tag and length"),
		refused("ends inside a length", list(1)+"\x01\x00\x01\x00\x00", "turn frame, byte 2: ends inside a field's tag and length"),
		refused("ends before a value", list(1)+"\x01\x00\x01\x00\x00\x00", "turn frame, byte 2: tag 1 claims 1 bytes, 0 are left"),
		refused("ends inside a value", list(1, raw{1, "\x01"})+u16(3)+u32(5)+"shop", "turn frame, byte 9: tag 3 claims 5 bytes, 4 are left"),
		refused("a length near 4 GiB", list(1)+u16(12)+u32(math.MaxUint32)+"x", "turn frame, byte 2: tag 12 claims 4294967295 bytes, 1 are left"),
		refused("an unknown tag that ends early", list(1)+u16(99)+u32(2)+"x", "turn frame, byte 2: tag 99 claims 2 bytes, 1 are left"),
		refused("out of order", list(1, raw{4, "T"}, raw{3, "a"}), "turn frame, byte 9: tag 3 after tag 4"),
		refused("a known tag after an unknown one", list(1, raw{26, ""}, raw{12, "x"}), "turn frame, byte 8: tag 12 after tag 26"),
		refused("a repeated tag", list(1, raw{3, "a"}, raw{3, "a"}), "turn frame, byte 9: repeats tag 3"),
		refused("a repeated unknown tag", list(1, raw{99, ""}, raw{99, ""}), "turn frame, byte 8: repeats tag 99"),
		refused("tag 0", list(1, raw{0, ""}), "turn frame, byte 2: tag 0"),
		refused("a wide u8", list(1, raw{1, "\x01\x00"}), "turn frame, byte 2: tag 1 has 2 bytes, not 1"),
		refused("an empty u8", list(1, raw{1, ""}), "turn frame, byte 2: tag 1 has 0 bytes, not 1"),
		refused("a narrow u32", list(1, raw{2, "\x01\x00\x00"}), "turn frame, byte 2: tag 2 has 3 bytes, not 4"),
		refused("a narrow time", list(1, raw{8, u32(1)}), "turn frame, byte 2: tag 8 has 4 bytes, not 8"),
		refused("a wide revision", list(1, raw{9, u64(1) + "\x00"}), "turn frame, byte 2: tag 9 has 9 bytes, not 8"),
		refused("a wide schema", list(1, raw{10, u64(1)}), "turn frame, byte 2: tag 10 has 8 bytes, not 4"),
		refused("a wide cause", list(1, raw{13, u16(3)}), "turn frame, byte 2: tag 13 has 2 bytes, not 1"),
		refused("a narrow due time", list(1, raw{17, u32(1)}), "turn frame, byte 2: tag 17 has 4 bytes, not 8"),
		refused("a narrow cookie", list(1, raw{20, u32(1)}), "turn frame, byte 2: tag 20 has 4 bytes, not 8"),
		refused("metadata that ends early", list(1, raw{23, u32(9) + "a"}), "turn frame, byte 2: tag 23 ends inside a header"),
		refused("text that is not UTF-8", list(1, raw{5, "a\xff"}), "turn frame, byte 2: tag 5 is not UTF-8"),
	}
}

func errorVectors() []frameVector {
	return []frameVector{
		errorOK("every field", list(2, raw{1, u16(9)}, raw{2, "out_of_stock"}, raw{3, "only 3 left"}, raw{4, "\x01"}, raw{5, "application/json"}, raw{6, `{"left":3}`}), true,
			errorValue{9, "out_of_stock", "only 3 left", true, "application/json", hex.EncodeToString([]byte(`{"left":3}`)), 0}),
		errorOK("status and message", list(2, raw{1, u16(16)}, raw{3, "who are you? 💚"}), true, errorValue{Status: 16, Message: "who are you? 💚"}),
		errorOK("nothing: status unknown", list(2), false, errorValue{Status: 2}),
		errorOK("status 0 counts as unknown", list(2, raw{1, u16(0)}), false, errorValue{Status: 2}),
		errorOK("status 17 counts as unknown", list(2, raw{1, u16(17)}, raw{3, "m"}), false, errorValue{Status: 2, Message: "m"}),
		errorOK("a code at its limit", list(2, raw{1, u16(5)}, raw{2, strings.Repeat("c", 128)}), true, errorValue{Status: 5, Code: strings.Repeat("c", 128)}),
		errorOK("a code beyond its limit is cut", list(2, raw{1, u16(5)}, raw{2, strings.Repeat("c", 129)}), false, errorValue{Status: 5, Code: strings.Repeat("c", 128)}),
		errorOK("a code is cut before a character", list(2, raw{1, u16(5)}, raw{2, strings.Repeat("c", 127) + "é"}), false, errorValue{Status: 5, Code: strings.Repeat("c", 127)}),
		errorOK("a message beyond its limit is cut", list(2, raw{1, u16(5)}, raw{3, strings.Repeat("é", 2049)}), false, errorValue{Status: 5, Message: strings.Repeat("é", 2048)}),
		errorOK("retry 2 is not a promise", list(2, raw{1, u16(5)}, raw{4, "\x02"}), false, errorValue{Status: 5}),
		errorOK("a delay", list(2, raw{1, u16(14)}, raw{2, "busy"}, raw{4, "\x01"}, raw{8, u32(2500)}), true,
			errorValue{Status: 14, Code: "busy", Retryable: true, RetryAfterMillis: 2500}),
		errorOK("the longest delay", list(2, raw{1, u16(14)}, raw{4, "\x01"}, raw{8, u32(math.MaxUint32)}), true,
			errorValue{Status: 14, Retryable: true, RetryAfterMillis: math.MaxUint32}),
		errorOK("a delay of nothing", list(2, raw{1, u16(14)}, raw{4, "\x01"}, raw{8, u32(0)}), false, errorValue{Status: 14, Retryable: true}),
		errorOK("a delay without a retry", list(2, raw{1, u16(14)}, raw{8, u32(2500)}), false, errorValue{Status: 14}),
		errorOK("an unknown tag", list(2, raw{1, u16(5)}, raw{7, "newer"}), false, errorValue{Status: 5}),

		refused("empty", "", "error frame, byte 0: ends before version and kind"),
		refused("version 0", "\x00\x02", "error frame, byte 0: version 0, not 1"),
		refused("a turn frame", list(1), "error frame, byte 1: kind 1, not 2"),
		refused("a status of four bytes", list(2, raw{1, u32(5)}), "error frame, byte 2: tag 1 has 4 bytes, not 2"),
		refused("a retry of no bytes", list(2, raw{1, u16(5)}, raw{4, ""}), "error frame, byte 10: tag 4 has 0 bytes, not 1"),
		refused("a delay of two bytes", list(2, raw{4, "\x01"}, raw{8, u16(5)}), "error frame, byte 9: tag 8 has 2 bytes, not 4"),
		refused("a message that ends early", list(2)+u16(3)+u32(10)+"short", "error frame, byte 2: tag 3 claims 10 bytes, 5 are left"),
		refused("a message that is not UTF-8", list(2, raw{3, "\xc3"}), "error frame, byte 2: tag 3 is not UTF-8"),
		refused("out of order", list(2, raw{3, "m"}, raw{2, "c"}), "error frame, byte 9: tag 2 after tag 3"),
		refused("a repeated message", list(2, raw{3, "m"}, raw{3, "m"}), "error frame, byte 9: repeats tag 3"),
		refused("a detail beyond its limit", list(2, raw{6, strings.Repeat("d", 65537)}), "error frame, byte 2: the detail has 65537 bytes; at most 65536 are allowed"),
	}
}

func keyListVectors() []frameVector {
	ok := func(name, data string, keys ...string) frameVector {
		if keys == nil {
			keys = []string{}
		}
		return frameVector{Name: name, Hex: hex.EncodeToString([]byte(data)), Canonical: true, Keys: &keys}
	}
	key := func(k string) string { return u32(uint32(len(k))) + k }
	longest := strings.Repeat("k", 512)
	return []frameVector{
		ok("no keys", ""),
		ok("one", key("count"), "count"),
		ok("byte order, not alphabetical", key("B")+key("a")+key("ab")+key("b")+key("é"), "B", "a", "ab", "b", "é"),
		ok("a control character is a key", key("\x00"), "\x00"),
		ok("the longest key", key(longest), longest),

		refused("ends inside a length", key("a")+"\x01\x00\x00", "key list, byte 5: ends inside a length"),
		refused("ends inside a key", u32(3)+"ab", "key list, byte 0: a key of 3 bytes, 2 are left"),
		refused("a length near 4 GiB", u32(math.MaxUint32)+"a", "key list, byte 0: a key of 4294967295 bytes; at most 512 are allowed"),
		refused("an empty key", u32(0), "key list, byte 0: an empty key"),
		refused("a key too long", key(longest+"k"), "key list, byte 0: a key of 513 bytes; at most 512 are allowed"),
		refused("not UTF-8", key("\xff"), "key list, byte 0: a key that is not UTF-8"),
		refused("out of order", key("b")+key("a"), "key list, byte 5: a key that does not come after the one before it"),
		refused("a repeated key", key("a")+key("a"), "key list, byte 5: a key that does not come after the one before it"),
	}
}

func envelopeVectors() []frameVector {
	sealed := func(body string) string {
		body = "GRE1" + body
		return body + u32(crc32.Checksum([]byte(body), crc32.MakeTable(crc32.Castagnoli)))
	}
	entry := func(format byte, key, value string) string {
		return string(format) + u32(uint32(len(key))) + key + u32(uint32(len(value))) + value
	}
	ok := func(name, body string, entries ...entryValue) frameVector {
		if entries == nil {
			entries = []entryValue{}
		}
		return frameVector{Name: name, Hex: hex.EncodeToString([]byte(sealed(body))), Canonical: true, Entries: &entries}
	}
	const damaged = "the state envelope is damaged: "
	one := sealed(entry(0, "k", "value"))
	flipped := []byte(one)
	flipped[10] ^= 1
	return []frameVector{
		ok("no keys", ""),
		ok("bytes and JSON", entry(0, "avatar", "\x00\xff")+entry(1, "name", `"Ada"`),
			entryValue{"avatar", 0, "00ff"}, entryValue{"name", 1, hex.EncodeToString([]byte(`"Ada"`))}),
		ok("an empty value", entry(0, "k", ""), entryValue{"k", 0, ""}),

		refused("empty", "", damaged+"byte 0: it ends after 0 bytes; the shortest has 8"),
		refused("cut to seven bytes", one[:7], damaged+"byte 7: it ends after 7 bytes; the shortest has 8"),
		refused("another magic", "GRE2"+one[4:], damaged+`byte 0: it begins with "GRE2", not "GRE1"`),
		refused("a flipped bit", string(flipped), damaged+"byte 19: the checksum is dcce9e4a, the bytes have 28f04802"),
		refused("a lost last byte", one[:len(one)-1], damaged+"byte 18: the checksum is ce9e4a65, the bytes have 7d240fa9"),
		refused("an unknown format", sealed(entry(2, "k", "v")), damaged+"byte 4: the format 2 is unknown"),
		refused("an empty key", sealed(entry(0, "", "v")), damaged+"byte 4: an empty key"),
		refused("a key too long", sealed(entry(0, strings.Repeat("k", 513), "v")), damaged+"byte 4: a key of 513 bytes; at most 512 are allowed"),
		refused("a key that is not UTF-8", sealed(entry(0, "\xff", "v")), damaged+"byte 4: a key that is not UTF-8"),
		refused("ends inside a key", sealed("\x00"+u32(9)+"k"), damaged+"byte 4: it ends inside a key"),
		refused("ends inside a value", sealed("\x00"+u32(1)+"k"+u32(math.MaxUint32)+"v"), damaged+`byte 4: it ends inside the value of key "k"`),
		refused("ends after a format", sealed("\x00"), damaged+"byte 4: it ends inside a key"),
		refused("out of order", sealed(entry(0, "b", "")+entry(0, "a", "")), damaged+`byte 14: key "a" does not come after key "b"`),
		refused("a repeated key", sealed(entry(0, "a", "")+entry(0, "a", "")), damaged+`byte 14: key "a" does not come after key "a"`),
	}
}
