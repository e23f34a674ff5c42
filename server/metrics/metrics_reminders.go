package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/scheduler/reminder"
	"github.com/greenroom-run/greenroom/server/reminders"
)

// ReminderEvents returns the callbacks that count the outcomes of reminders in this
// process. The call registers them, so that a process calls ReminderEvents once.
func (m *Metrics) ReminderEvents() reminder.Events {
	created := counter(m.registry, "greenroom_reminders_set_total", "Reminders that were set, by turns and callers of this process.", "app")
	firings := counter(m.registry, "greenroom_reminder_firings_total", "Deliveries by outcome: fired (its turn was committed), taken (it had been, or the reminder was changed), "+
		"retried (the host, the store or the time did not allow it), unserved (nothing serves its type or has its method), failed (its turn failed), dead_letter (for the last time).", "app", "type", "outcome")
	// Of 20 and 100 ms, which most firings are to keep, each has a bucket.
	seconds := []float64{.001, .0025, .005, .01, .02, .05, .1, .25, .5, 1, 2.5, 5, 10, 60, 600, 3600}
	late := histogram(m.registry, "greenroom_reminder_lateness_seconds", "How long after their time deliveries began.", seconds).WithLabelValues()
	missed := counter(m.registry, "greenroom_reminders_missed_total", "Occurrences that were not delivered in time, and were passed over or stood for by another, by policy.", "policy")
	policies := map[actor.MissedKind]prometheus.Counter{}
	for kind, name := range reminders.MissedNames {
		policies[kind] = missed.WithLabelValues(name)
	}
	return reminder.Events{
		Set: func(app string, n int) { created.WithLabelValues(app).Add(float64(n)) },
		Delivered: func(e reminder.DeliveryEnd) {
			firings.WithLabelValues(e.Key.App, e.Key.Type, e.Outcome.String()).Inc()
			late.Observe(e.Late.Seconds())
		},
		Missed: func(kind actor.MissedKind, n uint32) { policies[kind].Add(float64(n)) },
	}
}

// RegisterReminders adds the gauges of reminders.
func (m *Metrics) RegisterReminders(stats func() reminder.Stats) error {
	for _, g := range []struct {
		name, help string
		value      func(reminder.Stats) int
	}{
		{"greenroom_reminders_in_memory", "Reminders that are due soon, in memory.", func(s reminder.Stats) int { return s.InMemory }},
		{"greenroom_reminders_running", "Deliveries under way.", func(s reminder.Stats) int { return s.Running }},
		{"greenroom_reminders_waiting", "Due reminders that wait for others of their actor, type or app.", func(s reminder.Stats) int { return s.Waiting }},
		{"greenroom_reminders_waiting_for_subscribers", "Due reminders that wait for a subscriber, in memory.", func(s reminder.Stats) int { return s.WaitingForSubscribers }},
		{"greenroom_reminder_buckets", "Buckets of reminders that this process delivers.", func(s reminder.Stats) int { return s.Buckets }},
	} {
		if err := gauge(m.registry, g.name, g.help, func() int { return g.value(stats()) }); err != nil {
			return err
		}
	}
	return nil
}
