package typed_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/internal/typed"
)

// shop is the descriptor of a service with two rpcs, as text of Protobuf's JSON form.
const shop = `{"file": [{
  "name": "shop.proto", "package": "shop.v1", "syntax": "proto3", "dependency": ["google/protobuf/timestamp.proto", "google/protobuf/any.proto"],
  "messageType": [
    {"name": "Request", "field": [
      {"name": "cart_id", "jsonName": "cartId", "number": 3, "label": "LABEL_OPTIONAL", "type": "TYPE_STRING"},
      {"name": "amount", "jsonName": "amount", "number": 1, "label": "LABEL_OPTIONAL", "type": "TYPE_INT64"},
      {"name": "at", "jsonName": "at", "number": 2, "label": "LABEL_OPTIONAL", "type": "TYPE_MESSAGE", "typeName": ".google.protobuf.Timestamp"},
      {"name": "inner", "jsonName": "inner", "number": 4, "label": "LABEL_REPEATED", "type": "TYPE_MESSAGE", "typeName": ".shop.v1.Request"},
      {"name": "extra", "jsonName": "extra", "number": 5, "label": "LABEL_OPTIONAL", "type": "TYPE_MESSAGE", "typeName": ".google.protobuf.Any"},
      {"name": "counts", "jsonName": "counts", "number": 6, "label": "LABEL_REPEATED", "type": "TYPE_MESSAGE", "typeName": ".shop.v1.Request.CountsEntry"}
    ], "nestedType": [{"name": "CountsEntry", "options": {"mapEntry": true}, "field": [
      {"name": "key", "jsonName": "key", "number": 1, "label": "LABEL_OPTIONAL", "type": "TYPE_STRING"},
      {"name": "value", "jsonName": "value", "number": 2, "label": "LABEL_OPTIONAL", "type": "TYPE_INT64"}
    ]}]}],
  "service": [{"name": "Cart", "method": [
    {"name": "Add", "inputType": ".shop.v1.Request", "outputType": ".shop.v1.Request"},
    {"name": "View", "inputType": ".shop.v1.Request", "outputType": ".shop.v1.Request", "options": {"idempotencyLevel": "NO_SIDE_EFFECTS"}}
  ]}]
}]}`

func encoded(t testing.TB, text string) []byte {
	t.Helper()
	var set descriptorpb.FileDescriptorSet
	if err := protojson.Unmarshal([]byte(text), &set); err != nil {
		t.Fatal(err)
	}
	data, err := proto.Marshal(&set)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// cart is a type that serves the service of shop.
func cart(t testing.TB) abi.TypeSpec {
	return abi.TypeSpec{
		Name: "Cart", Methods: []abi.MethodSpec{{Name: "Add"}, {Name: "View", ReadOnly: true}, {Name: "Sweep"}, {Name: "Secret", Private: true}},
		Protobuf: abi.Protobuf{Service: "shop.v1.Cart", Descriptor: encoded(t, shop), IDField: "cart_id"},
	}
}

func parsed(t testing.TB) *typed.Service {
	t.Helper()
	spec := cart(t)
	s, problems := typed.Parse(&spec)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return s
}

func TestParse(t *testing.T) {
	s := parsed(t)
	if s.Name != "shop.v1.Cart" || s.Method("Add") == nil || s.Method("Add").NoSideEffects || !s.Method("View").NoSideEffects || s.Method("Sweep") != nil {
		t.Errorf("got %+v", s)
	}
	for _, path := range []string{"shop.proto", "google/protobuf/timestamp.proto"} {
		if _, err := s.Files.FindFileByPath(path); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	replaced := func(pairs ...string) []byte { return encoded(t, strings.NewReplacer(pairs...).Replace(shop)) }
	nested := func(depth int, name string) []byte {
		m := &descriptorpb.DescriptorProto{Name: proto.String(name)}
		for range depth - 1 {
			m = &descriptorpb.DescriptorProto{Name: proto.String(name), NestedType: []*descriptorpb.DescriptorProto{m}}
		}
		data, err := proto.Marshal(&descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{{Name: proto.String("a.proto"), MessageType: []*descriptorpb.DescriptorProto{m}}}})
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	many := &descriptorpb.FileDescriptorProto{Name: proto.String("a.proto")}
	for i := range 5000 {
		many.MessageType = append(many.MessageType, &descriptorpb.DescriptorProto{Name: proto.String(fmt.Sprint("M", i))})
	}
	wide, err := proto.Marshal(&descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{many}})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name   string
		change func(*abi.TypeSpec)
		want   string
	}{
		{"bytes that are no descriptor", func(s *abi.TypeSpec) { s.Protobuf.Descriptor = []byte("\xff\xff") }, "is no google.protobuf.FileDescriptorSet"},
		{"a descriptor that is cut off", func(s *abi.TypeSpec) { s.Protobuf.Descriptor = s.Protobuf.Descriptor[:50] }, "is no google.protobuf.FileDescriptorSet"},
		{"no such service", func(s *abi.TypeSpec) { s.Protobuf.Service = "shop.v1.Card" }, "has no service shop.v1.Card (it has shop.v1.Cart)"},
		{"a message as a service", func(s *abi.TypeSpec) { s.Protobuf.Service = "shop.v1.Request" }, "has no service shop.v1.Request"},
		{"the host's own package", func(s *abi.TypeSpec) { s.Protobuf.Service = "greenroom.v1.ActorService" }, "not for guests"},
		{"the package of reflection", func(s *abi.TypeSpec) { s.Protobuf.Service = "grpc.reflection.v1.ServerReflection" }, "not for guests"},
		{"an rpc without a method", func(s *abi.TypeSpec) { s.Methods = s.Methods[1:] }, "rpc Add of shop.v1.Cart is no method of type Cart"},
		{"an rpc of a private method", func(s *abi.TypeSpec) { s.Methods[0].Private = true }, "rpc Add of shop.v1.Cart is a private method"},
		{"an rpc without side effects that may write", func(s *abi.TypeSpec) { s.Methods[1].ReadOnly = false }, "its method is not read-only"},
		{"an rpc that takes a stream", func(s *abi.TypeSpec) {
			s.Protobuf.Descriptor = replaced(`"name": "Add",`, `"name": "Add", "clientStreaming": true,`)
		}, "rpc Add of shop.v1.Cart takes a stream"},
		{"an rpc that takes and returns streams", func(s *abi.TypeSpec) {
			s.Protobuf.Descriptor = replaced(`"name": "Add",`, `"name": "Add", "clientStreaming": true, "serverStreaming": true,`)
		}, "rpc Add of shop.v1.Cart takes a stream"},
		{"a streaming rpc of a stateless type", func(s *abi.TypeSpec) {
			s.Placement, s.Protobuf.Descriptor = abi.PlacementStateless, replaced(`"name": "Add",`, `"name": "Add", "serverStreaming": true,`)
		}, "which publishes no events"},
		{"a streaming rpc with a long name", func(s *abi.TypeSpec) {
			s.Protobuf.Descriptor = replaced(`"name": "Add",`, `"name": "`+strings.Repeat("A", 129)+`", "serverStreaming": true,`)
		}, "its name is longer than that of an event, 128 bytes"},
		{"a streaming rpc without the ID field", func(s *abi.TypeSpec) {
			s.Protobuf.IDField, s.Protobuf.Descriptor = "id", replaced(`"name": "Add",`, `"name": "Add", "serverStreaming": true,`)
		}, "rpc Add of shop.v1.Cart takes shop.v1.Request, which has no field id"},
		{"a position that is a number", func(s *abi.TypeSpec) {
			s.Protobuf.Descriptor = replaced(`"name": "Add",`, `"name": "Add", "serverStreaming": true,`, `"name": "amount"`, `"name": "greenroom_position"`)
		}, "whose field greenroom_position is not one string"},
		{"an ID field that is not there", func(s *abi.TypeSpec) { s.Protobuf.IDField = "id" }, "takes shop.v1.Request, which has no field id"},
		{"an ID field of numbers", func(s *abi.TypeSpec) { s.Protobuf.IDField = "amount" }, "which has no field amount of one string"},
		{"an import that is not there", func(s *abi.TypeSpec) { s.Protobuf.Descriptor = replaced("google/protobuf/any.proto", "other.proto") }, "imports other.proto: no file before it"},
		{"a file of the host's that is not there", func(s *abi.TypeSpec) {
			s.Protobuf.Descriptor = replaced("google/protobuf/any.proto", "google/protobuf/compiler/plugin.proto")
		}, "the host does not have it"},
		{"messages of google.protobuf", func(s *abi.TypeSpec) { s.Protobuf.Descriptor = replaced("shop.v1", "google.protobuf") }, "not for guests"},
		{"a type that is not there", func(s *abi.TypeSpec) { s.Protobuf.Descriptor = replaced(".google.protobuf.Any", ".shop.v1.Any") }, "which is not valid"},
		{"messages nested too deep", func(s *abi.TypeSpec) { s.Protobuf.Descriptor = nested(33, "M") }, "nests messages deeper than 32"},
		{"messages nested much too deep", func(s *abi.TypeSpec) { s.Protobuf.Descriptor = nested(5000, "M") }, "nests too deep"},
		{"full names that are too long", func(s *abi.TypeSpec) { s.Protobuf.Descriptor = nested(30, strings.Repeat("M", 30)) }, "longer than 512 bytes"},
		{"too many messages", func(s *abi.TypeSpec) { s.Protobuf.Descriptor = wide }, "more than 4096"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			spec := cart(t)
			tt.change(&spec)
			s, problems := typed.Parse(&spec)
			if s != nil || !strings.Contains(strings.Join(problems, "\n"), tt.want) {
				t.Errorf("got %v and %q, want %q", s, problems, tt.want)
			}
		})
	}
}

func TestID(t *testing.T) {
	s := parsed(t)
	m := s.Method("Add")
	field := func(number protowire.Number, value string) []byte {
		return protowire.AppendString(protowire.AppendTag(nil, number, protowire.BytesType), value)
	}
	amount := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 7)
	for _, tt := range []struct {
		name    string
		request []byte
		id      string
		fails   bool
	}{
		{"empty", nil, "", false},
		{"among others", bytes.Join([][]byte{amount, field(3, "a"), field(9, "unknown")}, nil), "a", false},
		{"the last one counts", append(field(3, "a"), field(3, "b")...), "b", false},
		{"of another type", protowire.AppendVarint(protowire.AppendTag(nil, 3, protowire.VarintType), 7), "", false},
		{"cut off", field(3, "abc")[:3], "", true},
		{"garbage", []byte{0xff, 0xff, 0xff}, "", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			id, field, err := m.ID(tt.request)
			if id != tt.id || (err != nil) != tt.fails || err == nil && field != "cart_id" {
				t.Errorf("got %q, %q, %v", id, field, err)
			}
		})
	}
}

func TestJSON(t *testing.T) {
	m := parsed(t).Method("Add")
	binary, err := m.RequestFromJSON([]byte(`{"amount": "9007199254740993", "cart_id": "a", "at": "1970-01-01T00:00:01Z", "extra": {"@type": "x/shop.v1.Request", "amount": 5}}`))
	if err != nil {
		t.Fatal(err)
	}
	text, err := m.ResponseToJSON(binary)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(bytes.ReplaceAll(text, []byte(" "), nil)), `{"cartId":"a","amount":"9007199254740993","at":"1970-01-01T00:00:01Z","extra":{"@type":"x/shop.v1.Request","amount":"5"}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for _, bad := range []string{"", "[]", `{"amont": 1}`, `{"at": "yesterday"}`, `{`} {
		if _, err := m.RequestFromJSON([]byte(bad)); err == nil {
			t.Errorf("%q is a request", bad)
		}
	}
	if _, err := m.ResponseToJSON([]byte{0xff}); err == nil {
		t.Error("garbage is a response")
	}
}

// protobuf-go panics for some messages that a guest may reply.
func TestMapEntryWithAnotherKey(t *testing.T) {
	m := parsed(t).Method("Add")
	entry := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "a")
	entry = protowire.AppendVarint(protowire.AppendTag(entry, 1, protowire.VarintType), 7) // where a string is the key
	text, err := m.ResponseToJSON(protowire.AppendBytes(protowire.AppendTag(nil, 6, protowire.BytesType), entry))
	if err == nil {
		t.Errorf("got %s", text)
	}
}

// What a message weighs grows with the messages in it, however short they are.
func TestWeight(t *testing.T) {
	m := parsed(t).Method("Add")
	const n = 1000
	small := protowire.AppendBytes(protowire.AppendTag(nil, 4, protowire.BytesType), nil)
	weight, err := m.ResponseWeight(bytes.Repeat(small, n))
	if err != nil || weight < n*500 {
		t.Errorf("%d empty messages weigh %d, %v", n, weight, err)
	}
	if w := m.RequestWeight([]byte(`{"inner":[{}` + strings.Repeat(",{}", n) + `]}`)); w < n*500 {
		t.Errorf("%d empty messages weigh %d", n, w)
	}
	inside, err := anypb.New(&descriptorpb.FileDescriptorSet{})
	if err != nil {
		t.Fatal(err)
	}
	inside.Value = bytes.Repeat(small, n)
	data, err := proto.Marshal(inside)
	if err != nil {
		t.Fatal(err)
	}
	weight, err = m.ResponseWeight(protowire.AppendBytes(protowire.AppendTag(nil, 5, protowire.BytesType), data))
	if err != nil || weight < n*500 {
		t.Errorf("%d empty messages in an Any weigh %d, %v", n, weight, err)
	}
	group := protowire.AppendTag(protowire.AppendTag(nil, 4, protowire.StartGroupType), 4, protowire.EndGroupType)
	if weight, err = m.ResponseWeight(bytes.Repeat(group, n)); err != nil || weight < n*500 {
		t.Errorf("%d empty groups weigh %d, %v", n, weight, err)
	}
	if _, err := m.ResponseWeight([]byte{0xff}); err == nil {
		t.Error("garbage has a weight")
	}
	deep := small
	for range protowire.DefaultRecursionLimit + 2 {
		deep = protowire.AppendBytes(protowire.AppendTag(nil, 4, protowire.BytesType), deep)
	}
	if _, err := m.ResponseWeight(deep); err == nil {
		t.Error("messages nested too deep have a weight")
	}
}

func FuzzParse(f *testing.F) {
	f.Add(encoded(f, shop), "shop.v1.Cart", "cart_id", []byte(`{"amount":1}`))
	f.Add(encoded(f, `{"file":[{"name":"a.proto","syntax":"editions","edition":"EDITION_2023"}]}`), "A", "", []byte{})
	f.Add(encoded(f, `{"file":[{"name":"a.proto","messageType":[{"name":"M"}],"service":[{"name":"A","method":[{"name":"Add","inputType":".M","outputType":".M"}]}]}]}`), "A", "", []byte(`{}`))
	f.Fuzz(func(t *testing.T, descriptor []byte, service, id string, message []byte) {
		if len(descriptor) > abi.MaxManifestBytes {
			return
		}
		spec := abi.TypeSpec{Name: "T", Methods: []abi.MethodSpec{{Name: "Add"}, {Name: "View", ReadOnly: true}}, Protobuf: abi.Protobuf{Service: service, Descriptor: descriptor, IDField: id}}
		s, problems := typed.Parse(&spec)
		if (s == nil) == (len(problems) == 0) {
			t.Fatalf("service %v with problems %v", s, problems)
		}
		if s == nil {
			return
		}
		for _, name := range []string{"Add", "View"} {
			m := s.Method(name)
			if m == nil {
				continue
			}
			_, _, _ = m.ID(message)
			_, _ = m.ResponseWeight(message)
			_, _ = m.ResponseToJSON(message)
			if binary, err := m.RequestFromJSON(message); err == nil {
				if _, _, err := m.ID(binary); err != nil {
					t.Fatalf("%s became %x: %v", message, binary, err)
				}
			}
		}
	})
}
