package actortest_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/guest-sdk/go/actor"
	"github.com/greenroom-run/greenroom/guest-sdk/go/actortest"
)

// Herald publishes each text that it is called with. Listener keeps the texts that it receives.
type Herald struct{}

func (*Herald) Say(ctx *actor.Context, text string) (actor.None, error) {
	return actor.None{}, actor.Publish(ctx, "said", text)
}

// End says a last text, unless that is empty, and ends the herald's life.
func (*Herald) End(ctx *actor.Context, text string) (actor.None, error) {
	if text == "" {
		return actor.None{}, actor.PassAway(ctx)
	}
	return actor.None{}, errors.Join(actor.Publish(ctx, "said", text), actor.PassAway(ctx))
}

type Listener struct {
	Heard []string
}

func (l *Listener) Follow(ctx *actor.Context, id string) (actor.None, error) {
	return actor.None{}, actor.Subscribe(ctx, actor.Ref{Type: "Herald", ID: id}, "Hear")
}

// FollowPlainly subscribes with a method that takes texts alone.
func (l *Listener) FollowPlainly(ctx *actor.Context, id string) (actor.None, error) {
	return actor.None{}, actor.Subscribe(ctx, actor.Ref{Type: "Herald", ID: id}, "HearPlainly")
}

func (l *Listener) HearPlainly(_ *actor.Context, text string) (actor.None, error) {
	l.Heard = append(l.Heard, text)
	return actor.None{}, nil
}

// FollowOther subscribes to the actor x of a type.
func (l *Listener) FollowOther(ctx *actor.Context, typ string) (actor.None, error) {
	return actor.None{}, actor.Subscribe(ctx, actor.Ref{Type: typ, ID: "x"}, "Hear")
}

func (l *Listener) Leave(ctx *actor.Context, id string) (bool, error) {
	return actor.Unsubscribe(ctx, actor.Ref{Type: "Herald", ID: id})
}

func (l *Listener) Hear(ctx *actor.Context, in actor.Payload) (actor.None, error) {
	c := ctx.Cause()
	if c.Failed != "" {
		if c.Attempt == 1 {
			return actor.None{}, actor.Errorf("not_yet", "not at the first attempt")
		}
		l.Heard = append(l.Heard, fmt.Sprintf("%s of %s %s, %q", c.Kind, c.From.ID, c.Failed, c.Name))
		return actor.None{}, nil
	}
	text := strings.Trim(string(in.Data), `"`)
	if text == "hard" && c.Attempt == 1 {
		return actor.None{}, actor.Errorf("not_yet", "not at the first attempt")
	}
	l.Heard = append(l.Heard, fmt.Sprintf("%s %s of %s: %s", c.Kind, c.Name, c.From.ID, text))
	if text == "enough" {
		_, err := actor.Unsubscribe(ctx, c.From)
		return actor.None{}, err
	}
	return actor.None{}, nil
}

func init() {
	actor.Register("Herald", actor.Method("Say", (*Herald).Say), actor.Method("End", (*Herald).End),
		actor.Method("Name", func(_ *Herald, ctx *actor.Context, name string) (actor.None, error) {
			return actor.None{}, actor.Publish(ctx, name, 1)
		}))
	actor.Register("Crier", actor.PlacementStateless, actor.Method("Say", (*Herald).Say))
	actor.Register("Listener", actor.Method("Follow", (*Listener).Follow), actor.Method("FollowPlainly", (*Listener).FollowPlainly),
		actor.Method("HearPlainly", (*Listener).HearPlainly), actor.Method("FollowOther", (*Listener).FollowOther), actor.Method("Leave", (*Listener).Leave), actor.Method("Hear", (*Listener).Hear),
		actor.ReadOnly("All", func(l *Listener, _ *actor.Context, _ actor.None) ([]string, error) { return l.Heard, nil }))
}

// TestSubscriptions: a subscriber hears what is published after it subscribed, in order, also what
// fails at first, until its subscription ends; that may be in the turn of an event.
func TestSubscriptions(t *testing.T) {
	h := actortest.New(t)
	call := func(typ, id, method string, in, out any) {
		t.Helper()
		if err := h.Call(typ, id, method, in, out); err != nil {
			t.Fatal(err)
		}
	}
	say := func(id, text string) {
		t.Helper()
		call("Herald", id, "Say", text, nil)
	}
	heard := func(want ...string) {
		t.Helper()
		var got []string
		if call("Listener", "l", "All", nil, &got); !slices.Equal(got, want) {
			t.Errorf("heard %q, want %q", got, want)
		}
	}
	leave := func(id string) (left bool) {
		t.Helper()
		call("Listener", "l", "Leave", id, &left)
		return left
	}
	say("a", "before")
	for _, id := range []string{"a", "b", "a"} {
		call("Listener", "l", "Follow", id, nil)
	}
	if n := len(h.Subscriptions("Listener", "l")); n != 2 {
		t.Errorf("%d subscriptions", n)
	}
	say("a", "one")
	say("a", "hard")
	say("a", "two")
	h.Deliver()
	heard("event said of a: one")
	h.Advance(time.Second)
	heard("event said of a: one", "event said of a: hard", "event said of a: two")
	say("b", "enough")
	say("b", "more")
	if !leave("a") || leave("a") {
		t.Error("the subscription did not end once")
	}
	say("a", "three")
	h.Deliver()
	heard("event said of a: one", "event said of a: hard", "event said of a: two", "event said of b: enough")
	if n := len(h.Subscriptions("Listener", "l")); n != 0 {
		t.Errorf("%d subscriptions are left", n)
	}
}

// TestSubscriptionsToUnknownTypes: a type that is neither registered nor faked has no actors to subscribe to,
// and those of a stateless one publish nothing.
func TestSubscriptionsToUnknownTypes(t *testing.T) {
	h := actortest.New(t)
	for typ, want := range map[string]string{"Heralt": "no actor type \"Heralt\"", "Crier": "publish no events"} {
		err := h.Call("Listener", "l", "FollowOther", typ, nil)
		if !errors.Is(err, actor.ErrInvalidSubscription) || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%s: %v, want %q", typ, err, want)
		}
	}
	h.Fake("Heralt", "Say", func(string, actor.Payload) (any, error) { return nil, nil })
	if err := h.Call("Listener", "l", "FollowOther", "Heralt", nil); err != nil {
		t.Errorf("a faked type: %v", err)
	}
}

// TestEndsOfPublishers: a subscriber hears once that a publisher has passed away, between the last event
// of that life and the first one of the next. Of one that has never published it hears nothing.
func TestEndsOfPublishers(t *testing.T) {
	h := actortest.New(t)
	call := func(typ, id, method string, in, out any) {
		t.Helper()
		if err := h.Call(typ, id, method, in, out); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []string{"a", "silent"} {
		call("Listener", "l", "Follow", id, nil)
	}
	call("Herald", "silent", "End", "", nil)
	call("Herald", "a", "Say", "one", nil)
	call("Herald", "a", "End", "last", nil)
	call("Herald", "a", "Say", "again", nil)
	call("Herald", "a", "End", "", nil)
	h.Deliver()
	h.Advance(2 * time.Second)
	var got []string
	call("Listener", "l", "All", nil, &got)
	end := `event of a passed_away, ""`
	if want := []string{"event said of a: one", "event said of a: last", end, "event said of a: again", end}; !slices.Equal(got, want) {
		t.Errorf("heard %q, want %q", got, want)
	}
	call("Listener", "plain", "FollowPlainly", "a", nil)
	call("Herald", "a", "Say", "one", nil)
	call("Herald", "a", "End", "", nil)
	call("Herald", "a", "Say", "two", nil)
	h.Deliver()
	if call("Listener", "plain", "All", nil, &got); !slices.Equal(got, []string{"one", "two"}) {
		t.Errorf("a method that takes texts alone heard %q", got)
	}
	if list := h.Events("Herald", "a"); len(list) != 5 {
		t.Errorf("published %v", list)
	}
	if n := len(h.Subscriptions("Listener", "l")); n != 2 {
		t.Errorf("%d subscriptions are left", n)
	}
	if err := h.Call("Herald", "a", "Name", "greenroom.x", nil); !errors.Is(err, actor.ErrInvalidEvent) {
		t.Errorf("a reserved name: %v", err)
	}
}
