package actor

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/greenroom-run/greenroom/abi"
)

// Reminder is a durable call of a method of the actor itself, at a later time or many
// of them. Its firing is a turn like another, which runs exactly once in effect; see
// [Context.Cause].
type Reminder struct {
	// Name is 1 to 256 bytes without control characters. One reminder of an actor has
	// it: setting it again replaces what there was.
	Name string
	// Method is what a firing runs, under the name that it is registered with. It must
	// not be read-only.
	Method string
	// In is the method's input: a [Payload] or []byte as it is, anything else as JSON,
	// nil for none. At most 65536 bytes. [GetReminder] gives a Payload.
	In any

	// At is when it is first due; one that is past is due at once. Or give After, from
	// now. Neither: at once, or after one period, or when Cron first matches.
	At    time.Time
	After time.Duration
	// Every is the period, at least a millisecond; 0: it fires once.
	Every time.Duration
	// Cron is an expression of five fields (minute, hour, day of the month, month, day of
	// the week), or of six with seconds in front, or one of @hourly, @daily, @weekly,
	// @monthly and @yearly. Zone is the IANA name of the time zone in which it is read;
	// empty: UTC.
	Cron, Zone string
	// Times is how often it is due at most; 0: no limit.
	Times int
	// Until is after which time it is not due any more; zero: never.
	Until time.Time
	// Jitter delays each firing by up to so much, so that many do not come at once.
	Jitter time.Duration

	// Missed says what happens to times at which nobody could fire it. The zero value
	// fires once for all of them.
	Missed Missed
	// Retry says what happens to a firing whose turn failed. The zero value tries it three
	// times, a second apart.
	Retry Retry
	// Metadata comes with each firing: at most 32 entries, and 8192 bytes.
	Metadata map[string]string
	// Keep leaves a reminder of that name as it is, if there is one.
	Keep bool
}

// Missed says what happens to times that a reminder missed, since no server ran or an
// earlier firing took long. The zero value fires once for all of them; see also
// [SkipMissed] and [CatchUp].
type Missed struct {
	kind  uint8
	limit uint32
	after time.Duration
}

// SkipMissed passes over missed times, the newest excepted if it is not later than
// after; 0: a minute.
func SkipMissed(after time.Duration) Missed { return Missed{kind: abi.MissedSkip, after: after} }

// CatchUp fires for each missed time, in order: the newest ones, at most limit; 0: 100.
func CatchUp(limit int) Missed { return Missed{kind: abi.MissedCatchUp, limit: bounded(limit)} }

// Retry says what happens to a firing whose turn failed.
type Retry struct {
	// Attempts is how often one firing is tried, the first time included. After the
	// last it is kept as a dead letter, for people to look at. 0: 3.
	Attempts int
	// Interval is how long after a failure it is tried again; 0: a second.
	Interval time.Duration
	// Longest makes the interval twice as long after each failure, up to so much. 0: it
	// stays the same.
	Longest time.Duration
	// Drop tries it once and keeps no dead letter; the others must be zero.
	Drop bool
}

// Errors of reminders, to compare with [errors.Is], beside [ErrReadOnly] and
// [ErrNoState].
var (
	// ErrInvalidReminder is a reminder that cannot be; its message says what to change.
	ErrInvalidReminder = NewError(StatusInvalidArgument, "invalid_reminder", "the reminder cannot be")
	// ErrTooMany is more than a turn may do.
	ErrTooMany = NewError(StatusResourceExhausted, "too_many", "the turn has done that as often as it may")
	// ErrNotReady is what the host cannot say now.
	ErrNotReady = NewError(StatusUnavailable, "not_ready", "the host cannot say now").Retry(0)
)

// SetReminder sets a reminder of the actor whose turn this is, in the place of one of
// the same name. Like a change of the state it is part of the turn: when the turn
// fails, it was not set. What it refuses is [ErrInvalidReminder].
//
//	actor.SetReminder(ctx, actor.Reminder{Name: "expire", Method: "Expire", After: time.Hour})
func SetReminder(ctx *Context, r Reminder) error {
	in := ctx.live()
	f := abi.Reminder{
		Name: r.Name, Method: r.Method, PeriodNano: int64(r.Every), Cron: r.Cron, Zone: r.Zone,
		DelayNano: int64(r.After), JitterNano: int64(r.Jitter),
		Missed: r.Missed.kind, MissedLimit: r.Missed.limit, MissedAfter: int64(r.Missed.after),
	}
	var err error
	if f.DueUnixNano, err = unixNano("At", r.At); err != nil {
		return reminderProblem("set", r.Name, err.Error())
	}
	if f.UntilNano, err = unixNano("Until", r.Until); err != nil {
		return reminderProblem("set", r.Name, err.Error())
	}
	if f.Count, err = number("Times", r.Times); err != nil {
		return reminderProblem("set", r.Name, err.Error())
	}
	if f.Attempts, err = number("Retry.Attempts", r.Retry.Attempts); err != nil {
		return reminderProblem("set", r.Name, err.Error())
	}
	f.IntervalNano, f.LongestNano = int64(r.Retry.Interval), int64(r.Retry.Longest)
	switch {
	case r.Retry.Drop:
		f.Failure = abi.FailureDrop
	case r.Retry.Longest != 0:
		f.Failure = abi.FailureExponential
	}
	if r.Keep {
		f.Flags = abi.FlagKeep
	}
	for key, value := range r.Metadata {
		f.Metadata = append(f.Metadata, abi.Header{Name: key, Value: value})
	}
	slices.SortFunc(f.Metadata, func(a, b abi.Header) int { return strings.Compare(a.Name, b.Name) })
	if f.ContentType, f.Payload, err = in.values.input(r.In); err != nil {
		return fmt.Errorf("set reminder %q: %w", r.Name, err)
	}
	return reminderError(ctx, "set", r.Name, reminderSet(ctx, abi.AppendReminder(nil, &f)))
}

// CancelReminder removes a reminder of the actor, as part of the turn. One that is not
// there is no error.
func CancelReminder(ctx *Context, name string) error {
	return reminderError(ctx, "cancel", name, reminderCancel(ctx, name))
}

// GetReminder returns a reminder of the actor, with what the turn itself has done to it;
// found is false if there is none. At is when it is due next and Times how often it
// is still due; setting it again continues the schedule unchanged.
func GetReminder(ctx *Context, name string) (r Reminder, found bool, err error) {
	frame, code := reminderGet(ctx, name)
	if code == abi.CodeNotFound {
		return Reminder{}, false, nil
	}
	if code < 0 {
		return Reminder{}, false, reminderError(ctx, "get", name, code)
	}
	var f abi.Reminder
	if err := abi.DecodeReminder(frame, &f); err != nil {
		return Reminder{}, false, fmt.Errorf("get reminder %q: %w", name, err)
	}
	r = Reminder{ // the frame is this call's own
		Name: f.Name, Method: f.Method, At: time.Unix(0, f.DueUnixNano).UTC(), Every: time.Duration(f.PeriodNano),
		Cron: f.Cron, Zone: f.Zone, Times: int(f.Count), Jitter: time.Duration(f.JitterNano),
		Missed: Missed{kind: f.Missed, limit: f.MissedLimit, after: time.Duration(f.MissedAfter)},
		Retry: Retry{
			Attempts: int(f.Attempts), Interval: time.Duration(f.IntervalNano), Longest: time.Duration(f.LongestNano),
			Drop: f.Failure == abi.FailureDrop,
		},
		Metadata: metadata(f.Metadata), Keep: f.Flags&abi.FlagKeep != 0,
	}
	if f.Failure == abi.FailureExponential && r.Retry.Longest == 0 {
		r.Retry.Longest = time.Hour
	}
	if f.UntilNano != 0 {
		r.Until = time.Unix(0, f.UntilNano).UTC()
	}
	if len(f.Payload) > 0 || f.ContentType != "" {
		r.In = Payload{ContentType: f.ContentType, Data: f.Payload}
	}
	return r, true, nil
}

// ReminderNames returns the names of the actor's reminders that begin with prefix, in
// ascending byte order, with what the turn itself has done to them: at most 1000, the
// first ones.
func ReminderNames(ctx *Context, prefix string) ([]string, error) {
	list, code := reminderNames(ctx, prefix)
	if code < 0 {
		return nil, reminderError(ctx, "list", prefix, code)
	}
	names, err := abi.DecodeKeyList(list)
	if err != nil {
		return nil, fmt.Errorf("list reminders: %w", err)
	}
	return names, nil
}

// CauseKind is what brought a turn about.
type CauseKind string

const (
	// CauseCall is a call from outside.
	CauseCall CauseKind = "call"
	// CauseActor is a call of another actor: [Call].
	CauseActor CauseKind = "actor"
	// CauseReminder is a firing of a [Reminder].
	CauseReminder CauseKind = "reminder"
	// CauseTimer is a firing of a [Timer].
	CauseTimer CauseKind = "timer"
	// CauseMessage is a message: [Send].
	CauseMessage CauseKind = "message"
	// CauseUndelivered is a message of the actor that comes back: [OnUndelivered].
	CauseUndelivered CauseKind = "undelivered"
	// CauseEvent is an event of another actor: [Subscribe].
	CauseEvent CauseKind = "event"
	// CauseDisconnected is the end of a watch: [WatchHost].
	CauseDisconnected CauseKind = "disconnected"
	// CauseServices is who stands for services that the actor watches: [WatchService].
	CauseServices CauseKind = "services"
)

// Cause is what brought a turn about.
type Cause struct {
	Kind CauseKind
	// From is the caller, where the turn is a call of another actor, or the sender of a
	// message; zero: a client outside. Of an undelivered message it is the receiver that did
	// not consume it, of the end of a watch the actor whose host was watched, and of an event the
	// actor that published it. By is the
	// actor that sent the message on behalf of From; zero: From itself.
	From, By Ref
	// Cookie is that of a message, and Failed the code of the last failure of one that
	// comes back, or why a watch has ended, or of an event, [EventsGone] or [PublisherPassedAway].
	Cookie uint64
	Failed string
	// Name is the reminder's, the timer's or the event's, or the watched one of services.
	Name string
	// Due is when the firing was due, where it stands for several times, the first; or when
	// the message was sent or the event published.
	Due time.Time
	// Attempt is 1 the first time that this firing, message or event is tried, and always of a
	// timer.
	Attempt int
	// Missed is for how many further times the firing stands, and how many were passed
	// over before it.
	Missed int
	// Metadata is the reminder's.
	Metadata map[string]string
}

// Cause is what brought the turn about, for a method that is called as well as
// reminded of or sent messages to.
func (c *Context) Cause() Cause {
	c.live()
	switch f := &c.frame; f.Cause {
	case abi.CauseOutside:
		return Cause{Kind: CauseCall}
	case abi.CauseCall:
		caller, _ := from(f)
		return Cause{Kind: CauseActor, From: caller}
	case abi.CauseMessage, abi.CauseUndelivered:
		cause := Cause{
			Kind: CauseMessage, Cookie: f.Cookie, Failed: strings.Clone(f.Failed), Due: time.Unix(0, f.DueUnixNano).UTC(), Attempt: int(f.Attempt),
		}
		if f.Cause == abi.CauseUndelivered {
			cause.Kind = CauseUndelivered
		}
		cause.From, cause.By = from(f)
		return cause
	case abi.CauseDisconnected:
		of, _ := from(f)
		return Cause{Kind: CauseDisconnected, From: of, Failed: strings.Clone(f.Failed)}
	case abi.CauseServices:
		return Cause{Kind: CauseServices, Name: strings.Clone(f.CauseName), Failed: strings.Clone(f.Failed)}
	case abi.CauseEvent:
		cause := Cause{Kind: CauseEvent, Name: strings.Clone(f.CauseName), Failed: strings.Clone(f.Failed), Attempt: int(f.Attempt)}
		if cause.From, _ = from(f); f.DueUnixNano != 0 {
			cause.Due = time.Unix(0, f.DueUnixNano).UTC()
		}
		return cause
	case abi.CauseReminder, abi.CauseTimer:
		kind := CauseReminder
		if f.Cause == abi.CauseTimer {
			kind = CauseTimer
		}
		return Cause{
			Kind: kind, Name: strings.Clone(f.CauseName), Due: time.Unix(0, f.DueUnixNano).UTC(),
			Attempt: int(f.Attempt), Missed: int(f.Missed), Metadata: metadata(f.Metadata),
		}
	default: // of a newer host
		return Cause{Kind: CauseKind("cause " + strconv.Itoa(int(f.Cause))), Name: strings.Clone(f.CauseName)}
	}
}

// metadata copies headers that alias a frame.
func metadata(headers []abi.Header) map[string]string {
	if len(headers) == 0 {
		return nil
	}
	m := make(map[string]string, len(headers))
	for _, h := range headers {
		m[strings.Clone(h.Name)] = strings.Clone(h.Value)
	}
	return m
}

// unixNano is 0 for the zero time. The frame's times end in 2262.
func unixNano(field string, t time.Time) (int64, error) {
	if t.IsZero() {
		return 0, nil
	}
	if n := t.UnixNano(); time.Unix(0, n).Equal(t) {
		return max(n, 1), nil // what is past is due at once
	}
	if t.Year() < 1970 {
		return 1, nil
	}
	return 0, fmt.Errorf("%s is in the year %d; give a time before 2262", field, t.Year())
}

func number(field string, n int) (uint32, error) {
	if n < 0 || int64(n) > 1<<32-1 {
		return 0, fmt.Errorf("%s is %d; give 0 to 4294967295", field, n)
	}
	return uint32(n), nil
}

// bounded is a number of a frame; what is above all limits is refused by the host.
func bounded(n int) uint32 {
	if n < 0 || int64(n) > 1<<32-1 {
		return 1<<32 - 1
	}
	return uint32(n)
}

func reminderError(ctx *Context, op, name string, code abi.Code) error {
	switch code {
	case abi.CodeInvalid:
		return reminderProblem(op, name, problem(ctx))
	case abi.CodeTooMany:
		return reminderFault(op, name, ErrTooMany.Messagef("%s", or(problem(ctx), ErrTooMany.Message)))
	case abi.CodeNotReady:
		return reminderFault(op, name, notReady(ctx))
	}
	if code < 0 {
		return reminderFault(op, name, codeError(code))
	}
	return nil
}

// notReady is ErrNotReady with what the host says of it.
func notReady(ctx *Context) error {
	return ErrNotReady.Messagef("%s", or(problem(ctx), ErrNotReady.Message))
}

func reminderProblem(op, name, problem string) error {
	return reminderFault(op, name, ErrInvalidReminder.Messagef("%s", or(problem, ErrInvalidReminder.Message)))
}

func reminderFault(op, name string, err error) error { return fault(op, "reminder", name, err) }

// fault names the reminder or timer, or how a name begins that is too long to be one.
func fault(op, what, name string, err error) error {
	if len(name) > 64 {
		name = strings.ToValidUTF8(name[:64], "") + "…"
	}
	return fmt.Errorf("%s %s %q: %w", op, what, name, err)
}

func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}
