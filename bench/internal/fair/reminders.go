package fair

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
	"github.com/greenroom-run/greenroom/bench/internal/bar"
	"github.com/greenroom-run/greenroom/bench/internal/rig"
)

const (
	// firings is how many of the neighbour's reminders are due in a second.
	firings = 100
	// alarms are the actors that they are for.
	alarms = 16
	// lead is how long before a flood of reminders is due it is prepared, and how long the
	// neighbour's reminders are set before the first of them is.
	lead = 12 * time.Second
	// grace is how late the last of the neighbour's reminders is given up.
	grace = time.Minute
)

// lateness is fair.3.
func lateness(ctx context.Context, r *rig.Rig, rec *bar.Record) error {
	for _, flood := range []string{instant, failing} {
		err := eachRun(ctx, r, func(run int, s *site) error {
			const soon = 2 * time.Second
			alone, err := fire(ctx, r, s, "alone", time.Now().Add(soon))
			if err != nil {
				return err
			}
			var beside []time.Duration
			due := time.Now().Add(lead)
			if _, err = during(ctx, s, flood, due, func() (err error) {
				if time.Until(due) < soon {
					return fmt.Errorf("the flood %q was not prepared within %v", flood, lead-soon)
				}
				beside, err = fire(ctx, r, s, "beside", due)
				return err
			}); err != nil {
				return err
			}
			without, with := result(alone, r.Duration), result(beside, r.Duration)
			rec.Measured("alone", run, without)
			rec.Measured(flood, run, with)
			rec.Compare(late(flood).Name, millis(with.P99), millis(without.P99))
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// fire sets the neighbour's reminders, evenly from due on, and returns how late each has
// fired.
func fire(ctx context.Context, r *rig.Rig, s *site, name string, due time.Time) ([]time.Duration, error) {
	hc := s.neighbour.HTTP()
	defer hc.CloseIdleConnections()
	reminders := greenroomv1connect.NewReminderServiceClient(hc, s.URL)
	var set errgroup.Group
	const callers = 8
	set.SetLimit(callers)
	n := int(r.Duration.Seconds() * firings)
	for i := range n {
		set.Go(func() error {
			at := due.Add(time.Duration(i) * time.Second / firings)
			return s.neighbour.Remind(ctx, reminders, "Alarm", actorOf(name, i), fmt.Sprint("r", i), "Ring", at)
		})
	}
	if err := set.Wait(); err != nil {
		return nil, fmt.Errorf("set reminders: %w", err)
	}
	if time.Now().After(due) {
		return nil, fmt.Errorf("%d reminders were not set in time", n)
	}
	if err := sleep(ctx, time.Until(due.Add(r.Duration))); err != nil {
		return nil, err
	}
	return fired(ctx, s, name, n, due.Add(r.Duration+grace))
}

func actorOf(name string, i int) string { return fmt.Sprint(name, "-", i%alarms) }

// fired waits until n reminders have fired, and returns how late each has.
func fired(ctx context.Context, s *site, name string, n int, until time.Time) ([]time.Duration, error) {
	c, err := s.neighbour.Client()
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }()
	for {
		var late []time.Duration
		for i := range alarms {
			reply, err := c.Query(ctx, "Alarm", actorOf(name, i), "Fired", nil)
			if err != nil {
				return nil, err
			}
			var alarm struct{ Late []int64 }
			if err := json.Unmarshal(reply.Payload, &alarm); err != nil {
				return nil, err
			}
			for _, micros := range alarm.Late {
				late = append(late, time.Duration(micros)*time.Microsecond)
			}
		}
		if len(late) >= n {
			return late, nil
		}
		if time.Now().After(until) {
			return nil, fmt.Errorf("%d of %d reminders fired within %v of the last", len(late), n, grace)
		}
		const pause = 200 * time.Millisecond
		if err := sleep(ctx, pause); err != nil {
			return nil, err
		}
	}
}
