package node_test

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/greenroom-run/greenroom/abi/manifest"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/engine/extism"
	"github.com/greenroom-run/greenroom/engine/wasm/wasmtest"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/internal/guestbuild"
	"github.com/greenroom-run/greenroom/internal/node"
)

// plugin reads an Extism plug-in that build/extism/setup.sh built, with the
// manifest of its example if that is a file of its own.
func plugin(t *testing.T, name string) []byte {
	t.Helper()
	wasm, err := os.ReadFile(filepath.Join("..", "..", ".cache", "extism", name+".wasm"))
	if err != nil {
		t.Fatalf("%v: run make setup, which builds the plug-ins", err)
	}
	text, err := os.ReadFile(filepath.Join("..", "..", "examples", "extism-"+name, "manifest.json"))
	if err != nil {
		return wasm
	}
	if wasm, err = manifest.Embed(wasm, text); err != nil {
		t.Fatal(err)
	}
	return wasm
}

// TestExtismPlugins calls plug-ins written in AssemblyScript and in Rust, beside a
// guest of the native ABI, and finds their state again after a restart.
func TestExtismPlugins(t *testing.T) {
	dir := t.TempDir()
	r := start(t, node.Config{DataDir: dir})
	r.deploy(t, "native", example(t, "counter", guestbuild.Go))
	r.deploy(t, "script", plugin(t, "counter"))
	r.deploy(t, "rust", plugin(t, "ledger"))

	r.mustCall(t, "native", "Counter", "x", "Add", `{"amount":1}`, `{"count":1}`)
	for _, id := range []string{"x", "y", "a/b"} {
		r.mustCall(t, "script", "Counter", id, "Add", "41", "41")
		r.mustCall(t, "script", "Counter", id, "Add", "1", "42")
		r.mustCall(t, "rust", "Ledger", id, "deposit", `{"cents":500}`, `{"cents":500}`)
		// The reply is the turn's time and the note before.
		if first, err := r.call(t.Context(), "rust", "Ledger", id, "note", "of "+id); err != nil || !strings.HasSuffix(first, " ") {
			t.Errorf("the first note of %s: %q, %v", id, first, err)
		}
		if second, err := r.call(t.Context(), "rust", "Ledger", id, "note", ""); err != nil || !strings.HasSuffix(second, " of "+id) {
			t.Errorf("the second note of %s: %q, %v", id, second, err)
		}
	}
	if status, reply := r.http(t, "GET", "/v2.0/actors/script/Counter/x/method/Get", ""); status != 200 || reply != "42" {
		t.Errorf("over HTTP: %d %s", status, reply)
	}
	_, err := r.call(t.Context(), "rust", "Ledger", "x", "withdraw", `{"cents":501}`)
	if d := detail(err); connect.CodeOf(err) != connect.CodeFailedPrecondition || d.GetGuest().GetCode() != "overdrawn" {
		t.Errorf("overdrawn: %v, %v", err, d)
	}

	state, err := r.actors.GetState(t.Context(), connect.NewRequest(&greenroomv1.GetStateRequest{
		Actor: &greenroomv1.ActorKey{App: "script", Type: "Counter", Id: "x"},
	}))
	if err != nil || len(state.Msg.Entries) != 1 || state.Msg.Entries[0].Key != "count" || string(state.Msg.Entries[0].Value) != "42" {
		t.Errorf("state %v, %v", state, err)
	}

	stop(t, r.Node)
	r = start(t, node.Config{DataDir: dir})
	r.mustCall(t, "script", "Counter", "y", "Get", "", "42")
	r.mustCall(t, "rust", "Ledger", "a/b", "balance", "", `{"cents":500}`)
	r.mustCall(t, "native", "Counter", "x", "Get", "", `{"count":1}`)
}

// TestExtismPluginsThatMisbehave deploys what loops, asks for the network and for
// reentrancy.
func TestExtismPluginsThatMisbehave(t *testing.T) {
	r := start(t, node.Config{
		Limits: host.Limits{MemoryBytes: 16 << 20},
		// Only what loops has little time: the rest must not depend on the machine.
		Overrides: map[host.Scope]host.Limits{{App: "loops"}: {TurnDeadline: 300 * time.Millisecond}},
	})
	build := func(spec string, body []byte) []byte {
		b := &wasmtest.Builder{}
		b.ImportFunc("extism:host/env", "http_request", []byte{wasmtest.I64, wasmtest.I64}, []byte{wasmtest.I64})
		b.Func("Do", nil, []byte{wasmtest.I32}, 0, body...)
		wasm, err := manifest.Embed(b.Bytes(), []byte(spec))
		if err != nil {
			t.Fatal(err)
		}
		return wasm
	}
	const plain = `{"abi":1,"types":[{"name":"T","methods":[{"name":"Do"}]}]}`
	for _, tt := range []struct {
		app  string
		body []byte
		code connect.Code
		kind string
	}{
		{"loops", wasmtest.Code(wasmtest.Forever(), wasmtest.I32Const(0)), connect.CodeDeadlineExceeded, "deadline"},
		{"traps", wasmtest.Code(wasmtest.Unreachable), connect.CodeInternal, "guest_trap"},
		{"fetches", wasmtest.Code(wasmtest.I64Const(0), wasmtest.I64Const(0), wasmtest.Call(0), wasmtest.Drop, wasmtest.I32Const(0)), connect.CodeInvalidArgument, "guest_error"},
		{"fails", wasmtest.I32Const(1), connect.CodeUnknown, "guest_error"},
	} {
		r.deploy(t, tt.app, build(plain, tt.body))
		for range 2 {
			_, err := r.call(t.Context(), tt.app, "T", "x", "Do", "{}")
			if d := detail(err); connect.CodeOf(err) != tt.code || d.GetKind() != tt.kind {
				t.Errorf("%s: got %v, detail %v; want %v %s", tt.app, err, d, tt.code, tt.kind)
			}
		}
	}
	_, err := r.upload(t.Context(), "", build(`{"abi":1,"types":[{"name":"T","migrate":true,"methods":[{"name":"Do"},{"name":"Gone"}]}]}`, wasmtest.I32Const(0)))
	var found []string
	for _, f := range detail(err).GetFaults() {
		found = append(found, f.Code)
	}
	if connect.CodeOf(err) != connect.CodeInvalidArgument || strings.Join(found, " ") != "migrate missing_export" {
		t.Errorf("a migrate hook, and a method that is not there: %v, %v", err, found)
	}
}

func extismAlarm(t *testing.T) []byte {
	t.Helper()
	dir := filepath.Join("testdata", "extism-alarm")
	text, err := os.ReadFile(filepath.Join(dir, "manifest.json"))
	if err != nil {
		t.Fatal(err)
	}
	wasm, err := manifest.Embed(build(t, dir, guestbuild.Go), text)
	if err != nil {
		t.Fatal(err)
	}
	return wasm
}

// TestExtismCalls has a plug-in call accounts of a guest in Go, and actors of its own type.
func TestExtismCalls(t *testing.T) {
	r := start(t, node.Config{})
	bank, alarm := build(t, filepath.Join("testdata", "bank"), guestbuild.Go), extismAlarm(t)
	if extism.Calls(bank) || !extism.Calls(alarm) {
		t.Error("it is not known which plug-in calls")
	}
	r.deploy(t, "", bank)
	r.deploy(t, "", alarm)
	for _, call := range []struct{ message, want string }{
		{`{"type":"Account","id":"ann","method":"Deposit","input":40}`, `{"reply":40}`},
		{`{"type":"Account","id":"ann","method":"Deposit","input":13}`, `{"error":{"status":"failed_precondition","code":"unlucky","message":"nobody deposits 13"}}`},
		{`{"type":"Account","id":"ann","method":"Transfer","input":{"to":"bob","amount":10},"timeout":"1m","atomic":true}`, `{"reply":30}`},
		{`{"type":"Alarm","id":"b","method":"ask","input":{"type":"Account","id":"ann","method":"Get"}}`, `{"reply":{"reply":30}}`},
		{`{"type":"Alarm","id":"a","method":"who"}`, `{"error":{"status":"failed_precondition","code":"not_reentrant","message":"a turn of Alarm a is waiting for this call, and the method who is not declared reentrant"}}`},
		{`{"type":"Alarm","id":"a","method":"ask","input":{"type":"Account","id":"ann","method":"Get"}}`, `{"reply":{"reply":30}}`},
		{`{"type":"Alarm","id":"b","method":"ring","input":"none"}`, `{}`},
	} {
		r.mustCall(t, "", "Alarm", "a", "ask", call.message, call.want)
	}
	told, err := r.call(t.Context(), "", "Alarm", "a", "ask", `{"type":"Alarm","id":"b","method":"who"}`)
	if err != nil || !strings.Contains(told, `"caller":{"type":"Alarm","id":"a"}`) {
		t.Errorf("%s, %v", told, err)
	}
	for _, message := range []string{`{"typ":"Account"}`, `{"type":"Account","id":"a","method":"Get","timeout":"soon"}`} {
		if _, err := r.call(t.Context(), "", "Alarm", "a", "ask", message); detail(err).GetGuest().GetCode() != "invalid_call" {
			t.Errorf("%s: %v", message, err)
		}
	}
}

// TestExtismReminders has a plug-in set reminders and timers with payloads of several types:
// what fires is given those bytes, and is told what it is.
func TestExtismReminders(t *testing.T) {
	turns := watchTurns()
	r := start(t, node.Config{TurnEnd: turns.add})
	r.deploy(t, "", extismAlarm(t))

	type told struct {
		ContentType string `json:"content_type"`
		Reminder    *struct {
			Name            string
			Due             time.Time
			Attempt, Missed int
			Metadata        map[string]string
		}
		Timer *struct {
			Name string
			Due  time.Time
		}
	}
	before, bells := time.Now().Add(-time.Minute), 0
	for _, id := range []string{"x", "y"} {
		for _, payload := range []struct{ members, contentType, hex string }{
			{`"input":{"a":1}`, "application/json", hex.EncodeToString([]byte(`{"a":1}`))},
			{`"content_type":"application/octet-stream","input":"AP8KIg=="`, "application/octet-stream", "00ff0a22"},
			{`"content_type":"text/plain; charset=utf-8","input":"aGk="`, "text/plain; charset=utf-8", "6869"},
		} {
			for _, method := range []string{"remind", "time"} {
				order := `{"name":"bell","method":"ring",` + payload.members
				if method == "remind" {
					order += `,"delay":"1ms","metadata":{"room":"7"}`
				}
				r.mustCall(t, "", "Alarm", id, method, order+`}`, "")
				bells++
				turns.awaitAll(t, bells, func(e *host.TurnEnd) bool { return e.Method == "ring" && e.Err == nil })
				reply, err := r.call(t.Context(), "", "Alarm", id, "rung", payload.hex)
				var got told
				if err == nil {
					err = json.Unmarshal([]byte(reply), &got)
				}
				if err != nil || got.ContentType != payload.contentType {
					t.Fatalf("%s %s: %q, %v", method, payload.members, reply, err)
				}
				switch by := got.Reminder; {
				case method == "time":
					if got.Timer == nil || by != nil || got.Timer.Name != "bell" || got.Timer.Due.Before(before) {
						t.Errorf("told of the timer: %s", reply)
					}
				case by == nil || got.Timer != nil || by.Name != "bell" || by.Due.Before(before) || by.Attempt != 1 || by.Missed != 0 || by.Metadata["room"] != "7":
					t.Errorf("told of the reminder: %s", reply)
				}
			}
		}
	}

	// What is there is shown as it was set, and is gone when it is cancelled.
	r.mustCall(t, "", "Alarm", "x", "remind", `{"name":"far","method":"ring","content_type":"image/png","input":"iVBORw0K","delay":"1h","every":"24h"}`, "")
	shown, err := r.call(t.Context(), "", "Alarm", "x", "show", "far")
	if err != nil || !strings.Contains(shown, `"content_type":"image/png","input":"iVBORw0K"`) || !strings.Contains(shown, `"every":"24h0m0s"`) {
		t.Errorf("%s, %v", shown, err)
	}
	if status, reply := r.http(t, "GET", "/v2.0/actors/default/Alarm/x/reminders/far", ""); status != 200 || !strings.Contains(reply, `"data":"iVBORw0K"`) {
		t.Errorf("over HTTP: %d %s", status, reply)
	}
	r.mustCall(t, "", "Alarm", "x", "cancel", "far", "")
	r.mustCall(t, "", "Alarm", "x", "show", "far", "")
	for _, method := range []string{"remind", "time"} {
		_, err := r.call(t.Context(), "", "Alarm", "x", method, `{"name":"far","method":"ring","content_type":"image/png","input":{"not":"base64"},"delay":"1h"}`)
		want := map[string]string{"remind": "invalid_reminder", "time": "invalid_timer"}[method]
		if code := detail(err).GetGuest().GetCode(); code != want || connect.CodeOf(err) != connect.CodeInvalidArgument {
			t.Errorf("%s of what is not base64: %v, code %q, want %q", method, err, code, want)
		}
	}
}
