package extism

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
)

func TestCallJSON(t *testing.T) {
	for text, want := range map[string]*abi.Message{
		`{"type":"T","id":"a","method":"M"}`: {Type: "T", ID: "a", Method: "M"},
		`{"service":"s","method":"M"}`:       {Service: "s", Method: "M"},
		`{"type":"T","id":"a","method":"M","input":{"a":1},"atomic":true,"timeout":"1.5s"}`: {Type: "T", ID: "a", Method: "M", Payload: []byte(`{"a":1}`), Flags: 1, LimitMillis: 1500},
		`{"content_type":"image/png","input":"AP8=","timeout":"1ns"}`:                       {ContentType: "image/png", Payload: []byte{0, 0xff}, LimitMillis: 1},
		`{"timeout":"-1h"}`:     {LimitMillis: 1},
		`{"timeout":"200000h"}`: {LimitMillis: uint32(min((200000 * time.Hour).Milliseconds(), math.MaxUint32))},
	} {
		got, err := decodeCall([]byte(text))
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", text, err, diff)
		}
	}
	for text, says := range map[string]string{`{"to":"T"}`: "to", `{"timeout":"soon"}`: "soon", `{"content_type":"image/png","input":7}`: "not a string", ``: "EOF"} {
		if _, err := decodeCall([]byte(text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", text, err, says)
		}
	}
	for want, r := range map[string]abi.Result{
		`{}`:                {},
		`{"reply":{"a":1}}`: {ContentType: actor.ContentTypeJSON, Payload: []byte(`{"a":1}`)},
		`{"content_type":"image/png","reply":"AP8="}`:     {ContentType: "image/png", Payload: []byte{0, 0xff}},
		`{"error":{"status":"unknown"}}`:                  {Error: abi.Error{Status: 99}},
		`{"error":{"status":"not_found","code":"c"}}`:     {Error: abi.Error{Status: abi.StatusNotFound, Code: "c"}},
		`{"error":{"status":"internal","detail":"Aw=="}}`: {Error: abi.Error{Status: abi.StatusInternal, DetailContentType: "x/y", Detail: []byte{3}}},
		`{"error":{"status":"aborted","message":"m","retryable":true,"retry_after_ms":7,"detail":[1]}}`: {
			Error: abi.Error{Status: abi.StatusAborted, Message: "m", Retryable: true, RetryAfterMillis: 7, Detail: []byte(`[1]`)}},
	} {
		text := encodeResult(&r)
		if string(text) != want {
			t.Errorf("%s, want %s", text, want)
		}
	}
	// An error is one that greenroom_fail takes.
	e := abi.Error{Status: abi.StatusAborted, Code: "c", Message: "m", Retryable: true, RetryAfterMillis: 7, Detail: []byte(`[1]`)}
	text := strings.TrimSuffix(strings.TrimPrefix(string(encodeResult(&abi.Result{Error: e})), `{"error":`), "}")
	if got, err := decodeFailure([]byte(text)); err != nil || got.Code != "c" || got.RetryAfter != 7*time.Millisecond || string(got.Detail.Data) != "[1]" {
		t.Errorf("%s: %+v, %v", text, got, err)
	}
}

func TestMessageJSON(t *testing.T) {
	due := time.Date(2026, 3, 29, 9, 0, 0, 1, time.UTC)
	for text, want := range map[string]*abi.Message{
		`{"type":"T","id":"a","method":"M","input":{"a":1},"delay":"1.5s","undelivered":"U","cookie":18446744073709551615}`: {
			Type: "T", ID: "a", Method: "M", Payload: []byte(`{"a":1}`), DelayNano: int64(1500 * time.Millisecond), Undelivered: "U", Cookie: math.MaxUint64},
		`{"service":"s","method":"M","due":"2026-03-29T09:00:00.000000001Z"}`: {Service: "s", Method: "M", DueUnixNano: due.UnixNano()},
		`{"type":"T","id":"a","method":"M","forward":{"type":"F","id":"f"},"on_behalf":{"type":"B","id":"b"}}`: {
			Type: "T", ID: "a", Method: "M", ForwardType: "F", ForwardID: "f", OnBehalfType: "B", OnBehalfID: "b"},
	} {
		got, err := decodeMessage([]byte(text))
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", text, err, diff)
		}
	}
	for text, says := range map[string]string{`{"atomic":true}`: "atomic", `{"delay":"soon"}`: "soon", `{"cookie":-1}`: "cookie", `{"forward":{"service":"s"}}`: "service", ``: "EOF"} {
		if _, err := decodeMessage([]byte(text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", text, err, says)
		}
	}
	f := abi.Turn{Cause: abi.CauseUndelivered, CallerType: "T", CallerID: "a", ByType: "B", ByID: "b", DueUnixNano: due.UnixNano(), Attempt: 3, Cookie: 7, Failed: "closed"}
	want := `{"from":{"type":"T","id":"a"},"by":{"type":"B","id":"b"},"sent":"2026-03-29T09:00:00.000000001Z","attempt":3,"cookie":7,"failed":"closed"}`
	if got := string(mustJSON(receivedBy(&f, abi.CauseUndelivered))); got != want {
		t.Errorf("got %s", got)
	}
	if receivedBy(&f, abi.CauseMessage) != nil || calledBy(&f) != nil {
		t.Error("an undelivered message is taken for a message, or for a call")
	}
}

// TestWatchJSON: a plug-in learns whose host it has watched, and why that is over; a notice is no
// message.
func TestWatchJSON(t *testing.T) {
	f := abi.Turn{Cause: abi.CauseDisconnected, CallerType: "T", CallerID: "a", Failed: abi.WatchMoved}
	if got, want := string(mustJSON(watchedBy(&f))), `{"of":{"type":"T","id":"a"},"ended":"moved"}`; got != want {
		t.Errorf("got %s", got)
	}
	if receivedBy(&f, abi.CauseMessage) != nil || receivedBy(&f, abi.CauseUndelivered) != nil || calledBy(&f) != nil {
		t.Error("a notice is taken for a message, or for a call")
	}
	for failed, want := range map[string]string{"": `{"service":"workers/"}`, abi.WatchMoved: `{"service":"workers/","ended":"moved"}`} {
		f := abi.Turn{Cause: abi.CauseServices, CauseName: "workers/", Failed: failed}
		if got := string(mustJSON(watchedBy(&f))); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if watchedBy(&abi.Turn{Cause: abi.CauseUndelivered, Failed: "x"}) != nil {
		t.Error("an undelivered message is taken for a notice")
	}
}

// TestEventJSON: a plug-in learns of an event when it was published, and of the end of its publisher's
// life, or of events that are gone, that alone.
func TestEventJSON(t *testing.T) {
	f := abi.Turn{Cause: abi.CauseEvent, CallerType: "T", CallerID: "a", CauseName: "paid", DueUnixNano: 1e18, Attempt: 2}
	if got, want := string(mustJSON(pulledBy(&f))), `{"of":{"type":"T","id":"a"},"name":"paid","published":"2001-09-09T01:46:40Z","attempt":2}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	f.CauseName = ""
	for _, failed := range []string{abi.PublisherPassedAway, abi.EventsGone} {
		f.Failed = failed
		if got, want := string(mustJSON(pulledBy(&f))), `{"of":{"type":"T","id":"a"},"attempt":2,"failed":"`+failed+`"}`; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if pulledBy(&abi.Turn{Cause: abi.CauseMessage}) != nil {
		t.Error("a message is taken for an event")
	}
}
