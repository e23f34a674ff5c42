package typed_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/internal/typed"
)

// streaming is the type of shop with a streaming rpc instead of Add, and without its method.
func streaming(t *testing.T, pairs ...string) *typed.Method {
	t.Helper()
	spec := cart(t)
	spec.Methods = []abi.MethodSpec{{Name: "View", ReadOnly: true}}
	pairs = append(pairs, `"name": "Add",`, `"name": "Watch", "serverStreaming": true,`)
	spec.Protobuf.Descriptor = encoded(t, strings.NewReplacer(pairs...).Replace(shop))
	s, problems := typed.Parse(&spec)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	if s.Method("View").Streaming {
		t.Error("an rpc that returns one message is streaming")
	}
	return s.Method("Watch")
}

// TestStreamingRPC: it needs no method, and its request has the actor's ID.
func TestStreamingRPC(t *testing.T) {
	m := streaming(t)
	request, err := m.RequestFromJSON([]byte(`{"cartId": "a"}`))
	if err != nil {
		t.Fatal(err)
	}
	if id, field, err := m.ID(request); !m.Streaming || id != "a" || field != "cart_id" || err != nil {
		t.Errorf("got %+v, %q, %q, %v", m, id, field, err)
	}
	if got := m.WithPosition([]byte("x"), "1-0"); string(got) != "x" {
		t.Errorf("a message without the field became %q", got)
	}
}

// TestStreams: they are those of the type's service alone, in the order of the file.
func TestStreams(t *testing.T) {
	spec := cart(t)
	if got := typed.Streams(&spec); got != nil {
		t.Errorf("a service without streams: %q", got)
	}
	streams := strings.NewReplacer(`"name": "Add",`, `"name": "Zap", "serverStreaming": true,`, `"name": "View",`, `"name": "Add", "serverStreaming": true,`,
		`"service": [`, `"service": [{"name": "Other", "method": [{"name": "Hear", "inputType": ".shop.v1.Request", "outputType": ".shop.v1.Request", "serverStreaming": true}]},`)
	spec.Protobuf.Descriptor = encoded(t, streams.Replace(shop))
	if got := typed.Streams(&spec); !slices.Equal(got, []string{"Zap", "Add"}) {
		t.Errorf("got %q", got)
	}
	spec.Protobuf.Service, spec.Protobuf.Descriptor = "Cart", encoded(t, strings.NewReplacer(`"package": "shop.v1",`, "", ".shop.v1.", ".").Replace(streams.Replace(shop)))
	if got := typed.Streams(&spec); !slices.Equal(got, []string{"Zap", "Add"}) {
		t.Errorf("without a package: %q", got)
	}
	spec.Protobuf.Descriptor = spec.Protobuf.Descriptor[:40]
	if got := typed.Streams(&spec); got != nil {
		t.Errorf("a descriptor that is cut off: %q", got)
	}
}

// TestWithPosition: the position replaces what the actor wrote, and the event that others read stays
// as it was.
func TestWithPosition(t *testing.T) {
	m := streaming(t, `"name": "cart_id", "jsonName": "cartId"`, `"name": "greenroom_position", "jsonName": "greenroomPosition"`, `"amount"`, `"cart_id"`, `"TYPE_INT64"},
      {"name": "at"`, `"TYPE_STRING"},
      {"name": "at"`)
	written, err := m.RequestFromJSON([]byte(`{"greenroomPosition": "mine", "cart_id": "a"}`))
	if err != nil {
		t.Fatal(err)
	}
	shared := append(make([]byte, 0, 100), written...)
	got := m.WithPosition(shared, "1-0")
	text, err := m.ResponseToJSON(got)
	if err != nil || strings.ReplaceAll(string(text), " ", "") != `{"cart_id":"a","greenroomPosition":"1-0"}` && strings.ReplaceAll(string(text), " ", "") != `{"greenroomPosition":"1-0","cart_id":"a"}` {
		t.Errorf("got %s, %v", text, err)
	}
	if other := m.WithPosition(shared, "2-0"); &other[0] == &got[0] || string(shared) != string(written) {
		t.Error("two clients share the bytes of an event")
	}
	if again := string(got); again != string(m.WithPosition(written, "1-0")) {
		t.Error("the second message changed the first")
	}
}
