package extism

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/greenroom-run/greenroom/abi"
)

func TestTimerJSON(t *testing.T) {
	due := time.Date(2026, 3, 29, 9, 0, 0, 1, time.UTC)
	for text, want := range map[string]*abi.Reminder{
		`{"name":"n","method":"M","input":{"a":1},"delay":"1m30s","every":"1h"}`: {
			Name: "n", Method: "M", Payload: []byte(`{"a":1}`), DelayNano: int64(90 * time.Second), PeriodNano: int64(time.Hour),
		},
		`{"name":"n","method":"M","content_type":"image/png","input":"AP8=","delay":"1s"}`: {
			Name: "n", Method: "M", ContentType: "image/png", Payload: []byte{0, 0xff}, DelayNano: int64(time.Second),
		},
		`{"name":"n","method":"M","due":"2026-03-29T09:00:00.000000001Z"}`: {Name: "n", Method: "M", DueUnixNano: due.UnixNano()},
	} {
		got, err := decodeTimer([]byte(text))
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%v\n%s", err, diff)
		}
	}
	for text, says := range map[string]string{`{"content_type":"image/png","input":"\u0000"}`: "base64", `{"content_type":"image/png","input":7}`: "not a string", `{"cron":"@daily"}`: "cron", `{"every":"soon"}`: "soon", ``: "EOF"} {
		if _, err := decodeTimer([]byte(text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", text, err, says)
		}
	}
	if got, want := timedBy(&abi.Turn{Cause: abi.CauseTimer, CauseName: "n", DueUnixNano: due.UnixNano()}), (timed{"n", due}); got == nil || *got != want {
		t.Errorf("got %+v", got)
	}
	if timedBy(&abi.Turn{Cause: abi.CauseReminder, CauseName: "n"}) != nil || firedBy(&abi.Turn{Cause: abi.CauseTimer}) != nil {
		t.Error("a reminder is taken for a timer, or the other way round")
	}
}
