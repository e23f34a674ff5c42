package server

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
	"github.com/greenroom-run/greenroom/modules"
)

// payloads returns the payloads of the messages that were sent, and forgets them.
func (m *fakeMessages) payloads() (all []actor.Payload) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.sent {
		all = append(all, r.Payload)
	}
	m.sent = nil
	return all
}

// TestJSONMessagesToRPCs: JSON that a client sends to an rpc is stored in the binary form, by every API.
func TestJSONMessagesToRPCs(t *testing.T) {
	messages := new(fakeMessages)
	f := start(t, func(c *Config) { c.Messages = messages })
	item := withCarts(t, f, "", "default")
	const text = `{"amount": 5, "cart": "c"}`
	binary := itemOf(t, item, text)
	api := greenroomv1connect.NewActorServiceClient(client(t, false), f.url)
	for name, send := range map[string]func() error{
		"Send": func() error {
			_, err := api.Send(t.Context(), connect.NewRequest(&greenroomv1.SendRequest{Messages: []*greenroomv1.OutgoingMessage{{Type: "Cart", Id: "a", Method: "Add", Payload: []byte(text)}}}))
			return err
		},
		"Send in JSON": func() error {
			a := do(t, client(t, false), "POST", f.url+greenroomv1connect.ActorServiceSendProcedure, `{"messages":[{"type":"Cart","id":"a","method":"Add","json":`+text+`}]}`)
			if a.StatusCode != http.StatusOK {
				t.Errorf("%s %s", a.Status, a.body)
			}
			return nil
		},
		"HTTP": func() error {
			a := do(t, client(t, false), "POST", f.url+"/v2.0/actors/default/Cart/a/send/Add", text)
			if a.StatusCode != http.StatusAccepted {
				t.Errorf("%s %s", a.Status, a.body)
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			if err := send(); err != nil {
				t.Fatal(err)
			}
			if written := messages.sent[0].Written; written == nil || jsonOf(written.Data) != jsonOf([]byte(text)) {
				t.Errorf("its client wrote %q", written)
			}
			if got := messages.payloads(); len(got) != 1 || string(got[0].Data) != binary || got[0].ContentType != abi.ContentTypeProtobuf {
				t.Errorf("stored are %q", got)
			}
		})
	}
}

// Of the messages of a request, each is translated or refused on its own; those that are no JSON of an
// rpc pass as they are.
func TestSeveralMessagesToRPCs(t *testing.T) {
	messages := new(fakeMessages)
	f := start(t, func(c *Config) { c.Messages = messages })
	item := withCarts(t, f, "", "default")
	binary := itemOf(t, item, `{"amount":5}`)
	api := greenroomv1connect.NewActorServiceClient(client(t, false), f.url)
	message := func(typ, method, contentType, payload string) *greenroomv1.OutgoingMessage {
		return &greenroomv1.OutgoingMessage{Type: typ, Id: "a", Method: method, ContentType: contentType, Payload: []byte(payload)}
	}
	res, err := api.Send(t.Context(), connect.NewRequest(&greenroomv1.SendRequest{Messages: []*greenroomv1.OutgoingMessage{
		message("Cart", "Add", "", `{"amont":5}`),
		message("Cart", "Add", "application/json", `{"amount":5}`),
		message("Cart", "Add", abi.ContentTypeProtobuf, binary),
		message("Cart", "Sweep", "", `{"amount":5}`),
		message("Counter", "Add", "", `{"amount":5}`),
	}}))
	if err != nil {
		t.Fatal(err)
	}
	for i, sent := range res.Msg.GetMessages() {
		if refused := sent.GetError() != nil; refused != (i == 0) {
			t.Errorf("message %d: %v", i, sent)
		}
	}
	e := res.Msg.GetMessages()[0].GetError()
	if e.GetDetail().GetKind() != "invalid_argument" || e.GetDetail().GetActorType() != "Cart" || e.GetDetail().GetMethod() != "Add" || !strings.Contains(e.GetMessage(), `unknown field "amont"`) {
		t.Errorf("got %v", e)
	}
	got := make(map[string]int)
	for _, p := range messages.payloads() {
		got[p.ContentType+" "+string(p.Data)]++
	}
	if len(got) != 2 || got[abi.ContentTypeProtobuf+" "+binary] != 2 || got[` {"amount":5}`] != 2 {
		t.Errorf("stored are %v", got)
	}

	_, err = api.Send(t.Context(), connect.NewRequest(&greenroomv1.SendRequest{Messages: []*greenroomv1.OutgoingMessage{message("Cart", "Add", "", `nonsense`)}}))
	wantError(t, err, connect.CodeInvalidArgument, "invalid_argument")
	if _, d := detailOf(t, err); d.GetActorType() != "Cart" || d.GetMethod() != "Add" {
		t.Errorf("the error is of %v", d)
	}
	a := do(t, client(t, false), "POST", f.url+"/v2.0/actors/default/Cart/a/send/Add", `{"amont":5}`)
	if a.StatusCode != http.StatusBadRequest || !strings.Contains(a.body, "amont") || !strings.Contains(a.body, `"actorType":"Cart"`) {
		t.Errorf("got %s %s", a.Status, a.body)
	}
	if got := messages.payloads(); len(got) > 0 {
		t.Errorf("stored are %q", got)
	}
}

// What translating the messages of a request takes counts for the request, all of them together.
func TestJSONMessagesAreWeighed(t *testing.T) {
	messages := new(fakeMessages)
	f := start(t, func(c *Config) { c.Messages, c.MaxRequestsBytes = messages, 1<<20 })
	withCarts(t, f, "", "default")
	req := new(greenroomv1.SendRequest)
	for range 10 { // two have room
		req.Messages = append(req.Messages, &greenroomv1.OutgoingMessage{Type: "Cart", Id: "a", Method: "Add", Payload: []byte(`{"parts":[{}` + strings.Repeat(",{}", 700) + `]}`)})
	}
	res, err := greenroomv1connect.NewActorServiceClient(client(t, false), f.url).Send(t.Context(), connect.NewRequest(req))
	if err != nil {
		t.Fatal(err)
	}
	stored := len(messages.payloads())
	refused := 0
	for _, sent := range res.Msg.GetMessages() {
		if sent.GetError().GetDetail().GetKind() == "host_full" {
			refused++
		}
	}
	if stored == 0 || refused == 0 || stored+refused != 10 {
		t.Errorf("%d messages are stored and %d refused", stored, refused)
	}
	if err := f.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if used := f.edge.Requests.Bodies.Used(); used != 0 {
		t.Errorf("%d bytes are counted", used)
	}
}

// What another server has deployed a moment ago is looked for, so that JSON to it becomes the binary form: of messages,
// which would be stored and fail, and of calls. Of a type, and of a method of a type that is known. What is looked for
// in vain is refused to the sender of a message; a call is left to the host.
func TestJSONToWhatWasDeployedElsewhere(t *testing.T) {
	messages := new(fakeMessages)
	f := start(t, func(c *Config) { c.Messages = messages })
	served, item := cart(t, "")
	now := map[string]modules.ServedType{"default/" + cartService: served}
	older, spec := served, *served.Spec
	spec.Methods = spec.Methods[1:] // without Add
	set := new(descriptorpb.FileDescriptorSet)
	if err := proto.Unmarshal(spec.Protobuf.Descriptor, set); err != nil {
		t.Fatal(err)
	}
	rpcs := set.File[0].Service[0]
	rpcs.Method = rpcs.Method[1:]
	spec.Protobuf.Descriptor, _ = proto.Marshal(set)
	older.Spec, older.Deployment.Digest = &spec, actor.DigestOf([]byte("older"))
	const text = `{"amount":5}`
	binary := itemOf(t, item, text)
	api := greenroomv1connect.NewActorServiceClient(client(t, false), f.url)
	sendTo := func(typ, method string) error {
		_, err := api.Send(t.Context(), connect.NewRequest(&greenroomv1.SendRequest{Messages: []*greenroomv1.OutgoingMessage{{Type: typ, Id: "a", Method: method, Payload: []byte(text)}}}))
		return err
	}
	send := func() error { return sendTo("Cart", "Add") }
	messages.check = func(key actor.Key, method string) error {
		t.Errorf("looked for %s of %s, which is known", method, key.Type)
		return nil
	}
	more := *served.Spec
	more.Methods = append(slices.Clip(more.Methods), abi.MethodSpec{Name: "Sweep"})
	known := served
	known.Spec = &more
	f.modules.serve(map[string]modules.ServedType{"default/" + cartService: known, "default/none": {Spec: &abi.TypeSpec{Name: "Plain"}}})
	if err := errors.Join(sendTo("Cart", "Add"), sendTo("Cart", "Sweep"), sendTo("Plain", "Add")); err != nil || len(messages.payloads()) != 3 {
		t.Errorf("what is known: %v", err)
	}
	for name, before := range map[string]map[string]modules.ServedType{"type": nil, "method": {"default/" + cartService: older}} {
		looked := 0
		messages.check = func(key actor.Key, method string) error {
			if looked++; key.Type != "Cart" || method != "Add" {
				t.Errorf("looked for %s of %s", method, key.Type)
			}
			f.modules.serve(now)
			return nil
		}
		f.modules.serve(before)
		if err := send(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := messages.payloads(); len(got) != 1 || string(got[0].Data) != binary || got[0].ContentType != abi.ContentTypeProtobuf {
			t.Errorf("%s: stored are %q", name, got)
		}
		f.modules.serve(before)
		res, err := api.Invoke(t.Context(), connect.NewRequest(&greenroomv1.InvokeRequest{Actor: &greenroomv1.ActorKey{Type: "Cart", Id: "a"}, Method: "Add", Payload: []byte(text)}))
		inv, _ := f.host.last()
		if err != nil || string(inv.Payload.Data) != binary || !strings.Contains(string(res.Msg.GetPayload()), "amount") {
			t.Errorf("%s: called with %q: %q, %v", name, inv.Payload.Data, res.Msg.GetPayload(), err)
		}
		if looked != 2 {
			t.Errorf("%s: looked %d times, want 2", name, looked)
		}
		if err := errors.Join(send(), send()); err != nil || looked != 2 || len(messages.payloads()) != 2 {
			t.Errorf("%s: once it is known, looked %d times: %v", name, looked-2, err)
		}
		messages.check = func(actor.Key, string) error { return fmt.Errorf("%w: none", actor.ErrMethodNotFound) }
		f.modules.serve(before)
		wantError(t, send(), connect.CodeNotFound, "method_not_found")
		if got := messages.payloads(); len(got) > 0 {
			t.Errorf("%s: stored are %q", name, got)
		}
		if _, err := api.Invoke(t.Context(), connect.NewRequest(&greenroomv1.InvokeRequest{Actor: &greenroomv1.ActorKey{Type: "Cart", Id: "a"}, Method: "Add", Payload: []byte(text)})); err != nil {
			t.Errorf("%s: the call that is left to the host: %v", name, err)
		}
		if inv, _ := f.host.last(); string(inv.Payload.Data) != text {
			t.Errorf("%s: the host gets %q", name, inv.Payload.Data)
		}
	}
}
