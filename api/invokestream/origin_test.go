package invokestream

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/greenroom-run/greenroom/actor"
)

func mark() actor.IdempotencyRecord {
	return actor.IdempotencyRecord{
		Actor: actor.Key{App: "a", Type: "Order", ID: "7"}, Method: "Pay", Key: "k", Payload: actor.PayloadSum(actor.Payload{Data: []byte("x")}), TTL: time.Hour,
		Mark: &actor.KeyedCall{Actor: actor.Key{App: "a", Type: "T", ID: "x"}, Method: "Credit", Key: "chain:1"},
	}
}

func origin() *actor.Origin {
	return &actor.Origin{From: actor.Key{App: "a", Type: "Order", ID: "7"}, Chain: "c1", Depth: 3, Fuel: 1 << 40, Waits: []string{"p.1", "q.2"}, Marks: []actor.IdempotencyRecord{mark()}}
}

func encodedOrigin(o *actor.Origin) []byte {
	data, err := EncodeOrigin(o)
	if err != nil {
		panic(err)
	}
	return data
}

// TestOrigins shows that a turn which calls arrives at the other host as it was sent.
func TestOrigins(t *testing.T) {
	key := actor.Key{App: "a", Type: "T", ID: "x"}
	got, err := DecodeOrigin(&Invocation{Key: key, Origin: encodedOrigin(origin())})
	if diff := cmp.Diff(origin(), got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	if got, err := DecodeOrigin(&Invocation{Key: key}); got != nil || err != nil {
		t.Errorf("an invocation without one has %v, %v", got, err)
	}
	for what, change := range map[string]func(*actor.Origin){
		"no caller":           func(o *actor.Origin) { o.From.ID = "" },
		"no chain":            func(o *actor.Origin) { o.Chain = "" },
		"no depth":            func(o *actor.Origin) { o.Depth = 0 },
		"waits":               func(o *actor.Origin) { o.Waits = make([]string, actor.MaxWaits+1) },
		"marks":               func(o *actor.Origin) { o.Marks = slices.Repeat(o.Marks, actor.MaxWaits+1) },
		"mark of nothing":     func(o *actor.Origin) { o.Marks[0].Actor.ID = "" },
		"mark without a call": func(o *actor.Origin) { o.Marks[0].Mark = &actor.KeyedCall{} },
		"mark without a time": func(o *actor.Origin) { o.Marks[0].TTL = 0 },
		"long wait":           func(o *actor.Origin) { o.Waits = []string{strings.Repeat("w", actor.MaxWaitLen+1)} },
	} {
		o := origin()
		change(o)
		if got, err := DecodeOrigin(&Invocation{Key: key, Origin: encodedOrigin(o)}); err == nil {
			t.Errorf("%s: %v", what, got)
		}
	}
	if got, err := DecodeOrigin(&Invocation{Key: key, Origin: []byte{1}}); err == nil {
		t.Errorf("no message: %v", got)
	}
}
