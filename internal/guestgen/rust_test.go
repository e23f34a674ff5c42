package guestgen_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine/wasm"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/internal/guestbuild"
	"github.com/greenroom-run/greenroom/internal/guestgen"
	"github.com/greenroom-run/greenroom/store/embedded"
)

func TestRustNames(t *testing.T) {
	for _, tt := range []struct{ name, typ, snake string }{
		{"wallet_id", "WalletId", "wallet_id"},
		{"GetBalance", "GetBalance", "get_balance"},
		{"HTTPRequest", "HttpRequest", "http_request"},
		{"HTTP", "Http", "http"},
		{"COLOUR_RED", "ColourRed", "colour_red"},
		{"getHTTP2Now", "GetHttp2Now", "get_http2_now"},
		{"an_int32", "AnInt32", "an_int32"},
		{"fooBar_bazQ", "FooBarBazQ", "foo_bar_baz_q"},
		{"v1Beta", "V1Beta", "v1_beta"},
		{"A1b", "A1b", "a1b"},
		{"_leading__two", "LeadingTwo", "leading_two"},
		{"type", "Type", "r#type"},
		{"self", "Self_", "self_"},
		{"Crate", "Crate", "crate_"},
		{"_2fast", "_2fast", "_2fast"},
		{"_", "_", "_"},
	} {
		if typ, snake := guestgen.RustType(tt.name), guestgen.RustSnake(tt.name); typ != tt.typ || snake != tt.snake {
			t.Errorf("%s: got %s and %s, want %s and %s", tt.name, typ, snake, tt.typ, tt.snake)
		}
	}
	for _, tt := range []struct{ enum, value, want string }{
		{"Colour", "COLOUR_RED", "Red"},
		{"Colour", "RED", "Red"},
		{"Colour", "COLOUR", "Colour"},
		{"Colour", "COLOURFUL", "Colourful"},
		{"Type", "TYPE_1", "Type1"},
		{"Type", "TYPE_SELF", "Self_"},
	} {
		if got := guestgen.RustVariant(tt.enum, tt.value); got != tt.want {
			t.Errorf("%s of %s: got %s, want %s", tt.value, tt.enum, got, tt.want)
		}
	}
}

// rustOf generates from the text of one file; a service is added if it has none.
func rustOf(t *testing.T, text string) (string, error) {
	t.Helper()
	dir := t.TempDir()
	if !strings.Contains(text, "service S") {
		text += "\nservice S { rpc Do(M) returns (M); }"
	}
	if err := os.WriteFile(filepath.Join(dir, "a.proto"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	code, err := guestgen.Rust(load(t, dir, "a.proto", ""))
	return string(code), err
}

func TestRustRefuses(t *testing.T) {
	const proto3 = "syntax = \"proto3\";\n"
	for name, tt := range map[string]struct{ text, want string }{
		"a default":                       {"syntax = \"proto2\";\nmessage M { optional int32 n = 1 [default = 5]; }", "has a default"},
		"a group":                         {"syntax = \"proto2\";\nmessage M { optional group G = 1 {} }", "is a group"},
		"two types of one name":           {proto3 + "message M { FooBar a = 1; Foo_Bar b = 2; }\nmessage FooBar {}\nmessage Foo_Bar {}", "FooBar and Foo_Bar are both FooBar in Rust"},
		"a type called as a oneof":        {proto3 + "message M { Choice a = 1; oneof choice { int32 b = 2; } message Choice {} }", "are both m::Choice in Rust"},
		"a type called as a trait":        {proto3 + "message M { S_Actor a = 1; }\nmessage S_Actor {}", "S and S_Actor are both SActor in Rust"},
		"a type called as the service":    {proto3 + "message M { s t = 1; }\nmessage s {}", "S and s are both S in Rust"},
		"two fields of one name":          {proto3 + "message M { int32 FooBar = 1; int32 foo_bar = 2; }", "M.FooBar and M.foo_bar are both the field foo_bar in Rust"},
		"two members of one name":         {proto3 + "message M { oneof o { int32 FooBar = 1; int32 foo_bar = 2; } }", "are both the variant FooBar in Rust"},
		"two values of one name":          {proto3 + "message M { E e = 1; }\nenum E { HTTPGet = 0; HTTP_GET = 1; }", "are both the variant HttpGet in Rust"},
		"two rpcs of one function":        {proto3 + "message M {}\nservice S { rpc DoIt(M) returns (M); rpc do_it(M) returns (M); }", "the rpc S.do_it is the function do_it in Rust, and so is S.DoIt"},
		"an rpc called as what publishes": {proto3 + "message M {}\nservice S { rpc PublishDo(M) returns (M); rpc Do(M) returns (stream M); }", "the rpc S.Do is the function publish_do in Rust, and so is S.PublishDo"},
		"a default of a map's value":      {"syntax = \"proto2\";\nmessage M { map<string, N> m = 1; }\nmessage N { optional int32 n = 1 [default = 5]; }", "has a default"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := rustOf(t, tt.text); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// What only some files have. That it compiles is seen by TestRustCodecAgreesWithProtobuf.
func TestRustSource(t *testing.T) {
	for name, tt := range map[string]struct {
		text   string
		has    []string
		hasNot string
	}{
		"no package": {
			"syntax = \"proto3\";\nmessage M { N n = 1; }\nmessage N { M m = 1; repeated M ms = 2; map<string, M> by = 3; }",
			[]string{
				"pub n: ::core::option::Option<::prost::alloc::boxed::Box<N>>,",
				"pub m: ::core::option::Option<::prost::alloc::boxed::Box<M>>,",
				"pub ms: ::prost::alloc::vec::Vec<M>,",
			}, "pub mod",
		},
		"a stream": {
			"syntax = \"proto3\";\nmessage M {}\nmessage Q {}\nmessage E {}\nservice S {\n  rpc Get(M) returns (M);\n  // Every change.\n  rpc Watch(Q) returns (stream E);\n}",
			[]string{
				"///\n/// Every change.\npub fn publish_watch(\n    ctx: &::greenroom::Context,\n    event: E,\n) -> ::core::result::Result<(), ::greenroom::Error> {\n    ctx.publish(\"Watch\", event)\n}",
				"    E = \"E\",\n",
			}, "fn watch(",
		},
		"no recursion by lists": {
			"syntax = \"proto3\";\nmessage M { N n = 1; P p = 2; }\nmessage N { repeated M ms = 1; P p = 2; }\nmessage P {}",
			[]string{"pub n: ::core::option::Option<N>,"}, "Box",
		},
		"a circle that the message is not in": {
			"syntax = \"proto3\";\nmessage M { N n = 1; }\nmessage N { N n = 1; }",
			[]string{"pub n: ::core::option::Option<N>,", "pub n: ::core::option::Option<::prost::alloc::boxed::Box<N>>,"}, "",
		},
		"required by itself": {
			"syntax = \"proto2\";\nmessage M { required N n = 1; required bytes b = 2; }\nmessage N { optional M m = 1; }",
			[]string{
				"#[prost(message, required, boxed, tag = \"1\")]\n    pub n: ::prost::alloc::boxed::Box<N>,",
				"#[prost(bytes = \"vec\", required, tag = \"2\")]\n    pub b: ::prost::alloc::vec::Vec<u8>,",
			}, "",
		},
		"modules of modules": {
			"syntax = \"proto3\";\npackage a;\nmessage M { Sub s = 1; message Sub { Deep d = 1; M m = 2; message Deep { Sub s = 1; Kind k = 2; } } enum Kind { K = 0; } }",
			[]string{
				"\npub mod m {\n", "\n    pub mod sub {\n", "Box<super::M>>", "::Box<sub::Deep>>", "::Box<super::Sub>>",
				"#[prost(enumeration = \"super::Kind\", tag = \"2\")]", "    m::sub::Deep = \"a.M.Sub.Deep\",",
			}, "",
		},
		"maps with bool keys": {
			"syntax = \"proto3\";\nmessage M { map<bool, fixed64> m = 1; }",
			[]string{"#[prost(btree_map = \"bool, fixed64\", tag = \"1\")]\n    pub m: ::prost::alloc::collections::BTreeMap<bool, u64>,"}, "MEntry",
		},
		"comments": {
			"syntax = \"proto3\";\n// M is:\n//\n//     let code = true;\n// ```\n// fn more() {}\n// ```\n// ```sh\n// unfinished\nmessage M {}",
			[]string{"/// M is:\n///\n/// let code = true;\n/// ```text\n/// fn more() {}\n/// ```\n/// ```text\n/// unfinished\n/// ```\n#[derive"}, "///     ",
		},
		"a long list of members": {
			"syntax = \"proto3\";\nmessage Message { oneof a_long_name_of_a_oneof { int32 a = 1; bool b = 1000001; bool c = 1000002; bool d = 1000003; } }\nservice S { rpc Do(Message) returns (Message); }",
			[]string{"    #[prost(\n        oneof = \"message::ALongNameOfAOneof\",\n        tags = \"1, 1000001, 1000002, 1000003\"\n    )]\n"}, "",
		},
		"an rpc of a long name": {
			"syntax = \"proto3\";\nmessage M {}\nservice S { rpc AnRpcWhoseNameIsTooLongForOneLineOfOneCall(M) returns (M); }",
			[]string{"        ::greenroom::protobuf::message(\n            &self.0,\n            \"AnRpcWhoseNameIsTooLongForOneLineOfOneCall\",\n            request,\n        )\n",
				" => {\n                rpc.run(<A as SActor>::an_rpc_whose_name_is_too_long_for_one_line_of_one_call)\n            }\n"}, "",
		},
		"rpcs": {
			"syntax = \"proto3\";\nmessage M {}\nservice S {\n// Comment.\nrpc Do(M) returns (M) { option idempotency_level = NO_SIDE_EFFECTS; }\nrpc Redo(M) returns (M) { option idempotency_level = IDEMPOTENT; } }",
			[]string{
				"    /// Comment.\n    fn r#do(\n        &self,\n        ctx: &::greenroom::ReadContext,\n        request: M,\n    )",
				"    /// The rpc S.Redo.\n    fn redo(\n        &mut self,\n        ctx: &::greenroom::Context,",
				"MethodSpec::new(\"Do\").read_only(),", "MethodSpec::new(\"Redo\").idempotent(),",
				"\"Do\" => rpc.run(<A as SActor>::r#do),",
			}, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			code, err := rustOf(t, tt.text)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range tt.has {
				if !strings.Contains(code, want) {
					t.Errorf("it lacks %q:\n%s", want, code)
				}
			}
			if tt.hasNot != "" && strings.Contains(code, tt.hasNot) {
				t.Errorf("it has %q:\n%s", tt.hasNot, code)
			}
		})
	}
}

// sinkHost is a host that serves the module of testdata/sink.
type sinkHost struct {
	*host.Host
	module []byte
	spec   abi.TypeSpec
}

func (h *sinkHost) Current(app, typ string) (actor.Deployment, *abi.TypeSpec, error) {
	if typ != h.spec.Name {
		return actor.Deployment{}, nil, actor.ErrTypeNotFound
	}
	return actor.Deployment{App: app, Type: typ, Generation: 1, Digest: actor.DigestOf(h.module)}, &h.spec, nil
}

func (h *sinkHost) Changes() uint64 { return 0 }

func (h *sinkHost) Refresh(context.Context, string) error { return nil }

func (h *sinkHost) ModuleBytes(context.Context, string, actor.Digest) ([]byte, error) {
	return h.module, nil
}

func newSinkHost(t *testing.T) *sinkHost {
	t.Helper()
	res, err := guestbuild.Build(t.Context(), guestbuild.Request{Dir: filepath.Join("testdata", "sink"), Out: filepath.Join(t.TempDir(), "sink.wasm")})
	var missing *guestbuild.ToolchainError
	if errors.As(err, &missing) {
		t.Fatalf("%v (build/rust/setup.sh installs it)", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	h := new(sinkHost)
	if h.module, err = os.ReadFile(res.Path); err != nil {
		t.Fatal(err)
	}
	engine, err := wasm.New(t.Context(), wasm.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { engine.Close(context.Background()) })
	m, faults, err := engine.Inspect(t.Context(), bytes.NewReader(h.module))
	if err != nil || len(faults) > 0 || len(m.Types) != 1 {
		t.Fatalf("the module is refused: %v %v", faults, err)
	}
	h.spec = m.Types[0]
	store, err := embedded.Open(t.Context(), embedded.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	if h.Host, err = host.New(host.Config{Committer: store, Modules: h, Engine: engine}); err != nil {
		t.Fatal(err)
	}
	if err := h.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return h
}

// call calls an rpc of the guest.
func (h *sinkHost) call(t *testing.T, method string, request, response proto.Message) error {
	t.Helper()
	data, err := proto.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	reply, err := h.Invoke(t.Context(), actor.Invocation{
		Key: actor.Key{App: "default", Type: h.spec.Name, ID: "a"}, Method: method,
		Payload: actor.Payload{ContentType: abi.ContentTypeProtobuf, Data: data},
	})
	if err != nil {
		return err
	}
	if reply.Payload.ContentType != abi.ContentTypeProtobuf {
		t.Errorf("%s replies %q", method, reply.Payload.ContentType)
	}
	return proto.Unmarshal(reply.Payload.Data, response)
}

// clearNegativeZeros clears fields without presence that are -0: prost sends those as 0.
func clearNegativeZeros(m protoreflect.Message) {
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsMap():
			if f.MapValue().Message() != nil {
				v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
					clearNegativeZeros(v.Message())
					return true
				})
			}
		case f.IsList():
			for i := range v.List().Len() {
				if f.Message() != nil {
					clearNegativeZeros(v.List().Get(i).Message())
				}
			}
		case f.Message() != nil:
			clearNegativeZeros(v.Message())
		case !f.HasPresence() && (f.Kind() == protoreflect.FloatKind || f.Kind() == protoreflect.DoubleKind) && v.Float() == 0:
			m.Clear(f)
		}
		return true
	})
}

// What a guest in Rust reads and writes is what protobuf-go has, and its manifest has the service.
func TestRustCodecAgreesWithProtobuf(t *testing.T) {
	service := load(t, "gen/sink", "sink.proto", "")
	h := newSinkHost(t)
	if p := h.spec.Protobuf; p.Service != service.Name() || !bytes.Equal(p.Descriptor, service.Descriptor()) || p.IDField != "" {
		t.Errorf("the manifest has %s with %d bytes, and the field %q", p.Service, len(p.Descriptor), p.IDField)
	}
	want := []abi.MethodSpec{{Name: "Echo"}, {Name: "Look", ReadOnly: true}, {Name: "Put", Idempotent: true}, {Name: "Move"}}
	if !reflect.DeepEqual(h.spec.Methods, want) {
		t.Errorf("the manifest has the methods %+v", h.spec.Methods)
	}
	desc := service.Input("Echo")
	for seed := range uint64(150) {
		want := dynamicpb.NewMessage(desc)
		fill(rand.New(rand.NewPCG(seed, 3)), want, 3)
		clearNegativeZeros(want)
		got := dynamicpb.NewMessage(desc)
		if err := h.call(t, "Echo", want, got); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for i := range desc.Fields().Len() {
			if f := desc.Fields().Get(i); !got.Get(f).Equal(want.Get(f)) || got.Has(f) != want.Has(f) {
				t.Fatalf("seed %d: the field %s is not what was sent", seed, f.Name())
			}
		}
	}
	step, request := dynamicpb.NewMessage(service.Input("Move")), dynamicpb.NewMessage(desc.Fields().ByName("request").Message())
	if err := prototext.Unmarshal([]byte(`count: 7 kind: KIND_SECOND leaf {text: "leaf"} next {count: 1 kind: KIND_ALSO_FIRST leaf {}}`), step); err != nil {
		t.Fatal(err)
	}
	if err := h.call(t, "Move", step, request); err != nil {
		t.Fatal(err)
	}
	moved := dynamicpb.NewMessage(request.Descriptor())
	if err := prototext.Unmarshal([]byte(`type: Self self: "leaf" super: true`), moved); err != nil || !proto.Equal(request, moved) {
		t.Errorf("got %v, want %v, %v", request, moved, err)
	}
	if err := h.call(t, "Look", dynamicpb.NewMessage(desc), dynamicpb.NewMessage(desc)); err != nil {
		t.Errorf("an empty message: %v", err)
	}
}
