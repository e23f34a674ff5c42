package abi_test

import (
	"encoding/hex"
	"math"
)

func messageVectors() []frameVector {
	ok := func(name, data string, canonical bool, v messageValue) frameVector {
		return frameVector{Name: name, Hex: hex.EncodeToString([]byte(data)), Canonical: canonical, Message: &v}
	}
	full := []raw{{1, "Account"}, {2, "bob 💚"}, {3, "Deposit"}, {4, "bank 💚"}, {5, "text/plain"}, {6, "\x00\xff1"}, {7, u32(3)}, {8, u32(1500)},
		{9, u64(1_800_000_000_123_456_789)}, {10, "Undone"}, {11, u64(math.MaxUint64)}, {12, u32(255)}, {13, u64(90_000_000_001)}, {14, "Depot"}, {15, "north 💚"}, {16, "Agent"}, {17, "smith"}}
	value := messageValue{Type: "Account", ID: "bob 💚", Method: "Deposit", Service: "bank 💚", ContentType: "text/plain", Payload: "00ff31", Flags: 3, LimitMillis: 1500,
		DueUnixNano: 1_800_000_000_123_456_789, Undelivered: "Undone", Cookie: math.MaxUint64, Channel: 255, DelayNano: 90_000_000_001,
		ForwardType: "Depot", ForwardID: "north 💚", OnBehalfType: "Agent", OnBehalfID: "smith"}
	return []frameVector{
		ok("every field", list(5, full...), true, value),
		ok("a call without input", list(5, raw{1, "T"}, raw{2, "a"}, raw{3, "M"}), true, messageValue{Type: "T", ID: "a", Method: "M"}),
		ok("a message to a service", list(5, raw{3, "Ship"}, raw{4, "shipping"}, raw{6, "1"}, raw{10, "NotShipped"}, raw{11, u64(7)}), true,
			messageValue{Method: "Ship", Service: "shipping", Payload: "31", Undelivered: "NotShipped", Cookie: 7}),
		ok("a time before 1970, for the host to refuse", list(5, raw{9, u64(math.MaxUint64)}), true, messageValue{DueUnixNano: -1}),
		ok("nothing", list(5), true, messageValue{}),
		ok("an unknown tag", list(5, raw{1, "T"}, raw{99, "newer"}), false, messageValue{Type: "T"}),

		refused("a result frame", list(6), "message frame, byte 1: kind 6, not 5"),
		refused("a type that is not UTF-8", list(5, raw{1, "\xff"}), "message frame, byte 2: tag 1 is not UTF-8"),
		refused("a narrow delay", list(5, raw{13, u32(1)}), "message frame, byte 2: tag 13 has 4 bytes, not 8"),
		refused("a narrow cookie", list(5, raw{11, u32(1)}), "message frame, byte 2: tag 11 has 4 bytes, not 8"),
		refused("a receiver that is not UTF-8", list(5, raw{15, "\xff"}), "message frame, byte 2: tag 15 is not UTF-8"),
		refused("a narrow limit", list(5, raw{8, u16(1)}), "message frame, byte 2: tag 8 has 2 bytes, not 4"),
	}
}

func resultVectors() []frameVector {
	ok := func(name, data string, canonical bool, v resultValue) frameVector {
		return frameVector{Name: name, Hex: hex.EncodeToString([]byte(data)), Canonical: canonical, Result: &v}
	}
	return []frameVector{
		ok("a reply", list(6, raw{5, "text/plain"}, raw{6, "42"}), true, resultValue{ContentType: "text/plain", Payload: "3432"}),
		ok("a reply without content", list(6), true, resultValue{}),
		ok("an error", list(6, raw{1, u16(9)}, raw{2, "insufficient"}, raw{3, "only 5 are left"}, raw{4, "\x01"}, raw{5, "application/json"}, raw{6, "5"}, raw{8, u32(250)}), true,
			resultValue{Error: errorValue{Status: 9, Code: "insufficient", Message: "only 5 are left", Retryable: true, DetailContentType: "application/json", Detail: "35", RetryAfterMillis: 250}}),
		ok("a reply of a turn that was committed on its own", list(6, raw{6, "1"}, raw{7, u32(1)}), true, resultValue{Payload: "31", Flags: 1}),
		ok("a reply with the code of none", list(6, raw{2, "x"}, raw{6, "1"}), false, resultValue{Payload: "31"}),
		ok("an unknown tag", list(6, raw{6, "1"}, raw{9, "newer"}), false, resultValue{Payload: "31"}),

		refused("a message frame", list(5), "result frame, byte 1: kind 5, not 6"),
		refused("narrow flags", list(6, raw{7, u16(1)}), "result frame, byte 2: tag 7 has 2 bytes, not 4"),
		refused("a wide status", list(6, raw{1, u32(9)}), "result frame, byte 2: tag 1 has 4 bytes, not 2"),
		refused("a code that is not UTF-8", list(6, raw{2, "\xff"}), "result frame, byte 2: tag 2 is not UTF-8"),
	}
}
