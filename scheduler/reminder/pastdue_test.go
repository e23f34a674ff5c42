package reminder

import (
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// An occurrence that is caught up with, after one whose delivery was put off, is found by the
// next owner of its bucket as soon as anything else.
func TestOwnerLostWhileCatchingUp(t *testing.T) {
	inBubble(t, func(w *world) {
		w.store.shared = true
		m := &members{self: "one", live: []actor.HostID{"one", "lost"}}
		cfg := w.config()
		cfg.Host, cfg.Members = "", m
		w.start(cfg)
		after(4 * time.Hour)
		b := w.lostOwner()
		w.store.mu.Lock()
		row := w.store.buckets[b]
		row.DeliveredTill, row.Used = time.Now().Add(-time.Minute), 1 // nothing else is left
		w.store.buckets[b] = row
		w.store.mu.Unlock()
		planner := NewPlanner()
		r, err := planner.Prepare(actor.ReminderSpec{
			Key: actor.Key{App: "default", Type: "T", ID: "a"}, Name: "n", Method: "M",
			Schedule: actor.Schedule{At: time.Now().Add(-3 * time.Hour), Every: time.Hour, Times: 3},
			Missed:   actor.MissedPolicy{Kind: actor.MissedCatchUp},
		}, b.Token(0), time.Now())
		if err != nil {
			t.Fatal(err)
		}
		plan, err := planner.Plan(&r, time.Now())
		if err != nil || plan.Firing.Step.Then == nil {
			t.Fatal(plan, err)
		}
		for _, e := range []actor.ReminderEffects{{Set: []actor.Reminder{r}}, {Steps: []actor.ReminderStep{plan.Firing.Step}}} {
			c := actor.CommitOf()
			c.Reminders = e
			if err := w.store.commit(&c); err != nil {
				t.Fatal(err)
			}
		}
		m.set("one") // the owner is lost after the first of three has fired
		after(4 * pollEvery)
		if got := w.host.list(); len(got) != 2 {
			t.Errorf("%d of 2 that were left have fired", len(got))
		}
	})
}

// A reminder that has waited for hours, and was taken over by an instance that then leaves, is
// found by the next owner of the bucket that it is in now as soon as anything else.
func TestOwnerLeavesAfterATakeOver(t *testing.T) {
	inBubble(t, func(w *world) {
		a, b, _ := w.startPair(nil)
		r := w.set(a, "n", true, forSubscribers(once(time.Second)))
		w.set(b, "has a bucket", true, once(time.Second))
		after(3 * time.Hour)
		c := w.subscribe(b, 1, "jobs")
		after(time.Second)
		list, _ := take(c)
		if len(list) != 1 || list[0].Firing.Reminder.Bucket() == r.ID.Bucket() {
			t.Fatalf("%+v", list)
		}
		after(10 * time.Second) // until it is said how far its bucket is used
		if till := w.store.bucket(list[0].Firing.Reminder.Bucket()).DeliveredTill; !till.After(r.FireAt.Add(time.Hour)) {
			t.Fatalf("its bucket is delivered till %v", till)
		}
		c.Close()
		if err := b.Stop(w.Context()); err != nil {
			t.Fatal(err)
		}
		c = w.subscribe(a, 1, "jobs")
		after(3 * pollEvery)
		if list, _ := take(c); len(list) != 1 || !list[0].Firing.Due.Equal(r.Due) {
			t.Errorf("%+v", list)
		}
	})
}
