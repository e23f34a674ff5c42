package server

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"connectrpc.com/grpcreflect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/modules"
	"github.com/greenroom-run/greenroom/server/edge"
)

// withAnother has a fixture serve another type of the module of withCarts: its service and descriptor are those of the cart,
// with other words.
func withAnother(t *testing.T, f *fixture, typ, service, app string, words ...string) {
	t.Helper()
	var set descriptorpb.FileDescriptorSet
	if err := protojson.Unmarshal([]byte(strings.NewReplacer(words...).Replace(cartFiles)), &set); err != nil {
		t.Fatal(err)
	}
	data, err := proto.Marshal(&set)
	if err != nil {
		t.Fatal(err)
	}
	served, _ := cart(t, "")
	spec := *served.Spec
	spec.Name, spec.Protobuf.Service, spec.Protobuf.Descriptor = typ, service, data
	spec.Methods = slices.Concat(spec.Methods, []abi.MethodSpec{{Name: "Feed"}, {Name: "Old"}})
	f.modules.services[app+"/"+service] = modules.ServedType{Spec: &spec, Deployment: served.Deployment}
}

// TestGuestServicesOfOneModule: two types of a module have services of their own.
func TestGuestServicesOfOneModule(t *testing.T) {
	f := start(t, nil)
	withCarts(t, f, "", "default")
	withAnother(t, f, "Zoo", "zoo.v1.CartService", "default", "shop.v1", "zoo.v1", `"Add"`, `"Feed"`)
	for range 2 { // the second time it was read before
		for path, typ := range map[string]string{"/zoo.v1.CartService/Feed": "Zoo", "/shop.v1.CartService/Add": "Cart"} {
			a := do(t, client(t, false), "POST", f.url+path, `{}`, edge.HeaderActor, "a")
			if inv, _ := f.host.last(); a.StatusCode != http.StatusOK || inv.Key.Type != typ {
				t.Errorf("%s: %s %s; the host got %+v", path, a.Status, a.body, inv.Key)
			}
		}
	}
}

// TestGuestServiceReplies: a reply without content is an empty response, whatever its type; one whose text takes more memory
// than there is is refused, and says that the turn is committed; a call without side effects needs no key.
func TestGuestServiceReplies(t *testing.T) {
	f := start(t, func(c *Config) { c.MaxRequestsBytes = 1 << 20 })
	item := withCarts(t, f, "", "default")
	f.host.does(func(context.Context, actor.Invocation) (actor.Reply, error) { return actor.Reply{}, nil })
	if res, err := cartClient(t, f, item, "Add", false)(`{}`, edge.HeaderActor, "a"); err != nil || proto.Size(res.Msg) != 0 {
		t.Errorf("an empty reply: %v, %v", res, err)
	}
	if _, err := cartClient(t, f, item, "Get", false)(`{}`, edge.HeaderActor, "a", edge.HeaderIdempotencyKey, "k"); err != nil {
		t.Error(err)
	}
	if inv, _ := f.host.last(); inv.IdempotencyKey != "" || !inv.ReadOnly {
		t.Errorf("the host got %+v", inv)
	}
	parts := strings.Repeat("\x1a\x00", 10_000)
	f.host.does(func(context.Context, actor.Invocation) (actor.Reply, error) {
		return actor.Reply{Payload: actor.Payload{ContentType: abi.ContentTypeProtobuf, Data: []byte(parts)}}, nil
	})
	_, err := cartClient(t, f, item, "Add", false, connect.WithProtoJSON())(`{}`, edge.HeaderActor, "a")
	if err == nil || !strings.Contains(err.Error(), "the turn is committed, and the server has no memory left") {
		t.Errorf("a large reply in JSON: %v", err)
	}
	if res, err := cartClient(t, f, item, "Add", false)(`{}`, edge.HeaderActor, "a"); err != nil || proto.Size(res.Msg) != len(parts) {
		t.Errorf("a large reply: %v", err)
	}
}

// TestGuestReflectionOfAToken: who has a token of an app sees its services without naming it, and those of no other app.
func TestGuestReflectionOfAToken(t *testing.T) {
	f := start(t, func(c *Config) {
		c.Tokens = []edge.Token{{Name: "shop", Secret: "secret-of-the-shop", Role: edge.RoleRead, App: "shop"}}
	})
	withCarts(t, f, "", "shop", "other")
	c := grpcreflect.NewClient(client(t, true), f.url, connect.WithGRPC())
	list := func(app ...string) (string, error) {
		header := http.Header{"Authorization": {"Bearer secret-of-the-shop"}}
		if len(app) > 0 {
			header[edge.HeaderApp] = app
		}
		s := c.NewStream(t.Context(), grpcreflect.WithRequestHeaders(header))
		defer func() { _, _ = s.Close() }()
		names, err := s.ListServices()
		return fmt.Sprint(names), err
	}
	for _, app := range [][]string{nil, {"shop"}} {
		if got, err := list(app...); err != nil || !strings.Contains(got, cartService) {
			t.Errorf("of the app %q: %s, %v", app, got, err)
		}
	}
	if got, err := list("other"); connect.CodeOf(err) != connect.CodePermissionDenied {
		t.Errorf("of another app: %s, %v", got, err)
	}
}

// TestGuestReflectionOfTwoFiles: where the files of two types describe one service, its own type's are shown.
func TestGuestReflectionOfTwoFiles(t *testing.T) {
	f := start(t, nil)
	withCarts(t, f, "", "shop")
	const earlier = `"service": [{"name": "AService", "method": [{"name": "Old", "inputType": ".shop.v1.Item", "outputType": ".shop.v1.Item"}]}, {"name": "CartService", "method": [`
	withAnother(t, f, "A", "shop.v1.AService", "shop", `"service": [{"name": "CartService", "method": [`, earlier, `"Add"`, `"Old"`)
	s := grpcreflect.NewClient(client(t, true), f.url, connect.WithGRPC()).NewStream(t.Context(), grpcreflect.WithRequestHeaders(http.Header{edge.HeaderApp: {"shop"}}))
	defer func() { _, _ = s.Close() }()
	for service, rpc := range map[string]string{cartService: "Add", "shop.v1.AService": "Old"} {
		files, err := s.FileContainingSymbol(protoreflect.FullName(service))
		if err != nil || len(files) == 0 {
			t.Fatal(err)
		}
		if got := rpcsOf(files, service); !slices.Contains(got, rpc) {
			t.Errorf("%s has the rpcs %q", service, got)
		}
	}
}

// rpcsOf returns the names of the rpcs of a service that files have.
func rpcsOf(files []*descriptorpb.FileDescriptorProto, service string) (names []string) {
	for _, f := range files {
		for _, s := range f.GetService() {
			if f.GetPackage()+"."+s.GetName() != service {
				continue
			}
			for _, m := range s.GetMethod() {
				names = append(names, m.GetName())
			}
		}
	}
	return names
}
