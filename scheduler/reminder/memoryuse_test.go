package reminder

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// An app that keeps setting reminders that are due soon, and whose turns hang, has no more of them
// in memory than its share, although there is notice of each. Another app's reminders fire in time,
// and what was left out fires when there is space.
func TestNoticesFillNoMoreThanTheShareOfTheirApp(t *testing.T) {
	inBubble(t, func(w *world) {
		cfg := w.config()
		cfg.Store = index(w.store, 0)
		cfg.MaxInMemory = 2 * pageSize
		hangs := make(chan struct{})
		cfg.Deliverer = concurrent(func(ctx context.Context, f actor.Firing) error {
			if f.Key.App == "flood" {
				select {
				case <-hangs:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			return w.host.deliver(ctx, f)
		})
		s := w.start(cfg)
		const count = 3 * pageSize
		for i := range count {
			w.set(s, fmt.Sprint("flood", i), true, of("flood", once(2*time.Second)))
		}
		if st := s.Stats(); st.InMemory > cfg.MaxInMemory {
			t.Errorf("%d are in memory, where %d may be", st.InMemory, cfg.MaxInMemory)
		}
		w.set(s, "quick", true, every(time.Second, 60))
		after(61 * time.Second)
		if n := w.punctual("quick"); n != 60 {
			t.Errorf("beside an app that fills its share it fired %d times of 60", n)
		}
		if st := s.Stats(); st.InMemory > cfg.MaxInMemory {
			t.Errorf("%d are in memory after a minute, where %d may be", st.InMemory, cfg.MaxInMemory)
		}
		close(hangs)
		after(5 * time.Minute)
		if got := len(w.host.list()); got != count+60 || w.store.left() != 0 {
			t.Errorf("%d fired of %d, and %d are left", got, count+60, w.store.left())
		}
	})
}

// Four times as many reminders as memory has space for fire within seconds of their times: those that
// were left out when there was notice of them are read as soon as others have left memory.
func TestWhatMemoryHadNoSpaceForFiresOnceItHas(t *testing.T) {
	skipIfRaced(t)
	for name, apart := range map[string]time.Duration{"all due at once": 0, "due over 80 s": 2 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *world) {
				cfg := w.config()
				cfg.Store = index(w.store, 0)
				cfg.MaxInMemory = 2 * pageSize
				s := w.start(cfg)
				const count = 8 * pageSize
				for i := range count {
					w.set(s, fmt.Sprint("r", i), true, of("flood", once(20*time.Second+time.Duration(i)*apart)))
				}
				for range 20 + count*apart/time.Second + 10 {
					after(time.Second)
					if st := s.Stats(); st.InMemory > cfg.MaxInMemory {
						t.Fatalf("%d are in memory, where %d may be", st.InMemory, cfg.MaxInMemory)
					}
				}
				got := w.host.list()
				var latest time.Duration
				for _, c := range got {
					latest = max(latest, c.at.Sub(c.due))
				}
				if len(got) != count || latest > 3*pollEvery {
					t.Errorf("%d of %d have fired, the latest %v after it was due", len(got), count, latest)
				}
			})
		})
	}
}

// A reminder that was read before the notice of the commit that set it is in memory once.
func TestNoticeOfWhatWasReadTakesNoSecondCopy(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.start(w.config())
		r := w.set(s, "a", false, once(time.Minute))
		after(2 * pollEvery)
		if st := s.Stats(); st.InMemory != 1 {
			t.Fatalf("%d in memory after it was read", st.InMemory)
		}
		s.Committed(&actor.ReminderEffects{Set: []actor.Reminder{r}})
		if st := s.Stats(); st.InMemory != 1 {
			t.Errorf("%d in memory after the notice", st.InMemory)
		}
		after(time.Minute)
		if got := w.host.list(); len(got) != 1 || s.Stats().InMemory != 0 {
			t.Errorf("%d fired, %d in memory", len(got), s.Stats().InMemory)
		}
	})
}
