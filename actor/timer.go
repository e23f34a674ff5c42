package actor

import (
	"strings"
	"time"
	"unicode/utf8"
)

// Bounds of the timers of one actor.
const (
	// MaxTimers is how many an actor has.
	MaxTimers = 100
	// MaxTimerBytes is what their names, methods and payloads have together.
	MaxTimerBytes = 256 << 10
)

// TimerSpec is a timer as it is asked for: a later call of a method of an actor that is
// kept in memory alone.
type TimerSpec struct {
	Key Key
	// Name is as a reminder's: an actor has one timer of a name.
	Name    string
	Method  string
	Payload Payload // at most [MaxReminderPayload] bytes
	// Schedule says when it fires first, and from then on how long after the end of its
	// last turn. It has no Cron, Zone and Jitter.
	Schedule Schedule
}

// Timer is one that is set.
type Timer struct {
	TimerSpec
	// Due is when it fires next, and Left how often it does from then on; 0: no limit.
	Due  time.Time
	Left uint32
}

// Size is what the timer counts for in [MaxTimerBytes].
func (s *TimerSpec) Size() int64 {
	return int64(len(s.Name) + len(s.Method) + len(s.Payload.ContentType) + len(s.Payload.Data))
}

// Validate checks all of a spec but whether the actor has its method. Errors are
// [*ArgumentError].
func (s *TimerSpec) Validate() error {
	if err := s.Key.Validate(); err != nil {
		return err
	}
	if err := ValidateTimerName(s.Name); err != nil {
		return err
	}
	if err := ValidateName("timer method", s.Method); err != nil {
		return err
	}
	if n := len(s.Payload.Data); n > MaxReminderPayload {
		return argument("timer payload", "has %d bytes; at most %d are allowed: keep the data in the actor's state, and name it here", n, MaxReminderPayload)
	}
	if n := len(s.Payload.ContentType); n > MaxContentType || !utf8.ValidString(s.Payload.ContentType) {
		return argument("timer content type", "has %d bytes; give at most %d, of UTF-8", n, MaxContentType)
	}
	if s.Schedule.Cron != "" || s.Schedule.Zone != "" || s.Schedule.Jitter != 0 {
		return argument("timer schedule", "has a cron expression, a zone or a jitter, which only reminders have; set a reminder")
	}
	return ofTimer(s.Schedule.validate())
}

// ValidateTimerName checks the name of a timer, which is as that of a reminder.
func ValidateTimerName(name string) error { return ofTimer(ValidateReminderName(name)) }

// ofTimer is what is wrong with a reminder, said of a timer.
func ofTimer(err error) error {
	wrong, ok := err.(*ArgumentError) //nolint:errorlint // ours, and not wrapped
	if !ok {
		return err
	}
	return &ArgumentError{
		Field:   strings.ReplaceAll(wrong.Field, "reminder", "timer"),
		Problem: strings.ReplaceAll(wrong.Problem, "reminder", "timer"),
	}
}
