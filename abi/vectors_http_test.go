package abi_test

import (
	"encoding/hex"
	"strings"
)

// header is one header of a list written by hand.
func header(name, value string) string {
	return u32(uint32(len(name))) + name + u32(uint32(len(value))) + value
}

func requestVectors() []frameVector {
	ok := func(name, data string, canonical bool, v requestValue) frameVector {
		if v.Headers == nil {
			v.Headers = []headerValue{}
		}
		return frameVector{Name: name, Hex: hex.EncodeToString([]byte(data)), Canonical: canonical, Request: &v}
	}
	full := []raw{
		{1, "POST"}, {2, "https://api.example.com/v1?q=💚"}, {3, header("Content-Type", "application/json") + header("X-Empty", "")},
		{4, "\x00{}"}, {5, u32(1500)}, {6, u32(1)},
	}
	value := requestValue{
		Method: "POST", URL: "https://api.example.com/v1?q=💚", Headers: []headerValue{{"Content-Type", "application/json"}, {"X-Empty", ""}},
		Body: "007b7d", TimeoutMillis: 1500, Flags: 1,
	}
	return []frameVector{
		ok("every field", list(3, full...), true, value),
		ok("a URL alone", list(3, raw{2, "https://a.example"}), true, requestValue{URL: "https://a.example"}),
		ok("nothing", list(3), true, requestValue{}),
		ok("an empty list of headers", list(3, raw{3, ""}), false, requestValue{}),
		ok("an unknown tag", list(3, raw{2, "x"}, raw{7, "newer"}), false, requestValue{URL: "x"}),
		ok("the same header twice", list(3, raw{3, header("a", "1") + header("a", "2")}), true, requestValue{Headers: []headerValue{{"a", "1"}, {"a", "2"}}}),

		refused("a response frame", list(4), "request frame, byte 1: kind 4, not 3"),
		refused("a URL that is not UTF-8", list(3, raw{2, "\xff"}), "request frame, byte 2: tag 2 is not UTF-8"),
		refused("a narrow timeout", list(3, raw{5, u16(1)}), "request frame, byte 2: tag 5 has 2 bytes, not 4"),
		refused("ends inside a header's length", list(3, raw{3, "\x01\x00"}), "request frame, byte 2: tag 3 ends inside a header"),
		refused("ends inside a header's name", list(3, raw{3, u32(2) + "a"}), "request frame, byte 2: tag 3 ends inside a header"),
		refused("ends before a header's value", list(3, raw{3, u32(1) + "a"}), "request frame, byte 2: tag 3 ends inside a header"),
		refused("a header near 4 GiB", list(3, raw{3, u32(0xffffffff) + "a"}), "request frame, byte 2: tag 3 ends inside a header"),
		refused("a header without a name", list(3, raw{3, header("", "v")}), "request frame, byte 2: tag 3 has a header without a name"),
		refused("a header that is not UTF-8", list(3, raw{3, header("a", "\xff")}), "request frame, byte 2: tag 3 is not UTF-8"),
		refused("129 headers", list(3, raw{3, strings.Repeat(header("a", ""), 129)}), "request frame, byte 2: tag 3 has more than 128 headers"),
	}
}

func responseVectors() []frameVector {
	ok := func(name, data string, canonical bool, v responseValue) frameVector {
		if v.Headers == nil {
			v.Headers = []headerValue{}
		}
		return frameVector{Name: name, Hex: hex.EncodeToString([]byte(data)), Canonical: canonical, Response: &v}
	}
	return []frameVector{
		ok("an answer", list(4, raw{1, u16(200)}, raw{2, header("content-type", "text/plain")}, raw{3, "hi"}), true,
			responseValue{Status: 200, Headers: []headerValue{{"content-type", "text/plain"}}, Body: "6869"}),
		ok("no answer, and why", list(4, raw{4, "denied"}, raw{5, "the app may not send requests to a.example"}), true,
			responseValue{Code: "denied", Message: "the app may not send requests to a.example"}),
		ok("nothing", list(4), true, responseValue{}),
		ok("an unknown tag", list(4, raw{1, u16(204)}, raw{6, "newer"}), false, responseValue{Status: 204}),

		refused("a request frame", list(3), "response frame, byte 1: kind 3, not 4"),
		refused("a wide status", list(4, raw{1, u32(200)}), "response frame, byte 2: tag 1 has 4 bytes, not 2"),
		refused("headers that end early", list(4, raw{2, u32(9) + "a"}), "response frame, byte 2: tag 2 ends inside a header"),
	}
}
