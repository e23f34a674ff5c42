package guestgen_test

import (
	"bytes"
	"context"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/greenroom-run/greenroom/guest-sdk/go/protobuf"
	"github.com/greenroom-run/greenroom/internal/guestgen"
	"github.com/greenroom-run/greenroom/internal/guestgen/gen/sink"
)

// generated is what is to be in files that are committed, and from what. Rust has no package.
var generated = []struct{ out, pkg, dir, file, id string }{
	{"gen/sink/sink.greenroom.go", "sink", "gen/sink", "sink.proto", ""},
	{"testdata/sink/src/sink.rs", "", "gen/sink", "sink.proto", ""},
	{"../../examples/wallet/walletv1/wallet.greenroom.go", "walletv1", "../../examples/wallet/proto", "wallet/v1/wallet.proto", "wallet_id"},
	{"../../examples/wallet/rust/src/walletv1.rs", "", "../../examples/wallet/proto", "wallet/v1/wallet.proto", "wallet_id"},
}

func load(t testing.TB, dir, file, id string) *guestgen.Service {
	t.Helper()
	s, err := guestgen.Load(context.Background(), guestgen.Request{Files: []string{file}, ImportPaths: []string{dir}, IDField: id})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestGeneratedCodeIsUpToDate(t *testing.T) {
	for _, g := range generated {
		service := load(t, g.dir, g.file, g.id)
		code, err := guestgen.Rust(service)
		if g.pkg != "" {
			code, err = guestgen.Go(service, g.pkg)
		}
		if err != nil {
			t.Fatal(err)
		}
		if committed, err := os.ReadFile(g.out); err != nil || !bytes.Equal(code, committed) {
			t.Errorf("%s is not what is generated (%v): run make generate", g.out, err)
		}
	}
}

// fill puts random values into a message.
func fill(r *rand.Rand, m protoreflect.Message, depth int) {
	for i := range m.Descriptor().Fields().Len() {
		f := m.Descriptor().Fields().Get(i)
		if r.IntN(3) == 0 || depth == 0 && f.Message() != nil {
			continue
		}
		switch {
		case f.IsMap():
			for range r.IntN(4) {
				v := m.Mutable(f).Map().NewValue()
				if f.MapValue().Message() != nil {
					fill(r, v.Message(), depth-1)
				} else {
					v = value(r, f.MapValue())
				}
				m.Mutable(f).Map().Set(value(r, f.MapKey()).MapKey(), v)
			}
		case f.IsList():
			for range r.IntN(200) / max(1, 40*btoi(f.Message() != nil)) {
				if f.Message() != nil {
					fill(r, m.Mutable(f).List().AppendMutable().Message(), depth-1)
				} else {
					m.Mutable(f).List().Append(value(r, f))
				}
			}
		case f.Message() != nil:
			fill(r, m.Mutable(f).Message(), depth-1)
		default:
			m.Set(f, value(r, f))
		}
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// value returns a random value of a field that is no message.
func value(r *rand.Rand, f protoreflect.FieldDescriptor) protoreflect.Value {
	n := r.Uint64() >> r.IntN(64)
	switch f.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(n&1 == 1)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum([]protoreflect.EnumNumber{-1, 0, 1, 77}[n%4])
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return protoreflect.ValueOfInt32(int32(n))
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(uint32(n))
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return protoreflect.ValueOfInt64(int64(n))
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(n)
	case protoreflect.FloatKind:
		return protoreflect.ValueOfFloat32([]float32{0, float32(math.Copysign(0, -1)), 1.5, float32(n)}[n%4])
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64([]float64{0, math.Copysign(0, -1), 1.5, float64(n)}[n%4])
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(strings.Repeat("é", int(n%100)))
	default:
		return protoreflect.ValueOfBytes(bytes.Repeat([]byte{byte(n)}, int(n%3)))
	}
}

// What the generated code reads and writes is what protobuf-go has.
func TestCodecAgreesWithProtobuf(t *testing.T) {
	desc := load(t, "gen/sink", "sink.proto", "").Input("Echo")
	for seed := range uint64(300) {
		want := dynamicpb.NewMessage(desc)
		fill(rand.New(rand.NewPCG(seed, 1)), want, 3)
		data, err := proto.MarshalOptions{Deterministic: true}.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var m sink.Sink
		if err := protobuf.Unmarshal(data, &m); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		got := dynamicpb.NewMessage(desc)
		again := m.AppendProtobuf(nil)
		if err := proto.Unmarshal(again, got); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if !proto.Equal(got, want) {
			t.Fatalf("seed %d: got %v, want %v", seed, got, want)
		}
		if !bytes.Equal(again, m.AppendProtobuf(nil)) {
			t.Fatalf("seed %d: a message has two binary forms", seed)
		}
	}
}

// unmarshal reads a message as protobuf-go does; panicked is true where it panics, which it does for the
// entry of a map that has a second key, of another wire type.
func unmarshal(data []byte, m proto.Message) (panicked bool, err error) {
	defer func() { panicked = recover() != nil }()
	return false, proto.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(data, m)
}

// FuzzCodec compares what the generated code makes of bytes with what protobuf-go makes of them.
func FuzzCodec(f *testing.F) {
	desc := load(f, "gen/sink", "sink.proto", "").Input("Echo")
	for seed := range uint64(5) {
		m := dynamicpb.NewMessage(desc)
		fill(rand.New(rand.NewPCG(seed, 2)), m, 2)
		data, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte{0x0b, 0x08, 0x01, 0x0c}) // a group
	f.Fuzz(func(t *testing.T, data []byte) {
		want, got := dynamicpb.NewMessage(desc), dynamicpb.NewMessage(desc)
		panicked, theirs := unmarshal(data, want)
		if panicked {
			return
		}
		var m sink.Sink
		ours := protobuf.Unmarshal(data, &m)
		if ours != nil {
			if theirs == nil && len(data) < 500 { // deeper messages than 100 take more
				t.Fatalf("%x: refused by the generated code alone: %v", data, ours)
			}
			return
		}
		if theirs != nil {
			t.Fatalf("%x: refused by protobuf-go alone: %v", data, theirs)
		}
		if err := proto.Unmarshal(m.AppendProtobuf(nil), got); err != nil || !proto.Equal(got, want) {
			t.Fatalf("%x: got %v, %v, want %v", data, got, err, want)
		}
	})
}

func TestLoadRefuses(t *testing.T) {
	const head = "syntax = \"proto3\";\npackage a;\n"
	const service = "service S { rpc Do(M) returns (M); }\n"
	for _, tt := range []struct{ name, text, service, id, want string }{
		{"no proto", "hello", "", "", "a.proto:1:1: syntax error"},
		{"no service", head + "message M {}", "", "", "have no service"},
		{"a service without rpcs", head + "service S {}", "", "", "has no rpc"},
		{"another service", head + "message M {}\n" + service, "a.T", "", "have no service a.T; they have a.S"},
		{"two services", head + "message M {}\n" + service + "service T {}", "", "", "choose one with --service"},
		{"an rpc that takes a stream", head + "message M {}\nservice S { rpc Do(stream M) returns (M); }", "", "", "takes a stream"},
		{"an rpc that takes and returns streams", head + "message M {}\nservice S { rpc Do(stream M) returns (stream M); }", "", "", "takes a stream"},
		{"a stream without the ID field", head + "message M {}\nservice S { rpc Do(M) returns (stream M); }", "", "id", "has no field id"},
		{"no ID field", head + "message M {}\n" + service, "", "id", "has no field id"},
		{"the host's package", "syntax = \"proto3\";\npackage greenroom.v1;\nmessage M {}\n" + service, "", "", "not for guests"},
		{"an import that is not there", head + "import \"b.proto\";\nmessage M {}\n" + service, "", "", "b.proto"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "a.proto"), []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := guestgen.Load(t.Context(), guestgen.Request{Files: []string{"a.proto"}, ImportPaths: []string{dir}, Service: tt.service, IDField: tt.id})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestGoRefuses(t *testing.T) {
	for name, tt := range map[string]struct{ text, want string }{
		"a default":                                 {"syntax = \"proto2\";\nmessage M { optional int32 n = 1 [default = 5]; }", "has a default"},
		"a group":                                   {"syntax = \"proto2\";\nmessage M { optional group G = 1 {} }", "is a group"},
		"a map with bools":                          {"syntax = \"proto3\";\nmessage M { map<bool, string> m = 1; }", "is a map with bool keys"},
		"two names in Go":                           {"syntax = \"proto3\";\nmessage M { int32 a_b = 1; M_N n = 3; message N {} N m = 4; }\nmessage M_N {}", "are both called M_N in Go"},
		"two rpcs of one name in Go":                {"syntax = \"proto3\";\nmessage M {}\nservice S { rpc do_it(M) returns (M); rpc DoIt(M) returns (M); }", "the rpc S.DoIt has the Go name DoIt, which S.do_it has taken"},
		"an rpc called as what a reference has":     {"syntax = \"proto3\";\nmessage M {}\nservice S { rpc Ref(M) returns (M); }", "the rpc S.Ref has the Go name Ref, which S has taken"},
		"a message called as what publishes":        {"syntax = \"proto3\";\nmessage M {}\nmessage PublishDo {}\nservice S { rpc Get(PublishDo) returns (M); rpc Do(M) returns (stream M); }", "PublishDo and S.Do are both called PublishDo in Go"},
		"an event called as what publishes it":      {"syntax = \"proto3\";\nmessage M {}\nmessage PublishDo {}\nservice S { rpc Do(M) returns (stream PublishDo); }", "S.Do and PublishDo are both called PublishDo in Go"},
		"a name of the codec":                       {"syntax = \"proto3\";\nmessage M { int32 append_protobuf = 1; }", "has the Go name of another one"},
		"two fields of one name in Go":              {"syntax = \"proto3\";\nmessage M { int32 FooBar = 1; int32 foo_bar = 2; }", "the field M.foo_bar has the Go name of another one, FooBar"},
		"another name of the codec":                 {"syntax = \"proto3\";\nmessage M { int32 decode_protobuf = 1; }", "has the Go name of another one"},
		"a message called as the interface":         {"syntax = \"proto3\";\nmessage SActor {}\nmessage M { SActor s = 1; }", "are both called SActor in Go"},
		"a message called as the registration":      {"syntax = \"proto3\";\nmessage RegisterS {}\nmessage M { RegisterS s = 1; }", "are both called RegisterS in Go"},
		"two enumerations with a value of one name": {"syntax = \"proto3\";\nmessage M { A_B a = 1; A.X x = 2; }\nenum A_B { V = 0; }\nmessage A { enum X { V = 0; } }", "are both called A_V in Go"},
		"two values of one name in Go":              {"syntax = \"proto3\";\nmessage M { E_F_A g = 1; E_F f = 2; }\nmessage E_F_A {}\nenum E_F { F_A = 0; }", "are both called E_F_A in Go"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			text := tt.text
			if !strings.Contains(text, "service S") {
				text += "\nservice S { rpc Do(M) returns (M); }"
			}
			if err := os.WriteFile(filepath.Join(dir, "a.proto"), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := guestgen.Go(load(t, dir, "a.proto", ""), "p")
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// A descriptor has what the service needs, without the options that others define.
func TestDescriptorIsStripped(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.proto": "syntax = \"proto3\";\npackage a;\nimport \"options.proto\";\nimport public \"b.proto\";\nmessage M { b.B b = 1 [(opt.text) = \"secret-option\"]; }\n" +
			"service S { rpc Do(M) returns (M) { option idempotency_level = NO_SIDE_EFFECTS; } }",
		"b.proto":       "syntax = \"proto3\";\npackage b;\nmessage B {}",
		"options.proto": "syntax = \"proto3\";\npackage opt;\nimport \"google/protobuf/descriptor.proto\";\nextend google.protobuf.FieldOptions { string text = 50000; }",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := load(t, dir, "a.proto", "")
	code, err := guestgen.Go(s, "p")
	if err != nil {
		t.Fatal(err)
	}
	for _, absent := range []string{"secret-option", "options.proto"} {
		if bytes.Contains(s.Descriptor(), []byte(absent)) {
			t.Errorf("the descriptor has %q", absent)
		}
	}
	if !bytes.Contains(code, []byte("actor.ReadOnly(\"Do\"")) {
		t.Error("the rpc without side effects is not read-only")
	}
}
