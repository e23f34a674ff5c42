package turn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine"
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

// Effects returns what the run asks of reminders, with the step of its firing. The caller
// owns it.
func (t *Turn) Effects() actor.ReminderEffects {
	e := t.done.Reminders
	t.done.Reminders, t.tokens = actor.ReminderEffects{}, nil
	if f := t.spec.Firing; f != nil {
		e.Steps = []actor.ReminderStep{f.Step}
	}
	return e
}

// refuse keeps why a function of reminders or timers is refused.
func (t *Turn) refuse(code abi.Code, problem string) abi.Code {
	t.reminders.problem = problem
	return code
}

// Problem implements [engine.Calls].
func (t *Turn) Problem() string { return t.reminders.problem }

func (t *Turn) reminderName(name []byte) actor.ReminderName {
	return actor.ReminderName{Key: t.spec.Key, Name: string(name)}
}

// ReminderSet implements [engine.Calls].
func (t *Turn) ReminderSet(r *abi.Reminder) abi.Code {
	t.reminders.problem = ""
	if code := cmp.Or(t.mayWrite(), mayKeep(t)); code != 0 {
		return code
	}
	if t.env.Reminders == nil {
		return t.refuse(abi.CodeNotReady, "this host has no reminders")
	}
	spec, err := specOf(t.spec.Key, r)
	if err != nil {
		return t.refuse(abi.CodeInvalid, err.Error())
	}
	if problem := t.spec.Methods.MethodProblem("reminder", spec.Method); problem != "" {
		return t.refuse(abi.CodeInvalid, problem)
	}
	spec.Link = t.spec.Trace.Link()
	return setReminder(t, spec)
}

// setReminder sets a reminder, or a cursor.
func setReminder(t *Turn, spec actor.ReminderSpec) abi.Code {
	if code := t.mayChange(); code != 0 {
		return code
	}
	made, err := t.env.Reminders.Prepare(t.ctx, spec)
	var invalid *actor.ArgumentError
	switch {
	case errors.As(err, &invalid):
		return t.refuse(abi.CodeInvalid, err.Error())
	case err != nil:
		t.Log(int32(slog.LevelWarn), "cannot set the reminder "+strconv.Quote(spec.Name)+" now: "+err.Error())
		return t.refuse(abi.CodeNotReady, "the host cannot create reminders and subscriptions now")
	}
	t.tokens = append(t.tokens, made.ID)
	size := int64(made.Size())
	if t.reminders.bytes+size > t.spec.ReminderBytes {
		return t.refuse(abi.CodeTooLarge, fmt.Sprintf("the messages and reminders of this turn have more than %d bytes; keep the data in the state, and name it in the reminder", t.spec.ReminderBytes))
	}
	t.reminders.bytes += size
	t.reminders.changes++
	t.done.Reminders.Sets(&made)
	return 0
}

// ReminderCancel implements [engine.Calls].
func (t *Turn) ReminderCancel(name []byte) abi.Code {
	t.reminders.problem = ""
	if code := cmp.Or(t.mayWrite(), mayKeep(t)); code != 0 {
		return code
	}
	if err := actor.ValidateReminderName(string(name)); err != nil {
		return t.refuse(abi.CodeInvalid, err.Error())
	}
	if code := t.mayChange(); code != 0 {
		return code
	}
	t.reminders.changes++
	t.done.Reminders.Cancels(t.reminderName(name))
	return 0
}

// mayChange says why the turn may do no more to reminders, 0 if it may.
func (t *Turn) mayChange() abi.Code {
	if t.reminders.changes >= maxReminderChanges {
		return t.refuse(abi.CodeTooMany, "a turn sets and cancels reminders at most "+strconv.Itoa(maxReminderChanges)+" times")
	}
	return 0
}

// ReminderGet implements [engine.Calls].
func (t *Turn) ReminderGet(name []byte) (*abi.Reminder, abi.Code, error) {
	t.reminders.problem = ""
	if t.spec.Stateless {
		return nil, abi.CodeNoState, nil
	}
	if code := mayKeep(t); code != 0 {
		return nil, code, nil
	}
	if err := actor.ValidateReminderName(string(name)); err != nil {
		return nil, t.refuse(abi.CodeInvalid, err.Error()), nil
	}
	r, code, err := t.visibleReminder(t.reminderName(name))
	if code != 0 || err != nil {
		return nil, code, err
	}
	if r == nil {
		return nil, abi.CodeNotFound, nil
	}
	return frameOf(r), 0, nil
}

// visibleReminder returns a reminder as the turn sees it, nil if there is none.
func (t *Turn) visibleReminder(n actor.ReminderName) (*actor.Reminder, abi.Code, error) {
	e := &t.done.Reminders
	var set *actor.Reminder
	for i := range e.Set {
		if e.Set[i].Name == n.Name && e.Set[i].Message == nil {
			set = &e.Set[i]
		}
	}
	switch f := t.spec.Firing; {
	case set != nil && !set.Keep:
		return set, 0, nil
	case set == nil && slices.Contains(e.Cancel, n):
		return nil, 0, nil
	case f != nil && f.Step.ReminderName == n && f.Step.Then == nil:
		return set, 0, nil
	case f != nil && f.Step.ReminderName == n:
		if code, err := t.findFired(); code != 0 || err != nil {
			return nil, code, err
		}
		next := *t.spec.Fired
		next.ReminderProgress = *f.Step.Then
		return &next, 0, nil
	}
	found, known := t.reminders.found[n.Name]
	if !known {
		code, err := t.ask(func() (err error) {
			found, err = t.env.Reminders.Find(t.ctx, n)
			return err
		})
		if code != 0 || err != nil {
			return nil, code, err
		}
		if t.reminders.found == nil {
			t.reminders.found = map[string]actor.Reminder{}
		}
		t.reminders.found[n.Name] = found
	}
	if found.Version == 0 {
		return set, 0, nil
	}
	return &found, 0, nil
}

// findFired reads the reminder whose firing asks for the turn, unless that was done. One
// that has changed ends the guest: the turn cannot be committed.
func (t *Turn) findFired() (abi.Code, error) {
	if t.spec.Fired != nil {
		return 0, nil
	}
	var found actor.Reminder
	step := &t.spec.Firing.Step
	code, err := t.ask(func() (err error) {
		found, err = t.env.Reminders.Find(t.ctx, step.ReminderName)
		return err
	})
	switch {
	case code != 0 || err != nil:
		return code, err
	case found.ID != step.ID || found.Version != step.Version:
		return 0, actor.ErrFiringTaken
	}
	t.spec.Fired = &found
	return 0, nil
}

// ask asks the store, once all that the turn could have observed is durable.
func (t *Turn) ask(question func() error) (abi.Code, error) {
	if t.env.Reminders == nil {
		return t.refuse(abi.CodeNotReady, "this host has no reminders"), nil
	}
	var asked bool
	var err error
	engine.Outside(t.ctx, func() {
		if err = t.spec.Leaver.Await(); err == nil {
			asked, err = true, question()
		}
	})
	switch {
	case !asked:
		return 0, err
	case err == nil:
		return 0, nil
	case errors.Is(t.ctx.Err(), context.DeadlineExceeded):
		return 0, actor.ErrDeadline
	case t.ctx.Err() != nil:
		return 0, actor.ErrCanceled
	}
	t.Log(int32(slog.LevelWarn), "cannot read the store now: "+err.Error())
	return t.refuse(abi.CodeNotReady, "the host cannot read the store now"), nil
}

// ReminderNames implements [engine.Calls].
func (t *Turn) ReminderNames(prefix []byte) ([]byte, abi.Code, error) {
	t.reminders.problem = ""
	if t.spec.Stateless {
		return nil, abi.CodeNoState, nil
	}
	if code := mayKeep(t); code != 0 {
		return nil, code, nil
	}
	if strings.HasPrefix(string(prefix), actor.CursorNames) {
		return nil, 0, nil // which no reminder has
	}
	names, code, err := visibleNames(t, string(prefix))
	if code != 0 || err != nil {
		return nil, code, err
	}
	t.buf = abi.AppendKeyList(t.buf[:0], names[:min(len(names), maxReminderNames)])
	return t.buf, 0, nil
}

// visibleNames returns the names of reminders, or of cursors if the prefix is theirs, as the turn
// sees them: [maxReminderNames] or more if there are as many.
func visibleNames(t *Turn, prefix string) ([]string, abi.Code, error) {
	names, known := t.reminders.listed[prefix]
	if !known {
		code, err := t.ask(func() (err error) {
			// As many of them may be gone by what the turn does.
			names, err = t.env.Reminders.Names(t.ctx, t.spec.Key, prefix, maxReminderNames+maxReminderChanges)
			return err
		})
		if code != 0 || err != nil {
			return nil, code, err
		}
		if t.reminders.listed == nil {
			t.reminders.listed = map[string][]string{}
		}
		t.reminders.listed[prefix] = names
	}
	gone := func(name string) bool {
		n := actor.ReminderName{Key: t.spec.Key, Name: name}
		f := t.spec.Firing
		return slices.Contains(t.done.Reminders.Cancel, n) || f != nil && f.Step.ReminderName == n && f.Step.Then == nil
	}
	names = slices.DeleteFunc(slices.Clone(names), gone)
	for i := range t.done.Reminders.Set {
		r := &t.done.Reminders.Set[i]
		if r.Message == nil && (r.Cursor != nil) == (prefix == actor.CursorNames) && strings.HasPrefix(r.Name, prefix) {
			names = append(names, r.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), 0, nil
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
