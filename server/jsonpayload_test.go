package server

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
	"github.com/greenroom-run/greenroom/server/edge"
)

// TestJSONPayloads are given and answered as JSON in every protocol.
func TestJSONPayloads(t *testing.T) {
	f := start(t, nil)
	in, err := structpb.NewValue(map[string]any{"b": []any{1, "é<", nil, true}, "a": 2.5})
	if err != nil {
		t.Fatal(err)
	}
	const text = `{"a":2.5,"b":[1,"é\u003c",null,true]}` // as encoding/json writes it
	for _, p := range protocols() {
		actors := greenroomv1connect.NewActorServiceClient(client(t, p.http2), f.url, p.opts...)
		key := &greenroomv1.ActorKey{Type: "T", Id: "a"}
		invoked, err := actors.Invoke(t.Context(), connect.NewRequest(&greenroomv1.InvokeRequest{Actor: key, Method: "Get", Json: in, JsonReply: true}))
		if err != nil {
			t.Fatal(p.name, err)
		}
		queried, err := actors.Query(t.Context(), connect.NewRequest(&greenroomv1.QueryRequest{Actor: key, Method: "Get", Json: in, JsonReply: true}))
		if err != nil {
			t.Fatal(p.name, err)
		}
		inv, _ := f.host.last()
		got := strings.NewReplacer(" ", "", "<", `\u003c`).Replace(string(inv.Payload.Data))
		if got != text && got != `{"b":[1,"é\u003c",null,true],"a":2.5}` {
			t.Errorf("%s: the host got %s", p.name, inv.Payload.Data)
		}
		for _, v := range []*structpb.Value{invoked.Msg.GetJson(), queried.Msg.GetJson()} {
			if v.GetStructValue().GetFields()["a"].GetNumberValue() != 2.5 || len(v.GetStructValue().GetFields()) != 2 {
				t.Errorf("%s: answered %v", p.name, v)
			}
		}
		if len(invoked.Msg.GetPayload())+len(queried.Msg.GetPayload()) != 0 || invoked.Msg.GetVersion() == 0 {
			t.Errorf("%s: answered %v, %v", p.name, invoked.Msg, queried.Msg)
		}
	}
}

// TestJSONPayloadsAreExact in JSON: the text is the actor's and the caller's.
func TestJSONPayloadsAreExact(t *testing.T) {
	f := start(t, nil)
	url := f.url + greenroomv1connect.ActorServiceInvokeProcedure
	call := func(more string) answered {
		return do(t, client(t, false), "POST", url, `{"actor":{"type":"T","id":"a"},"method":"Add",`+more+`}`, "Content-Type", "application/json")
	}
	for sent, want := range map[string]string{
		`{ "id" : 9007199254740993 }`: `{"id":9007199254740993}`, `1e400`: "", `"text"`: `"text"`, `null`: `null`, `{"z":1,"a":[]}`: `{"z":1,"a":[]}`,
	} {
		f.host.last()
		a := call(`"json":` + sent + `,"jsonReply":true`)
		inv, called := f.host.last()
		if called != (want != "") || string(inv.Payload.Data) != want || called && !strings.Contains(a.body, `"json":`+want+`}`) {
			t.Errorf("%s: the host got %s, the caller %s", sent, inv.Payload.Data, a.body)
		}
	}
	for _, bad := range []string{`"json":1,"payload":"eA=="`, `"json":1,"contentType":"text/plain"`, `"json":`, `"json":1,"json":2`} {
		if a := call(bad); a.StatusCode != http.StatusBadRequest || !strings.Contains(a.body, "invalid_argument") {
			t.Errorf("%s: %s %s", bad, a.Status, a.body)
		}
	}
	// Bytes stay bytes: unless JSON is asked for, and where there is none.
	if a := call(`"json":1`); !strings.Contains(a.body, `"payload":"MQ=="`) || strings.Contains(a.body, `"json"`) {
		t.Error(a.body)
	}
	for _, reply := range []actor.Payload{{Data: []byte("no JSON")}, {Data: []byte("1"), ContentType: "text/plain"}, {Data: []byte("\"\xff\"")}, {}} {
		f.host.does(func(context.Context, actor.Invocation) (actor.Reply, error) { return actor.Reply{Payload: reply}, nil })
		if a := call(`"jsonReply":true`); a.StatusCode != http.StatusOK || strings.Contains(a.body, `"json"`) {
			t.Errorf("%q: %s", reply.Data, a.body)
		}
	}
}

// TestJSONPayloadsOfSeveralCalls: each call of InvokeAll gives and asks for JSON by itself.
func TestJSONPayloadsOfSeveralCalls(t *testing.T) {
	f := start(t, nil)
	f.host.does(func(_ context.Context, inv actor.Invocation) (actor.Reply, error) {
		calls, err := actor.DecodeCalls(inv.Key.App, inv.Payload.Data)
		var echoed []actor.Payload
		for _, c := range calls {
			echoed = append(echoed, c.Payload)
		}
		return actor.Reply{Payload: actor.Payload{Data: actor.EncodePayloads(echoed)}}, err
	})
	url := f.url + greenroomv1connect.ActorServiceInvokeAllProcedure
	call := func(calls ...string) answered {
		for i, c := range calls {
			calls[i] = `{"type":"T","id":"a","method":"Add",` + c + `}`
		}
		return do(t, client(t, false), "POST", url, `{"calls":[`+strings.Join(calls, ",")+`]}`, "Content-Type", "application/json")
	}
	const want = `{"replies":[{"json":{"id":9007199254740993}},{"payload":"MQ=="},{"payload":"Mg==","contentType":"text/plain"},{"json":[3]}]}`
	a := call(`"json":{ "id" : 9007199254740993 },"jsonReply":true`, `"json":1`, `"payload":"Mg==","contentType":"text/plain","jsonReply":true`, `"payload":"WzNd","jsonReply":true`)
	if got := strings.NewReplacer(" ", "").Replace(a.body); got != want {
		t.Errorf("%s %s", a.Status, a.body)
	}
	for _, bad := range []string{`"json":1,"payload":"eA=="`, `"json":1,"contentType":"text/plain"`, `"payload":{}`} {
		if a := call(`"json":1`, bad); a.StatusCode != http.StatusBadRequest || !strings.Contains(a.body, "json") {
			t.Errorf("%s: %s %s", bad, a.Status, a.body)
		}
	}
	for _, p := range protocols() {
		actors := greenroomv1connect.NewActorServiceClient(client(t, p.http2), f.url, p.opts...)
		calls := []*greenroomv1.ActorCall{
			{Type: "T", Id: "a", Method: "Add", Json: structpb.NewStringValue("x"), JsonReply: true},
			{Type: "T", Id: "b", Method: "Add", Payload: []byte("2")},
		}
		res, err := actors.InvokeAll(t.Context(), connect.NewRequest(&greenroomv1.InvokeAllRequest{Calls: calls}))
		if err != nil {
			t.Fatal(p.name, err)
		}
		if r := res.Msg.GetReplies(); len(r) != 2 || r[0].GetJson().GetStringValue() != "x" || len(r[0].GetPayload()) != 0 || string(r[1].GetPayload()) != "2" || r[1].GetJson() != nil {
			t.Errorf("%s: answered %v", p.name, r)
		}
	}
	// What a stream's payload cannot give is no empty payload.
	data, err := proto.Marshal(&greenroomv1.InvokeAllRequest{Calls: []*greenroomv1.ActorCall{{Type: "T", Id: "a", Method: "Add", Json: structpb.NewStringValue("x")}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := actor.DecodeCalls("default", data); err == nil || !strings.Contains(err.Error(), "give payload") {
		t.Error(err)
	}
}

// TestUnknownMembersAreRefused: a member that is misspelt is an error of every procedure,
// not a request about something else.
func TestUnknownMembersAreRefused(t *testing.T) {
	f := start(t, withRoles)
	for name, m := range procedures(t) {
		if strings.HasSuffix(name, "/Watch") {
			continue // ask does not wait for its answer
		}
		if answer := f.ask(t, name, m, edge.RoleAdmin.String(), `{"apq":"mine"}`); !strings.Contains(answer, "invalid_argument") || !strings.Contains(answer, `apq`) {
			t.Errorf("%s: %s", name, answer)
		}
	}
	call := `{"actor":{"apq":"mine","type":"T","id":"a"},"method":"Add"}`
	if a := do(t, client(t, false), "POST", f.url+greenroomv1connect.ActorServiceInvokeProcedure, call, "Authorization", "Bearer admin"); a.StatusCode != http.StatusBadRequest || !strings.Contains(a.body, "apq") {
		t.Errorf("%s: %s", a.Status, a.body)
	}
	if inv, called := f.host.last(); called {
		t.Errorf("the host got %+v", inv)
	}
}

// TestBytesInJSON: who writes something else than base64 reads what to write.
func TestBytesInJSON(t *testing.T) {
	f := start(t, func(c *Config) { c.Reminders = noReminders{} })
	for body, procedure := range map[string]string{
		`"method":"Add","payload":{"a":1}`:          greenroomv1connect.ActorServiceInvokeProcedure,
		`"method":"Add","payload":"{}"`:             greenroomv1connect.ActorServiceInvokeProcedure,
		`"method":"Get","payload":[1]`:              greenroomv1connect.ActorServiceQueryProcedure,
		`"name":"n","spec":{"payload":{"a":1}}`:     greenroomv1connect.ReminderServiceCreateReminderProcedure,
		`"name":"n","spec":{"payload":"no base64"}`: greenroomv1connect.ReminderServiceCreateReminderProcedure,
	} {
		a := do(t, client(t, false), "POST", f.url+procedure, `{"actor":{"type":"T","id":"a"},`+body+`}`)
		takesJSON := procedure != greenroomv1connect.ReminderServiceCreateReminderProcedure
		if a.StatusCode != http.StatusBadRequest || !strings.Contains(a.body, "base64") || strings.Contains(a.body, "use json") != takesJSON {
			t.Errorf("%s: %s %s", body, a.Status, a.body)
		}
	}
}

// TestBodyWithoutContentType is JSON, and so is what curl sends unless it is asked for more.
func TestBodyWithoutContentType(t *testing.T) {
	f := start(t, nil)
	const body = `{"actor":{"type":"T","id":"a"},"method":"Add","json":1}`
	for _, headers := range [][]string{nil, {"Content-Type", "application/x-www-form-urlencoded"}} {
		if a := do(t, client(t, false), "POST", f.url+greenroomv1connect.ActorServiceInvokeProcedure, body, headers...); a.StatusCode != http.StatusOK || a.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%v: %s %s", headers, a.Status, a.body)
		}
	}
	if a := do(t, client(t, false), "POST", f.url+greenroomv1connect.ActorServiceInvokeProcedure, body, "Origin", "https://elsewhere.example"); a.StatusCode != http.StatusForbidden {
		t.Errorf("from a page of another origin: %s %s", a.Status, a.body)
	}
}
