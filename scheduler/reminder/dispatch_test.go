package reminder

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

func TestSlowTypeDelaysItselfAlone(t *testing.T) {
	inBubble(t, func(w *world) {
		cfg := w.config()
		cfg.MaxRunning, cfg.MaxOfApp, cfg.MaxOfType, cfg.MaxOfActor = 12, 10, 4, 2
		s := w.start(cfg)
		release := make(chan struct{})
		var mu sync.Mutex
		running, most := map[string]int{}, map[string]int{}
		w.host.turn = func(f actor.Firing) error {
			mu.Lock()
			for _, k := range []string{f.Key.Type, f.Key.String()} {
				running[k]++
				most[k] = max(most[k], running[k])
			}
			mu.Unlock()
			if f.Key.Type == "Slow" {
				<-release
			}
			mu.Lock()
			running[f.Key.Type]--
			running[f.Key.String()]--
			mu.Unlock()
			return nil
		}
		// More than may wait, of one actor and of many.
		for i := range 2 * waitingOfType {
			w.set(s, fmt.Sprint("slow", i), true, func(sp *actor.ReminderSpec) {
				sp.Key.Type = "Slow"
				if i%2 == 0 {
					sp.Key.ID = "one"
				}
			})
		}
		after(time.Second)
		quick := w.set(s, "quick", true, once(time.Second))
		after(1100 * time.Millisecond)
		got := w.host.list()
		if len(got) != 1 || got[0].name != "quick" || got[0].at.Sub(quick.Due) > 10*time.Millisecond {
			t.Fatalf("behind a slow type: %+v", got)
		}
		close(release)
		after(10 * time.Minute)
		if got := w.host.list(); len(got) != 2*waitingOfType+1 {
			t.Errorf("%d fired", len(got))
		}
		if most["Slow"] != 4 || most[actor.Key{App: "default", Type: "Slow", ID: "one"}.String()] > 2 {
			t.Errorf("at most ran: %v of the type", most["Slow"])
		}
	})
}

// gauge is how many turns of a kind run, and how many ran at most.
type gauge struct{ running, most atomic.Int64 }

func (g *gauge) during(turn func()) {
	n := g.running.Add(1)
	for most := g.most.Load(); n > most && !g.most.CompareAndSwap(most, n); {
		most = g.most.Load()
	}
	turn()
	g.running.Add(-1)
}

// punctual reports a firing of name that began more than 10 ms late, and returns how many
// there are.
func (w *world) punctual(name string) (n int) {
	w.Helper()
	for _, c := range w.host.list() {
		if c.name != name {
			continue
		}
		n++
		if late := c.at.Sub(c.due); c.missed != 0 || late < 0 || late > 10*time.Millisecond {
			w.Errorf("%s began %v after it was due, and stands for %d missed ones", name, late, c.missed)
		}
	}
	return n
}

// An actor whose turns hang, with more that is due than may wait of its whole type, holds
// up no other actor of that type.
func TestSlowActorDelaysItselfAlone(t *testing.T) {
	inBubble(t, func(w *world) {
		cfg := w.config()
		cfg.MaxRunning, cfg.MaxOfApp, cfg.MaxOfType, cfg.MaxOfActor = 12, 10, 4, 2
		s := w.start(cfg)
		release := make(chan struct{})
		var slow gauge
		w.host.turn = func(f actor.Firing) error {
			if f.Key.ID == "slow" {
				slow.during(func() { <-release })
			}
			return nil
		}
		for i := range 2 * waitingOfType {
			w.set(s, fmt.Sprint("slow", i), true, func(sp *actor.ReminderSpec) { sp.Key.ID = "slow" })
		}
		after(time.Second)
		w.set(s, "quick", true, every(300*time.Millisecond, 10))
		after(4 * time.Second)
		if n := w.punctual("quick"); n != 10 || len(w.host.list()) != n {
			t.Errorf("beside an actor that hangs %d of 10 fired, of %d", n, len(w.host.list()))
		}
		close(release)
		after(10 * time.Minute)
		if got := len(w.host.list()); got != 2*waitingOfType+10 || slow.most.Load() != 2 {
			t.Errorf("%d fired; of the slow actor at most %d at once, want 2", got, slow.most.Load())
		}
	})
}

// The same of an actor whose turns take a while and always fail, and are tried again.
func TestFailingActorDelaysItselfAlone(t *testing.T) {
	inBubble(t, func(w *world) {
		cfg := w.config()
		cfg.MaxRunning, cfg.MaxOfApp, cfg.MaxOfType, cfg.MaxOfActor = 12, 10, 4, 2
		s := w.start(cfg)
		var failing gauge
		var failed atomic.Int64
		w.host.turn = func(f actor.Firing) error {
			if f.Key.ID != "failing" {
				return nil
			}
			failing.during(func() { <-time.After(20 * time.Millisecond) })
			failed.Add(1)
			return &actor.GuestError{Code: "on_purpose"}
		}
		for i := range 2 * waitingOfType {
			w.set(s, fmt.Sprint("failing", i), true, func(sp *actor.ReminderSpec) {
				sp.Key.ID = "failing"
				sp.Failure = actor.FailurePolicy{Kind: actor.FailureConstant, Attempts: 1000, Interval: 100 * time.Millisecond}
			})
		}
		after(time.Second)
		w.set(s, "quick", true, every(300*time.Millisecond, 10))
		after(4 * time.Second)
		if n := w.punctual("quick"); n != 10 || len(w.host.list()) != n {
			t.Errorf("beside an actor that fails %d of 10 fired, of %d", n, len(w.host.list()))
		}
		if n := failed.Load(); n < 100 || failing.most.Load() != 2 {
			t.Errorf("it failed %d times, at most %d at once, want 2", n, failing.most.Load())
		}
	})
}

// An app whose types all hang, as many as may run of one app, holds up no other app.
func TestSlowAppDelaysItselfAlone(t *testing.T) {
	inBubble(t, func(w *world) {
		cfg := w.config()
		cfg.MaxRunning, cfg.MaxOfApp, cfg.MaxOfType, cfg.MaxOfActor = 12, 10, 4, 2
		s := w.start(cfg)
		release := make(chan struct{})
		var slow gauge
		w.host.turn = func(f actor.Firing) error {
			if f.Key.App == "slow" {
				slow.during(func() { <-release })
			}
			return nil
		}
		const types, of = 3, 50
		for typ := range types {
			for i := range of {
				w.set(s, fmt.Sprint(typ, "-", i), true, func(sp *actor.ReminderSpec) { sp.Key.App, sp.Key.Type = "slow", fmt.Sprint("T", typ) })
			}
		}
		after(time.Second)
		w.set(s, "quick", true, every(300*time.Millisecond, 10))
		after(4 * time.Second)
		if n := w.punctual("quick"); n != 10 || len(w.host.list()) != n {
			t.Errorf("beside an app that hangs %d of 10 fired, of %d", n, len(w.host.list()))
		}
		close(release)
		after(10 * time.Minute)
		if got := len(w.host.list()); got != types*of+10 || slow.most.Load() != 10 {
			t.Errorf("%d fired; of the slow app at most %d at once, want 10", got, slow.most.Load())
		}
	})
}

// A backlog of one type, and of one actor, is read when it is due and when there is room for
// it, and not over and over while it waits.
func TestBacklogIsReadTwice(t *testing.T) {
	inBubble(t, func(w *world) {
		cfg := w.config()
		cfg.MaxOfType = 4
		s := w.start(cfg)
		release := make(chan struct{})
		w.host.turn = func(actor.Firing) error {
			<-release
			return nil
		}
		const n = 4 * waitingOfType
		for i := range n {
			w.set(s, fmt.Sprint("slow", i), true, func(sp *actor.ReminderSpec) {
				sp.Key.ID = fmt.Sprint(i % (n / (4 * waitingOfActor))) // more of each than may wait
			})
		}
		after(time.Minute)
		// A look at the store may find one that is just being read, which then is in memory twice.
		const twice = n / 100
		if loads := w.store.loads(); loads > n+twice {
			t.Errorf("%d reads of %d reminders that wait", loads, n)
		}
		if st := s.Stats(); st.InMemory+st.Waiting+st.Running < n || st.InMemory+st.Waiting+st.Running > n+twice {
			t.Errorf("%d reminders are due: %+v", n, st)
		}
		close(release)
		after(time.Minute)
		if got := len(w.host.list()); got != n {
			t.Errorf("%d of %d fired", got, n)
		}
		if loads := w.store.loads(); loads > 3*n {
			t.Errorf("%d reads of %d reminders", loads, n)
		}
	})
}
