package actor

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/abi/schedule"
)

// Bounds of a reminder.
const (
	// MaxReminderName is the longest name, in bytes.
	MaxReminderName = 256
	// MaxReminderPayload is the largest payload, in bytes.
	MaxReminderPayload = 64 << 10
	// MaxReminderMetadata is how many entries the metadata has at most, and
	// MaxReminderMetadataBytes how many bytes their keys and values together.
	MaxReminderMetadata      = 32
	MaxReminderMetadataBytes = 8 << 10
	// MaxCronLen is the longest cron expression, and MaxZoneLen the longest name of a
	// time zone, in bytes.
	MaxCronLen = 256
	MaxZoneLen = 64
	// MinPeriod is the shortest period.
	MinPeriod = time.Millisecond
	// MaxReminderDuration is the longest delay, period or interval: 290 years, about what a
	// [time.Duration] holds.
	MaxReminderDuration = 290 * 365 * 24 * time.Hour
	// MaxAttempts is the highest number of deliveries of one occurrence, and
	// DefaultAttempts that of a failure policy that names none.
	MaxAttempts     = 1000
	DefaultAttempts = schedule.DefaultAttempts
	// MaxCatchUp is the highest limit of the missed policy that catches up, and
	// DefaultCatchUp what it is if none is given.
	MaxCatchUp     = 1000
	DefaultCatchUp = schedule.DefaultCatchUp
	// DefaultMissedAfter is how late an occurrence may be delivered before it counts
	// as missed, where the missed policy is to skip, and after the end of a schedule.
	DefaultMissedAfter = schedule.DefaultMissedAfter
)

// MaxReminderTime is the latest time that a reminder may name: what stores can keep.
var MaxReminderTime = schedule.Latest

// Schedule determines when a reminder is due. A schedule is a fixed row of occurrences: the
// first at At, or After from when the reminder was set, or, if neither is given, one period
// from then, or at once; with Cron, at the first match from that time on. The others follow
// by Every or by Cron. There are no more than Times occurrences, and none after Until.
// Whether an occurrence is delivered, collapsed or skipped does not move the others.
type Schedule struct {
	// At is when the first occurrence is; one that is past is due at once. Not with
	// After.
	At    time.Time
	After time.Duration
	// Every is the period; 0: none. At least [MinPeriod].
	Every time.Duration
	// Cron is an expression of five fields (minute, hour, day of the month, month, day
	// of the week), or of six with seconds in front, or one of @hourly, @daily, @weekly,
	// @monthly and @yearly. Empty: none. Not with Every.
	Cron string
	// Zone is the IANA name of the time zone in which Cron is read. Empty: UTC.
	Zone string
	// Times is how many occurrences there are; 0: no limit.
	Times uint32
	// Until is the end: there is no occurrence after it, and one that is more than
	// [DefaultMissedAfter] late by then is passed over, whatever the missed policy. Zero: none.
	Until time.Time
	// Jitter delays each delivery by up to so much. By how much depends on the
	// reminder's ID alone.
	Jitter time.Duration
}

// Recurring reports whether s may have more than one occurrence.
func (s *Schedule) Recurring() bool { return (s.Every > 0 || s.Cron != "") && s.Times != 1 }

// MissedKind is what happens to occurrences that nobody could deliver in time.
type MissedKind uint8

const (
	// MissedCollapse delivers one firing in the place of all that are due by then.
	MissedCollapse = MissedKind(abi.MissedCollapse)
	// MissedSkip delivers only the newest one, if it is not late.
	MissedSkip = MissedKind(abi.MissedSkip)
	// MissedCatchUp delivers one after the other, in order.
	MissedCatchUp = MissedKind(abi.MissedCatchUp)
)

// MissedPolicy determines what happens to missed occurrences.
type MissedPolicy struct {
	Kind MissedKind
	// Limit is how many missed occurrences are caught up with, the newest ones; 0:
	// [DefaultCatchUp]. For MissedCatchUp.
	Limit uint32
	// After is how late a delivery may be; 0: [DefaultMissedAfter]. For MissedSkip.
	After time.Duration
}

// FailureKind is what happens to a firing whose turn failed.
type FailureKind uint8

const (
	// FailureConstant delivers it again after Interval; each wait is up to a quarter longer, a minute
	// at most, not the same for all.
	FailureConstant = FailureKind(abi.FailureConstant)
	// FailureExponential delivers it again after Interval, and each time after twice as
	// long, up to Max; each wait is up to a quarter shorter, not the same for all.
	FailureExponential = FailureKind(abi.FailureExponential)
	// FailureDrop goes on with the next occurrence.
	FailureDrop = FailureKind(abi.FailureDrop)
)

// FailurePolicy determines what happens to a firing whose turn failed: the firing is
// delivered again until it was delivered Attempts times, and is then a [DeadLetter].
type FailurePolicy struct {
	Kind FailureKind
	// Attempts is how many deliveries there are, the first among them; 0:
	// [DefaultAttempts].
	Attempts uint32
	// Interval is how long to wait before the second of them; 0: 1 s.
	Interval time.Duration
	// Max bounds the wait of FailureExponential; 0: 1 h.
	Max time.Duration
}

// ReminderSpec is what somebody asks for.
type ReminderSpec struct {
	Key Key
	// Name is what one reminder of an actor has: 1 to [MaxReminderName] bytes of UTF-8 without
	// control characters. Of a message it is what [MessageName] or [UnorderedMessageName] makes,
	// or empty until that is known.
	Name     string
	Method   string // what a firing runs; empty for a subscription
	Payload  Payload
	Schedule Schedule
	Missed   MissedPolicy
	Failure  FailurePolicy
	Metadata map[string]string
	// Keep leaves a reminder of that name as it is, if there is one.
	Keep bool
	// Hold sets it paused.
	Hold bool
	// Message makes it a message to the actor; nil: a reminder of the actor's own. The end of
	// the schedule is then when the message is too old.
	Message *Message
	// Cursor makes it a subscription to the events of another actor; nil: it is none.
	Cursor *Cursor
	// Link is the span in which it was set or sent, if that was sampled.
	Link SpanLink
}

// ReminderProgress is what changes of a reminder while it lives.
type ReminderProgress struct {
	// Due is the occurrence to be delivered next, as the schedule has it.
	Due time.Time
	// FireAt is when it is to be delivered: Due with its jitter, or later, after a
	// failure. Stores find reminders by it.
	FireAt time.Time
	// Left counts the occurrences from Due on; 0: the schedule has no limit.
	Left uint32
	// Failures counts the failed deliveries of this occurrence.
	Failures uint32
	// Paused keeps it from being delivered.
	Paused bool
	// LastError is what the last failed delivery ended with, shortened.
	LastError string
}

// Reminder is a durable invocation of an actor in the future, as it is stored.
type Reminder struct {
	// ID is unique for ever; setting the name anew gives it another.
	ID ReminderID
	// Version counts up with each change. ID and version are the fence of a firing.
	Version uint64
	ReminderSpec
	ReminderProgress
	// CreatedAt and UpdatedAt are database times, set by the store.
	CreatedAt, UpdatedAt time.Time
}

// ReminderName names the reminder of an actor.
type ReminderName struct {
	Key  Key
	Name string
}

// ReminderStep is what an attempt to deliver a firing, or an operator, does to a
// reminder that was read: part of a [Commit], which applies only if the reminder is
// still there at that version.
type ReminderStep struct {
	ReminderName
	ID      ReminderID
	Version uint64 // as it was read
	// Ordered is for a message of an ordered name: the commit is refused with [ErrMessageOrder]
	// while an earlier ordered message of the same sender to the same receiver is there that
	// the commit itself does not remove.
	Ordered bool
	// Then is how it goes on; nil: it is over and removed.
	Then *ReminderProgress
	// DeadLetter keeps a firing that failed permanently; nil: none.
	DeadLetter *DeadFiring
}

// DeadFiring is what a step adds to the reminder that it steps on to make a [DeadLetter].
type DeadFiring struct {
	// Due is the occurrence that was delivered: the reminder's own, or, under a missed policy
	// that passes occurrences over, a later one.
	Due time.Time
	// Failures counts the failed deliveries of that occurrence before the last one.
	Failures uint32
	Reason   string
}

// Firing is one delivery of an occurrence of a reminder: it asks for a turn whose commit
// has Step among its effects, so that of all deliveries one takes effect.
type Firing struct {
	Reminder ReminderID
	Key      Key
	Name     string
	Method   string
	Payload  Payload
	Metadata map[string]string
	// Due is the occurrence; where it stands for several, the first of them.
	Due time.Time
	// Missed is how many further occurrences it stands for, and how many were passed
	// over before it.
	Missed uint32
	// Attempt is 1 for the first delivery of the occurrence.
	Attempt uint32
	Step    ReminderStep
	// Fresh says that nobody can have delivered it before, so that whoever runs its turn need
	// not look whether it was taken: the commit finds out. Where that is not known it is
	// false.
	Fresh bool
	// Message is not nil for a message; Attempt counts its deliveries, and Due is when it was
	// to be delivered.
	Message *Message
	// SentAt is when a message was sent, by the clock of the database; zero for a reminder.
	SentAt time.Time
	// Pull is not nil for a cursor: whoever delivers the firing reads the event.
	Pull *Pull
	// Link is that of the reminder or message; zero for a cursor, whose events have their own.
	Link SpanLink
}

// Cause returns what causes the turn of the firing.
func (f *Firing) Cause() Cause {
	switch {
	case f.Message == nil:
		return CauseFiring
	case f.Message.Failed != "":
		return CauseUndelivered
	}
	return CauseMessage
}

// DeadLetter is a firing that failed as often as its policy allows.
type DeadLetter struct {
	Reminder Reminder // as it was read for the last delivery, at the occurrence that was delivered
	Reason   string
	FailedAt time.Time // database time, set by the store
}

// ValidateReminderName checks the name of a reminder: 1 to [MaxReminderName] bytes of
// UTF-8 without control characters.
func ValidateReminderName(name string) error {
	const field = "reminder name"
	switch {
	case name == "":
		return argument(field, "is empty; give 1 to %d bytes of UTF-8", MaxReminderName)
	case len(name) > MaxReminderName:
		return argument(field, "has %d bytes; at most %d are allowed", len(name), MaxReminderName)
	case !utf8.ValidString(name):
		return argument(field, "is not valid UTF-8")
	}
	return refuseControls(field, name)
}

func (s *Schedule) validate() error {
	switch {
	case !s.At.IsZero() && s.After != 0:
		return argument("reminder schedule", "has both a due time and a delay; give one of them")
	case s.After < 0:
		return argument("reminder delay", "is %v; give 0 or more", s.After)
	case s.After > MaxReminderDuration:
		return argument("reminder delay", "is %v; give at most 290 years, or the time itself", s.After)
	case !s.At.IsZero() && (s.At.After(MaxReminderTime) || s.At.Year() < 1):
		return argument("reminder due time", "is %v; give a time before the year 9999", s.At)
	case s.Every != 0 && s.Cron != "":
		return argument("reminder schedule", "has both a period and a cron expression; give one of them")
	case s.Every < 0:
		return argument("reminder period", "is %v; give at least %v, or leave it out for a reminder that fires once", s.Every, MinPeriod)
	case s.Every > 0 && s.Every < MinPeriod:
		return argument("reminder period", "is %v; the shortest is %v", s.Every, MinPeriod)
	case s.Every > MaxReminderDuration:
		return argument("reminder period", "is %v; the longest is 290 years", s.Every)
	case len(s.Cron) > MaxCronLen:
		return argument("reminder cron", "has %d bytes; at most %d are allowed", len(s.Cron), MaxCronLen)
	case len(s.Zone) > MaxZoneLen:
		return argument("reminder zone", "has %d bytes; give an IANA name such as Europe/Berlin", len(s.Zone))
	case s.Zone != "" && s.Cron == "":
		return argument("reminder zone", "is %q, and there is no cron expression that it is for; give one, or leave the zone out", s.Zone)
	case s.Times > 1 && s.Every == 0 && s.Cron == "":
		return argument("reminder count", "is %d, and there is neither a period nor a cron expression; give one, or leave the count out", s.Times)
	case !s.Until.IsZero() && (s.Until.After(MaxReminderTime) || s.Until.Year() < 1):
		return argument("reminder end", "is %v; give a time before the year 9999, or leave it out", s.Until)
	case s.Jitter < 0:
		return argument("reminder jitter", "is %v; give 0 or more", s.Jitter)
	case s.Jitter > 0 && s.Every > 0 && s.Jitter >= s.Every:
		return argument("reminder jitter", "is %v, and the period %v; give less than the period", s.Jitter, s.Every)
	case s.Jitter > maxJitter:
		return argument("reminder jitter", "is %v; at most %v are allowed", s.Jitter, maxJitter)
	}
	return nil
}

const maxJitter = 24 * time.Hour

func (p MissedPolicy) validate() error {
	switch {
	case p.Kind > MissedCatchUp:
		return argument("reminder missed policy", "is the unknown number %d; give collapse, skip or catchup", p.Kind)
	case p.Limit != 0 && p.Kind != MissedCatchUp:
		return argument("reminder missed limit", "is for the policy catchup; leave it out")
	case p.Limit > MaxCatchUp:
		return argument("reminder missed limit", "is %d; at most %d are allowed", p.Limit, MaxCatchUp)
	case p.After != 0 && p.Kind != MissedSkip:
		return argument("reminder missed after", "is for the policy skip; leave it out")
	case p.After < 0 || p.After > MaxReminderDuration:
		return argument("reminder missed after", "is %v; give 0 or more, and at most 290 years", p.After)
	}
	return nil
}

func (p FailurePolicy) validate() error {
	switch {
	case p.Kind > FailureDrop:
		return argument("reminder failure policy", "is the unknown number %d; give drop, constant or exponential", p.Kind)
	case p.Kind == FailureDrop && (p.Attempts != 0 || p.Interval != 0 || p.Max != 0):
		return argument("reminder failure policy", "is to drop, and has attempts or intervals; leave them out, or take another policy")
	case p.Attempts > MaxAttempts:
		return argument("reminder attempts", "are %d; at most %d are allowed", p.Attempts, MaxAttempts)
	case p.Interval < 0 || p.Interval > MaxReminderDuration:
		return argument("reminder retry interval", "is %v; give 0 or more, and at most 290 years", p.Interval)
	case p.Max != 0 && p.Kind != FailureExponential:
		return argument("reminder longest retry interval", "is for the exponential policy; leave it out")
	case p.Max != 0 && p.Max < p.Interval:
		return argument("reminder longest retry interval", "is %v, and the first one %v; give more", p.Max, p.Interval)
	case p.Max > MaxReminderDuration:
		return argument("reminder longest retry interval", "is %v; at most 290 years are allowed", p.Max)
	}
	return nil
}

func validateMetadata(m map[string]string) error {
	const field = "reminder metadata"
	if len(m) > MaxReminderMetadata {
		return argument(field, "has %d entries; at most %d are allowed", len(m), MaxReminderMetadata)
	}
	size := 0
	for k, v := range m {
		if k == "" {
			return argument(field, "has an entry with an empty key; name it")
		}
		if !utf8.ValidString(k) || !utf8.ValidString(v) {
			return argument(field, "has the entry %q, which is not valid UTF-8", k)
		}
		if strings.ContainsRune(k, 0) || strings.ContainsRune(v, 0) {
			return argument(field, "has the entry %q with a zero byte; remove it", k)
		}
		size += len(k) + len(v)
	}
	if size > MaxReminderMetadataBytes {
		return argument(field, "has %d bytes; at most %d are allowed", size, MaxReminderMetadataBytes)
	}
	return nil
}

// Wait returns how long to wait before a firing is delivered again that has failed
// failures times, at least once, and false if it is not.
func (p FailurePolicy) Wait(failures uint32) (time.Duration, bool) {
	return schedule.Retry{Kind: uint8(p.Kind), Attempts: p.Attempts, Interval: p.Interval, Longest: p.Max}.Wait(failures)
}

// ReminderOverhead is about what a reminder takes in a commit beside its payload, in bytes.
const ReminderOverhead = 512

// Size is about how many bytes r takes in a commit.
func (r *Reminder) Size() int {
	size := ReminderOverhead + len(r.Payload.Data) + r.Message.size()
	if r.Cursor != nil {
		size += len(r.Cursor.Publisher.Type) + len(r.Cursor.Publisher.ID)
	}
	for k, v := range r.Metadata {
		size += len(k) + len(v)
	}
	return size
}
