package reminder

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// slowCommits is a store that takes a second for each group of commits.
type slowCommits struct{ *indexed }

func (m slowCommits) Commit(ctx context.Context, commits []actor.Commit) []error {
	<-time.After(time.Second)
	return m.indexed.Commit(ctx, commits)
}

// Beside an app with thousands of reminders that fail, each with a step to be committed, the step
// of another app's reminder waits for one group of steps at most.
func TestStepsOfOneAppHoldUpNoOther(t *testing.T) {
	inBubble(t, func(w *world) {
		cfg := w.config()
		cfg.Store = slowCommits{index(w.store, 0)}
		s := w.start(cfg)
		w.host.turn = func(f actor.Firing) error {
			if f.Key.App == "flood" || f.Attempt == 1 {
				return &actor.GuestError{Code: "on_purpose"}
			}
			return nil
		}
		const count = 8000
		for i := range count {
			w.set(s, fmt.Sprint("flood", i), true, of("flood", func(sp *actor.ReminderSpec) {
				sp.Schedule.After = time.Second
				sp.Failure = actor.FailurePolicy{Kind: actor.FailureConstant, Attempts: 1}
			}))
		}
		quick := w.set(s, "quick", true, once(2*time.Second))
		after(6 * time.Second)
		got := w.host.list()
		if len(got) != 1 || got[0].attempt != 2 {
			t.Fatalf("beside an app whose reminders fail another app's second attempt is not among %+v", got)
		}
		if late := got[0].at.Sub(quick.Due); late > 4*time.Second {
			t.Errorf("the second attempt began %v after the first was due", late)
		}
		after(time.Minute)
		if len(w.store.dead) != count || w.store.left() != 0 {
			t.Errorf("of %d that fail %d are dead letters, and %d are left", count, len(w.store.dead), w.store.left())
		}
	})
}
