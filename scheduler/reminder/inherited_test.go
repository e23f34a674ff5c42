package reminder

import (
	"fmt"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// What the subscribers of a lost owner may be at is given to nobody before the time for it is
// out, whatever becomes of the bucket meanwhile: it is given up by who inherited it, or was
// about to be, or gets another epoch, or its new owner stops.
func TestInheritedIsHeldWhateverBecomesOfTheBucket(t *testing.T) {
	for _, what := range []string{"stays", "is given up", "stays after all", "is reclaimed", "its owner stops"} {
		t.Run(what, func(t *testing.T) {
			inBubble(t, func(w *world) {
				w.store.shared = true
				one := &members{self: "one", live: []actor.HostID{"one", "lost"}}
				two := &members{self: "two", live: []actor.HostID{"one", "lost"}}
				set := func(live ...actor.HostID) {
					one.set(live...)
					two.set(live...)
				}
				start := func(m *members) *Service {
					cfg := w.config()
					cfg.Host, cfg.Members = "", m
					return w.start(cfg)
				}
				s, other := start(one), start(two)
				subscribers := []*Subscriber{w.subscribe(s, 10, "jobs"), w.subscribe(other, 10, "jobs")}
				for i := range 2 { // one of them is surplus once there is another process
					w.lostOwner(actor.ReminderSpec{
						Key: actor.SubscriptionKey("default", "jobs"), Name: fmt.Sprint(i), Schedule: actor.Schedule{After: time.Second},
					})
				}
				after(5 * time.Second)
				// It reads what is due only when more has become of the bucket.
				unread := what == "stays after all" || what == "is reclaimed"
				w.store.fails(func(op string) error {
					if unread && op == "due" {
						return actor.ErrUnavailable
					}
					return nil
				})
				set("one")
				lost := time.Now()
				after(3 * pollEvery) // it has inherited them
				switch what {
				case "is given up":
					set("one", "two")
				case "stays after all":
					set("one", "two", "three")
					s.pending.mu.Lock()
					for b := range s.pending.owned {
						s.pending.underWay.buckets[b]++ // something is under way, so that it is given up later
					}
					s.pending.mu.Unlock()
					after(2 * pollEvery)
					set("one")
					after(pollEvery)
					s.pending.mu.Lock()
					for b := range s.pending.owned {
						delete(s.pending.underWay.buckets, b)
					}
					s.pending.mu.Unlock()
				case "is reclaimed":
					one.expire(true)
					after(2 * pollEvery)
					one.expire(false)
				case "its owner stops":
					set("two", "one")
					if err := s.Stop(w.Context()); err != nil {
						t.Fatal(err)
					}
					set("two")
				}
				w.store.fails(nil)
				got := map[string]time.Duration{}
				for range 3 * 60 {
					after(time.Second)
					for _, c := range subscribers {
						list, names := take(c)
						for i, x := range list {
							if _, twice := got[names[i]]; twice {
								t.Errorf("%s is executed twice", names[i])
							}
							got[names[i]] = time.Since(lost)
							answer(t, c, x.ID, nil)
						}
					}
				}
				for i := range 2 {
					if d := got[fmt.Sprint(i)]; d < time.Minute || d > 150*time.Second {
						t.Errorf("%d was executed %v after its owner was lost", i, d)
					}
				}
				if w.store.left() != 0 {
					t.Errorf("%d are left", w.store.left())
				}
			})
		})
	}
}
