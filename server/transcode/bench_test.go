package transcode_test

import (
	"context"
	"log/slog"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/modules"
	"github.com/greenroom-run/greenroom/server/transcode"
)

// echo is a runner whose calls cost nothing.
type echo struct{}

func (echo) Invoke(_ context.Context, inv actor.Invocation) (actor.Reply, error) {
	return actor.Reply{Payload: inv.Payload}, nil
}

func (echo) Begin(context.Context, actor.Invocation, host.Receiver) host.Begun { return nil }

// served are types as modules keeps them: by app and name, in a map.
type served map[[2]string]*modules.ServedType

func (s served) Current(app, typ string) (actor.Deployment, *abi.TypeSpec, error) {
	t, ok := s[[2]string{app, typ}]
	if !ok {
		return actor.Deployment{}, nil, actor.ErrTypeNotFound
	}
	return t.Deployment, t.Spec, nil
}

// newHost serves the types Plain, and Typed with the rpc Echo.
func newHost(tb testing.TB) *transcode.Host {
	tb.Helper()
	file := protodesc.ToFileDescriptorProto(wrapperspb.File_google_protobuf_wrappers_proto)
	set := &descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{{
		Name: proto.String("a.proto"), Package: proto.String("a"), Syntax: proto.String("proto3"), Dependency: []string{file.GetName()},
		Service: []*descriptorpb.ServiceDescriptorProto{{Name: proto.String("S"), Method: []*descriptorpb.MethodDescriptorProto{
			{Name: proto.String("Echo"), InputType: proto.String(".google.protobuf.Int64Value"), OutputType: proto.String(".google.protobuf.Int64Value")},
		}}},
	}}}
	descriptor, err := proto.Marshal(set)
	if err != nil {
		tb.Fatal(err)
	}
	methods := []abi.MethodSpec{{Name: "Echo"}, {Name: "Other"}}
	types := served{
		{"app", "Plain"}: {Spec: &abi.TypeSpec{Name: "Plain", Methods: methods}},
		{"app", "Typed"}: {Spec: &abi.TypeSpec{Name: "Typed", Methods: methods, Protobuf: abi.Protobuf{Service: "a.S", Descriptor: descriptor}}},
	}
	return &transcode.Host{To: echo{}, Types: types, Services: transcode.NewServices(slog.New(slog.DiscardHandler)), MaxPayload: 1 << 20}
}

// BenchmarkInvoke is what each call takes of the translation: of a type without a service, of a
// method without an rpc, of an rpc in the binary form, and of an rpc in JSON.
func BenchmarkInvoke(b *testing.B) {
	h := newHost(b)
	for _, bm := range []struct {
		name, typ, method, contentType, payload string
	}{
		{"plain JSON", "Plain", "Echo", "", `"5"`},
		{"plain JSON by its type", "Plain", "Echo", "application/json", `"5"`},
		{"plain bytes", "Plain", "Echo", "application/octet-stream", "x"},
		{"no rpc", "Typed", "Other", "", `"5"`},
		{"binary", "Typed", "Echo", abi.ContentTypeProtobuf, "\x08\x05"},
		{"JSON", "Typed", "Echo", "", `"5"`},
	} {
		b.Run(bm.name, func(b *testing.B) {
			inv := actor.Invocation{Key: actor.Key{App: "app", Type: bm.typ, ID: "a"}, Method: bm.method, Payload: actor.Payload{ContentType: bm.contentType, Data: []byte(bm.payload)}}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := h.Invoke(b.Context(), inv); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("none", func(b *testing.B) { // the runner alone
		inv := actor.Invocation{Key: actor.Key{App: "app", Type: "Plain", ID: "a"}, Method: "Echo"}
		to := h.To
		b.ReportAllocs()
		for b.Loop() {
			if _, err := to.Invoke(b.Context(), inv); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// What a call takes that is not translated is a look at what serves its type, from memory.
func TestOtherCallsAllocateNothing(t *testing.T) {
	h := newHost(t)
	for name, inv := range map[string]actor.Invocation{
		"no service": {Key: actor.Key{App: "app", Type: "Plain", ID: "a"}, Method: "Echo", Payload: actor.Payload{Data: []byte(`"5"`)}},
		"no rpc":     {Key: actor.Key{App: "app", Type: "Typed", ID: "a"}, Method: "Other", Payload: actor.Payload{Data: []byte(`"5"`)}},
		"binary":     {Key: actor.Key{App: "app", Type: "Typed", ID: "a"}, Method: "Echo", Payload: actor.Payload{ContentType: abi.ContentTypeProtobuf, Data: []byte("\x08\x05")}},
	} {
		reply, err := h.Invoke(t.Context(), inv)
		if err != nil || string(reply.Payload.Data) != string(inv.Payload.Data) {
			t.Errorf("%s: got %q, %v", name, reply.Payload.Data, err)
		}
		if n := testing.AllocsPerRun(100, func() { _, _ = h.Invoke(t.Context(), inv) }); n > 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
