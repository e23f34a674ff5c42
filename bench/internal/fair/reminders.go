package fair

import (
	"encoding/json"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
	"github.com/greenroom-run/greenroom/bench/internal/bar"
	"github.com/greenroom-run/greenroom/bench/internal/load"
	"github.com/greenroom-run/greenroom/bench/internal/must"
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
func lateness(b *bar.B) {
	for _, flood := range []string{instant, failing} {
		eachRun(b, func(run int, s *site) {
			const soon = 2 * time.Second
			without := result(fire(b, s, "alone", time.Now().Add(soon)), b.Duration)
			due := time.Now().Add(lead)
			var with load.Result
			during(b, s, flood, due, func() {
				if time.Until(due) < soon {
					must.Check(fmt.Errorf("the flood %q was not prepared within %v", flood, lead-soon))
				}
				with = result(fire(b, s, "beside", due), b.Duration)
			})
			b.Measured("alone", run, without)
			b.Measured(flood, run, with)
			b.Compare(late(flood).Name, bar.Millis(with.P99), bar.Millis(without.P99))
		})
	}
}

// fire sets the neighbour's reminders, evenly from due on, and returns how late each has
// fired.
func fire(b *bar.B, s *site, name string, due time.Time) []time.Duration {
	hc := s.neighbour.HTTP()
	defer hc.CloseIdleConnections()
	reminders := greenroomv1connect.NewReminderServiceClient(hc, s.URL)
	var set errgroup.Group
	const callers = 8
	set.SetLimit(callers)
	n := int(b.Duration.Seconds() * firings)
	for i := range n {
		set.Go(func() error {
			at := due.Add(time.Duration(i) * time.Second / firings)
			return s.neighbour.Remind(b.Context(), reminders, "Alarm", actorOf(name, i), fmt.Sprint("r", i), "Ring", at)
		})
	}
	must.Check(set.Wait())
	if time.Now().After(due) {
		must.Check(fmt.Errorf("%d reminders were not set in time", n))
	}
	b.Pause(time.Until(due.Add(b.Duration)))
	return fired(b, s, name, n, due.Add(b.Duration+grace))
}

func actorOf(name string, i int) string { return fmt.Sprint(name, "-", i%alarms) }

// fired waits until n reminders have fired, and returns how late each has.
func fired(b *bar.B, s *site, name string, n int, until time.Time) []time.Duration {
	c := must.Get(s.neighbour.Client())
	defer must.Close(c.Close)
	for {
		var late []time.Duration
		for i := range alarms {
			reply := must.Get(c.Query(b.Context(), "Alarm", actorOf(name, i), "Fired", nil))
			var alarm struct{ Late []int64 }
			must.Check(json.Unmarshal(reply.Payload, &alarm))
			for _, micros := range alarm.Late {
				late = append(late, time.Duration(micros)*time.Microsecond)
			}
		}
		if len(late) >= n {
			return late
		}
		if time.Now().After(until) {
			must.Check(fmt.Errorf("%d of %d reminders fired within %v of the last", len(late), n, grace))
		}
		b.Pause(200 * time.Millisecond)
	}
}
