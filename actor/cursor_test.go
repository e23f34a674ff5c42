package actor

import (
	"errors"
	"testing"
	"time"
)

// TestCursorValidate: a cursor has a publisher of its subscriber's app, the name that follows from that, and
// nothing that only reminders and messages have.
func TestCursorValidate(t *testing.T) {
	valid := func() ReminderSpec {
		return CursorSpec(Key{App: "default", Type: "T", ID: "subscriber"}, "On", Cursor{Publisher: Key{App: "default", Type: "T", ID: "publisher"}})
	}
	if spec := valid(); spec.Validate() != nil {
		t.Fatal(spec.Validate())
	}
	of := func(s *ReminderSpec, publisher Key) { s.Cursor.Publisher, s.Name = publisher, CursorName(publisher) }
	for _, tt := range []struct {
		name, field string
		change      func(*ReminderSpec)
	}{
		{"of nobody's ID", "actor id", func(s *ReminderSpec) { of(s, Key{App: "default", Type: "T"}) }},
		{"of another app", "publisher", func(s *ReminderSpec) { of(s, Key{App: "other", Type: "T", ID: "publisher"}) }},
		{"of a subscription", "publisher", func(s *ReminderSpec) { of(s, SubscriptionKey("default", "deaf")) }},
		{"to a subscription", "publisher", func(s *ReminderSpec) { s.Key, s.Method = SubscriptionKey("default", "deaf"), "" }},
		{"another publisher's name", "cursor name", func(s *ReminderSpec) { s.Name = CursorName(s.Key) }},
		{"a message", "cursor", func(s *ReminderSpec) { s.Message = &Message{} }},
		{"several times", "cursor", func(s *ReminderSpec) { s.Schedule.Every = time.Hour }},
		{"kept", "cursor", func(s *ReminderSpec) { s.Keep = true }},
		{"paused", "cursor", func(s *ReminderSpec) { s.Hold = true }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			spec := valid()
			tt.change(&spec)
			var refused *ArgumentError
			if err := spec.Validate(); !errors.As(err, &refused) || refused.Field != tt.field {
				t.Errorf("got %v, want a problem of the %s", err, tt.field)
			}
		})
	}
}
