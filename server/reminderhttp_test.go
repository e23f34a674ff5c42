package server

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/server/failure"

	"github.com/greenroom-run/greenroom/actor"
)

// firedMethod is the method of Counter that firings run.
const firedMethod = "Get"

const reminderAt = "/v2.0/actors/default/Counter/a/reminders/"

// TestDaprReminders: set, read, replaced, kept and removed in Dapr's form.
func TestDaprReminders(t *testing.T) {
	f := startReminders(t, nil, nil)
	c := client(t, false)
	put := func(name, body string) *greenroomv1.Reminder {
		t.Helper()
		if a := do(t, c, "POST", f.url+reminderAt+name, body); a.StatusCode != http.StatusNoContent || a.body != "" {
			t.Fatalf("%s %s", a.Status, a.body)
		}
		r, err := f.get(t, name)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	before := time.Now()
	r := put("n", `{"dueTime": "1h", "period": "R5/PT1M30.5S", "ttl": "PT3H", "data": { "a" : [1, 2] }, "method": "Get",
		"failurePolicy": {"exponential": {"interval": "2s", "maxInterval": "PT1M", "maxRetries": 6}},
		"missed": "catchup", "missedLimit": 9, "jitter": "1s", "metadata": {"k": "v"}}`)
	s := r.Spec
	if s.Method != firedMethod || string(s.Payload) != `{"a":[1,2]}` || s.Schedule.Every.AsDuration() != 90500*time.Millisecond || r.Left != 5 ||
		s.Schedule.GetUntil().AsTime().Sub(r.Due.AsTime()) < time.Hour || s.Failure.Attempts != 7 || s.Failure.Interval.AsDuration() != 2*time.Second ||
		s.Failure.MaxInterval.AsDuration() != time.Minute || s.Missed.Kind != greenroomv1.MissedKind_MISSED_KIND_CATCH_UP || s.Missed.Limit != 9 || s.Metadata["k"] != "v" {
		t.Errorf("%v", r)
	}
	if due := r.Due.AsTime(); due.Before(before.Add(time.Hour-time.Second)) || due.After(time.Now().Add(time.Hour)) {
		t.Errorf("set at %v, due %v", before, due)
	}

	// What is read sets the same again.
	got := do(t, c, "GET", f.url+reminderAt+"n", "")
	var m map[string]any
	if err := json.Unmarshal([]byte(got.body), &m); err != nil || got.StatusCode != http.StatusOK || m["period"] != "R5/PT1M30.5S" || m["id"] != r.Id || got.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("%s %s", got.Status, got.body)
	}
	delete(m, "id")
	again, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	if r2 := put("n", string(again)); r2.Id == r.Id || !r2.Due.AsTime().Equal(r.Due.AsTime()) || r2.Left != 5 || string(r2.Spec.Payload) != string(s.Payload) ||
		r2.Spec.Failure.Attempts != 7 || !r2.Spec.Schedule.GetUntil().AsTime().Equal(s.Schedule.GetUntil().AsTime()) {
		t.Errorf("%v\n%v", r, r2)
	} else if r3 := put("n", `{"dueTime": "9h", "method": "Get", "overwrite": false}`); r3.Id != r2.Id {
		t.Error("it was not kept")
	}

	// The method is the name, if there is no other; cron, and data that is not JSON.
	if r := put("Get", `{"cron": "0 9 * * MON", "zone": "Europe/Berlin", "contentType": "text/plain", "data": "aGk=", "failurePolicy": {"drop": {}}}`); r.Spec.Method != firedMethod || string(r.Spec.Payload) != "hi" ||
		r.Spec.Schedule.Zone != "Europe/Berlin" || r.Spec.Failure.Kind != greenroomv1.FailureKind_FAILURE_KIND_DROP {
		t.Errorf("%v", r)
	}
	if a := do(t, c, "GET", f.url+reminderAt+"Get", ""); !strings.Contains(a.body, `"data":"aGk="`) || !strings.Contains(a.body, `"drop":{}`) || strings.Contains(a.body, "period") {
		t.Error(a.body)
	}
	// Those of the actor, in pages; without a policy that says nothing.
	var page struct {
		Reminders []map[string]any `json:"reminders"`
		After     string           `json:"after"`
	}
	list := do(t, c, "GET", f.url+strings.TrimSuffix(reminderAt, "/"), "")
	if err := json.Unmarshal([]byte(list.body), &page); err != nil || list.StatusCode != http.StatusOK || len(page.Reminders) != 2 || page.After != "" ||
		page.Reminders[0]["name"] != "Get" || page.Reminders[1]["name"] != "n" || page.Reminders[1]["period"] != "R5/PT1M30.5S" {
		t.Errorf("%s %s", list.Status, list.body)
	}
	if a := do(t, c, "GET", f.url+strings.TrimSuffix(reminderAt, "/")+"?after=Get", ""); strings.Contains(a.body, `"name":"Get"`) || !strings.Contains(a.body, `"name":"n"`) {
		t.Error(a.body)
	}
	if a := do(t, c, "DELETE", f.url+strings.TrimSuffix(reminderAt, "/"), ""); a.StatusCode != http.StatusBadRequest {
		t.Errorf("deleted without a name: %s %s", a.Status, a.body)
	}
	put("plain", `{"dueTime": "2h", "period": "PT15M", "method": "Get"}`)
	if a := do(t, c, "GET", f.url+reminderAt+"plain", ""); strings.Contains(a.body, "failurePolicy") || !strings.Contains(a.body, `"period":"PT15M"`) {
		t.Error(a.body)
	}
	// A time; no due time with a period: at once, and then each period.
	if r := put("t", `{"dueTime": "2999-01-02T03:04:05+01:00", "method": "Get"}`); r.Due.AsTime().Format(time.RFC3339) != "2999-01-02T02:04:05Z" {
		t.Errorf("%v", r)
	}
	put("p", `{"period": "1h", "method": "Get"}`)
	if fired := <-f.fired; fired.Name != "p" {
		t.Errorf("%+v", fired)
	}

	for range 2 { // the second time there is none
		if a := do(t, c, "DELETE", f.url+reminderAt+"n", ""); a.StatusCode != http.StatusNoContent {
			t.Errorf("%s %s", a.Status, a.body)
		}
	}
	if a := do(t, c, "GET", f.url+reminderAt+"n", ""); a.StatusCode != http.StatusNotFound || a.failure(t).Kind != "reminder_not_found" || a.failure(t).ActorID != "a" {
		t.Errorf("%s %s", a.Status, a.body)
	}
	// Nothing at all is a reminder that fires at once.
	if a := do(t, c, "PUT", f.url+reminderAt+"Get", ""); a.StatusCode != http.StatusNoContent {
		t.Errorf("%s %s", a.Status, a.body)
	}
	if fired := <-f.fired; fired.Name != "Get" || fired.Method != firedMethod {
		t.Errorf("%+v", fired)
	}
}

// TestDaprRemindersThatCannotBe say what is wrong, and nothing is stored.
func TestDaprRemindersThatCannotBe(t *testing.T) {
	f := startReminders(t, nil, nil)
	c := client(t, false)
	for body, says := range map[string]string{
		`{`:                   "not a reminder in JSON",
		`{} {}`:               "something follows",
		`[]`:                  "body is the JSON array; give an object",
		`{"dueTime": 30}`:     "dueTime is the JSON number; give a string",
		`{"overwrite": "no"}`: "overwrite is the JSON string; give true or false",
		`{"failurePolicy": {"constant": {"maxRetries": -1}}}`: "failurePolicy.constant.maxRetries is the JSON number -1; give a whole number",
		`{"peroid": "1s"}`:                                      `unknown member "peroid"; known are dueTime, period, ttl, data, overwrite, failurePolicy (drop, constant (interval, maxInterval, maxRetries), `,
		`{"paused": true}`:                                      "only answers have",
		`{"period": "0s"}`:                                      "reminder period is 0",
		`{"period": "PT0S"}`:                                    "reminder period is 0",
		`{"period": "-1s"}`:                                     "reminder period",
		`{"period": "R5"}`:                                      "no duration",
		`{"period": "R0/PT1M"}`:                                 "number of repetitions",
		`{"period": "P1M"}`:                                     "no fixed length",
		`{"period": "P"}`:                                       "ISO 8601",
		`{"period": "soon"}`:                                    "no duration",
		`{"period": "P99999999W"}`:                              "290 years",
		`{"period": "2562047h"}`:                                "290 years",
		`{"ttl": "2562047h"}`:                                   "290 years",
		`{"dueTime": "0001-01-01T00:00:00Z"}`:                   "beginning of the year 1",
		`{"ttl": "0001-01-01T00:00:00Z"}`:                       "beginning of the year 1",
		`{"contentType": "application/json\u0000"}`:             "control character",
		`{"contentType": "application/json\r\nX: y"}`:           "control character",
		`{"dueTime": "tomorrow"}`:                               "dueTime",
		`{"dueTime": "-1s"}`:                                    "reminder delay",
		`{"dueTime": "1h", "ttl": "1m"}`:                        "before the first occurrence",
		`{"ttl": "0s"}`:                                         "time to live",
		`{"ttl": "2001-01-01T00:00:00Z"}`:                       "before the first occurrence",
		`{"cron": "0 0 30 2 *"}`:                                "never matches",
		`{"cron": "@daily", "zone": "Europe/Atlantis"}`:         "reminder zone",
		`{"cron": "@daily", "period": "1h"}`:                    "reminder schedule",
		`{"missed": "never"}`:                                   "collapse, skip or catchup",
		`{"failurePolicy": {}}`:                                 "give drop, constant or exponential",
		`{"failurePolicy": {"drop": {}, "constant": {}}}`:       "give drop, constant or exponential",
		`{"failurePolicy": {"constant": {"maxRetries": 5000}}}`: "attempts",
		`{"contentType": "text/plain", "data": {"a": 1}}`:       "base64",
		`{"contentType": "text/plain", "data": "?"}`:            "base64",
		`{"data": "` + strings.Repeat("x", 70_000) + `"}`:       "reminder payload",
		`{"method": "a b"}`:                                     "reminder method",
	} {
		a := do(t, c, "POST", f.url+reminderAt+"Get", body)
		if a.StatusCode != http.StatusBadRequest || a.failure(t).Kind != string(failure.KindInvalidArgument) || !strings.Contains(a.failure(t).Message, says) {
			t.Errorf("%.60s: %s %s", body, a.Status, a.body)
		}
	}
	for _, tt := range []struct {
		method, path, body string
		status             int
		kind               actor.Kind
	}{
		{"POST", reminderAt + strings.Repeat("n", 10<<10), `{"method": "Get"}`, http.StatusBadRequest, failure.KindInvalidArgument},
		{"POST", reminderAt + "a%0Ab", `{"method": "Get"}`, http.StatusBadRequest, failure.KindInvalidArgument},
		{"POST", reminderAt + "some%20name", `{}`, http.StatusBadRequest, failure.KindInvalidArgument}, // no name of a method
		{"POST", reminderAt + "n", `{"method": "Put"}`, http.StatusNotFound, actor.ErrMethodNotFound.Kind()},
		{"POST", "/v2.0/actors/default/Nothing/a/reminders/Get", "", http.StatusNotFound, actor.ErrTypeNotFound.Kind()},
		{"PATCH", reminderAt + "Get", "", http.StatusMethodNotAllowed, failure.KindMethodRefused},
		{"POST", reminderAt, "", http.StatusBadRequest, failure.KindInvalidArgument},
		{"POST", reminderAt + "a/b", "", http.StatusNotFound, failure.KindPathNotFound},
		{"POST", "/v2.0/actors/default/Counter/a/rows/n", "", http.StatusNotFound, failure.KindPathNotFound},
		{"POST", "/v2.0/actors/default/Counter/a/timers/n", `{"dueTime": "1s"}`, http.StatusNotImplemented, failure.KindNotImplemented},
		{"GET", "/v2.0/actors/default/Counter/a/timers/n", "", http.StatusNotImplemented, failure.KindNotImplemented},
	} {
		a := do(t, c, tt.method, f.url+tt.path, tt.body)
		if a.StatusCode != tt.status || a.failure(t).Kind != string(tt.kind) {
			t.Errorf("%s %.80s: %s %s", tt.method, tt.path, a.Status, a.body)
		}
		if allow := a.Header.Get("Allow"); tt.status == http.StatusMethodNotAllowed && allow != "DELETE, GET, POST, PUT" {
			t.Errorf("Allow: %s", allow)
		}
	}
	if names := f.list(t, &greenroomv1.ListRemindersRequest{}); len(names) > 0 {
		t.Errorf("stored: %v", names)
	}
}

// TestDaprRemindersNeedARole, and the app of the token; a server without reminders says
// that it has none.
func TestDaprRemindersNeedARole(t *testing.T) {
	f := start(t, withRoles)
	c := client(t, false)
	for _, tt := range []struct {
		method, token string
		refused       bool
	}{
		{"GET", "read", false}, {"POST", "read", true}, {"PUT", "read", true}, {"DELETE", "read", true},
		{"POST", "invoke", false}, {"DELETE", "invoke", false}, {"DELETE", "invoke-mine", true}, {"GET", "admin-mine", true},
	} {
		a := do(t, c, tt.method, f.url+reminderAt+"n", "", "Authorization", "Bearer "+tt.token)
		if (a.StatusCode == http.StatusForbidden) != tt.refused {
			t.Errorf("%s with %s: %s %s", tt.method, tt.token, a.Status, a.body)
		}
	}
	f = start(t, nil)
	if a := do(t, c, "POST", f.url+reminderAt+"n", "{}"); a.StatusCode != http.StatusNotImplemented || a.failure(t).Kind != string(failure.KindNotImplemented) {
		t.Errorf("%s %s", a.Status, a.body)
	}
}
