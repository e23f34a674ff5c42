// Command alarm is a guest whose actors set reminders and timers as they are told to, and
// count what fires.
package main

import (
	"fmt"
	"time"

	"github.com/greenroom-run/greenroom/guest-sdk/go/actor"
)

// Alarm counts its firings.
type Alarm struct {
	Rung int `json:"rung"`
	// Last is what the last firing said of itself.
	Last string `json:"last"`
	// Occurrences counts, for each reminder, the times that its firings stood for.
	Occurrences map[string]int `json:"occurrences"`
	// Early counts the firings that came before they were due, by more than apart, and
	// EarlyBy is how long before the earliest of them came.
	Early   int           `json:"early"`
	EarlyBy time.Duration `json:"early_by"`
}

// apart is how far the host's clock, which turns see, and the store's, which says what is
// due, may be apart on one machine: they are the same, and are read at two moments.
const apart = time.Millisecond

// Order is what is to be done to reminders, in this order.
type Order struct {
	Cancel   []string          `json:"cancel"`
	Set      []Setting         `json:"set"`
	Get      string            `json:"get"` // named in the reply
	Fail     bool              `json:"fail"`
	Clear    bool              `json:"clear"` // delete all keys
	Metadata map[string]string `json:"metadata"`
	Timers   []Setting         `json:"timers"` // to set
	Stop     string            `json:"stop"`   // a timer to cancel; the reply says whether it was there
}

// Setting is a reminder.
type Setting struct {
	Name     string `json:"name"`
	Method   string `json:"method"`
	In       string `json:"in"`
	AfterMS  int    `json:"after_ms"`
	EveryMS  int    `json:"every_ms"`
	Times    int    `json:"times"`
	Attempts int    `json:"attempts"`
	Keep     bool   `json:"keep"`
	Cron     string `json:"cron"`
	Zone     string `json:"zone"`
	// AtMS and UntilMS are times, from now.
	AtMS    int  `json:"at_ms"`
	UntilMS int  `json:"until_ms"`
	CatchUp bool `json:"catch_up"` // on each missed time
}

// Do carries out the operations of its payload.
func (a *Alarm) Do(ctx *actor.Context, in Order) (string, error) {
	for _, name := range in.Cancel {
		if err := actor.CancelReminder(ctx, name); err != nil {
			return "", err
		}
	}
	for _, s := range in.Set {
		ms := time.Millisecond
		var at, until time.Time
		if s.AtMS != 0 {
			at = ctx.Now().Add(time.Duration(s.AtMS) * ms)
		}
		if s.UntilMS != 0 {
			until = ctx.Now().Add(time.Duration(s.UntilMS) * ms)
		}
		var missed actor.Missed
		if s.CatchUp {
			missed = actor.CatchUp(1000)
		}
		err := actor.SetReminder(ctx, actor.Reminder{
			Name: s.Name, Method: s.Method, In: s.In, After: time.Duration(s.AfterMS) * ms, Every: time.Duration(s.EveryMS) * ms,
			Times: s.Times, Cron: s.Cron, Zone: s.Zone, At: at, Until: until, Retry: actor.Retry{Attempts: s.Attempts, Interval: ms}, Keep: s.Keep, Metadata: in.Metadata, Missed: missed,
		})
		if err != nil {
			return "", err
		}
	}
	for _, s := range in.Timers {
		ms := time.Millisecond
		err := actor.SetTimer(ctx, actor.Timer{
			Name: s.Name, Method: s.Method, In: s.In, After: time.Duration(s.AfterMS) * ms, Every: time.Duration(s.EveryMS) * ms,
		})
		if err != nil {
			return "", err
		}
	}
	if in.Fail {
		return "", actor.Errorf("told_to", "as it was told")
	}
	if in.Clear {
		*a = Alarm{}
	}
	if in.Stop != "" {
		existed, err := actor.CancelTimer(ctx, in.Stop)
		return fmt.Sprint(existed), err
	}
	return a.describe(ctx, in.Get)
}

func (a *Alarm) describe(ctx *actor.Context, name string) (string, error) {
	if name == "" {
		return "", nil
	}
	r, found, err := actor.GetReminder(ctx, name)
	if err != nil || !found {
		return "none", err
	}
	return fmt.Sprintf("%s runs %s every %v, %d left", r.Name, r.Method, r.Every, r.Times), nil
}

// Ring counts a firing.
func (a *Alarm) Ring(ctx *actor.Context, in string) (int, error) {
	c := ctx.Cause()
	a.Rung++
	if a.Occurrences == nil {
		a.Occurrences = map[string]int{}
	}
	a.Occurrences[c.Name] += 1 + c.Missed
	if by := c.Due.Sub(ctx.Now()); by > apart {
		a.Early++
		a.EarlyBy = max(a.EarlyBy, by)
	}
	a.Last = fmt.Sprintf("%s %s %q attempt %d missed %d %v early %t", c.Kind, c.Name, in, c.Attempt, c.Missed, c.Metadata, ctx.Now().Before(c.Due.Add(-time.Second)))
	return a.Rung, nil
}

// Break always fails.
func (a *Alarm) Break(*actor.Context, string) (int, error) {
	a.Rung++
	return 0, actor.Errorf("broken", "it never works")
}

// Idle leaves everything as it is.
func (a *Alarm) Idle(*actor.Context, string) (int, error) { return a.Rung, nil }

// Count returns how often it rang.
func (a *Alarm) Count(*actor.Context, actor.None) (Alarm, error) { return *a, nil }

// Names returns the names of the reminders.
func (a *Alarm) Names(ctx *actor.Context, prefix string) ([]string, error) {
	names, err := actor.ReminderNames(ctx, prefix)
	return append([]string{}, names...), err
}

// Wake is what a type without state runs.
func (b *Bell) Wake(ctx *actor.Context, in string) (string, error) {
	return "awake " + ctx.Cause().Name, nil
}

// Bell has no state.
type Bell struct{}

// Locked is an Alarm under a lock.
type Locked struct{ Alarm }

func methods[T any](is func(*T) *Alarm) []actor.Part {
	return []actor.Part{
		actor.Method("Do", func(t *T, ctx *actor.Context, in Order) (string, error) { return is(t).Do(ctx, in) }),
		actor.Method("Ring", func(t *T, ctx *actor.Context, in string) (int, error) { return is(t).Ring(ctx, in) }),
		actor.Method("Break", func(t *T, ctx *actor.Context, in string) (int, error) { return is(t).Break(ctx, in) }),
		actor.Method("Idle", func(t *T, ctx *actor.Context, in string) (int, error) { return is(t).Idle(ctx, in) }),
		actor.ReadOnly("Count", func(t *T, ctx *actor.Context, in actor.None) (Alarm, error) { return is(t).Count(ctx, in) }),
		actor.ReadOnly("Names", func(t *T, ctx *actor.Context, in string) ([]string, error) { return is(t).Names(ctx, in) }),
	}
}

func init() {
	actor.Register("Alarm", methods(func(a *Alarm) *Alarm { return a })...)
	actor.Register("Locked", append(methods(func(l *Locked) *Alarm { return &l.Alarm }), actor.PlacementAny)...)
	actor.Register("Bell", actor.PlacementStateless, actor.Method("Wake", (*Bell).Wake))
}

func main() {}
