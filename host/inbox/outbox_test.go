package inbox

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// fakeTypes are types whose methods all take messages, but for "Private", which takes none from
// outside.
type fakeTypes struct{ policy Policy }

func (f fakeTypes) Receiver(_ context.Context, key actor.Key, _ string) (Receiver, error) {
	if key.Type != "T" {
		return nil, actor.ErrTypeNotFound
	}
	return f, nil
}

func (f fakeTypes) CheckMessage(method string, outside bool) error {
	if method == "Private" && outside {
		return actor.ErrMethodPrivate
	}
	return nil
}

func (f fakeTypes) Messages() Policy { return f.policy }

// A message is given up when its type says, counted from when it is due.
func TestMessageIsGivenUpAfterItsAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := Outbox{Types: fakeTypes{Policy{Age: time.Minute}}}
		now := time.Now()
		for _, c := range []struct {
			r    Request
			want time.Duration // from now
		}{
			{Request{}, time.Minute}, {Request{After: time.Hour}, time.Hour + time.Minute}, {Request{At: now.Add(2 * time.Hour)}, 2*time.Hour + time.Minute},
			{Request{At: now.Add(-time.Hour)}, time.Minute},
		} {
			c.r.To, c.r.Method = to("b"), "M"
			s, err := o.Message(t.Context(), &c.r)
			if got := s.Schedule.Until.Sub(now); err != nil || got != c.want {
				t.Errorf("after %v, at %v: given up after %v (%v), want %v", c.r.After, c.r.At, got, err, c.want)
			}
		}
	})
}

// A type that waits long between attempts, and says nothing of the longest wait, waits no shorter.
func TestPolicyDefaults(t *testing.T) {
	if p := (Policy{Interval: time.Hour}).WithDefaults(); p.Max != time.Hour {
		t.Errorf("the longest wait is %v", p.Max)
	}
	if p := (Policy{}).WithDefaults(); p != (Policy{DefaultAttempts, DefaultInterval, DefaultMax, DefaultAge}) {
		t.Errorf("the defaults are %+v", p)
	}
}

// What is to get a message, and what is to get it back, is checked when it is sent: for those from
// outside, and for those of actors.
func TestEndsOfMessagesAreChecked(t *testing.T) {
	o := Outbox{Types: fakeTypes{}}
	var argument *actor.ArgumentError
	isArgument := func(err error) bool { return errors.As(err, &argument) }
	is := func(c *actor.Condition) func(error) bool { return func(err error) bool { return errors.Is(err, c) } }
	none := func(err error) bool { return err == nil }
	other := actor.Key{App: "app", Type: "Other", ID: "x"}
	for _, c := range []struct {
		what string
		r    Request
		want func(error) bool
	}{
		{"private, from outside", Request{Method: "Private"}, is(actor.ErrMethodPrivate)},
		{"private, from an actor", Request{Method: "Private", Message: actor.Message{From: to("a")}}, none},
		{"forwarded to the receiver", Request{Method: "M", Message: actor.Message{Forward: to("b")}}, isArgument},
		{"forwarded to a type that is not there", Request{Method: "M", Message: actor.Message{Forward: other}}, is(actor.ErrTypeNotFound)},
		{"forwarded, a private one of an actor", Request{Method: "Private", Message: actor.Message{From: to("a"), Forward: to("c")}}, none},
		{"back to outside", Request{Method: "M", Message: actor.Message{Undelivered: "M"}}, isArgument},
		{"back to a private method", Request{Method: "M", Message: actor.Message{From: to("a"), Undelivered: "Private"}}, none},
		{"back to a type that is not there", Request{Method: "M", Message: actor.Message{From: other, Undelivered: "M"}}, is(actor.ErrTypeNotFound)},
	} {
		c.r.To = to("b")
		if _, err := o.Message(t.Context(), &c.r); !c.want(err) {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}
