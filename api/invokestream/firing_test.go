package invokestream

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/greenroom-run/greenroom/actor"
)

// firing is one with everything.
func firing() *actor.Firing {
	key := actor.Key{App: "a", Type: "T", ID: "x"}
	id := actor.ReminderID{Prefix: 7, Token: 123_456, Vector: actor.Vector{'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'}}
	due := time.Date(2026, 3, 29, 9, 0, 0, 1000, time.UTC)
	return &actor.Firing{
		Reminder: id, Key: key, Name: "monday", Method: "Ring", Payload: actor.Payload{ContentType: "text/plain", Data: []byte("hi")},
		Metadata: map[string]string{"room": "7"}, Due: due, Missed: 2, Attempt: 3, Fresh: true,
		Step: actor.ReminderStep{ReminderName: actor.ReminderName{Key: key, Name: "monday"}, ID: id, Version: 9, Then: &actor.ReminderProgress{
			Due: due.Add(time.Hour), FireAt: due.Add(2 * time.Hour), Left: 4, Failures: 5, Paused: true, LastError: "no",
		}},
	}
}

// message is the delivery of a message with everything.
func message() *actor.Firing {
	f := firing()
	f.Missed, f.Metadata, f.Step.Then, f.SentAt = 0, nil, nil, f.Due
	f.Message = &actor.Message{From: actor.Key{App: "a", Type: "T", ID: "z ü"}, By: actor.Key{App: "a", Type: "U", ID: "y"}, Failed: "no_stock", Cookie: 1<<63 + 1}
	f.Name = actor.MessageName(f.Message.By, 17, 3)
	f.Step.Name, f.Step.Ordered = f.Name, true
	return f
}

// outside is the delivery of a message from outside.
func outside() *actor.Firing {
	f := message()
	f.Message = &actor.Message{}
	f.Name = actor.UnorderedMessageName(f.Reminder)
	f.Step.Name, f.Step.Ordered = f.Name, false
	return f
}

// event is the delivery of an event, without the position that its cursor had.
func event() *actor.Firing {
	f := firing()
	f.Missed, f.Metadata, f.Step.Then = 0, nil, nil
	f.Pull = &actor.Pull{Cursor: actor.Cursor{Publisher: actor.Key{App: "a", Type: "U", ID: "y ü"}}}
	f.Pull.Event = actor.Event{Position: actor.EventPosition{Version: 1<<62 + 1, Index: 7}, Life: 3, Name: "paid", Payload: f.Payload, At: f.Due.Add(-time.Minute)}
	f.Name = actor.CursorName(f.Pull.Publisher)
	f.Step.Name = f.Name
	return f
}

// gone is the report that events are gone.
func gone() *actor.Firing {
	f := event()
	f.Pull.Gone, f.Payload = true, actor.Payload{}
	f.Pull.Event = actor.Event{Position: f.Pull.Event.Position, At: time.Unix(0, 0).UTC()}
	return f
}

func encodedFiring(f *actor.Firing) []byte {
	data, err := EncodeFiring(f)
	if err != nil {
		panic(err)
	}
	return data
}

// TestFirings shows that a firing which another host runs is the one that was delivered.
func TestFirings(t *testing.T) {
	last := firing()
	last.Step.Then = nil
	for _, f := range []*actor.Firing{firing(), last, message(), outside(), event(), gone()} {
		got, err := DecodeFiring(&Invocation{Key: f.Key, Method: f.Method, Payload: f.Payload, Firing: encodedFiring(f)})
		if diff := cmp.Diff(f, got); err != nil || diff != "" {
			t.Errorf("%v\n%s", err, diff)
		}
	}
	if got, err := DecodeFiring(&Invocation{}); got != nil || err != nil {
		t.Errorf("a call is the firing %v, %v", got, err)
	}
	noName, asReminder, asMessage, noSender := firing(), message(), message(), message()
	noName.Name, asReminder.Message, asMessage.Name, noSender.Message = "", nil, "monday", &actor.Message{From: actor.Key{ID: "x"}}
	otherName, noPublisher, cursorAlone := event(), event(), event()
	otherName.Name, noPublisher.Pull.Publisher, cursorAlone.Pull = actor.CursorName(otherName.Key), actor.Key{}, nil
	for _, bad := range [][]byte{
		{1}, {0x12, 1, 'n'}, encodedFiring(noName), encodedFiring(asReminder), encodedFiring(asMessage), encodedFiring(noSender),
		encodedFiring(otherName), encodedFiring(noPublisher), encodedFiring(cursorAlone),
	} {
		if got, err := DecodeFiring(&Invocation{Key: noName.Key, Method: noName.Method, Firing: bad}); err == nil {
			t.Errorf("%x is the firing %v", bad, got)
		}
	}
}
