package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// validateReminders checks what a commit does to reminders, and returns how many bytes
// it writes.
func validateReminders(c *actor.Commit, bad func(problem string, args ...any) error) (bytes int, err error) {
	e := &c.Reminders
	if e.Empty() {
		return 0, nil // the usual case
	}
	stepped := make(map[actor.ReminderName]struct{}, len(e.Steps))
	for i := range e.Steps {
		s := &e.Steps[i]
		if err := validateReminderName(s.ReminderName); err != nil {
			return 0, err
		}
		if err := s.ID.Validate(); err != nil {
			return 0, err
		}
		if _, twice := stepped[s.ReminderName]; twice {
			return 0, bad("has two steps of the reminder %q of %s", s.Name, s.Key)
		}
		stepped[s.ReminderName] = struct{}{}
		if _, ordered := actor.SenderOfOrdered(s.Name); s.Ordered && !ordered {
			return 0, bad("has an ordered step of %q of %s, which is no ordered message", s.Name, s.Key)
		}
		if s.Version == 0 || s.Version >= math.MaxInt64 {
			return 0, bad("steps the reminder %q from version %d; versions go from 1 to 2^63-2", s.Name, s.Version)
		}
		if s.Then != nil {
			if err := validateProgress(s.Name, s.Then, bad); err != nil {
				return 0, err
			}
			bytes += len(s.Then.LastError)
		}
		if d := s.DeadLetter; d != nil {
			if err := validateTime(s.Name, d.Due, bad); err != nil {
				return 0, err
			}
			bytes += len(d.Reason)
		}
	}
	named := make(map[actor.ReminderName]struct{}, len(e.Cancel)+len(e.Set))
	once := func(n actor.ReminderName) error {
		if _, twice := named[n]; twice {
			return bad("sets or cancels the reminder %q of %s twice", n.Name, n.Key)
		}
		named[n] = struct{}{}
		return validateReminderName(n)
	}
	for _, n := range e.Cancel {
		if err := once(n); err != nil {
			return 0, err
		}
	}
	for i := range e.Set {
		r := &e.Set[i]
		if err := r.ReminderSpec.Validate(); err != nil {
			return 0, err
		}
		if err := r.ID.Validate(); err != nil {
			return 0, err
		}
		if err := once(actor.ReminderName{Key: r.Key, Name: r.Name}); err != nil {
			return 0, err
		}
		if err := validateProgress(r.Name, &r.ReminderProgress, bad); err != nil {
			return 0, err
		}
		for j := range c.Rows {
			if w := &c.Rows[j]; w.Delete && w.Key == r.Key && (!w.NewLife || r.Message == nil) {
				return 0, bad("sets the reminder %q of %s, which it deletes", r.Name, r.Key)
			}
		}
		bytes += r.Size()
	}
	return bytes, nil
}

func validateReminderName(n actor.ReminderName) error {
	if err := n.Key.Validate(); err != nil {
		return err
	}
	return actor.ValidateStoredName(n.Name)
}

func validateProgress(name string, p *actor.ReminderProgress, bad func(problem string, args ...any) error) error {
	if err := validateTime(name, p.Due, bad); err != nil {
		return err
	}
	return validateTime(name, p.FireAt, bad)
}

func validateTime(name string, t time.Time, bad func(problem string, args ...any) error) error {
	if t.Year() < 1 || t.After(actor.MaxReminderTime.Add(48*time.Hour)) || t.IsZero() {
		return bad("has the time %v of the reminder %q; times go from the year 1 to 9999", t, name)
	}
	return nil
}

// ReminderOp is the effect of a commit on one reminder, for drivers.
type ReminderOp struct {
	actor.ReminderName
	// Step is what the commit rests on; nil: nothing.
	Step *actor.ReminderStep
	// Set is written in its place; with IfAbsent, only if no reminder is there. If Set is nil,
	// Then is how the reminder goes on, and if Then is nil, too, the reminder is removed.
	Set      *actor.Reminder
	IfAbsent bool
	Then     *actor.ReminderProgress
	// Deleted: its actor is deleted, and all its reminders with it.
	Deleted bool
}

// ReminderOps folds the steps, cancellations and sets of a commit into one operation for
// each name, for drivers.
func ReminderOps(c *actor.Commit) []ReminderOp {
	e := &c.Reminders
	if e.Empty() {
		return nil
	}
	ops := make([]ReminderOp, 0, len(e.Steps)+len(e.Cancel)+len(e.Set))
	add := func(op ReminderOp) {
		for j := range c.Rows {
			w := &c.Rows[j]
			op.Deleted = op.Deleted || w.Delete && w.Key == op.Key && (!w.NewLife || !actor.IsMessageName(op.Name))
		}
		ops = append(ops, op)
	}
	for i := range e.Steps {
		s := &e.Steps[i]
		add(ReminderOp{ReminderName: s.ReminderName, Step: s, Then: s.Then})
	}
	steps := ops
	at := func(n actor.ReminderName) *ReminderOp {
		for i := range steps { // one or none, as good as always
			if steps[i].ReminderName == n {
				return &steps[i]
			}
		}
		add(ReminderOp{ReminderName: n})
		return &ops[len(ops)-1]
	}
	for _, n := range e.Cancel {
		at(n).Then = nil
	}
	for i := range e.Set {
		r := &e.Set[i]
		op := at(actor.ReminderName{Key: r.Key, Name: r.Name})
		switch {
		case r.Keep && op.Step != nil && op.Then != nil:
			// It is there, and goes on.
		case r.Keep && op.Step == nil:
			op.Set, op.IfAbsent = r, true
		default:
			op.Set, op.Then = r, nil
		}
	}
	return ops
}

// ValidateDueQuery checks a query, for drivers.
func ValidateDueQuery(q *DueQuery) error {
	if err := q.Bucket.Token(0).Validate(); err != nil {
		return err
	}
	return validateHeads(q.Limit)
}

// ValidateRanges checks what [Reminders].RecentReminders is given, for drivers.
func ValidateRanges(b actor.Bucket, limit int) error {
	if err := b.Token(0).Validate(); err != nil {
		return err
	}
	return validateHeads(limit)
}

// ValidateReminderQuery checks a query, for drivers.
func ValidateReminderQuery(q *ReminderQuery) error {
	switch {
	case q.ID != "" && q.Type == "":
		return &actor.ArgumentError{Field: "actor type", Problem: "is empty, and an actor ID is given; give both"}
	case q.Prefix != "" && q.ID == "":
		return &actor.ArgumentError{Field: "actor id", Problem: "is empty, and the beginning of a name is given; give both"}
	case q.Prefix != "" && (q.Messages || q.Cursors):
		return &actor.ArgumentError{Field: "prefix", Problem: "is given, and the query asks for messages or cursors, whose names no caller chooses; leave it out"}
	case q.Messages && q.Cursors:
		return &actor.ArgumentError{Field: "query", Problem: "asks for messages and for cursors; ask for one kind"}
	}
	if err := actor.ValidateName("app", q.App); err != nil {
		return err
	}
	if isReserved(q.After.Name) {
		return errors.Join(validatePositions(q.Prefix), actor.ValidateStoredName(q.After.Name), ValidateLimit(q.Limit))
	}
	if err := validatePositions(q.Prefix, q.After.Name); err != nil {
		return err
	}
	return ValidateLimit(q.Limit)
}

// isReserved reports whether a name is that of a message or of a cursor.
func isReserved(name string) bool { return name != "" && name < actor.ReservedNamesEnd }

// validatePositions checks beginnings of names and names, which may be empty.
func validatePositions(names ...string) error {
	for _, n := range names {
		if n == "" {
			continue
		}
		if err := actor.ValidateReminderName(n); err != nil {
			return err
		}
	}
	return nil
}

// ValidateReminderNameQuery checks a query, for drivers.
func ValidateReminderNameQuery(q *ReminderNameQuery) error {
	if err := q.Key.Validate(); err != nil {
		return err
	}
	prefix := q.Prefix
	if prefix == actor.CursorNames {
		prefix = ""
	}
	if isReserved(q.After) && (q.Messages || prefix != q.Prefix) {
		return errors.Join(validatePositions(prefix), actor.ValidateStoredName(q.After), ValidateLimit(q.Limit))
	}
	if err := validatePositions(prefix, q.After); err != nil {
		return err
	}
	return ValidateLimit(q.Limit)
}

// ValidateAllocation checks what [Reminders].AllocateBucket is given, for drivers.
func ValidateAllocation(app string, fresh actor.Vector) error {
	if err := actor.ValidateName("app", app); err != nil {
		return err
	}
	_, err := actor.ParseVector(fresh.String())
	return err
}

func validateHeads(limit int) error {
	if limit < 1 || limit > MaxHeads {
		return &actor.ArgumentError{Field: "limit", Problem: fmt.Sprintf("is %d; give 1 to %d", limit, MaxHeads)}
	}
	return nil
}

// ValidateMessageQuery checks a query, for drivers.
func ValidateMessageQuery(q *MessageQuery) error {
	if err := q.Key.Validate(); err != nil {
		return err
	}
	if q.After != "" {
		if err := actor.ValidateMessageName(q.After); err != nil {
			return err
		}
	}
	return ValidateLimit(q.Limit)
}

// ValidateReminderCount checks what [Reminders].CountReminders is given, for drivers.
func ValidateReminderCount(app string, limit int) error {
	if limit < 1 || limit > MaxExamined {
		return &actor.ArgumentError{Field: "limit", Problem: fmt.Sprintf("is %d; give 1 to %d", limit, MaxExamined)}
	}
	return actor.ValidateName("app", app)
}

// ValidateInbox checks what [Reminders].Inbox is given, for drivers.
func ValidateInbox(key actor.Key, limit int) error {
	if err := key.Validate(); err != nil {
		return err
	}
	if limit < 1 || limit > MaxHeads {
		return &actor.ArgumentError{Field: "limit", Problem: "is not from 1 to 10,000"}
	}
	return nil
}

// SpecRecord is how a spec is stored, without its key, name and payload, for drivers:
// as JSON, which SQL can read.
type SpecRecord struct {
	Method string `json:"method"`
	At     int64  `json:"at"`                 // microseconds since 1970
	Every  int64  `json:"every_us,omitempty"` // microseconds
	Cron   string `json:"cron,omitempty"`
	Zone   string `json:"zone,omitempty"`
	Times  uint32 `json:"times,omitempty"`
	Until  *int64 `json:"until,omitempty"`     // microseconds since 1970
	Jitter int64  `json:"jitter_us,omitempty"` // microseconds
	Missed uint8  `json:"missed,omitempty"`
	Limit  uint32 `json:"missed_limit,omitempty"`
	After  int64  `json:"missed_after_us,omitempty"` // microseconds
	FailureRecord
	Metadata map[string]string `json:"metadata,omitempty"`
	Message  *MessageRecord    `json:"message,omitempty"` // nil: it is no message
	Cursor   *CursorRecord     `json:"cursor,omitempty"`  // nil: it is no cursor
	Link     actor.SpanLink    `json:"link,omitzero"`
}

// FailureRecord is how a failure policy is stored, in a [SpecRecord].
type FailureRecord struct {
	Failure  uint8  `json:"failure,omitempty"`
	Attempts uint32 `json:"attempts,omitempty"`
	Interval int64  `json:"interval_us,omitempty"`     // microseconds
	Max      int64  `json:"max_interval_us,omitempty"` // microseconds
}

// SpecRecordOf returns how s is stored.
func SpecRecordOf(s *actor.ReminderSpec) SpecRecord {
	r := SpecRecord{
		Method: s.Method, At: s.Schedule.At.UnixMicro(), Every: s.Schedule.Every.Microseconds(), Cron: s.Schedule.Cron,
		Zone: s.Schedule.Zone, Times: s.Schedule.Times, Jitter: s.Schedule.Jitter.Microseconds(),
		Missed: uint8(s.Missed.Kind), Limit: s.Missed.Limit, After: s.Missed.After.Microseconds(),
		FailureRecord: FailureRecord{
			Failure: uint8(s.Failure.Kind), Attempts: s.Failure.Attempts, Interval: s.Failure.Interval.Microseconds(), Max: s.Failure.Max.Microseconds(),
		},
		Metadata: s.Metadata, Message: messageRecordOf(s.Message), Cursor: cursorRecordOf(s.Cursor), Link: s.Link,
	}
	if !s.Schedule.Until.IsZero() {
		until := s.Schedule.Until.UnixMicro()
		r.Until = &until
	}
	return r
}

// Spec returns what was stored.
func (r *SpecRecord) Spec(key actor.Key, name string, payload actor.Payload) actor.ReminderSpec {
	us := func(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
	s := actor.ReminderSpec{
		Key: key, Name: name, Method: r.Method, Payload: payload, Metadata: r.Metadata, Message: r.Message.message(key.App), Cursor: r.Cursor.cursor(key.App), Link: r.Link,
		Schedule: actor.Schedule{
			At: time.UnixMicro(r.At).UTC(), Every: us(r.Every), Cron: r.Cron, Zone: r.Zone, Times: r.Times, Jitter: us(r.Jitter),
		},
		Missed:  actor.MissedPolicy{Kind: actor.MissedKind(r.Missed), Limit: r.Limit, After: us(r.After)},
		Failure: actor.FailurePolicy{Kind: actor.FailureKind(r.Failure), Attempts: r.Attempts, Interval: us(r.Interval), Max: us(r.Max)},
	}
	if r.Until != nil {
		s.Schedule.Until = time.UnixMicro(*r.Until).UTC()
	}
	return s
}

// ThinReminders removes reminders of an actor, and messages to it, until fewer than [MaxList] are left, so that
// the commit which deletes the actor, and removes those, is bounded. Each page of them is a
// commit that rests on the actor's row as it was read, or, if that is damaged, on nothing.
// [actor.ErrStale] if the row has moved on. After an error some of them are removed: the
// caller deletes the actor all the same, or has its own caller repeat the deletion.
func ThinReminders(ctx context.Context, s interface {
	Commit(ctx context.Context, commits []actor.Commit) []error
	ReminderNames(ctx context.Context, q ReminderNameQuery) ([]string, error)
}, row actor.RowFence, damaged bool) error {
	q := ReminderNameQuery{Key: row.Key, Messages: true, Limit: MaxList}
	for {
		names, err := s.ReminderNames(ctx, q)
		if err != nil || len(names) < MaxList {
			return err
		}
		c := actor.CommitOf()
		if !damaged {
			c.Fences = []actor.RowFence{row}
		}
		for _, n := range names {
			c.Reminders.Cancel = append(c.Reminders.Cancel, actor.ReminderName{Key: row.Key, Name: n})
		}
		if err := s.Commit(ctx, []actor.Commit{c})[0]; err != nil {
			return err
		}
		q.After = names[len(names)-1] // reading does not meet those that are gone
	}
}
