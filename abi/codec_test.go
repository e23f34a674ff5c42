package abi_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/greenroom-run/greenroom/abi"
)

var fullTurn = abi.Turn{
	What: abi.WhatMethod, Flags: abi.FlagReadOnly, App: "shop", Type: "Cart", ID: "ada", Method: "View", InvocationID: "inv-1",
	TimeUnixNano: 1, Revision: 2, StoredSchema: 3, ContentType: "application/json", Payload: []byte(`{"a":1}`),
	Cause: abi.CauseReminder, CallerType: "T", CallerID: "a", CauseName: "bill", DueUnixNano: 1, Attempt: 1, Missed: 1,
	Cookie: 1, MethodSet: "open", Failed: "f", ByType: "T", ByID: "b",
}

func TestMaxTurnSizeIsEnough(t *testing.T) {
	full := fullTurn
	full.Metadata = []abi.Header{{Name: "plan", Value: "gold"}}
	if got, bound := len(abi.AppendTurn(nil, &full)), abi.MaxTurnSize(&full); got != bound {
		t.Errorf("a turn with every field has %d bytes, the bound is %d", got, bound)
	}
	if got, bound := len(abi.AppendTurn(nil, &abi.Turn{})), abi.MaxTurnSize(&abi.Turn{}); bound-got > 202 {
		t.Errorf("the bound of an empty turn is %d bytes too much", bound-got)
	}
}

// A host encodes into a guest's memory, a guest decodes in it, on every turn.
func TestTurnsDoNotAllocate(t *testing.T) {
	buf := make([]byte, 0, abi.MaxTurnSize(&fullTurn))
	if n := testing.AllocsPerRun(100, func() { abi.AppendTurn(buf, &fullTurn) }); n != 0 {
		t.Errorf("AppendTurn allocates %v times", n)
	}
	frame := abi.AppendTurn(buf, &fullTurn)
	var turn abi.Turn
	if n := testing.AllocsPerRun(100, func() {
		if err := abi.DecodeTurn(frame, &turn); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("DecodeTurn allocates %v times", n)
	}
}

func TestAppendKeepsWhatIsThere(t *testing.T) {
	for name, appended := range map[string][]byte{
		"turn":     abi.AppendTurn([]byte("before"), &fullTurn),
		"error":    abi.AppendError([]byte("before"), &abi.Error{Status: 1}),
		"key list": abi.AppendKeyList([]byte("before"), []string{"k"}),
	} {
		if !strings.HasPrefix(string(appended), "before") || len(appended) == len("before") {
			t.Errorf("%s: got %q", name, appended)
		}
	}
}

func TestWhoOwnsWhatWasDecoded(t *testing.T) {
	frame := abi.AppendTurn(nil, &fullTurn)
	var turn abi.Turn
	if err := abi.DecodeTurn(frame, &turn); err != nil {
		t.Fatal(err)
	}
	if cap(turn.Payload) != len(turn.Payload) {
		t.Errorf("appending to the payload would write behind it: capacity %d, length %d", cap(turn.Payload), len(turn.Payload))
	}
	wanted := abi.Error{Status: 5, Code: "code", Message: "message", DetailContentType: "text/plain", Detail: []byte("detail")}
	errFrame := abi.AppendError(nil, &wanted)
	e, err := abi.DecodeError(errFrame)
	if err != nil {
		t.Fatal(err)
	}
	list := abi.AppendKeyList(nil, []string{"a", "b"})
	keys, err := abi.DecodeKeyList(list)
	if err != nil {
		t.Fatal(err)
	}
	clear(frame)
	clear(errFrame)
	clear(list)
	if turn.ID != "\x00\x00\x00" {
		t.Errorf("the turn is a copy: ID %q", turn.ID)
	}
	if !reflect.DeepEqual(e, wanted) {
		t.Errorf("the error aliases its frame: %+v", e)
	}
	if !reflect.DeepEqual(keys, []string{"a", "b"}) {
		t.Errorf("the keys alias their list: %q", keys)
	}
}

func FuzzDecodeTurn(f *testing.F) {
	seed(f, "turn.json")
	f.Fuzz(func(t *testing.T, frame []byte) {
		var turn abi.Turn
		if err := abi.DecodeTurn(frame, &turn); err != nil {
			checkFrameError(t, err, frame)
			return
		}
		for _, text := range []string{turn.App, turn.Type, turn.ID, turn.Method, turn.InvocationID, turn.ContentType} {
			if !utf8.ValidString(text) {
				t.Fatalf("accepted %q", text)
			}
		}
		// The canonical form says the same and is a fixed point.
		canonical := abi.AppendTurn(nil, &turn)
		if len(canonical) > abi.MaxTurnSize(&turn) {
			t.Fatalf("%d bytes, the bound is %d", len(canonical), abi.MaxTurnSize(&turn))
		}
		var again abi.Turn
		if err := abi.DecodeTurn(canonical, &again); err != nil {
			t.Fatal(err)
		}
		if turn.Payload = emptyToNil(turn.Payload); !reflect.DeepEqual(again, turn) {
			t.Fatalf("got %+v, want %+v", again, turn)
		}
	})
}

// FuzzTurn begins with values, so that it reaches all of them.
func FuzzTurn(f *testing.F) {
	f.Add(uint8(1), uint32(1), "shop", "Cart", "ada", "View", "inv", int64(-1), uint64(1)<<63, uint32(7), "text/plain", []byte("x"))
	f.Fuzz(func(t *testing.T, what uint8, flags uint32, app, typ, id, method, inv string, at int64, rev uint64, schema uint32, ct string, payload []byte) {
		want := abi.Turn{What: what, Flags: flags, App: app, Type: typ, ID: id, Method: method, InvocationID: inv,
			TimeUnixNano: at, Revision: rev, StoredSchema: schema, ContentType: ct, Payload: emptyToNil(payload)}
		valid := true
		for _, text := range []string{app, typ, id, method, inv, ct} {
			valid = valid && utf8.ValidString(text)
		}
		var got abi.Turn
		err := abi.DecodeTurn(abi.AppendTurn(nil, &want), &got)
		if (err == nil) != valid {
			t.Fatalf("decode: %v; texts valid: %t", err, valid)
		}
		if err == nil && !reflect.DeepEqual(got, want) {
			t.Fatalf("got %+v, want %+v", got, want)
		}
	})
}

func FuzzDecodeError(f *testing.F) {
	seed(f, "error.json")
	f.Fuzz(func(t *testing.T, frame []byte) {
		e, err := abi.DecodeError(frame)
		if err != nil {
			checkFrameError(t, err, frame)
			return
		}
		switch {
		case e.Status < abi.StatusCanceled || e.Status > abi.StatusUnauthenticated:
			t.Fatalf("status %d", e.Status)
		case len(e.Code) > abi.MaxErrorCodeLen || len(e.Message) > abi.MaxErrorMessageLen || len(e.Detail) > abi.MaxErrorDetailLen:
			t.Fatalf("beyond a limit: code %d, message %d, detail %d bytes", len(e.Code), len(e.Message), len(e.Detail))
		case !utf8.ValidString(e.Code) || !utf8.ValidString(e.Message) || !utf8.ValidString(e.DetailContentType):
			t.Fatalf("not UTF-8: %+v", e)
		}
		again, err := abi.DecodeError(abi.AppendError(nil, &e))
		if err != nil || !reflect.DeepEqual(again, e) {
			t.Fatalf("got %+v, %v; want %+v", again, err, e)
		}
	})
}

func FuzzDecodeKeyList(f *testing.F) {
	seed(f, "key_list.json")
	f.Fuzz(func(t *testing.T, list []byte) {
		keys, err := abi.DecodeKeyList(list)
		if err != nil {
			checkFrameError(t, err, list)
			return
		}
		if got := abi.AppendKeyList(nil, keys); string(got) != string(list) {
			t.Fatalf("got %x, want %x", got, list)
		}
	})
}

func checkFrameError(t *testing.T, err error, frame []byte) {
	t.Helper()
	var fe *abi.FrameError
	if !errors.As(err, &fe) || fe.Offset < 0 || fe.Offset > len(frame) || fe.Problem == "" {
		t.Fatalf("got error %#v", err)
	}
}

func emptyToNil(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return b
}

// seed gives a fuzz target the frames of a vector file, but for the largest.
func seed(f *testing.F, file string) {
	f.Helper()
	for _, v := range loadVectors[frameVector](f, file) {
		if data := unhex(v.Hex); len(data) < 1<<12 {
			f.Add(data)
		}
	}
}

func FuzzDecodeHTTPRequest(f *testing.F) {
	seed(f, "request.json")
	f.Fuzz(func(t *testing.T, frame []byte) {
		var r abi.HTTPRequest
		if err := abi.DecodeHTTPRequest(frame, &r); err != nil {
			checkFrameError(t, err, frame)
			return
		}
		if !utf8.ValidString(r.Method) || !utf8.ValidString(r.URL) || len(r.Headers) > abi.MaxHeaders {
			t.Fatalf("accepted %+v", r)
		}
		var again abi.HTTPRequest
		if err := abi.DecodeHTTPRequest(abi.AppendHTTPRequest(nil, &r), &again); err != nil {
			t.Fatal(err)
		}
		if r.Body = emptyToNil(r.Body); !reflect.DeepEqual(again, r) {
			t.Fatalf("got %+v, want %+v", again, r)
		}
	})
}

func FuzzDecodeHTTPResponse(f *testing.F) {
	seed(f, "response.json")
	f.Fuzz(func(t *testing.T, frame []byte) {
		var r abi.HTTPResponse
		if err := abi.DecodeHTTPResponse(frame, &r); err != nil {
			checkFrameError(t, err, frame)
			return
		}
		var again abi.HTTPResponse
		if err := abi.DecodeHTTPResponse(abi.AppendHTTPResponse(nil, &r), &again); err != nil {
			t.Fatal(err)
		}
		if r.Body = emptyToNil(r.Body); !reflect.DeepEqual(again, r) {
			t.Fatalf("got %+v, want %+v", again, r)
		}
	})
}

func FuzzDecodeMessage(f *testing.F) {
	seed(f, "message.json")
	f.Fuzz(func(t *testing.T, frame []byte) {
		var m abi.Message
		if err := abi.DecodeMessage(frame, &m); err != nil {
			checkFrameError(t, err, frame)
			return
		}
		var again abi.Message
		if err := abi.DecodeMessage(abi.AppendMessage(nil, &m), &again); err != nil {
			t.Fatal(err)
		}
		if m.Payload = emptyToNil(m.Payload); !reflect.DeepEqual(again, m) {
			t.Fatalf("got %+v, want %+v", again, m)
		}
	})
}

func FuzzDecodeResult(f *testing.F) {
	seed(f, "result.json")
	f.Fuzz(func(t *testing.T, frame []byte) {
		var r abi.Result
		if err := abi.DecodeResult(frame, &r); err != nil {
			checkFrameError(t, err, frame)
			return
		}
		var again abi.Result
		if err := abi.DecodeResult(abi.AppendResult(nil, &r), &again); err != nil {
			t.Fatal(err)
		}
		r.Payload, r.Detail = emptyToNil(r.Payload), emptyToNil(r.Detail)
		if !reflect.DeepEqual(again, r) {
			t.Fatalf("got %+v, want %+v", again, r)
		}
	})
}

func FuzzDecodeReminder(f *testing.F) {
	seed(f, "reminder.json")
	f.Fuzz(func(t *testing.T, frame []byte) {
		var r abi.Reminder
		if err := abi.DecodeReminder(frame, &r); err != nil {
			checkFrameError(t, err, frame)
			return
		}
		if !utf8.ValidString(r.Name) || !utf8.ValidString(r.Cron) || len(r.Metadata) > abi.MaxHeaders {
			t.Fatalf("accepted %+v", r)
		}
		var again abi.Reminder
		if err := abi.DecodeReminder(abi.AppendReminder(nil, &r), &again); err != nil {
			t.Fatal(err)
		}
		if r.Payload = emptyToNil(r.Payload); !reflect.DeepEqual(again, r) {
			t.Fatalf("got %+v, want %+v", again, r)
		}
	})
}
