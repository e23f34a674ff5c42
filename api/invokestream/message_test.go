package invokestream

import (
	"reflect"
	"testing"

	"github.com/greenroom-run/greenroom/actor"
)

func told() *actor.Message {
	return &actor.Message{From: actor.Key{App: "a", Type: "Order", ID: "7"}, By: actor.Key{App: "a", Type: "Cart", ID: "c"}, Failed: "busy", Cookie: 1 << 63}
}

func encodedTell(m *actor.Message) []byte {
	data, err := EncodeTell(m)
	if err != nil {
		panic(err)
	}
	return data
}

// A volatile message goes between hosts whole, and what is none is refused.
func TestTell(t *testing.T) {
	in := Invocation{Key: actor.Key{App: "a", Type: "T", ID: "1"}, Tell: encodedTell(told())}
	got, err := DecodeTell(&in)
	if err != nil || !reflect.DeepEqual(got, told()) {
		t.Errorf("%+v, %v", got, err)
	}
	moved := &actor.Message{Service: "workers/", Disconnected: true, Failed: "moved"}
	if got, err := DecodeTell(&Invocation{Tell: encodedTell(moved)}); err != nil || !reflect.DeepEqual(got, moved) {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := DecodeTell(&Invocation{}); got != nil || err != nil {
		t.Errorf("of no message: %+v, %v", got, err)
	}
	for what, bad := range map[string][]byte{
		"not a message": {0xff}, "no sender": encodedTell(&actor.Message{Cookie: 1}),
		"no service": encodedTell(&actor.Message{Service: "a\x00"}),
		"no ID":      encodedTell(&actor.Message{From: actor.Key{Type: "T", ID: "\n"}}),
	} {
		if _, err := DecodeTell(&Invocation{Tell: bad}); err == nil {
			t.Errorf("%s is taken", what)
		}
	}
}
