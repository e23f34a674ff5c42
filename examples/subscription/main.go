// Command subscription is a Greenroom guest with one actor type, Subscription, which
// bills its customer every month, tries again when that fails, and ends after the third
// failure.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/greenroom-run/greenroom/guest-sdk/go/actor"
	"github.com/greenroom-run/greenroom/guest-sdk/go/actor/config"
	"github.com/greenroom-run/greenroom/guest-sdk/go/actor/http"
)

// The states of a subscription.
const (
	Active    = "active"
	Unpaid    = "unpaid" // given up
	Cancelled = "cancelled"
)

// charges is where the provider of payments takes them.
const charges = "https://payments.example.com/v1/charges"

// The app's configuration value payments may stand for the provider, to try this out:
// each charge is paid, or each is refused.
const (
	pretend = "pretend"
	refuse  = "refuse"
)

// attempts is how often one month is billed, a day apart.
const (
	attempts = 3
	interval = 24 * time.Hour
)

// Subscription is the state.
type Subscription struct {
	Status  string    `json:"status"`
	Plan    string    `json:"plan"`
	Cents   int64     `json:"cents"`
	Started time.Time `json:"started"`
	// Billed counts the months that were paid.
	Billed int `json:"billed"`
}

// Plan is the input of Start.
type Plan struct {
	Plan  string `json:"plan"`
	Cents int64  `json:"cents"`
}

// Start begins the subscription. The first month is billed at once.
func (s *Subscription) Start(ctx *actor.Context, in Plan) (Subscription, error) {
	if s.Status == Active {
		return *s, actor.Errorf("already_active", "the subscription of %s is active", ctx.ID())
	}
	if in.Plan == "" || in.Cents <= 0 {
		return *s, actor.NewError(actor.StatusInvalidArgument, "bad_plan", "a plan has a name and a price")
	}
	*s = Subscription{Status: Active, Plan: in.Plan, Cents: in.Cents, Started: ctx.Now()}
	return *s, s.remind(ctx)
}

// Bill charges the month that is due. The reminder runs it.
func (s *Subscription) Bill(ctx *actor.Context, _ actor.None) (actor.None, error) {
	cause := ctx.Cause()
	if cause.Kind != actor.CauseReminder {
		return actor.None{}, actor.NewError(actor.StatusPermissionDenied, "not_yours", "only the subscription's own reminder bills")
	}
	err := s.charge(ctx)
	switch {
	case err == nil:
		s.Billed++
		return actor.None{}, s.remind(ctx)
	case cause.Attempt < attempts:
		return actor.None{}, err // nothing of this turn remains, and it is tried again
	}
	// The last attempt succeeds: it commits that there was none.
	ctx.Log().Warn("subscription given up", "plan", s.Plan, "month", s.Billed+1, "error", err.Error())
	s.Status = Unpaid
	return actor.None{}, nil
}

// Cancel ends the subscription, and its reminder in the same turn.
func (s *Subscription) Cancel(ctx *actor.Context, _ actor.None) (Subscription, error) {
	if s.Status == Active {
		s.Status = Cancelled
	}
	return *s, actor.CancelReminder(ctx, "bill")
}

// View is what there is.
func (s *Subscription) View(*actor.Context, actor.None) (Subscription, error) { return *s, nil }

// remind sets the reminder of the next month. It is part of the turn that counted the
// one before, so that no month is billed twice and none is left out.
func (s *Subscription) remind(ctx *actor.Context) error {
	return actor.SetReminder(ctx, actor.Reminder{
		Name: "bill", Method: "Bill", At: monthAfter(s.Started, s.Billed),
		Retry: actor.Retry{Attempts: attempts, Interval: interval},
	})
}

// charge asks the provider for the money. A request is no part of the turn's
// transaction, so that a month may be asked for again: the key says that it is the same.
func (s *Subscription) charge(ctx *actor.Context) error {
	switch instead, err := config.Get(ctx, "payments"); {
	case errors.Is(err, config.ErrNotSet):
	case err != nil:
		return err
	case instead == pretend:
		return nil
	case instead == refuse:
		return actor.Errorf("declined", "the configuration value payments is %s", refuse)
	default:
		return actor.Errorf("bad_payments", "the configuration value payments is %q; give %s or %s, or unset it", instead, pretend, refuse)
	}
	body, err := json.Marshal(map[string]any{"customer": ctx.ID(), "cents": s.Cents})
	if err != nil {
		return err
	}
	answer, err := http.Do(ctx, http.Request{
		Method: "POST", URL: charges, Body: body, Timeout: 5 * time.Second,
		Headers: []http.Header{
			{Name: "Content-Type", Value: "application/json"},
			{Name: "Idempotency-Key", Value: ctx.ID() + "/" + strconv.FormatInt(s.Started.Unix(), 10) + "/" + strconv.Itoa(s.Billed)},
		},
	})
	if err != nil {
		return err
	}
	if !answer.OK() {
		return fmt.Errorf("the provider answered %d", answer.Status)
	}
	return nil
}

// monthAfter is n months after t, on the same day or on the last one of a month that is
// too short for it.
func monthAfter(t time.Time, n int) time.Time {
	month := time.Date(t.Year(), t.Month()+time.Month(n), 1, t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), t.Location())
	last := month.AddDate(0, 1, -1).Day()
	return month.AddDate(0, 0, min(t.Day(), last)-1)
}

func init() {
	actor.Register("Subscription",
		actor.Capabilities{HTTP: []string{"payments.example.com"}, Config: []string{"payments"}},
		actor.Method("Start", (*Subscription).Start),
		actor.Method("Bill", (*Subscription).Bill),
		actor.Method("Cancel", (*Subscription).Cancel),
		actor.ReadOnly("View", (*Subscription).View),
	)
}

func main() {}
