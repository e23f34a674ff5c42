package actor

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Names of one sender's messages sort as they were sent, and are no other sender's and no
// reminder's.
func TestMessageNamesSort(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		from := Key{App: "shop", Type: "Cart", ID: rapid.StringMatching(`[a-z|]{1,9}`).Draw(t, "id")}
		type place struct {
			version uint64
			index   int
		}
		draw := func(label string) place {
			return place{rapid.Uint64().Draw(t, label+" version"), rapid.IntRange(0, maxMessageIndex).Draw(t, label+" index")}
		}
		a, b := draw("a"), draw("b")
		first, second := MessageName(from, a.version, a.index), MessageName(from, b.version, b.index)
		earlier := a.version < b.version || a.version == b.version && a.index < b.index
		if earlier != (first < second) || (a == b) != (first == second) {
			t.Fatalf("%+v is %q, %+v is %q", a, first, b, second)
		}
		prefix, ok := SenderOfOrdered(first)
		if !ok || !strings.HasPrefix(second, prefix) {
			t.Fatalf("%q and %q have one sender, and begin with %q, %v", first, second, prefix, ok)
		}
		other := MessageName(Key{App: from.App, Type: from.Type, ID: from.ID + "x"}, a.version, a.index)
		if strings.HasPrefix(other, prefix) {
			t.Fatalf("%q of another sender begins with %q", other, prefix)
		}
		for _, name := range []string{first, second, other} {
			if !IsMessageName(name) || name >= MessageNamesEnd || ValidateMessageName(name) != nil || ValidateStoredName(name) != nil || ValidateReminderName(name) == nil {
				t.Fatalf("%q: %v, %v, %v", name, ValidateMessageName(name), ValidateStoredName(name), ValidateReminderName(name))
			}
		}
	})
}

// An unordered message has the name of its token, and no order.
func TestUnorderedMessageName(t *testing.T) {
	id := ReminderID{Prefix: 28, Token: 77, Vector: Vector([]byte("abcdefgh"))}
	name := UnorderedMessageName(id)
	if name == UnorderedMessageName(ReminderID{Prefix: 28, Token: 78, Vector: id.Vector}) || !IsMessageName(name) || ValidateMessageName(name) != nil || name >= MessageNamesEnd {
		t.Errorf("%q: %v", name, ValidateMessageName(name))
	}
	if prefix, ok := SenderOfOrdered(name); ok {
		t.Errorf("the sender of %q is %q", name, prefix)
	}
}

func TestNamesThatNoMessageHas(t *testing.T) {
	sent := MessageName(Key{App: "a", Type: "T", ID: "i"}, 7, 0)
	for _, name := range []string{"", "x", orderedMark, sent[1:], sent[:len(sent)-1], sent + "0", orderedMark + strings.Repeat("g", orderedLen-1), unorderedMark, unorderedMark + "A||x||abcdefgh", "\x03"} {
		if ValidateMessageName(name) == nil {
			t.Errorf("%q is taken for the name of a message", name)
		}
		if _, ok := SenderOfOrdered(name); ok && ValidateMessageName(name) == nil {
			t.Errorf("%q has a sender", name)
		}
	}
}

func validMessage() ReminderSpec {
	return ReminderSpec{
		Key: Key{App: "default", Type: "Cart", ID: "ann"}, Method: "Credit",
		Message: &Message{
			From: Key{App: "default", Type: "Bank", ID: "b"}, Undelivered: "Failed", Forward: Key{App: "default", Type: "Cart", ID: "bob"},
		},
	}
}

func TestMessageValidate(t *testing.T) {
	if spec := validMessage(); spec.Validate() != nil {
		t.Fatal(spec.Validate())
	}
	outside := validMessage()
	outside.Message = &Message{}
	if err := outside.Validate(); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, field string
		change      func(*ReminderSpec)
	}{
		{"a reminder's name", "message name", func(s *ReminderSpec) { s.Name = "expire" }},
		{"a name without an end", "message name", func(s *ReminderSpec) { s.Name = orderedMark }},
		{"to a subscription", "receiver", func(s *ReminderSpec) { s.Key, s.Method = SubscriptionKey("default", "deaf"), "" }},
		{"several times", "message schedule", func(s *ReminderSpec) { s.Schedule.Every = time.Hour }},
		{"kept", "message", func(s *ReminderSpec) { s.Keep = true }},
		{"paused", "message", func(s *ReminderSpec) { s.Hold = true }},
		{"undelivered to nobody", "sender", func(s *ReminderSpec) { s.Message.From = Key{} }},
		{"on another's behalf from nobody", "sender", func(s *ReminderSpec) { s.Message = &Message{By: Key{App: "default", Type: "T", ID: "i"}} }},
		{"failed from nobody", "sender", func(s *ReminderSpec) { s.Message = &Message{Failed: "timeout"} }},
		{"from another app", "sender", func(s *ReminderSpec) { s.Message.From.App = "other" }},
		{"from nobody's ID", "actor id", func(s *ReminderSpec) { s.Message.From.ID = "" }},
		{"by another app", "actor that sends on another's behalf", func(s *ReminderSpec) { s.Message.By = Key{App: "x", Type: "T", ID: "i"} }},
		{"forwarded to a subscription", "actor to forward to", func(s *ReminderSpec) { s.Message.Forward = SubscriptionKey("default", "deaf") }},
		{"forwarded from nobody", "receiver that it was forwarded from", func(s *ReminderSpec) { s.Message.Path = []Key{{}} }},
		{"forwarded for ever", "message path", func(s *ReminderSpec) { s.Message.Path = make([]Key, MaxForwards+1) }},
		{"undelivered method", "method for an undelivered message", func(s *ReminderSpec) { s.Message.Undelivered = "a b" }},
		{"failed with a text", "code of a failure", func(s *ReminderSpec) { s.Message.Failed = strings.Repeat("x", MaxNameLen+1) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			spec := validMessage()
			tt.change(&spec)
			var refused *ArgumentError
			if err := spec.Validate(); !errors.As(err, &refused) || refused.Field != tt.field {
				t.Errorf("got %v, want a problem of the %s", err, tt.field)
			}
		})
	}
}

// TestCausesOfMessages checks the cause of an invocation that delivers a message or its failure. It has a Firing.
func TestCausesOfMessages(t *testing.T) {
	for _, c := range []struct {
		inv  Invocation
		want Cause
	}{
		{Invocation{}, CauseCall},
		{Invocation{Firing: &Firing{}}, CauseFiring},
		{Invocation{Firing: &Firing{Message: &Message{}}}, CauseMessage},
		{Invocation{Firing: &Firing{Message: &Message{Failed: "guest_trap"}}}, CauseUndelivered},
	} {
		got := c.inv.Cause()
		if got != c.want || got.Fires() != (c.inv.Firing != nil) || got.Fires() && !got.Recorded() || !got.KeepsActive() {
			t.Errorf("%+v is caused by %v (fires %v, recorded %v)", c.inv, got, got.Fires(), got.Recorded())
		}
	}
	if !slices.Contains(Conditions(), ErrMessageOrder) || !ErrMessageOrder.Retryable() || errors.Is(fmt.Errorf("x: %w", ErrMessageOrder), ErrFiringTaken) {
		t.Error("a refusal for the order is not told from one of a firing that was taken")
	}
}
