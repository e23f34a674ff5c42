package actor_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/guest-sdk/go/actor"
	"github.com/greenroom-run/greenroom/guest-sdk/go/actortest"
)

func call[Out any](t *testing.T, h *actortest.Harness, typ, id, method string, in any) Out {
	t.Helper()
	var out Out
	if err := h.Call(typ, id, method, in, &out); err != nil {
		t.Fatalf("%s.%s: %v", typ, method, err)
	}
	return out
}

func wantState(t *testing.T, h *actortest.Harness, typ, id string, want map[string]string) {
	t.Helper()
	if got := h.State(typ, id); !reflect.DeepEqual(got, want) {
		t.Errorf("state of %s %s: got %q, want %q", typ, id, got, want)
	}
}

func wantError(t *testing.T, err error, status actor.Status, code, text string) *actor.Error {
	t.Helper()
	var e *actor.Error
	if !errors.As(err, &e) {
		t.Fatalf("got error %v, want an actor.Error", err)
	}
	if e.Status != status || e.Code != code || !strings.Contains(e.Message, text) {
		t.Fatalf("got status %d, code %q, message %q; want %d, %q, …%s…", e.Status, e.Code, e.Message, status, code, text)
	}
	return e
}

func TestStateIsTheFieldsOfTheStruct(t *testing.T) {
	h := actortest.New(t)
	if got := call[int](t, h, "Account", "a", "Deposit", Deposit{Amount: 5}); got != 5 {
		t.Errorf("balance: got %d, want 5", got)
	}
	wantState(t, h, "Account", "a", map[string]string{"balance": "5"})
	call[actor.None](t, h, "Account", "a", "Rename", "Ada & <Bob>")
	wantState(t, h, "Account", "a", map[string]string{"balance": "5", "owner": `"Ada & <Bob>"`})
	call[actor.None](t, h, "Account", "a", "Rename", "")
	wantState(t, h, "Account", "a", map[string]string{"balance": "5"})
	wantState(t, h, "Account", "b", map[string]string{})
}

func TestZeroFieldsAreNotStoredBeforeTheyChange(t *testing.T) {
	h := actortest.New(t)
	call[actor.None](t, h, "Account", "a", "Rename", "")
	if v := h.Version("Account", "a"); v != 0 {
		t.Errorf("a turn that changed nothing stored version %d", v)
	}
}

func TestStateOutlivesTheInstance(t *testing.T) {
	h := actortest.New(t)
	for i := range 6 {
		if i%2 == 1 {
			h.DropInstance()
		}
		call[int](t, h, "Account", "a", "Deposit", Deposit{Amount: 1})
		call[int](t, h, "Account", "b", "Deposit", Deposit{Amount: 10}) // takes the only place of a
	}
	if a, b := call[Account](t, h, "Account", "a", "View", nil), call[Account](t, h, "Account", "b", "View", nil); a.Balance != 6 || b.Balance != 60 {
		t.Errorf("balances: got %d and %d, want 6 and 60", a.Balance, b.Balance)
	}
}

func TestDecodedStateIsKeptWhileItIsCurrent(t *testing.T) {
	h := actortest.New(t)
	call[int](t, h, "Account", "a", "Deposit", Deposit{Amount: 1})
	for want := 1; want <= 3; want++ {
		if got := call[int](t, h, "Account", "a", "Loads", nil); got != want {
			t.Errorf("turn %d: the state was decoded again (loads %d)", want, got)
		}
	}
	call[int](t, h, "Account", "a", "Deposit", Deposit{Amount: 1})
	if got := call[int](t, h, "Account", "a", "Loads", nil); got != 4 {
		t.Errorf("after a turn that saved: loads %d, want 4", got)
	}
	// Whatever moves the revision behind the guest's back makes it read again.
	h.SetState("Account", "a", 0, map[string]string{"balance": "70"})
	if got := call[int](t, h, "Account", "a", "Loads", nil); got != 1 {
		t.Errorf("after a change from outside: loads %d, want 1", got)
	}
	if got := call[Account](t, h, "Account", "a", "View", nil); got.Balance != 70 {
		t.Errorf("after a change from outside: balance %d, want 70", got.Balance)
	}
	h.Delete("Account", "a")
	if got := call[Account](t, h, "Account", "a", "View", nil); got.Balance != 0 {
		t.Errorf("after deletion: balance %d, want 0", got.Balance)
	}
}

func TestFailedTurnLeavesNoTrace(t *testing.T) {
	for _, note := range []string{"wrapped", "plain", "refuse"} {
		h := actortest.New(t)
		call[int](t, h, "Account", "a", "Deposit", Deposit{Amount: 5})
		if err := h.Call("Account", "a", "Deposit", Deposit{Amount: 100, Note: note}, nil); err == nil {
			t.Fatalf("%s: no error", note)
		}
		wantState(t, h, "Account", "a", map[string]string{"balance": "5"})
		if got := call[int](t, h, "Account", "a", "Deposit", Deposit{Amount: 1}); got != 6 {
			t.Errorf("%s: the failed turn is in guest memory still: balance %d, want 6", note, got)
		}
	}
}

// A read-only method that returns with a changed struct has made a mistake, which the kit
// shows, and which is never saved.
func TestReadOnlyMethodMustNotChangeTheStruct(t *testing.T) {
	for _, warm := range []bool{false, true} {
		h := actortest.New(t)
		call[int](t, h, "Account", "a", "Deposit", Deposit{Amount: 5})
		for range 2 {
			if !warm {
				h.DropInstance()
			}
			wantError(t, h.Call("Account", "a", "Peek", nil, nil), actor.StatusFailedPrecondition, "read_only", `Peek changed the field "balance"`)
			if got := call[Account](t, h, "Account", "a", "View", nil); got.Balance != 5 {
				t.Errorf("warm=%t: the next turn sees %d, want 5", warm, got.Balance)
			}
		}
		if got := call[int](t, h, "Account", "a", "Deposit", Deposit{Amount: 1}); got != 6 {
			t.Errorf("warm=%t: what a read-only method changed was saved: %d, want 6", warm, got)
		}
	}
}

func TestUnknownKeysAreLeftAlone(t *testing.T) {
	h := actortest.New(t)
	h.SetState("Account", "a", 0, map[string]string{"balance": "1", "newer": `{"x": 1}`})
	call[int](t, h, "Account", "a", "Deposit", Deposit{Amount: 1})
	wantState(t, h, "Account", "a", map[string]string{"balance": "2", "newer": `{"x": 1}`})
}

func TestKeysSetPastTheStruct(t *testing.T) {
	h := actortest.New(t)
	call[int](t, h, "Account", "a", "Deposit", Deposit{Amount: 1})
	call[actor.None](t, h, "Account", "a", "Bypass", 50)
	if got := call[int](t, h, "Account", "a", "Deposit", Deposit{Amount: 1}); got != 51 {
		t.Errorf("balance: got %d, want 51: the struct was not read again", got)
	}
	call[actor.None](t, h, "Account", "a", "Scribble", "x")
	wantState(t, h, "Account", "a", map[string]string{"balance": "51", "scribble": `"x"`})
	call[actor.None](t, h, "Account", "a", "Both", 7)
	if got := call[Account](t, h, "Account", "a", "View", nil); got.Balance != 7 || got.Owner != "7" {
		t.Errorf("got %+v, want 7 twice: the struct was not read again", got)
	}
}

func TestDeleteAllResetsTheStruct(t *testing.T) {
	h := actortest.New(t)
	call[int](t, h, "Account", "a", "Deposit", Deposit{Amount: 1})
	call[actor.None](t, h, "Account", "a", "Scribble", "x")
	if n := call[int](t, h, "Account", "a", "Close", nil); n != 2 {
		t.Errorf("deleted: got %d keys, want 2", n)
	}
	wantState(t, h, "Account", "a", map[string]string{})
	if got := call[int](t, h, "Account", "a", "Deposit", Deposit{Amount: 3}); got != 3 {
		t.Errorf("after DeleteAll: got %d, want 3", got)
	}
}

func TestMapState(t *testing.T) {
	h := actortest.New(t)
	call[int](t, h, "Counters", "a", "Add", "x")
	h.DropInstance()
	call[int](t, h, "Counters", "a", "Add", "x")
	call[int](t, h, "Counters", "a", "Add", "y")
	wantState(t, h, "Counters", "a", map[string]string{"x": "2", "y": "1"})
	wantError(t, h.Call("Counters", "a", "Add", "", nil), actor.StatusInvalidArgument, "invalid_key", "1 to 512 bytes")
	wantState(t, h, "Counters", "a", map[string]string{"x": "2", "y": "1"})
}

func TestStateThatDoesNotFit(t *testing.T) {
	h := actortest.New(t)
	h.SetState("Account", "a", 0, map[string]string{"balance": `"lots"`})
	err := h.Call("Account", "a", "Deposit", Deposit{Amount: 1}, nil)
	wantError(t, err, actor.StatusFailedPrecondition, "bad_state", "in field balance")
	if !errors.Is(err, actor.ErrBadState) {
		t.Errorf("%v is not ErrBadState", err)
	}
	wantError(t, h.Call("Stamp", "a", "Touch", nil, nil), actor.StatusFailedPrecondition, "bad_state", "")
}

func TestErrorsReachTheCaller(t *testing.T) {
	h := actortest.New(t)
	fail := func(note string) error { return h.Call("Account", "a", "Deposit", Deposit{Amount: 7, Note: note}, nil) }

	e := wantError(t, fail("wrapped"), actor.StatusPermissionDenied, "frozen", "deposit 7: frozen: the account is frozen")
	if !e.Retryable || string(e.Detail.Data) != `{"balance":7}` || e.Detail.ContentType != "application/json" {
		t.Errorf("got %+v", e)
	}
	if !errors.Is(e, errFrozen) || errFrozen.Retryable || errFrozen.Detail.Data != nil {
		t.Errorf("the error's own value was changed: %+v", errFrozen)
	}
	wantError(t, fail("plain"), actor.StatusUnknown, "", "no such luck")
	wantError(t, fail("joined"), actor.StatusPermissionDenied, "frozen", "first\nsecond: frozen")
	wantError(t, fail("refuse"), actor.StatusFailedPrecondition, "refused", "not 7")
	wantError(t, fail("not UTF-8"), actor.StatusUnknown, "", "a\uFFFDb")
	e = wantError(t, fail("huge detail"), actor.StatusPermissionDenied, "frozen", "65537 bytes was left out")
	if e.Detail.Data != nil {
		t.Errorf("the detail has %d bytes", len(e.Detail.Data))
	}
}

func TestWrongInput(t *testing.T) {
	h := actortest.New(t)
	for _, c := range []struct{ payload, text string }{
		{`{"amount":`, "not JSON, byte 10"},
		{`{"amount":1}x`, "not JSON, byte 13"},
		{`{"amount":"1"}`, "in field amount, byte 13: string, want int"},
		{`[]`, "as a whole"},
	} {
		err := h.Call("Account", "a", "Deposit", []byte(c.payload), nil)
		wantError(t, err, actor.StatusInvalidArgument, "bad_json", c.text)
	}
	wantState(t, h, "Account", "a", map[string]string{})
}

func TestRawPayloads(t *testing.T) {
	h := actortest.New(t)
	in := actor.Payload{ContentType: "image/png", Data: []byte{0, 255}}
	if got := call[actor.Payload](t, h, "Probe", "p", "Echo", in); !reflect.DeepEqual(got, in) {
		t.Errorf("got %v, want %v", got, in)
	}
	if got := call[actor.Payload](t, h, "Probe", "p", "Echo", []byte(`{}`)); got.ContentType != "application/json" {
		t.Errorf("content type: got %q, want application/json", got.ContentType)
	}
	if got := call[actor.Payload](t, h, "Probe", "p", "EchoBytes", in); got.ContentType != "application/octet-stream" || string(got.Data) != "\x00\xff" {
		t.Errorf("got %v", got)
	}
	wantError(t, h.Call("Probe", "p", "BadReply", nil, nil), actor.StatusInternal, "bad_reply", "no JSON form")
	wantError(t, h.Call("Probe", "p", "BigReply", 4<<20+1, nil), actor.StatusResourceExhausted, "too_large", "the reply has 4194305 bytes")
}

func TestInputsBelongToTheMethod(t *testing.T) {
	h := actortest.New(t)
	want := actor.Payload{ContentType: "text/plain", Data: []byte("text")}
	call[actor.None](t, h, "Probe", "p", "Keep", want)
	call[actor.None](t, h, "Probe", "p", "KeepBytes", []byte("bytes"))
	if !reflect.DeepEqual(kept.payload, want) || string(kept.bytes) != "bytes" || kept.invocation != "invocation-1" {
		t.Errorf("the host's buffer shows through: %+v", kept)
	}
}

func TestContext(t *testing.T) {
	see := func(h *actortest.Harness) Seen {
		h.Advance(1500 * time.Millisecond)
		return call[Seen](t, h, "Probe", "user/1||💚", "See", nil)
	}
	h := actortest.New(t)
	a, b := see(h), see(h)
	if want := (actor.Ref{Type: "Probe", ID: "user/1||💚"}); a.Self != want || a.App != actortest.App {
		t.Errorf("self: got %v in %s, want %v", a.Self, a.App, want)
	}
	if want := actortest.Start.Add(1500 * time.Millisecond); !a.Now.Equal(want) || a.Now.Location() != time.UTC {
		t.Errorf("time: got %v, want %v", a.Now, want)
	}
	if b.Now.Sub(a.Now) != 1500*time.Millisecond || !h.Now().Equal(b.Now) {
		t.Errorf("time of the second turn: %v", b.Now)
	}
	if a.InvocationID == b.InvocationID || reflect.DeepEqual(a.Random, b.Random) || a.Random[0] == a.Random[1] {
		t.Errorf("two turns look the same: %+v, %+v", a, b)
	}
	if again := see(actortest.New(t)); !reflect.DeepEqual(again, a) {
		t.Errorf("another harness: got %+v, want %+v", again, a)
	}
	logs := h.Logs()[:2]
	want := []actortest.LogLine{
		{Actor: a.Self, Level: -4, Text: "seen"},
		{Actor: a.Self, Level: 4, Text: `seen n=7 text="two words" empty="" !missing=odd`},
	}
	if !reflect.DeepEqual(logs, want) {
		t.Errorf("logs: got %v, want %v", logs, want)
	}
}

func TestMigration(t *testing.T) {
	h := actortest.New(t)
	h.SetState("Document", "d", 1, map[string]string{"text": `"Title\nBody"`})
	want := Document{"Title", "Body"}
	if got := call[Document](t, h, "Document", "d", "Read", nil); got != want {
		t.Errorf("read: got %v, want %v", got, want)
	}
	wantState(t, h, "Document", "d", map[string]string{"text": `"Title\nBody"`}) // a read stores nothing
	if got := call[Document](t, h, "Document", "d", "Edit", "New"); got != (Document{"New", "Body"}) {
		t.Errorf("edit: got %v", got)
	}
	wantState(t, h, "Document", "d", map[string]string{"title": `"New"`, "body": `"Body"`})
	call[Document](t, h, "Document", "d", "Edit", "Newer") // the hook would fail on a second run

	h.SetState("Document", "bad", 0, map[string]string{"text": `"no title"`})
	wantError(t, h.Call("Document", "bad", "Edit", "x", nil), actor.StatusFailedPrecondition, "cannot_migrate", "schema 0")
	h.SetState("Document", "newer", 3, map[string]string{})
	wantError(t, h.Call("Document", "newer", "Read", nil, nil), actor.StatusFailedPrecondition, "schema_newer", "schema 3")
	call[Document](t, h, "Document", "fresh", "Read", nil) // nothing stored, nothing to migrate
}
