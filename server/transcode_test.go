package server

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
)

// itemOf returns the binary form of an item of a cart.
func itemOf(t testing.TB, item protoreflect.MessageDescriptor, text string) string {
	t.Helper()
	msg := dynamicpb.NewMessage(item)
	if err := protojson.Unmarshal([]byte(text), msg); err != nil {
		t.Fatal(err)
	}
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(msg)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// jsonOf returns a JSON text without the white space that protojson varies.
func jsonOf(text []byte) string { return strings.ReplaceAll(string(text), " ", "") }

const cartOfA = `"actor":{"type":"Cart","id":"a"}`

// Whatever form a call has, an rpc gets JSON in the binary form, and its reply is JSON.
func TestJSONOfRPCs(t *testing.T) {
	f := start(t, nil)
	item := withCarts(t, f, "", "default")
	const text, wanted = `{"amount": 5, "cart": "c"}`, `{"cart":"c","amount":"5"}`
	binary := itemOf(t, item, text)
	api := greenroomv1connect.NewActorServiceClient(client(t, false), f.url)
	cart := &greenroomv1.ActorKey{Type: "Cart", Id: "a"}
	calls := map[string]func(t *testing.T) (reply []byte, contentType string){
		"Invoke": func(t *testing.T) ([]byte, string) {
			res, err := api.Invoke(t.Context(), connect.NewRequest(&greenroomv1.InvokeRequest{Actor: cart, Method: "Add", Payload: []byte(text)}))
			if err != nil {
				t.Fatal(err)
			}
			return res.Msg.GetPayload(), res.Msg.GetContentType()
		},
		"Query": func(t *testing.T) ([]byte, string) {
			res, err := api.Query(t.Context(), connect.NewRequest(&greenroomv1.QueryRequest{Actor: cart, Method: "Get", Payload: []byte(text), ContentType: "application/json; charset=utf-8"}))
			if err != nil {
				t.Fatal(err)
			}
			return res.Msg.GetPayload(), res.Msg.GetContentType()
		},
		"Invoke in JSON": func(t *testing.T) ([]byte, string) {
			a := do(t, client(t, false), "POST", f.url+greenroomv1connect.ActorServiceInvokeProcedure, `{`+cartOfA+`,"method":"Add","json":`+text+`,"jsonReply":true}`)
			var msg greenroomv1.InvokeResponse
			if err := protojson.Unmarshal([]byte(a.body), &msg); err != nil || a.StatusCode != http.StatusOK {
				t.Fatalf("%s %s: %v", a.Status, a.body, err)
			}
			reply, err := protojson.Marshal(msg.GetJson())
			if err != nil {
				t.Fatal(err)
			}
			return reply, msg.GetContentType()
		},
		"HTTP": func(t *testing.T) ([]byte, string) {
			a := do(t, client(t, false), "POST", f.url+"/v2.0/actors/default/Cart/a/method/Add", text)
			if a.StatusCode != http.StatusOK {
				t.Fatalf("%s %s", a.Status, a.body)
			}
			return []byte(a.body), a.Header.Get("Content-Type")
		},
		"a stream": func(t *testing.T) ([]byte, string) {
			st := open(t.Context(), t, f.url)
			st.send(&greenroomv1.StreamInvocation{Id: 1, Actor: cart, Method: "Add", Payload: []byte(text)})
			r := st.receive(1)[1]
			return r.GetPayload(), r.GetContentType()
		},
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			reply, contentType := call(t)
			if jsonOf(reply) != wanted && jsonOf(reply) != `{"amount":"5","cart":"c"}` || contentType != actor.ContentTypeJSON {
				t.Errorf("the reply is %s of %s", reply, contentType)
			}
			if inv, _ := f.host.last(); string(inv.Payload.Data) != binary || inv.Payload.ContentType != abi.ContentTypeProtobuf {
				t.Errorf("the host got %q of %s", inv.Payload.Data, inv.Payload.ContentType)
			}
		})
	}
}

// The calls of a transaction are translated one by one, and so are their replies.
func TestJSONOfRPCsInATransaction(t *testing.T) {
	f := start(t, nil)
	item := withCarts(t, f, "", "default")
	binary := itemOf(t, item, `{"amount":5}`)
	f.host.does(func(_ context.Context, inv actor.Invocation) (actor.Reply, error) {
		calls, err := actor.DecodeCalls(inv.Key.App, inv.Payload.Data)
		if err != nil {
			return actor.Reply{}, err
		}
		replies := make([]actor.Payload, len(calls))
		for i, c := range calls {
			replies[i] = c.Payload
		}
		return actor.Reply{Payload: actor.Payload{Data: actor.EncodePayloads(replies)}}, nil
	})
	api := greenroomv1connect.NewActorServiceClient(client(t, false), f.url)
	res, err := api.InvokeAll(t.Context(), connect.NewRequest(&greenroomv1.InvokeAllRequest{Calls: []*greenroomv1.ActorCall{
		{Type: "Cart", Id: "a", Method: "Add", Payload: []byte(`{"amount":5}`)},
		{Type: "Cart", Id: "b", Method: "Add", Payload: []byte(binary), ContentType: abi.ContentTypeProtobuf},
		{Type: "Counter", Id: "c", Method: "Add", Payload: []byte(`{"amount":5}`)},
	}}))
	if err != nil {
		t.Fatal(err)
	}
	r := res.Msg.GetReplies()
	if jsonOf(r[0].GetPayload()) != `{"amount":"5"}` || r[0].GetContentType() != actor.ContentTypeJSON ||
		string(r[1].GetPayload()) != binary || r[1].GetContentType() != abi.ContentTypeProtobuf || string(r[2].GetPayload()) != `{"amount":5}` {
		t.Errorf("got %v", r)
	}
	inv, _ := f.host.last()
	if calls, err := actor.DecodeCalls("default", inv.Payload.Data); err != nil || string(calls[0].Payload.Data) != binary || calls[0].Payload.ContentType != abi.ContentTypeProtobuf {
		t.Errorf("the host got %v, %v", calls, err)
	}
	_, err = api.InvokeAll(t.Context(), connect.NewRequest(&greenroomv1.InvokeAllRequest{Calls: []*greenroomv1.ActorCall{
		{Type: "Counter", Id: "c", Method: "Add"}, {Type: "Cart", Id: "a", Method: "Add", Payload: []byte(`{"amont":5}`)},
	}}))
	wantError(t, err, connect.CodeInvalidArgument, "invalid_argument")
	if _, d := detailOf(t, err); d.GetActorId() != "a" || !strings.Contains(err.Error(), `call 2: request is not the JSON form of shop.v1.Item: (line 1:2): unknown field "amont"`) {
		t.Errorf("got %v of %s", err, d.GetActorId())
	}
}

// What is not JSON of an rpc passes as it is.
func TestOthersThanJSONOfRPCs(t *testing.T) {
	f := start(t, func(c *Config) { c.MaxPayloadBytes = 100 })
	item := withCarts(t, f, "", "default")
	binary := itemOf(t, item, `{"amount":5}`)
	tooLarge := `{"sizes":[` + strings.Repeat(`-1,`, 20) + `-1]}` // ten bytes each in the binary form
	api := greenroomv1connect.NewActorServiceClient(client(t, false), f.url)
	for _, tt := range []struct {
		name, typ, method string
		sent              actor.Payload
		got               actor.Payload // by the host
		reply, problem    string
	}{
		{"an empty payload", "Cart", "Add", actor.Payload{}, actor.Payload{ContentType: abi.ContentTypeProtobuf}, `{}`, ""},
		{"the binary form", "Cart", "Add", actor.Payload{ContentType: abi.ContentTypeProtobuf, Data: []byte(binary)}, actor.Payload{ContentType: abi.ContentTypeProtobuf, Data: []byte(binary)}, binary, ""},
		{"another type of content", "Cart", "Add", actor.Payload{ContentType: "text/plain", Data: []byte("{}")}, actor.Payload{ContentType: "text/plain", Data: []byte("{}")}, "{}", ""},
		{"a method without an rpc", "Cart", "Sweep", actor.Payload{Data: []byte(`{"a":1}`)}, actor.Payload{Data: []byte(`{"a":1}`)}, `{"a":1}`, ""},
		{"a type without a service", "Counter", "Add", actor.Payload{Data: []byte(`{"a":1}`)}, actor.Payload{Data: []byte(`{"a":1}`)}, `{"a":1}`, ""},
		{"an unknown member", "Cart", "Add", actor.Payload{Data: []byte(`{"amont":1}`)}, actor.Payload{}, "", `request is not the JSON form of shop.v1.Item: (line 1:2): unknown field "amont"`},
		{"no JSON", "Cart", "Add", actor.Payload{Data: []byte(`nonsense`)}, actor.Payload{}, "", `request is not the JSON form of shop.v1.Item: syntax error`},
		{"too large", "Cart", "Add", actor.Payload{Data: []byte(tooLarge)}, actor.Payload{}, "", "limit of 100 bytes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			check := func(reply actor.Payload, err error) {
				t.Helper()
				inv, called := f.host.last()
				switch {
				case tt.problem != "":
					if err == nil || !strings.Contains(err.Error(), tt.problem) || called {
						t.Errorf("got %v; a turn ran: %v", err, called)
					}
				case err != nil || string(reply.Data) != tt.reply:
					t.Errorf("got %q, %v", reply.Data, err)
				case string(inv.Payload.Data) != string(tt.got.Data) || inv.Payload.ContentType != tt.got.ContentType:
					t.Errorf("the host got %q of %s", inv.Payload.Data, inv.Payload.ContentType)
				}
			}
			res, err := api.Invoke(t.Context(), connect.NewRequest(&greenroomv1.InvokeRequest{
				Actor: &greenroomv1.ActorKey{Type: tt.typ, Id: "a"}, Method: tt.method, Payload: tt.sent.Data, ContentType: tt.sent.ContentType,
			}))
			if err != nil {
				_, d := detailOf(t, err)
				if d.GetActorType() != tt.typ || d.GetMethod() != tt.method {
					t.Errorf("the error is of %s.%s", d.GetActorType(), d.GetMethod())
				}
			}
			var reply actor.Payload
			if err == nil {
				reply.Data = res.Msg.GetPayload()
			}
			check(reply, err)
			st := open(t.Context(), t, f.url)
			st.send(&greenroomv1.StreamInvocation{Id: 1, Actor: &greenroomv1.ActorKey{Type: tt.typ, Id: "a"}, Method: tt.method, Payload: tt.sent.Data, ContentType: tt.sent.ContentType})
			r := st.receive(1)[1]
			if err = nil; r.GetError() != nil {
				err = &actor.ArgumentError{Field: r.GetError().GetMessage()}
			}
			check(actor.Payload{Data: r.GetPayload()}, err)
		})
	}
}

// A reply that is no response of its rpc is an error of a committed turn, and one of another content
// type is what the method's caller gets.
func TestRepliesToJSONOfRPCs(t *testing.T) {
	f := start(t, nil)
	withCarts(t, f, "", "default")
	invoke := func() (*connect.Response[greenroomv1.InvokeResponse], error) {
		api := greenroomv1connect.NewActorServiceClient(client(t, false), f.url)
		return api.Invoke(t.Context(), connect.NewRequest(&greenroomv1.InvokeRequest{Actor: &greenroomv1.ActorKey{Type: "Cart", Id: "a"}, Method: "Add", Payload: []byte(`{}`)}))
	}
	replies := func(contentType, data string) {
		f.host.does(func(context.Context, actor.Invocation) (actor.Reply, error) {
			return actor.Reply{Payload: actor.Payload{ContentType: contentType, Data: []byte(data)}}, nil
		})
	}
	replies(abi.ContentTypeProtobuf, "\xff")
	_, err := invoke()
	wantError(t, err, connect.CodeInternal, "guest_protocol")
	if !strings.Contains(err.Error(), "the turn is committed") {
		t.Errorf("got %v", err)
	}
	replies("text/plain", "hello")
	if res, err := invoke(); err != nil || string(res.Msg.GetPayload()) != "hello" || res.Msg.GetContentType() != "text/plain" {
		t.Errorf("got %v, %v", res, err)
	}
}

// What translating takes on a stream counts as what is in flight there.
func TestJSONOfRPCsCountsOnStreams(t *testing.T) {
	f := start(t, func(c *Config) { c.MaxStreamsBytes = 1 << 20 })
	item := withCarts(t, f, "", "default")
	cart := &greenroomv1.ActorKey{Type: "Cart", Id: "a"}
	st := open(t.Context(), t, f.url)
	st.send(&greenroomv1.StreamInvocation{Id: 1, Actor: cart, Method: "Add", Payload: []byte(`{"parts":[{}` + strings.Repeat(",{}", 10_000) + `]}`)})
	if r := st.receive(1)[1]; r.GetError().GetDetail().GetKind() != "stream_full" {
		t.Errorf("got %v", r.GetError())
	}
	if _, called := f.host.last(); called {
		t.Error("a turn ran")
	}
	parts := itemOf(t, item, `{"parts":[{}]}`)
	f.host.does(func(context.Context, actor.Invocation) (actor.Reply, error) {
		return actor.Reply{Payload: actor.Payload{ContentType: abi.ContentTypeProtobuf, Data: []byte(strings.Repeat(parts, 10_000))}}, nil
	})
	st.send(&greenroomv1.StreamInvocation{Id: 2, Actor: cart, Method: "Add", Payload: []byte(`{}`)})
	if r := st.receive(1)[2]; r.GetError().GetDetail().GetKind() != "payload_too_large" || !strings.Contains(r.GetError().GetMessage(), "the turn is committed") {
		t.Errorf("got %v", r.GetError())
	}
	_ = st.CloseRequest()
	for {
		if _, err := st.Receive(); err != nil {
			break
		}
	}
	if used := f.edge.StreamMemory.Used(); used != 0 {
		t.Errorf("%d bytes are counted after the stream", used)
	}
}
