package node_test

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/internal/guestbuild"
	"github.com/greenroom-run/greenroom/internal/node"
)

// oddIDs are IDs that something on the way to the store likes to break.
var oddIDs = []string{
	"plain", "a/b", "/", "//", "a//b", "..", ".", "../..", "a b", " ", "a+b", "a%2Fb", "%", "%25",
	"x||y||state", "||", "🛒", "é", "a?b=c", "a#b", `"`, "{}", "a\\b", "method", "a/method/Get",
	strings.Repeat("x", 512), strings.Repeat("🛒", 128),
}

func TestOddIDsEverywhere(t *testing.T) {
	r := start(t, node.Config{})
	r.deploy(t, "", example(t, "counter", guestbuild.Go))
	for i, id := range oddIDs {
		path := "/v2.0/actors/default/Counter/" + url.PathEscape(id) + "/method/"
		if id == "." || id == ".." {
			// Go's client would resolve it; other clients escape the dots too.
			path = "/v2.0/actors/default/Counter/" + strings.ReplaceAll(id, ".", "%2E") + "/method/"
		}
		r.mustCall(t, "", "Counter", id, "Add", `{"amount":1}`, `{"count":1}`)
		if status, reply := r.http(t, "PUT", path+"Add", `{"amount":2}`); status != 200 || reply != `{"count":3}` {
			t.Errorf("%d %q over HTTP: %d %s", i, id, status, reply)
		}
		if status, reply := r.http(t, "GET", path+"Get", ""); status != 200 || reply != `{"count":3}` {
			t.Errorf("%d %q over HTTP GET: %d %s", i, id, status, reply)
		}
	}

	var listed []string
	for token := ""; ; {
		resp, err := r.actors.ListActors(t.Context(), connect.NewRequest(&greenroomv1.ListActorsRequest{Type: "Counter", PageSize: 3, PageToken: token}))
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range resp.Msg.Actors {
			listed = append(listed, a.Key.Id)
		}
		if token = resp.Msg.NextPageToken; token == "" {
			break
		}
	}
	want := slices.Clone(oddIDs)
	slices.Sort(want)
	if !slices.Equal(listed, want) {
		t.Errorf("listed %q\nwant   %q", listed, want)
	}

	for _, id := range oddIDs {
		key := &greenroomv1.ActorKey{Type: "Counter", Id: id}
		state, err := r.actors.GetState(t.Context(), connect.NewRequest(&greenroomv1.GetStateRequest{Actor: key}))
		if err != nil || len(state.Msg.Entries) != 1 || string(state.Msg.Entries[0].Value) != "3" {
			t.Errorf("state of %q: %v %v", id, state, err)
		}
		if _, err := r.actors.DeleteActor(t.Context(), connect.NewRequest(&greenroomv1.DeleteActorRequest{Actor: key})); err != nil {
			t.Errorf("delete %q: %v", id, err)
		}
		if _, err := r.actors.DeleteActor(t.Context(), connect.NewRequest(&greenroomv1.DeleteActorRequest{Actor: key})); connect.CodeOf(err) != connect.CodeNotFound {
			t.Errorf("delete %q again: %v", id, err)
		}
		r.mustCall(t, "", "Counter", id, "Add", `{"amount":1}`, `{"count":1}`)
	}
}

func TestBadArguments(t *testing.T) {
	r := start(t, node.Config{})
	r.deploy(t, "", example(t, "counter", guestbuild.Go))
	tests := []struct {
		name, app, typ, id, method, payload string
		code                                connect.Code
		kind                                string
		text                                string
	}{
		{"empty id", "", "Counter", "", "Add", `{}`, connect.CodeInvalidArgument, "", "id"},
		{"long id", "", "Counter", strings.Repeat("x", 513), "Add", `{}`, connect.CodeInvalidArgument, "", "512"},
		{"control character", "", "Counter", "a\nb", "Add", `{}`, connect.CodeInvalidArgument, "", "control character"},
		{"bad app", "a|b", "Counter", "x", "Add", `{}`, connect.CodeInvalidArgument, "", "app"},
		{"unknown app", "other", "Counter", "x", "Add", `{}`, connect.CodeNotFound, "type_not_found", "Counter"},
		{"unknown type", "", "Nothing", "x", "Add", `{}`, connect.CodeNotFound, "type_not_found", "Nothing"},
		{"unknown method", "", "Counter", "x", "Nothing", `{}`, connect.CodeNotFound, "method_not_found", "Nothing"},
		{"not JSON", "", "Counter", "x", "Add", `{"amount":`, connect.CodeInvalidArgument, "", ""},
		{"wrong JSON", "", "Counter", "x", "Add", `{"amount":"much"}`, connect.CodeInvalidArgument, "", "amount"},
		{"large payload", "", "Counter", "x", "Add", strings.Repeat("x", 4<<20+1), connect.CodeInvalidArgument, "payload_too_large", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := r.call(t.Context(), tt.app, tt.typ, tt.id, tt.method, tt.payload)
			d := detail(err)
			if connect.CodeOf(err) != tt.code || d == nil || tt.kind != "" && d.Kind != tt.kind || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("got %v, detail %v; want %v %s with %q", err, d, tt.code, tt.kind, tt.text)
			}
		})
	}
	r.mustCall(t, "", "Counter", "x", "Add", `{"amount":1}`, `{"count":1}`)
	_, err := r.actors.Query(t.Context(), connect.NewRequest(&greenroomv1.QueryRequest{
		Actor: &greenroomv1.ActorKey{Type: "Counter", Id: "x"}, Method: "Add", Payload: []byte(`{"amount":1}`),
	}))
	if connect.CodeOf(err) != connect.CodeFailedPrecondition || detail(err).GetKind() != "not_read_only" {
		t.Errorf("Query of a method that writes: %v", err)
	}
	if status, reply := r.http(t, "GET", "/v2.0/actors/default/Counter/x/method/Add", ""); status != 405 || !strings.Contains(reply, "not_read_only") {
		t.Errorf("GET of a method that writes: %d %s", status, reply)
	}
	r.mustCall(t, "", "Counter", "x", "Get", ``, `{"count":1}`)
}
