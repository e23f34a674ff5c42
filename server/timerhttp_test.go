package server

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/server/failure"
)

// fakeTimers keeps what it is asked.
type fakeTimers struct {
	mu        sync.Mutex
	set       []actor.TimerSpec
	cancelled []string
}

func (f *fakeTimers) SetTimer(_ context.Context, spec actor.TimerSpec) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.set = append(f.set, spec)
	return false, nil
}

func (f *fakeTimers) CancelTimer(_ context.Context, key actor.Key, name string) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cancelled = append(f.cancelled, key.String()+" "+name)
	return false, nil
}

func (f *fakeTimers) GetTimer(_ context.Context, key actor.Key, name string) (actor.Timer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range slices.Backward(f.set) {
		if s.Key == key && s.Name == name {
			return actor.Timer{TimerSpec: s, Due: time.Date(2125, 1, 1, 0, 0, 1, 0, time.UTC), Left: s.Schedule.Times}, nil
		}
	}
	return actor.Timer{}, &actor.TurnError{Key: key, Err: actor.ErrTimerNotFound}
}

const timerAt = "/v2.0/actors/default/Counter/a/timers/"

func TestDaprTimers(t *testing.T) {
	timers := &fakeTimers{}
	f := start(t, func(c *Config) { c.Timers = timers })
	c := client(t, false)
	for _, tt := range []struct {
		method, name, body string
		want               actor.TimerSpec
	}{
		{"POST", "t", `{"dueTime": "1h30m", "period": "PT10S", "data": {"a": 1}, "callback": "Get"}`, actor.TimerSpec{
			Name: "t", Method: "Get", Payload: actor.Payload{Data: []byte(`{"a":1}`)}, Schedule: actor.Schedule{After: 90 * time.Minute, Every: 10 * time.Second},
		}},
		{"PUT", "some%20name", `{"dueTime": "1s", "period": "R5/PT1M", "method": "Get", "contentType": "text/plain", "data": "aGk="}`, actor.TimerSpec{
			Name: "some name", Method: "Get", Payload: actor.Payload{ContentType: "text/plain", Data: []byte("hi")}, Schedule: actor.Schedule{After: time.Second, Every: time.Minute, Times: 5},
		}},
		{"POST", "Get", `{"dueTime": "2125-01-01T00:00:00Z", "ttl": "2125-01-02T00:00:00Z"}`, actor.TimerSpec{
			Name: "Get", Method: "Get", Schedule: actor.Schedule{At: time.Date(2125, 1, 1, 0, 0, 0, 0, time.UTC), Until: time.Date(2125, 1, 2, 0, 0, 0, 0, time.UTC)},
		}},
	} {
		if a := do(t, c, tt.method, f.url+timerAt+tt.name, tt.body); a.StatusCode != http.StatusNoContent {
			t.Errorf("%s: %s %s", tt.body, a.Status, a.body)
			continue
		}
		tt.want.Key = actor.Key{App: "default", Type: "Counter", ID: "a"}
		if diff := cmp.Diff(tt.want, timers.set[len(timers.set)-1], cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s\n%s", tt.body, diff)
		}
	}
	for name, want := range map[string]string{
		"t":           `{"dueTime":"2125-01-01T00:00:01Z","period":"PT10S","data":{"a":1},"callback":"Get"}`,
		"some%20name": `{"dueTime":"2125-01-01T00:00:01Z","period":"R5/PT1M","data":"aGk=","callback":"Get","contentType":"text/plain"}`,
		"Get":         `{"dueTime":"2125-01-01T00:00:01Z","ttl":"2125-01-02T00:00:00Z","callback":"Get"}`,
	} {
		if a := do(t, c, "GET", f.url+timerAt+name, ""); a.StatusCode != http.StatusOK || strings.TrimSpace(a.body) != want {
			t.Errorf("%s: %s %s, want %s", name, a.Status, a.body, want)
		}
	}
	before := time.Now()
	if a := do(t, c, "POST", f.url+timerAt+"Get", ""); a.StatusCode != http.StatusNoContent {
		t.Errorf("%s %s", a.Status, a.body)
	}
	if at := timers.set[len(timers.set)-1].Schedule.At; at.Before(before) || at.After(time.Now()) {
		t.Errorf("without anything it is due at %v", at)
	}
	if a := do(t, c, "DELETE", f.url+timerAt+"Get", ""); a.StatusCode != http.StatusNoContent || len(timers.cancelled) != 1 || !strings.HasSuffix(timers.cancelled[0], " Get") {
		t.Errorf("%s %s, %q", a.Status, a.body, timers.cancelled)
	}
	set := len(timers.set)
	for _, tt := range []struct {
		method, path, body string
		status             int
		kind               actor.Kind
	}{
		{"POST", timerAt + "t", `{"callback": "Get", "peroid": "1s"}`, http.StatusBadRequest, failure.KindInvalidArgument},
		{"POST", timerAt + "t", `{"callback": "Get", "cron": "@daily"}`, http.StatusBadRequest, failure.KindInvalidArgument},
		{"POST", timerAt + "t", `{"callback": "Get", "method": "Get"}`, http.StatusBadRequest, failure.KindInvalidArgument},
		{"POST", timerAt + "t", `{"callback": "Get", "period": "0s"}`, http.StatusBadRequest, failure.KindInvalidArgument},
		{"POST", timerAt + "t", `{"callback": "Get"} {}`, http.StatusBadRequest, failure.KindInvalidArgument},
		{"POST", timerAt + "t", `{"callback": "Get", "data": "` + strings.Repeat("x", 70_000) + `"}`, http.StatusBadRequest, failure.KindInvalidArgument},
		{"POST", timerAt + "no%20method", `{}`, http.StatusBadRequest, failure.KindInvalidArgument},
		{"POST", timerAt + strings.Repeat("n", 10<<10), `{"callback": "Get"}`, http.StatusBadRequest, failure.KindInvalidArgument},
		{"DELETE", timerAt + "a%0Ab", ``, http.StatusBadRequest, failure.KindInvalidArgument},
		{"GET", timerAt + "none", ``, http.StatusNotFound, actor.ErrTimerNotFound.Kind()},
		{"PATCH", timerAt + "t", ``, http.StatusMethodNotAllowed, failure.KindMethodRefused},
		{"POST", timerAt + "a/b", `{}`, http.StatusNotFound, failure.KindPathNotFound},
	} {
		a := do(t, c, tt.method, f.url+tt.path, tt.body)
		if a.StatusCode != tt.status || a.failure(t).Kind != string(tt.kind) {
			t.Errorf("%s %.80s %.60s: %s %s", tt.method, tt.path, tt.body, a.Status, a.body)
		}
		if allow := a.Header.Get("Allow"); tt.status == http.StatusMethodNotAllowed && allow != "DELETE, GET, POST, PUT" {
			t.Errorf("Allow: %s", allow)
		}
	}
	if len(timers.set) != set {
		t.Errorf("set: %+v", timers.set[set:])
	}
}

func TestDaprTimersNeedARole(t *testing.T) {
	f := start(t, func(c *Config) { withRoles(c); c.Timers = &fakeTimers{} })
	c := client(t, false)
	for _, tt := range []struct {
		method, token string
		refused       bool
	}{
		{"POST", "read", true}, {"DELETE", "read", true}, {"POST", "invoke", false}, {"DELETE", "invoke", false},
		{"POST", "invoke-mine", true}, {"DELETE", "invoke-mine", true},
	} {
		a := do(t, c, tt.method, f.url+timerAt+"Get", "", "Authorization", "Bearer "+tt.token)
		if (a.StatusCode == http.StatusForbidden) != tt.refused {
			t.Errorf("%s with %s: %s %s", tt.method, tt.token, a.Status, a.body)
		}
	}
}
