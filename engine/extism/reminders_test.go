package extism

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/greenroom-run/greenroom/abi"
)

// TestReminderJSON shows that the JSON of a plug-in says all that a frame can.
func TestReminderJSON(t *testing.T) {
	due := time.Date(2026, 3, 29, 9, 0, 0, 1, time.UTC)
	all := abi.Reminder{
		Name: "n", Method: "M", Payload: []byte(`{"a":1}`), DueUnixNano: due.UnixNano(), PeriodNano: int64(time.Hour), Cron: "@daily", Zone: "Europe/Berlin",
		Count: 3, UntilNano: due.Add(time.Hour).UnixNano(), JitterNano: 5, Missed: abi.MissedCatchUp, MissedLimit: 7, MissedAfter: 8,
		Failure: abi.FailureExponential, Attempts: 9, IntervalNano: 10, LongestNano: 11, Metadata: []abi.Header{{Name: "a", Value: "1"}, {Name: "b", Value: "2"}},
	}
	for _, r := range []abi.Reminder{
		all, {Name: "n", Method: "M"},
		{Name: "n", Method: "M", ContentType: "application/vnd.x+json; charset=utf-8", Payload: []byte(`[1,"<"]`)},
		{Name: "n", Method: "M", ContentType: "application/octet-stream", Payload: []byte{0, 0xff, '"', '\n'}},
		{Name: "n", Method: "M", ContentType: "text/plain", Payload: []byte("{}")},
		{Name: "n", Method: "M", ContentType: "text/plain"},
	} {
		got, err := decodeReminder(encodeReminder(&r))
		if diff := cmp.Diff(&r, got); err != nil || diff != "" {
			t.Errorf("%v\n%s", err, diff)
		}
	}
	got, err := decodeReminder([]byte(`{"name":"n","method":"M","delay":"1h30m","failure":"drop","missed":"skip","keep":true}`))
	want := &abi.Reminder{Name: "n", Method: "M", DelayNano: int64(90 * time.Minute), Failure: abi.FailureDrop, Missed: abi.MissedSkip, Flags: abi.FlagKeep}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	// What calls itself JSON and is not is shown all the same.
	if text := string(encodeReminder(&abi.Reminder{Name: "n", Method: "M", Payload: []byte("?")})); !strings.Contains(text, `"input":"Pw=="`) {
		t.Error(text)
	}
	for text, says := range map[string]string{
		`{"content_type":"text/plain","input":{"a":1}}`: "not a string", `{"content_type":"text/plain","input":[1,2]}`: "not a string",
		`{"content_type":"text/plain","input":"hello!"}`: "base64", `{"content_type":"no media type","input":1}`: "no media type",
		`{"contentType":"text/plain"}`: "contentType",
		`{"name":1}`:                   "name", `{"nome":"n"}`: "nome", `{"delay":"soon"}`: "soon", `{"missed":"never"}`: "never", `{"failure":"loudly"}`: "loudly", ``: "EOF",
	} {
		if _, err := decodeReminder([]byte(text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", text, err, says)
		}
	}
}
