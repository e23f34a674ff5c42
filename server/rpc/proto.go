package rpc

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/abi/envelope"
	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/routing"
	"github.com/greenroom-run/greenroom/server/edge"
	"github.com/greenroom-run/greenroom/server/recent"
	"github.com/greenroom-run/greenroom/server/reminders"
)

func entriesOf(v host.View) []*greenroomv1.StateEntry {
	return mapped(v.Entries, func(e envelope.Entry) *greenroomv1.StateEntry {
		return &greenroomv1.StateEntry{Key: e.Key, Value: e.Value, Json: e.Format == abi.FormatJSON}
	})
}

func keyOf(k *greenroomv1.ActorKey) actor.Key {
	return actor.Key{App: edge.AppOf(k.GetApp()), Type: k.GetType(), ID: k.GetId()}
}

func keyToProto(k actor.Key) *greenroomv1.ActorKey {
	return &greenroomv1.ActorKey{App: k.App, Type: k.Type, Id: k.ID}
}

// detailsOf returns what a message has beside what every reminder has; nil for a reminder.
func detailsOf(r *actor.Reminder) *greenroomv1.MessageDetails {
	m := r.Message
	if m == nil {
		return nil
	}
	_, ordered := actor.SenderOfOrdered(r.Name)
	return &greenroomv1.MessageDetails{
		From: actorToProto(m.From), By: actorToProto(m.By), Ordered: ordered, Undelivered: m.Undelivered, Forward: actorToProto(m.Forward),
		Path: mapped(m.Path, keyToProto), Failed: m.Failed, Cookie: m.Cookie,
	}
}

func unreachable(hosts []routing.Unreachable) []*greenroomv1.UnreachableHost {
	return mapped(hosts, func(u routing.Unreachable) *greenroomv1.UnreachableHost {
		return &greenroomv1.UnreachableHost{HostId: string(u.Host), Address: u.Address, Why: u.Why}
	})
}

// actorOf returns a view as the API has it.
func actorOf(v host.View) *greenroomv1.Actor {
	msg := &greenroomv1.Actor{
		Key: keyToProto(v.Key), Version: v.Version, Generation: v.Generation,
		StateSchema: v.StateSchema, StateSize: v.StateSize,
		UpdatedAt: timestamppb.New(v.UpdatedAt), MethodSet: v.MethodSet, Life: v.Life, Spawned: v.Spawned,
		Active: v.Active, QueueDepth: int32(v.QueueDepth), //nolint:gosec // bounded by the mailbox
	}
	for _, t := range v.Timers {
		timer := &greenroomv1.ActorTimer{Name: t.Name, Method: t.Method, Due: timestamppb.New(t.Due), Left: t.Left}
		if t.Schedule.Every != 0 {
			timer.Every = durationpb.New(t.Schedule.Every)
		}
		msg.Timers = append(msg.Timers, timer)
	}
	return msg
}

func bucketToProto(r *actor.BucketRow) *greenroomv1.Bucket {
	return &greenroomv1.Bucket{
		App: r.App, Prefix: r.Bucket.Prefix.String(), Vector: r.Bucket.Vector.String(), FirstToken: r.Bucket.First(),
		Creator: string(r.Creator), Closed: r.Closed, Owner: string(r.Owner), Epoch: r.Epoch, Used: r.Used, Rate: r.Rate,
		DeliveredTill: timeToProto(r.DeliveredTill), CreatedAt: timeToProto(r.CreatedAt), ClosedAt: timeToProto(r.ClosedAt),
	}
}

// timeOf reads a time that may be absent. The zero time stands for that here, and so
// must not be given.
func timeOf(field string, t *timestamppb.Timestamp) (time.Time, error) {
	if t == nil {
		return time.Time{}, nil
	}
	at := t.AsTime()
	if t.CheckValid() != nil || at.IsZero() {
		return at, reminders.ErrNoTime(field)
	}
	return at, nil
}

func durationOf(field string, d *durationpb.Duration) (time.Duration, error) {
	const longest = int64(actor.MaxReminderDuration / time.Second)
	if d != nil && (d.CheckValid() != nil || d.GetSeconds() > longest || d.GetSeconds() < -longest) {
		return 0, &actor.ArgumentError{Field: field, Problem: "is no duration of up to 290 years; give one, or for a due time further away the time itself"}
	}
	return d.AsDuration(), nil
}

// reminderToProto returns what callers see of a reminder.
func reminderToProto(r *actor.Reminder, payload bool) *greenroomv1.Reminder {
	spec := &greenroomv1.ReminderSpec{
		Method: r.Method, ContentType: r.Payload.ContentType, Metadata: r.Metadata,
		Schedule: &greenroomv1.ReminderSchedule{
			First: &greenroomv1.ReminderSchedule_At{At: timestamppb.New(r.Schedule.At)},
			Every: durationToProto(r.Schedule.Every), Cron: r.Schedule.Cron, Zone: r.Schedule.Zone, Times: r.Schedule.Times,
			Jitter: durationToProto(r.Schedule.Jitter),
		},
		Missed: &greenroomv1.MissedPolicy{
			Kind: greenroomv1.MissedKind(r.Missed.Kind) + greenroomv1.MissedKind_MISSED_KIND_COLLAPSE, Limit: r.Missed.Limit, After: durationToProto(r.Missed.After),
		},
		Failure: &greenroomv1.FailurePolicy{
			Kind:     greenroomv1.FailureKind(r.Failure.Kind) + greenroomv1.FailureKind_FAILURE_KIND_CONSTANT,
			Attempts: r.Failure.Attempts, Interval: durationToProto(r.Failure.Interval), MaxInterval: durationToProto(r.Failure.Max),
		},
	}
	if r.Failure.Attempts == 0 && r.Failure.Kind != actor.FailureDrop {
		spec.Failure.Attempts = actor.DefaultAttempts
	}
	if !r.Schedule.Until.IsZero() {
		spec.Schedule.End = &greenroomv1.ReminderSchedule_Until{Until: timestamppb.New(r.Schedule.Until)}
	}
	m := &greenroomv1.Reminder{
		Actor: keyToProto(r.Key), Name: r.Name, Id: r.ID.String(), Version: r.Version, Spec: spec,
		Due: timeToProto(r.Due), FireAt: timeToProto(r.FireAt), Left: r.Left, Failures: r.Failures, Paused: r.Paused, LastError: r.LastError,
		CreatedAt: timeToProto(r.CreatedAt), UpdatedAt: timeToProto(r.UpdatedAt), Message: detailsOf(r),
	}
	if r.Message != nil {
		m.Name = "" // the store's own
	}
	if payload {
		spec.Payload = r.Payload.Data
	} else {
		m.PayloadSize = uint32(len(r.Payload.Data)) //nolint:gosec // at most 64 KiB
	}
	return m
}

func timeToProto(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

func capabilitiesToProto(c abi.Capabilities) *greenroomv1.Capabilities {
	if c.IsZero() {
		return nil
	}
	return &greenroomv1.Capabilities{Http: c.HTTP, Config: c.Config, Secrets: c.Secrets}
}

func countsToProto(c recent.Counts) *greenroomv1.ExchangeTurnsResponse {
	msg := &greenroomv1.ExchangeTurnsResponse{Uncounted: c.Uncounted}
	for name, steps := range c.Types {
		msg.Types = append(msg.Types, &greenroomv1.CountedType{Type: name, Steps: mapped(steps, func(s recent.StepCounts) *greenroomv1.CountedStep {
			return &greenroomv1.CountedStep{Number: s.Number, Errors: s.Errors, Durations: s.Durations}
		})})
	}
	return msg
}

// actorToProto returns the key of an actor; nil if there is none.
func actorToProto(k actor.Key) *greenroomv1.ActorKey {
	if k.ID == "" {
		return nil
	}
	return keyToProto(k)
}

func durationToProto(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}
