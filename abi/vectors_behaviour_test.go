package abi_test

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"testing"
)

// behaviourVector is a history of one actor, which both SDKs and both test kits
// must play: testdata/vectors/README.md.
type behaviourVector struct {
	Name  string          `json:"name"`
	Steps []behaviourStep `json:"steps"`
}

// behaviourStep is one of a call, a move of the clock, a change of actor, stored
// state of another module, or a secret.
type behaviourStep struct {
	Call       *behaviourCall    `json:"call,omitempty"`
	AdvanceMS  *int64            `json:"advance_ms,omitempty"`
	DropMemory bool              `json:"drop_memory,omitempty"`
	Deactivate bool              `json:"deactivate,omitempty"`
	SetState   map[string]string `json:"set_state,omitempty"`
	Secret     *string           `json:"secret_hex,omitempty"`
}

type behaviourCall struct {
	Method  string `json:"method"`
	Payload string `json:"payload"`
	// Reply or Error is the outcome.
	Reply *string         `json:"reply,omitempty"`
	Error *behaviourError `json:"error,omitempty"`
	// State is the whole state after it, by key.
	State map[string]string `json:"state"`
}

type behaviourError struct {
	Status           uint16 `json:"status"`
	Code             string `json:"code"`
	Message          string `json:"message,omitempty"` // not compared where it is empty
	Retryable        bool   `json:"retryable"`
	RetryAfterMillis uint32 `json:"retry_after_ms"`
	Detail           string `json:"detail"`
}

// kitClock is when the clock of a test kit begins: 2025-01-01T12:00:00Z.
const (
	kitClock         = "1735732800000000000"
	kitClockMS int64 = 1735732800000
)

func behaviourVectors() []behaviourVector {
	type state map[string]string
	ok := func(method, payload, reply string, after state) behaviourStep {
		if after == nil {
			after = state{}
		}
		return behaviourStep{Call: &behaviourCall{Method: method, Payload: payload, Reply: &reply, State: after}}
	}
	bad := func(method, payload string, e behaviourError, after state) behaviourStep {
		if after == nil {
			after = state{}
		}
		return behaviourStep{Call: &behaviourCall{Method: method, Payload: payload, Error: &e, State: after}}
	}
	fault := func(status uint16, code string) behaviourError { return behaviourError{Status: status, Code: code} }
	secret := func(data string) behaviourStep {
		text := hex.EncodeToString([]byte(data))
		return behaviourStep{Secret: &text}
	}
	after := func(ms int64) behaviourStep { return behaviourStep{AdvanceMS: &ms} }
	// set is a reminder, and fired the state that its Ticks leave.
	set := func(members string) behaviourStep { return ok("Remind", `{"name":"r",`+members+`}`, ``, nil) }
	fired := func(count int, due int64, attempt, missed int) state {
		return state{"count": fmt.Sprint(count), "label": fmt.Sprintf(`"reminder r %d %d %d"`, kitClockMS+due, attempt, missed)}
	}
	timer := func(members string) behaviourStep { return ok("Timer", `{"name":"t",`+members+`}`, ``, nil) }
	ticked := func(count int, due int64) state {
		return state{"count": fmt.Sprint(count), "label": fmt.Sprintf(`"timer t %d 1 0"`, kitClockMS+due)}
	}
	view := func(s state) behaviourStep {
		return ok("View", ``, `{"count":`+s["count"]+`,"label":`+s["label"]+`}`, s)
	}
	untouched := ok("View", ``, `{"count":0}`, nil)
	is := func(members string, s state) behaviourStep { return ok("Reminder", `"r"`, members, s) }
	cannot := func(members string) behaviourStep { return bad("Remind", members, fault(3, "invalid_reminder"), nil) }
	return []behaviourVector{
		{"a method changes the struct", []behaviourStep{
			ok("Add", `{"amount":2}`, `{"count":2}`, state{"count": "2"}),
			ok("Add", `{"amount":3,"label":"l"}`, `{"count":5,"label":"l"}`, state{"count": "5", "label": `"l"`}),
			ok("View", ``, `{"count":5,"label":"l"}`, state{"count": "5", "label": `"l"`}),
		}},
		{"a method that changes nothing stores nothing", []behaviourStep{
			ok("Add", `{"amount":0}`, `{"count":0}`, nil),
		}},
		{"an input of optional fields may be empty", []behaviourStep{
			ok("Add", ``, `{"count":0}`, nil),
			ok("Add", `{}`, `{"count":0}`, nil),
		}},
		{"an input that is a text may not be empty", []behaviourStep{
			bad("Echo", ``, behaviourError{Status: 3, Code: "bad_json", Message: "the payload is empty; the method takes JSON"}, nil),
			ok("Echo", `""`, `""`, nil),
			ok("Echo", `"a\u00e9"`, `"aé"`, nil),
		}},
		{"inputs that are not what the method takes", []behaviourStep{
			bad("Add", `{"amount":"2"}`, fault(3, "bad_json"), nil),
			bad("Add", `{"amount":2`, fault(3, "bad_json"), nil),
			bad("Add", `{"amount":2} {}`, fault(3, "bad_json"), nil),
			bad("Add", `{"amount":1.5}`, fault(3, "bad_json"), nil),
			ok("Add", `{"amount":2,"unknown":[{}]}`, `{"count":2}`, state{"count": "2"}),
		}},
		{"a change of actor loses nothing that is stored", []behaviourStep{
			ok("Add", `{"amount":2}`, `{"count":2}`, state{"count": "2"}),
			{DropMemory: true},
			ok("Add", `{"amount":1}`, `{"count":3}`, state{"count": "3"}),
		}},
		{"keys that the struct does not know are kept", []behaviourStep{
			{SetState: state{"count": "1", "newer": `{"a":[1]}`}},
			ok("Add", `{"amount":1}`, `{"count":2}`, state{"count": "2", "newer": `{"a":[1]}`}),
		}},
		{"an error undoes the turn", []behaviourStep{
			ok("Add", `{"amount":2}`, `{"count":2}`, state{"count": "2"}),
			bad("AddAndRefuse", `{"amount":5}`, behaviourError{Status: 9, Code: "refused", Message: "not 5"}, state{"count": "2"}),
			ok("View", ``, `{"count":2}`, state{"count": "2"}),
		}},
		{"errors keep what they carry", []behaviourStep{
			bad("Fail", `{"status":8,"code":"sold_out","message":"nothing is left"}`, behaviourError{Status: 8, Code: "sold_out", Message: "nothing is left"}, nil),
			bad("Fail", `{"status":14,"code":"busy","message":"m","retry":true}`, behaviourError{Status: 14, Code: "busy", Message: "m", Retryable: true}, nil),
			bad("Fail", `{"status":14,"code":"busy","message":"m","retry":true,"retry_after_ms":1500}`, behaviourError{Status: 14, Code: "busy", Message: "m", Retryable: true, RetryAfterMillis: 1500}, nil),
			bad("Fail", `{"status":5,"code":"c","message":"m","detail":"d"}`, behaviourError{Status: 5, Code: "c", Message: "m", Detail: `"d"`}, nil),
		}},
		{"delete all sets the struct to its first value", []behaviourStep{
			ok("Add", `{"amount":2,"label":"l"}`, `{"count":2,"label":"l"}`, state{"count": "2", "label": `"l"`}),
			ok("Wipe", ``, `{"count":0}`, nil),
			ok("View", ``, `{"count":0}`, nil),
		}},
		{"what follows delete all is stored", []behaviourStep{
			ok("Add", `{"amount":2,"label":"l"}`, `{"count":2,"label":"l"}`, state{"count": "2", "label": `"l"`}),
			ok("WipeAndAdd", `{"amount":2}`, `{"count":2}`, state{"count": "2"}),
		}},
		{"a read-only method writes nothing", []behaviourStep{
			ok("Put", `{"key":"k","value":"v"}`, ``, state{"k": `"v"`}),
			bad("PutReadOnly", `{"key":"k","value":"w"}`, fault(9, "read_only"), state{"k": `"v"`}),
		}},
		{"keys with a prefix come in order", []behaviourStep{
			ok("Put", `{"key":"book/b","value":"2"}`, ``, state{"book/b": `"2"`}),
			ok("Put", `{"key":"book/a","value":"1"}`, ``, state{"book/a": `"1"`, "book/b": `"2"`}),
			ok("Put", `{"key":"other","value":"3"}`, ``, state{"book/a": `"1"`, "book/b": `"2"`, "other": `"3"`}),
			ok("Each", `"book/"`, `[["book/a","1"],["book/b","2"]]`, state{"book/a": `"1"`, "book/b": `"2"`, "other": `"3"`}),
			ok("Each", `"none/"`, `[]`, state{"book/a": `"1"`, "book/b": `"2"`, "other": `"3"`}),
		}},
		{"a key that is none", []behaviourStep{
			bad("Put", `{"key":"","value":"v"}`, fault(3, "invalid_key"), nil),
		}},
		{"stored state that does not fit", []behaviourStep{
			{SetState: state{"count": `"many"`}},
			bad("View", ``, fault(9, "bad_state"), state{"count": `"many"`}),
		}},
		{"a reply without a JSON form", []behaviourStep{
			bad("BadReply", ``, fault(13, "bad_reply"), nil),
		}},
		{"a state value without a JSON form", []behaviourStep{
			bad("BadValue", ``, fault(13, "not_json"), nil),
		}},
		{"an error that is none of the application's", []behaviourStep{
			bad("Plain", ``, behaviourError{Status: 2, Message: "no such luck"}, nil),
		}},
		{"the method's name", []behaviourStep{
			ok("Name", ``, `"Name"`, nil),
			ok("NameReadOnly", ``, `"NameReadOnly"`, nil),
		}},
		{"the clock stands still until it is moved", []behaviourStep{
			ok("Clock", ``, kitClock, nil),
			ok("Clock", ``, kitClock, nil),
			after(1500),
			ok("Clock", ``, "1735732801500000000", nil),
		}},
		{"a reminder fires when it is due, and not before", []behaviourStep{
			set(`"method":"Tick","amount":2,"after_ms":1000`),
			is(`{"at_ms":1735732801000,"cron":"","every_ms":0,"in":"{\"amount\":2}","method":"Tick","times":0}`, nil),
			after(999), untouched,
			after(1), view(fired(2, 1000, 1, 0)),
			is(`null`, fired(2, 1000, 1, 0)),
			after(5000), view(fired(2, 1000, 1, 0)),
		}},
		{"one that is due at once fires when the clock is looked at", []behaviourStep{
			set(`"method":"Tick","amount":1`), untouched,
			after(0), view(fired(1, 0, 1, 0)),
		}},
		{"a call has another cause", []behaviourStep{
			ok("Tick", `{"amount":1}`, `{"count":1,"label":"call"}`, state{"count": "1", "label": `"call"`}),
		}},
		{"a period, three times", []behaviourStep{
			set(`"method":"Tick","amount":1,"every_ms":1000,"times":3`),
			after(2000), view(fired(2, 2000, 1, 0)),
			is(`{"at_ms":1735732803000,"cron":"","every_ms":1000,"in":"{\"amount\":1}","method":"Tick","times":1}`, fired(2, 2000, 1, 0)),
			after(60000), view(fired(3, 3000, 1, 0)),
		}},
		{"a period until a time", []behaviourStep{
			set(`"method":"Tick","amount":1,"every_ms":1000,"until_ms":1735732802500`),
			after(60000), view(fired(2, 2000, 1, 0)),
		}},
		{"every day at nine", []behaviourStep{
			set(`"method":"Tick","amount":1,"cron":"0 9 * * *"`),
			after(75599999), untouched,
			after(1), view(fired(1, 75600000, 1, 0)),
			after(86400000), view(fired(2, 162000000, 1, 0)),
		}},
		{"the same name is another reminder", []behaviourStep{
			set(`"method":"Tick","amount":1,"after_ms":1000`),
			set(`"method":"Tick","amount":5,"after_ms":2000`),
			after(60000), view(fired(5, 2000, 1, 0)),
		}},
		{"unless it is to be kept", []behaviourStep{
			set(`"method":"Tick","amount":1,"after_ms":1000,"keep":true`),
			set(`"method":"Tick","amount":5,"after_ms":2000,"keep":true`),
			after(60000), view(fired(1, 1000, 1, 0)),
		}},
		{"one that is cancelled does not fire", []behaviourStep{
			set(`"method":"Tick","amount":1,"after_ms":1000`),
			ok("Cancel", `"r"`, ``, nil),
			ok("Cancel", `"r"`, ``, nil),
			after(60000), untouched,
		}},
		{"a turn that fails has set nothing", []behaviourStep{
			bad("Remind", `{"name":"r","method":"Tick","amount":1,"refuse":true}`, fault(9, "refused"), nil),
			ok("Reminders", `""`, `[]`, nil),
			after(60000), untouched,
		}},
		{"names come in order", []behaviourStep{
			ok("Remind", `{"name":"b","method":"Tick"}`, ``, nil),
			ok("Remind", `{"name":"a/2","method":"Tick"}`, ``, nil),
			ok("Remind", `{"name":"a/1","method":"Tick"}`, ``, nil),
			ok("Reminders", `""`, `["a/1","a/2","b"]`, nil),
			ok("Reminders", `"a/"`, `["a/1","a/2"]`, nil),
		}},
		{"deleting all keys keeps reminders", []behaviourStep{
			set(`"method":"Tick","amount":1,"after_ms":1000`),
			ok("Wipe", ``, `{"count":0}`, nil),
			after(1000), view(fired(1, 1000, 1, 0)),
		}},
		{"a firing that fails is tried again", []behaviourStep{
			set(`"method":"TickAt","amount":3`),
			after(0), untouched,
			after(1999), untouched,
			after(1), view(fired(1, 0, 3, 0)),
		}},
		{"with longer and longer waits, if it is told", []behaviourStep{
			set(`"method":"TickAt","amount":4,"attempts":5,"interval_ms":1000,"longest_ms":3000`),
			after(5999), untouched,
			after(1), view(fired(1, 0, 4, 0)),
		}},
		{"and not more often than it may be", []behaviourStep{
			set(`"method":"TickAt","amount":3,"attempts":2`),
			after(60000), untouched,
			ok("Reminders", `""`, `[]`, nil),
		}},
		{"or not at all", []behaviourStep{
			set(`"method":"TickAt","amount":2,"drop":true`),
			after(60000), untouched,
			ok("Reminders", `""`, `[]`, nil),
		}},
		{"one that recurs goes on after what it gave up", []behaviourStep{
			set(`"method":"TickAt","amount":2,"attempts":1,"every_ms":1000`),
			after(3500), untouched,
			is(`{"at_ms":1735732804000,"cron":"","every_ms":1000,"in":"{\"amount\":2}","method":"TickAt","times":0}`, nil),
		}},
		{"one firing stands for what was missed", []behaviourStep{
			set(`"method":"Tick","amount":1,"at_ms":1735732797500,"every_ms":1000`),
			after(0), view(fired(1, -2500, 1, 2)),
			after(500), view(fired(2, 500, 1, 0)),
		}},
		{"or each is caught up with", []behaviourStep{
			set(`"method":"Tick","amount":1,"at_ms":1735732797500,"every_ms":1000,"missed":"catch_up"`),
			after(0), view(fired(3, -500, 1, 0)),
		}},
		{"or they are passed over, if they are late", []behaviourStep{
			set(`"method":"Tick","amount":1,"at_ms":1735732600000,"every_ms":3600000,"missed":"skip"`),
			after(0), untouched,
			after(3400000), view(fired(1, 3400000, 1, 0)),
		}},
		{"reminders that cannot be", []behaviourStep{
			cannot(`{"name":"","method":"Tick"}`),
			cannot(`{"name":"a\u0000b","method":"Tick"}`),
			cannot(`{"name":"r","method":"Nope"}`),
			cannot(`{"name":"r","method":"View"}`),
			cannot(`{"name":"r","method":"Tick","every_ms":1000,"cron":"* * * * *"}`),
			cannot(`{"name":"r","method":"Tick","cron":"* * * *"}`),
			cannot(`{"name":"r","method":"Tick","cron":"0 0 31 2 *"}`),
			cannot(`{"name":"r","method":"Tick","zone":"UTC"}`),
			cannot(`{"name":"r","method":"Tick","times":2}`),
			cannot(`{"name":"r","method":"Tick","at_ms":1735732801000,"after_ms":1000}`),
			cannot(`{"name":"r","method":"Tick","after_ms":2000,"until_ms":1735732801000}`),
			cannot(`{"name":"r","method":"Tick","attempts":1001}`),
			cannot(`{"name":"r","method":"Tick","attempts":2,"drop":true}`),
			bad("Cancel", `""`, fault(3, "invalid_reminder"), nil),
			ok("Reminders", `""`, `[]`, nil),
		}},
		{"a read-only method sets none", []behaviourStep{
			bad("RemindReadOnly", `{"name":"r","method":"Tick"}`, fault(9, "read_only"), nil),
		}},
		{"a timer fires when it is due, and not before", []behaviourStep{
			timer(`"method":"Tick","amount":2,"after_ms":1000`),
			after(999), untouched,
			after(1), view(ticked(2, 1000)),
			after(5000), view(ticked(2, 1000)),
		}},
		{"a timer with a period, until it is cancelled", []behaviourStep{
			timer(`"method":"Tick","amount":1,"every_ms":1000`),
			after(3500), view(ticked(3, 3000)),
			ok("Stop", `"t"`, `true`, ticked(3, 3000)),
			ok("Stop", `"t"`, `false`, ticked(3, 3000)),
			after(60000), view(ticked(3, 3000)),
		}},
		{"the same name is another timer", []behaviourStep{
			timer(`"method":"Tick","amount":1,"after_ms":1000`),
			timer(`"method":"Tick","amount":5,"after_ms":2000`),
			after(60000), view(ticked(5, 2000)),
		}},
		{"timers and reminders fire in order", []behaviourStep{
			set(`"method":"Tick","amount":1,"after_ms":2000`),
			timer(`"method":"Tick","amount":10,"after_ms":1000`),
			after(1999), view(ticked(10, 1000)),
			after(1), view(fired(11, 2000, 1, 0)),
		}},
		{"a turn that fails sets no timer", []behaviourStep{
			bad("Timer", `{"name":"t","method":"Tick","amount":1,"refuse":true}`, fault(9, "refused"), nil),
			after(60000), untouched,
		}},
		{"a timer whose turn fails comes again after its period, and no other one", []behaviourStep{
			timer(`"method":"TickAt","amount":2,"every_ms":1000`),
			ok("Timer", `{"name":"u","method":"TickAt","amount":2}`, ``, nil),
			after(5000), untouched,
			ok("Stop", `"t"`, `true`, nil),
			ok("Stop", `"u"`, `false`, nil),
		}},
		{"a timer is lost with the activation, and a reminder is not", []behaviourStep{
			timer(`"method":"Tick","amount":1,"after_ms":1000`),
			set(`"method":"Tick","amount":10,"after_ms":1000`),
			{Deactivate: true},
			after(60000), view(fired(10, 1000, 1, 0)),
		}},
		{"timers that cannot be", []behaviourStep{
			bad("Timer", `{"name":"","method":"Tick"}`, fault(3, "invalid_timer"), nil),
			bad("Timer", `{"name":"a\u0000b","method":"Tick"}`, fault(3, "invalid_timer"), nil),
			bad("Timer", `{"name":"t","method":"Nope"}`, fault(3, "invalid_timer"), nil),
			bad("Timer", `{"name":"t","method":"View"}`, fault(3, "invalid_timer"), nil),
			bad("Stop", `""`, fault(3, "invalid_timer"), nil),
		}},
		{"a secret is bytes, and a text if it is UTF-8", []behaviourStep{
			bad("Secret", ``, fault(9, "not_set"), nil),
			secret("hush"),
			ok("Secret", ``, `"68757368"`, nil),
			ok("SecretText", ``, `"hush"`, nil),
			secret("\xff\x00"),
			ok("Secret", ``, `"ff00"`, nil),
			bad("SecretText", ``, fault(9, "bad_text"), nil),
			bad("Undeclared", ``, fault(7, "denied"), nil),
		}},
	}
}

// checkBehaviour proves the file to be that of the table, and its JSON to be JSON:
// what it says is proved by the SDKs.
func checkBehaviour(t *testing.T) {
	want := readVectors(t, "behaviour.json", vectorFile[behaviourVector]{
		"What SDKs and their test kits do alike: README.md beside this file.", behaviourVectors(),
	})
	for _, v := range want {
		for n, s := range v.Steps {
			if s.Call == nil {
				continue
			}
			if (s.Call.Reply == nil) == (s.Call.Error == nil) {
				t.Errorf("%s, step %d: neither or both of reply and error", v.Name, n)
			}
			for key, value := range s.Call.State {
				if !json.Valid([]byte(value)) {
					t.Errorf("%s, step %d: %s is %s", v.Name, n, key, value)
				}
			}
		}
	}
}
