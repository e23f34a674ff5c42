package invokestream

import (
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
)

// EncodeFiring returns f as [Invocation].Firing, whose invocation has the rest.
func EncodeFiring(f *actor.Firing) ([]byte, error) {
	m := &greenroomv1.ForwardedFiring{
		ReminderId: f.Reminder.String(), Name: f.Name, Metadata: f.Metadata,
		Due: timestamppb.New(f.Due), Missed: f.Missed, Attempt: f.Attempt, Version: f.Step.Version, Fresh: f.Fresh,
	}
	if t := f.Step.Then; t != nil {
		m.Then = &greenroomv1.FiringProgress{
			Due: timestamppb.New(t.Due), FireAt: timestamppb.New(t.FireAt), Left: t.Left, Failures: t.Failures,
			Paused: t.Paused, LastError: t.LastError,
		}
	}
	if f.Message != nil {
		m.Message = forwardedMessage(f.Message)
		m.Message.Ordered, m.Message.SentAt = f.Step.Ordered, timestamppb.New(f.SentAt)
	}
	if p := f.Pull; p != nil {
		m.Event = &greenroomv1.ForwardedEvent{
			Publisher: &greenroomv1.ForwardedActor{Type: p.Publisher.Type, Id: p.Publisher.ID}, Position: p.Event.Position.String(), Gone: p.Gone,
			Name: p.Event.Name, PublishedAt: timestamppb.New(p.Event.At), Life: p.Event.Life,
		}
	}
	data, err := proto.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode firing: %w", err)
	}
	return data, nil
}

// DecodeFiring returns the firing that an invocation is; nil if it is a call.
func DecodeFiring(i *Invocation) (*actor.Firing, error) {
	if len(i.Firing) == 0 {
		return nil, nil //nolint:nilnil // a call is none
	}
	var m greenroomv1.ForwardedFiring
	if err := proto.Unmarshal(i.Firing, &m); err != nil {
		return nil, fmt.Errorf("decode firing: %w", err)
	}
	id, err := actor.ParseReminderID(m.ReminderId)
	if err != nil {
		return nil, err
	}
	check := actor.ValidateReminderName
	switch {
	case m.Message != nil:
		check = actor.ValidateMessageName
	case m.Event != nil:
		check = actor.ValidateStoredName
	}
	if err := check(m.Name); err != nil {
		return nil, err
	}
	f := &actor.Firing{
		Reminder: id, Key: i.Key, Name: m.Name, Method: i.Method, Payload: i.Payload, Metadata: m.Metadata,
		Due: m.Due.AsTime(), Missed: m.Missed, Attempt: m.Attempt, Fresh: m.Fresh,
		Step: actor.ReminderStep{ReminderName: actor.ReminderName{Key: i.Key, Name: m.Name}, ID: id, Version: m.Version},
	}
	if t := m.Then; t != nil {
		f.Step.Then = &actor.ReminderProgress{
			Due: t.Due.AsTime(), FireAt: t.FireAt.AsTime(), Left: t.Left, Failures: t.Failures, Paused: t.Paused, LastError: t.LastError,
		}
	}
	if msg := m.Message; msg != nil {
		if f.Message, err = messageOf(i.Key.App, msg); err != nil {
			return nil, err
		}
		f.SentAt, f.Step.Ordered = msg.GetSentAt().AsTime(), msg.Ordered
	}
	if e := m.Event; e != nil {
		at, err := actor.ParseEventPosition(e.GetPosition())
		if err != nil {
			return nil, err
		}
		f.Pull = &actor.Pull{Cursor: actor.Cursor{Publisher: actor.Key{App: i.Key.App, Type: e.GetPublisher().GetType(), ID: e.GetPublisher().GetId()}}, Gone: e.GetGone()}
		f.Pull.Event = actor.Event{Position: at, Life: e.GetLife(), Name: e.GetName(), Payload: i.Payload, At: e.GetPublishedAt().AsTime()}
		next := f.Next()
		if err := next.Validate(); err != nil {
			return nil, err
		}
		if next.Name != m.Name {
			return nil, &actor.ArgumentError{Field: "event", Problem: "is of another publisher than its cursor"}
		}
	}
	return f, nil
}
