package turn

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
)

// Reminders is what turns need of the reminders that there are. Its methods may be
// called concurrently.
type Reminders interface {
	// Prepare returns the reminder that a spec asks for, with a token of its own. Errors
	// are [*actor.ArgumentError], and others for what cannot be said now.
	Prepare(ctx context.Context, spec actor.ReminderSpec) (actor.Reminder, error)
	// Unused gives back the tokens of an app's reminders that Prepare returned, in their order,
	// and that no commit sets or may have set.
	Unused(app string, tokens []actor.ReminderID)
	// Find returns a reminder as it is stored; the zero Reminder if there is none.
	Find(ctx context.Context, name actor.ReminderName) (actor.Reminder, error)
	// Names returns the names of an actor's reminders with a prefix in byte order, the
	// first limit of them.
	Names(ctx context.Context, key actor.Key, prefix string, limit int) ([]string, error)
	// NewestEvent returns the position of the last event of an actor.
	NewestEvent(ctx context.Context, key actor.Key) (actor.EventPosition, error)
}

const (
	// maxReminderChanges is how often a turn may set and cancel reminders.
	maxReminderChanges = 256
	// maxReminderNames is how many names a guest gets at once.
	maxReminderNames = 1000
	// MaxReminderBytes bounds what the reminders of one turn take in its commit,
	// together.
	MaxReminderBytes = 1 << 20
)

// reminders is what a turn has asked of reminders and messages, and seen of reminders.
type reminders struct {
	changes int
	sent    int   // messages
	bytes   int64 // of messages, too
	problem string
	// found and listed are what the store has said: a turn sees the same all along.
	found  map[string]actor.Reminder
	listed map[string][]string
}

// specOf is what a frame asks for. The frame is the host's own.
func specOf(key actor.Key, r *abi.Reminder) (actor.ReminderSpec, error) {
	s := actor.ReminderSpec{
		Key: key, Name: r.Name, Method: r.Method, Payload: actor.Payload{ContentType: r.ContentType, Data: r.Payload},
		Schedule: actor.Schedule{
			At: instant(r.DueUnixNano), After: time.Duration(r.DelayNano), Every: time.Duration(r.PeriodNano), Cron: r.Cron, Zone: r.Zone,
			Times: r.Count, Until: instant(r.UntilNano), Jitter: time.Duration(r.JitterNano),
		},
		Missed: actor.MissedPolicy{Kind: actor.MissedKind(r.Missed), Limit: r.MissedLimit, After: time.Duration(r.MissedAfter)},
		Failure: actor.FailurePolicy{
			Kind: actor.FailureKind(r.Failure), Attempts: r.Attempts, Interval: time.Duration(r.IntervalNano), Max: time.Duration(r.LongestNano),
		},
		Keep: r.Flags&abi.FlagKeep != 0,
	}
	for _, h := range r.Metadata {
		if s.Metadata == nil {
			s.Metadata = make(map[string]string, len(r.Metadata))
		}
		if _, twice := s.Metadata[h.Name]; twice {
			return s, &actor.ArgumentError{Field: "reminder metadata", Problem: fmt.Sprintf("names %q twice; give each name once", h.Name)}
		}
		s.Metadata[h.Name] = h.Value
	}
	return s, nil
}

func instant(nano int64) time.Time {
	if nano == 0 {
		return time.Time{}
	}
	return time.Unix(0, nano).UTC()
}

// frameOf is a reminder as guests see it: set again, it goes on as it would have.
func frameOf(r *actor.Reminder) *abi.Reminder {
	f := &abi.Reminder{
		Name: r.Name, Method: r.Method, ContentType: r.Payload.ContentType, Payload: r.Payload.Data,
		DueUnixNano: nano(r.Due), PeriodNano: int64(r.Schedule.Every), Cron: r.Schedule.Cron, Zone: r.Schedule.Zone,
		Count: r.Left, UntilNano: nano(r.Schedule.Until), JitterNano: int64(r.Schedule.Jitter),
		Missed: uint8(r.Missed.Kind), MissedLimit: r.Missed.Limit, MissedAfter: int64(r.Missed.After),
		Failure: uint8(r.Failure.Kind), Attempts: r.Failure.Attempts, IntervalNano: int64(r.Failure.Interval), LongestNano: int64(r.Failure.Max),
		Metadata: headersOf(r.Metadata),
	}
	if r.Schedule.Every == 0 && r.Schedule.Cron == "" {
		f.Count = r.Schedule.Times
	}
	return f
}

// nano is a time in a frame, which has those from 1678 to 2262.
func nano(t time.Time) int64 {
	switch {
	case t.IsZero():
		return 0
	case t.Year() > 2261:
		return math.MaxInt64
	case t.Year() < 1679:
		return math.MinInt64
	}
	return t.UnixNano()
}

func headersOf(metadata map[string]string) []abi.Header {
	if len(metadata) == 0 {
		return nil
	}
	list := make([]abi.Header, 0, len(metadata))
	for name, value := range metadata {
		list = append(list, abi.Header{Name: name, Value: value})
	}
	slices.SortFunc(list, func(a, b abi.Header) int { return cmp.Compare(a.Name, b.Name) })
	return list
}
