package actor

import (
	"strings"
	"unicode/utf8"
)

// Validate checks all of a spec that can be told without a calendar; package
// scheduler/reminder checks the rest when it works out the first occurrence. Errors are
// [*ArgumentError].
func (s *ReminderSpec) Validate() error {
	if err := s.Key.Validate(); err != nil {
		return err
	}
	if err := s.validateName(); err != nil {
		return err
	}
	if err := s.validateTarget(); err != nil {
		return err
	}
	if n := len(s.Payload.Data); n > MaxReminderPayload {
		return argument("reminder payload", "has %d bytes; at most %d are allowed: keep the data in the actor's state, and name it here", n, MaxReminderPayload)
	}
	if n := len(s.Payload.ContentType); n > MaxContentType {
		return argument("reminder content type", "has %d bytes; at most %d are allowed", n, MaxContentType)
	}
	if !utf8.ValidString(s.Payload.ContentType) {
		return argument("reminder content type", "is not valid UTF-8")
	}
	if err := refuseControls("reminder content type", s.Payload.ContentType); err != nil {
		return err
	}
	if err := s.Schedule.validate(); err != nil {
		return err
	}
	if err := s.Missed.validate(); err != nil {
		return err
	}
	if err := s.Failure.validate(); err != nil {
		return err
	}
	return validateMetadata(s.Metadata)
}

// validateName checks the name, and, of a message, all that it has beside a reminder.
func (s *ReminderSpec) validateName() error {
	switch {
	case s.Cursor != nil:
		return s.validateCursor()
	case s.Message == nil:
		return ValidateReminderName(s.Name)
	case s.Name != "":
		if err := ValidateMessageName(s.Name); err != nil {
			return err
		}
	}
	return s.validateMessage()
}

// validateTarget checks what a reminder runs: a method of an actor, or nothing of a
// subscription.
func (s *ReminderSpec) validateTarget() error {
	if !s.Key.IsSubscription() {
		return ValidateName("reminder method", s.Method)
	}
	if s.Method != "" {
		return argument("reminder method", "is %q, and the reminder is for a subscription, which has none; leave it out", shown(s.Method))
	}
	return ValidateName("subscription", s.Key.ID)
}

// CursorSpec returns the spec of a cursor of a subscriber, which is due at once.
func CursorSpec(subscriber Key, method string, c Cursor) ReminderSpec {
	return ReminderSpec{Key: subscriber, Name: CursorName(c.Publisher), Method: method, Cursor: &c}
}

// validateCursor checks the cursor that the spec has.
func (s *ReminderSpec) validateCursor() error {
	c := s.Cursor
	if err := c.Publisher.Validate(); err != nil {
		return err
	}
	switch {
	case c.Publisher.App != s.Key.App:
		return argument("publisher", "is of the app %q, and the subscriber of %q; name one of the same app", shown(c.Publisher.App), s.Key.App)
	case c.Publisher.IsSubscription() || s.Key.IsSubscription():
		return argument("publisher", "or subscriber is a subscription to reminders; name an actor")
	case s.Name != CursorName(c.Publisher):
		return argument("cursor name", "is %q, which is not that of the publisher", shown(s.Name))
	case s.Message != nil || s.Schedule.Recurring() || s.Keep || s.Hold:
		return argument("cursor", "is also a message, or recurs, or is to be kept or set paused; it is due once, until it moves")
	}
	return nil
}

// validateMessage checks the message that the spec has.
func (s *ReminderSpec) validateMessage() error {
	m := s.Message
	if s.Key.IsSubscription() {
		return argument("receiver", "is a subscription, which takes no messages; send to an actor")
	}
	if s.Schedule.Recurring() {
		return argument("message schedule", "has several occurrences, and a message is delivered once; set a reminder instead")
	}
	if s.Keep || s.Hold {
		return argument("message", "is to be kept or set paused, as only reminders can be; send it without")
	}
	if len(m.Path) > MaxForwards {
		return argument("message path", "has %d receivers; at most %d are allowed", len(m.Path), MaxForwards)
	}
	ends := []struct {
		field    string
		key      Key
		required bool
	}{
		{"sender", m.From, m.Undelivered != "" || m.By != (Key{}) || m.Failed != ""}, {"actor that sends on another's behalf", m.By, false},
		{"actor to forward to", m.Forward, false},
	}
	for _, k := range m.Path {
		ends = append(ends, struct {
			field    string
			key      Key
			required bool
		}{"receiver that it was forwarded from", k, true})
	}
	for _, e := range ends {
		switch {
		case e.key == (Key{}) && !e.required:
			continue
		case e.key == (Key{}):
			return argument(e.field, "is missing; name the actor")
		case e.key.App != s.Key.App:
			return argument(e.field, "is of the app %q, and the receiver of %q; name one of the same app", shown(e.key.App), s.Key.App)
		case e.key.IsSubscription():
			return argument(e.field, "is a subscription; name an actor")
		}
		if err := e.key.Validate(); err != nil {
			return err
		}
	}
	if len(m.Failed) > MaxNameLen {
		return argument("code of a failure", "has %d bytes; at most %d are allowed", len(m.Failed), MaxNameLen)
	}
	if m.Undelivered == "" {
		return nil
	}
	return ValidateName("method for an undelivered message", m.Undelivered)
}

// Next returns the spec of the cursor that the commit of a firing's turn puts in the place of the
// one that has fired.
func (f *Firing) Next() ReminderSpec {
	return CursorSpec(f.Key, f.Method, Cursor{f.Pull.Publisher, f.Pull.Event.Position})
}

// ValidateStoredName checks the name of a reminder, of a message or of a cursor.
func ValidateStoredName(name string) error {
	if sum, ok := strings.CutPrefix(name, CursorNames); ok && len(sum) == 32 && strings.Trim(sum, "0123456789abcdef") == "" {
		return nil
	}
	if IsMessageName(name) {
		return ValidateMessageName(name)
	}
	return ValidateReminderName(name)
}
