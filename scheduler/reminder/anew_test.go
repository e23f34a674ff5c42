package reminder

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/scheduler/reminder/remindertest"
)

// incarnations is a cluster of one process, which may be taken for gone.
type incarnations struct {
	mu   sync.Mutex
	self actor.HostID
}

func (m *incarnations) Self() actor.HostID {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.self
}

func (m *incarnations) Live(context.Context) ([]actor.HostID, bool, error) {
	return []actor.HostID{m.Self()}, true, nil
}
func (m *incarnations) Connected(live []actor.HostID) []actor.HostID { return live }
func (m *incarnations) Current() bool                                { return true }
func (m *incarnations) Leave(context.Context) error                  { return nil }

// A process that was taken for gone is another member of its cluster from then on: it
// creates from a bucket of its own, and delivers what it had as that one.
func TestBeginsAnew(t *testing.T) {
	inBubble(t, func(w *world) {
		w.store.shared = true
		members := &incarnations{self: "one"}
		cfg := w.config()
		cfg.Host, cfg.Members = "", members
		s := w.start(cfg)
		after(5 * time.Second)
		first := w.set(s, "before", true, once(5*time.Minute))
		members.mu.Lock()
		members.self = "two"
		members.mu.Unlock()
		after(5 * time.Second)
		second := w.set(s, "after", true, once(5*time.Minute))
		if first.ID.Bucket() == second.ID.Bucket() {
			t.Errorf("%s was created from the bucket of who is gone", second.ID)
		}
		after(10 * time.Minute)
		if got := len(w.host.list()); got != 2 {
			t.Errorf("%d of 2 fired", got)
		}
		for _, r := range w.store.buckets {
			if r.Owner != "two" || r.Closed != (r.Creator == "one") {
				t.Errorf("%v, closed %t", r, r.Closed)
			}
		}
	})
}

// A bucket that was closed under its creator, which was taken for gone and is not, is
// created from no more: it may be removed.
func TestClosedUnderItsCreator(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.start(w.config())
		after(5 * time.Second)
		first := w.set(s, "before", true, once(time.Minute))
		if err := w.store.CloseBucket(w.Context(), first.ID.Bucket()); err != nil {
			t.Fatal(err)
		}
		after(5 * time.Second)
		second := w.set(s, "after", true, once(time.Minute))
		if first.ID.Bucket() == second.ID.Bucket() {
			t.Errorf("%s was created from a bucket that is closed", second.ID)
		}
		after(2 * time.Minute)
		if got := len(w.host.list()); got != 2 {
			t.Errorf("%d of 2 fired", got)
		}
	})
}

// A delivery that the scheduler gave up is none of the actor's failures.
func TestTimeIsNoFailure(t *testing.T) {
	inBubble(t, func(w *world) {
		times := 0
		cfg := w.config()
		cfg.Deliverer = remindertest.DeliverFunc(func(ctx context.Context, f actor.Firing) error {
			if times++; times > 5 {
				return w.host.deliver(ctx, f)
			}
			<-ctx.Done()
			return actor.ErrDeadline
		})
		s := w.start(cfg)
		after(5 * time.Second)
		w.set(s, "slow", true, once(time.Second))
		after(20 * time.Minute)
		if st := s.Stats(); len(w.host.list()) != 1 || st.Failed != 0 || st.Dead != 0 {
			t.Errorf("%d fired, %+v", len(w.host.list()), st)
		}
	})
}
