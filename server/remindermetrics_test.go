package server

import (
	"strings"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/scheduler/reminder"
	"github.com/greenroom-run/greenroom/server/metrics"
)

// TestReminderMetrics: what becomes of reminders is counted.
func TestReminderMetrics(t *testing.T) {
	metrics := metrics.New()
	f := start(t, func(c *Config) { c.Reminders, c.Metrics = noReminders{}, metrics })
	e := metrics.ReminderEvents()
	e.Set("shop", 3)
	for o, n := range map[reminder.DeliveryOutcome]int{
		reminder.DeliveryFired: 5, reminder.DeliveryTaken: 1, reminder.DeliveryRetried: 2, reminder.DeliveryFailed: 3, reminder.DeliveryDead: 4,
	} {
		for range n {
			e.Delivered(reminder.DeliveryEnd{Key: actor.Key{App: "shop", Type: "Cart", ID: "secret"}, Outcome: o, Late: 15 * time.Millisecond})
		}
	}
	e.Missed(actor.MissedCollapse, 7)
	e.Missed(actor.MissedSkip, 8)
	e.Missed(actor.MissedCatchUp, 9)
	text := do(t, client(t, false), "GET", f.url+"/metrics", "").body
	for _, line := range []string{
		`greenroom_reminders_set_total{app="shop"} 3`,
		`greenroom_reminder_firings_total{app="shop",outcome="fired",type="Cart"} 5`,
		`greenroom_reminder_firings_total{app="shop",outcome="taken",type="Cart"} 1`,
		`greenroom_reminder_firings_total{app="shop",outcome="retried",type="Cart"} 2`,
		`greenroom_reminder_firings_total{app="shop",outcome="failed",type="Cart"} 3`,
		`greenroom_reminder_firings_total{app="shop",outcome="dead_letter",type="Cart"} 4`,
		`greenroom_reminder_lateness_seconds_bucket{le="0.01"} 0`,
		`greenroom_reminder_lateness_seconds_bucket{le="0.02"} 15`,
		`greenroom_reminders_missed_total{policy="collapse"} 7`,
		`greenroom_reminders_missed_total{policy="skip"} 8`,
		`greenroom_reminders_missed_total{policy="catchup"} 9`,
		"greenroom_reminders_in_memory 5", "greenroom_reminders_running 0", "greenroom_reminders_waiting 0", "greenroom_reminders_waiting_for_subscribers 0", "greenroom_reminder_buckets 2",
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
	if strings.Contains(text, "secret") {
		t.Error("an actor's ID is a label")
	}
}
