package server

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"connectrpc.com/grpcreflect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
	"github.com/greenroom-run/greenroom/modules"
	"github.com/greenroom-run/greenroom/server/edge"
	"github.com/greenroom-run/greenroom/server/rpc"
)

const cartService = "shop.v1.CartService"

// cartFiles describes the service of a guest.
const cartFiles = `{"file": [{
  "name": "shop.proto", "package": "shop.v1", "syntax": "proto3",
  "messageType": [{"name": "Item", "field": [
    {"name": "cart", "jsonName": "cart", "number": 1, "label": "LABEL_OPTIONAL", "type": "TYPE_STRING"},
    {"name": "amount", "jsonName": "amount", "number": 2, "label": "LABEL_OPTIONAL", "type": "TYPE_INT64"},
    {"name": "parts", "jsonName": "parts", "number": 3, "label": "LABEL_REPEATED", "type": "TYPE_MESSAGE", "typeName": ".shop.v1.Item"},
    {"name": "sizes", "jsonName": "sizes", "number": 4, "label": "LABEL_REPEATED", "type": "TYPE_INT64"}
  ]}],
  "service": [{"name": "CartService", "method": [
    {"name": "Add", "inputType": ".shop.v1.Item", "outputType": ".shop.v1.Item"},
    {"name": "Get", "inputType": ".shop.v1.Item", "outputType": ".shop.v1.Item", "options": {"idempotencyLevel": "NO_SIDE_EFFECTS"}}
  ]}]
}]}`

// cart is a deployed type with that service, whose messages have its descriptor.
func cart(t testing.TB, idField string) (modules.ServedType, protoreflect.MessageDescriptor) {
	t.Helper()
	var set descriptorpb.FileDescriptorSet
	if err := protojson.Unmarshal([]byte(cartFiles), &set); err != nil {
		t.Fatal(err)
	}
	files, err := protodesc.NewFiles(&set)
	if err != nil {
		t.Fatal(err)
	}
	item, err := files.FindDescriptorByName("shop.v1.Item")
	if err != nil {
		t.Fatal(err)
	}
	data, err := proto.Marshal(&set)
	if err != nil {
		t.Fatal(err)
	}
	return modules.ServedType{
		Spec: &abi.TypeSpec{
			Name: "Cart", Methods: []abi.MethodSpec{{Name: "Add"}, {Name: "Get", ReadOnly: true}},
			Protobuf: abi.Protobuf{Service: cartService, Descriptor: data, IDField: idField},
		},
		Deployment: actor.Deployment{App: "default", Type: "Cart", Generation: 1, Digest: actor.DigestOf([]byte(idField))},
	}, item.(protoreflect.MessageDescriptor)
}

// withCarts serves the type in apps.
func withCarts(t testing.TB, f *fixture, idField string, apps ...string) protoreflect.MessageDescriptor {
	t.Helper()
	served, item := cart(t, idField)
	f.modules.services = make(map[string]modules.ServedType)
	for _, app := range apps {
		f.modules.services[app+"/"+cartService] = served
	}
	return item
}

// cartClient calls one rpc as a generated client does.
func cartClient(t testing.TB, f *fixture, item protoreflect.MessageDescriptor, rpc string, http2 bool, opts ...connect.ClientOption) func(message string, headers ...string) (*connect.Response[dynamicpb.Message], error) {
	t.Helper()
	opts = append(opts, connect.WithResponseInitializer(func(_ connect.Spec, msg any) error {
		*msg.(*dynamicpb.Message) = *dynamicpb.NewMessage(item)
		return nil
	}))
	if rpc == "Get" {
		opts = append(opts, connect.WithIdempotency(connect.IdempotencyNoSideEffects))
	}
	c := connect.NewClient[dynamicpb.Message, dynamicpb.Message](client(t, http2), f.url+"/"+cartService+"/"+rpc, opts...)
	return func(message string, headers ...string) (*connect.Response[dynamicpb.Message], error) {
		msg := dynamicpb.NewMessage(item)
		if err := protojson.Unmarshal([]byte(message), msg); err != nil {
			t.Fatal(err)
		}
		req := connect.NewRequest(msg)
		for i := 0; i < len(headers); i += 2 {
			req.Header().Add(headers[i], headers[i+1])
		}
		return c.CallUnary(t.Context(), req)
	}
}

// Every client of a guest's service calls its actors, and the guest gets the request in the binary form.
func TestGuestServiceOverEveryProtocol(t *testing.T) {
	f := start(t, nil)
	item := withCarts(t, f, "", "default")
	want := dynamicpb.NewMessage(item)
	if err := protojson.Unmarshal([]byte(`{"cart": "c", "amount": "9007199254740993"}`), want); err != nil {
		t.Fatal(err)
	}
	for _, p := range protocols() {
		t.Run(p.name, func(t *testing.T) {
			res, err := cartClient(t, f, item, "Add", p.http2, p.opts...)(`{"cart": "c", "amount": "9007199254740993"}`, edge.HeaderActor, "a b", edge.HeaderIdempotencyKey, "k")
			if err != nil {
				t.Fatal(err)
			}
			if !proto.Equal(res.Msg, want) {
				t.Errorf("got %v", res.Msg)
			}
			inv, _ := f.host.last()
			got := dynamicpb.NewMessage(item)
			if err := proto.Unmarshal(inv.Payload.Data, got); err != nil || !proto.Equal(got, want) || inv.Payload.ContentType != abi.ContentTypeProtobuf {
				t.Errorf("the host got %q of %s, %v", inv.Payload.Data, inv.Payload.ContentType, err)
			}
			if inv.Key != (actor.Key{App: "default", Type: "Cart", ID: "a b"}) || inv.Method != "Add" || inv.ReadOnly || inv.IdempotencyKey != "k" || inv.ID == "" || inv.ID != res.Header().Get(edge.HeaderRequestID) {
				t.Errorf("the host got %+v", inv)
			}

			if res, err = cartClient(t, f, item, "Get", p.http2, p.opts...)(`{"cart": "c", "amount": "9007199254740993"}`, edge.HeaderActor, "a", edge.HeaderConsistency, "strong"); err != nil {
				t.Fatal(err)
			}
			if inv, _ := f.host.last(); !proto.Equal(res.Msg, want) || !inv.ReadOnly || inv.Consistency != actor.ConsistencyStrong {
				t.Errorf("got %v, and the host got %+v", res.Msg, inv)
			}

			_, err = cartClient(t, f, item, "Drop", p.http2, p.opts...)(`{}`, edge.HeaderActor, "a")
			wantError(t, err, connect.CodeUnimplemented, "path_not_found")
		})
	}
}

func TestGuestServiceID(t *testing.T) {
	f := start(t, nil)
	for _, tt := range []struct {
		name, field, message string
		headers              []string
		id, problem          string
	}{
		{"in the header", "", `{"cart": "x"}`, []string{edge.HeaderActor, "a"}, "a", ""},
		{"in the field", "cart", `{"cart": "zoë"}`, nil, "zoë", ""},
		{"in both", "cart", `{"cart": "a"}`, []string{edge.HeaderActor, "a"}, "a", ""},
		{"in the header, with an empty field", "cart", `{}`, []string{edge.HeaderActor, "a"}, "a", ""},
		{"nowhere", "", `{"cart": "x"}`, nil, "", "Greenroom-Actor is missing"},
		{"nowhere, with a field", "cart", `{}`, nil, "", "cart is empty"},
		{"empty", "", `{}`, []string{edge.HeaderActor, ""}, "", "Greenroom-Actor is empty"},
		{"twice", "", `{}`, []string{edge.HeaderActor, "a", edge.HeaderActor, "b"}, "", "is given more than once"},
		{"two different ones", "cart", `{"cart": "b"}`, []string{edge.HeaderActor, "a"}, "", `is "a", and the field cart is "b"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			item := withCarts(t, f, tt.field, "default")
			for _, opts := range [][]connect.ClientOption{nil, {connect.WithProtoJSON()}} {
				_, err := cartClient(t, f, item, "Add", false, opts...)(tt.message, tt.headers...)
				inv, called := f.host.last()
				if tt.problem != "" {
					wantError(t, err, connect.CodeInvalidArgument, "invalid_argument")
					if !strings.Contains(fmt.Sprint(err), tt.problem) || called {
						t.Errorf("got %v; a turn ran: %v", err, called)
					}
				} else if err != nil || inv.Key.ID != tt.id {
					t.Errorf("the host got %+v, %v", inv, err)
				}
			}
		})
	}
}

// The service of one app is none of another, and tokens of one app are kept to it.
func TestGuestServiceOfAnApp(t *testing.T) {
	f := start(t, func(c *Config) {
		c.Tokens = []edge.Token{
			{Name: "all", Secret: "secret-of-everyone", Role: edge.RoleInvoke},
			{Name: "shop", Secret: "secret-of-the-shop", Role: edge.RoleRead, App: "shop"},
		}
	})
	item := withCarts(t, f, "cart", "shop")
	add, get := cartClient(t, f, item, "Add", false), cartClient(t, f, item, "Get", false)
	all, shop := []string{"Authorization", "Bearer secret-of-everyone"}, []string{"Authorization", "Bearer secret-of-the-shop"}
	with := func(token []string, more ...string) []string { return append(append([]string(nil), token...), more...) }

	_, err := add(`{"cart":"a"}`)
	wantError(t, err, connect.CodeUnauthenticated, "unauthenticated")
	_, err = add(`{"cart":"a"}`, all...)
	wantError(t, err, connect.CodeUnimplemented, "path_not_found")
	_, err = add(`{"cart":"a"}`, with(all, edge.HeaderApp, "no such")...)
	wantError(t, err, connect.CodeInvalidArgument, "invalid_argument")
	_, err = add(`{"cart":"a"}`, with(shop, edge.HeaderApp, "other")...)
	wantError(t, err, connect.CodePermissionDenied, "permission_denied")
	_, err = add(`{"cart":"a"}`, with(shop, edge.HeaderApp, "shop")...)
	wantError(t, err, connect.CodePermissionDenied, "permission_denied")
	if inv, called := f.host.last(); called {
		t.Fatalf("the host got %+v", inv)
	}
	if _, err = get(`{"cart":"a"}`, with(shop, edge.HeaderApp, "shop")...); err != nil {
		t.Fatal(err)
	}
	if inv, _ := f.host.last(); inv.Key.App != "shop" || inv.Token != "shop" {
		t.Errorf("the host got %+v", inv)
	}
	if _, err = add(`{"cart":"a"}`, with(all, edge.HeaderApp, "shop")...); err != nil {
		t.Fatal(err)
	}
}

func TestGuestServiceRefuses(t *testing.T) {
	f := start(t, func(c *Config) { c.MaxPayloadBytes = 100 })
	item := withCarts(t, f, "", "default")
	add := f.url + "/" + cartService + "/Add"
	c := client(t, false)
	for _, tt := range []struct {
		name, method, url, body string
		headers                 []string
		status                  int
		want                    string
	}{
		{"an unknown member", "POST", add, `{"amont": 1}`, []string{edge.HeaderActor, "a"}, 400, `unknown field`},
		{"no body", "POST", add, ``, []string{edge.HeaderActor, "a"}, 400, `not the JSON form of shop.v1.Item`},
		{"garbage in the binary form", "POST", add, "\xff\xff", []string{"Content-Type", "application/proto", edge.HeaderActor, "a"}, 200, ""},
		{"a GET that may have effects", "GET", add + "?encoding=json&message=%7B%7D", "", []string{edge.HeaderActor, "a"}, 501, "use POST"},
		{"another service", "POST", f.url + "/shop.v1.Other/Add", `{}`, []string{edge.HeaderActor, "a"}, 404, "path_not_found"},
		{"more behind it", "POST", add + "/x", `{}`, []string{edge.HeaderActor, "a"}, 404, "path_not_found"},
		{"too large", "POST", add, `{"cart":"` + strings.Repeat("x", 101) + `"}`, []string{edge.HeaderActor, "a"}, 400, "payload_too_large"},
		{"an ID that cannot be", "POST", add, `{}`, []string{edge.HeaderActor, "a\tb"}, 400, "invalid_argument"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := do(t, c, tt.method, tt.url, tt.body, tt.headers...)
			if a.StatusCode != tt.status || !strings.Contains(a.body, tt.want) {
				t.Errorf("got %s %s", a.Status, a.body)
			}
		})
	}

	f.host.does(func(context.Context, actor.Invocation) (actor.Reply, error) {
		return actor.Reply{Payload: actor.Payload{ContentType: "application/json", Data: []byte(`{}`)}}, nil
	})
	_, err := cartClient(t, f, item, "Add", false)(`{}`, edge.HeaderActor, "a")
	if err == nil || !strings.Contains(err.Error(), "the turn is committed, and the method's reply is not the response") {
		t.Errorf("a reply in JSON: %v", err)
	}
	f.host.does(func(context.Context, actor.Invocation) (actor.Reply, error) {
		return actor.Reply{Payload: actor.Payload{ContentType: abi.ContentTypeProtobuf, Data: []byte{0xff}}}, nil
	})
	_, err = cartClient(t, f, item, "Add", false, connect.WithProtoJSON())(`{}`, edge.HeaderActor, "a")
	if err == nil || !strings.Contains(err.Error(), "is not the response of its rpc") {
		t.Errorf("a reply of garbage: %v", err)
	}
	f.host.fails(&actor.GuestError{Code: "sold_out", Message: "nothing is left"})
	_, err = cartClient(t, f, item, "Add", true, connect.WithGRPC())(`{}`, edge.HeaderActor, "a")
	if code, d := detailOf(t, err); code != connect.CodeUnknown || d.GetKind() != "guest_error" || d.GetActorType() != "Cart" || d.GetMethod() != "Add" {
		t.Errorf("an error of the guest: %v %v", code, d)
	}
}

// Messages that take many times their bytes in memory count for what they take.
func TestGuestServiceWeighsJSON(t *testing.T) {
	f := start(t, func(c *Config) { c.MaxRequestsBytes = 1 << 20 })
	item := withCarts(t, f, "", "default")
	parts := `{"parts":[{}` + strings.Repeat(",{}", 10_000) + `]}`
	_, err := cartClient(t, f, item, "Add", false, connect.WithProtoJSON())(parts, edge.HeaderActor, "a")
	wantError(t, err, connect.CodeResourceExhausted, "host_full")
	if _, called := f.host.last(); called {
		t.Error("a turn ran")
	}
	if _, err := cartClient(t, f, item, "Add", false)(parts, edge.HeaderActor, "a"); err != nil {
		t.Errorf("in the binary form: %v", err)
	}
	small := do(t, client(t, false), "POST", f.url+"/"+cartService+"/Add", `{}`, edge.HeaderActor, "a")
	if small.StatusCode != http.StatusOK {
		t.Errorf("what a refused request took is not given back: %s %s", small.Status, small.body)
	}
}

// Reflection shows the services of the app that is asked about, beside the API's.
func TestGuestServiceReflection(t *testing.T) {
	f := start(t, nil)
	withCarts(t, f, "", "shop")
	c := grpcreflect.NewClient(client(t, true), f.url, connect.WithGRPC())
	list := func(opts ...grpcreflect.ClientStreamOption) string {
		s := c.NewStream(t.Context(), opts...)
		defer func() { _, _ = s.Close() }()
		names, err := s.ListServices()
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(names)
	}
	if got := list(); strings.Contains(got, cartService) || !strings.Contains(got, "greenroom.v1.ActorService") {
		t.Errorf("the default app: %s", got)
	}
	inShop := grpcreflect.WithRequestHeaders(http.Header{edge.HeaderApp: {"shop"}})
	if got := list(inShop); !strings.Contains(got, cartService) || !strings.Contains(got, "greenroom.v1.ActorService") {
		t.Errorf("the app shop: %s", got)
	}
	s := c.NewStream(t.Context(), inShop)
	defer func() { _, _ = s.Close() }()
	for _, symbol := range []protoreflect.FullName{cartService, "shop.v1.Item", "greenroom.v1.ActorService"} {
		if files, err := s.FileContainingSymbol(symbol); err != nil || len(files) == 0 {
			t.Errorf("%s: %v, %v", symbol, files, err)
		}
	}
	if _, err := s.FileContainingSymbol("shop.v1.Nothing"); err == nil {
		t.Error("a symbol that is not there was found")
	}
}

// BenchmarkGuestCall compares a call of an rpc of a guest's service with an Invoke of its method,
// both in the binary form and without a network, and prints the ratio of their times: 1.1 at most.
func BenchmarkGuestCall(b *testing.B) {
	mods := newFakeModules()
	served, item := cart(b, "cart")
	mods.services = map[string]modules.ServedType{"default/" + cartService: served}
	s, err := New(Config{Config: edge.Config{Logger: slog.New(slog.DiscardHandler)}, Backends: rpc.Backends{Host: echoHost{&fakeHost{}}, Modules: mods, Actors: fakeLister(0)}})
	if err != nil {
		b.Fatal(err)
	}
	msg := dynamicpb.NewMessage(item)
	if err := protojson.Unmarshal([]byte(`{"cart": "a", "amount": 2}`), msg); err != nil {
		b.Fatal(err)
	}
	request, err := proto.Marshal(msg)
	if err != nil {
		b.Fatal(err)
	}
	invoke, err := proto.Marshal(&greenroomv1.InvokeRequest{
		Actor: &greenroomv1.ActorKey{App: "default", Type: "Cart", Id: "a"}, Method: "Add", Payload: request, ContentType: abi.ContentTypeProtobuf,
	})
	if err != nil {
		b.Fatal(err)
	}
	perOp := make(map[string]float64)
	for _, c := range []struct {
		name, path string
		body       []byte
	}{{"invoke", greenroomv1connect.ActorServiceInvokeProcedure, invoke}, {"rpc", "/" + cartService + "/Add", request}} {
		answer := httptest.NewRecorder()
		first := httptest.NewRequest(http.MethodPost, "http://localhost"+c.path, bytes.NewReader(c.body))
		first.Header.Set("Content-Type", "application/proto")
		if s.ServeHTTP(answer, first); answer.Code != http.StatusOK {
			b.Fatalf("%s: %d %s", c.name, answer.Code, answer.Body)
		}
		b.Run(c.name, func(b *testing.B) {
			w := discard{make(http.Header)}
			b.ReportAllocs()
			for b.Loop() {
				req, err := http.NewRequest(http.MethodPost, "http://localhost"+c.path, bytes.NewReader(c.body))
				if err != nil {
					b.Fatal(err)
				}
				req.Header.Set("Content-Type", "application/proto")
				w.reset()
				s.ServeHTTP(w, req)
			}
			perOp[c.name] = float64(b.Elapsed().Nanoseconds()) / float64(b.N)
			if perOp["invoke"] > 0 && c.name == "rpc" {
				b.ReportMetric(perOp["rpc"]/perOp["invoke"], "x-invoke")
			}
		})
	}
}
