package host_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/hosttest"
)

// ticks are the turns that timers have asked for.
type ticks struct {
	mu    sync.Mutex
	began time.Time
	at    []time.Duration
}

func newTicks() *ticks { return &ticks{began: time.Now()} }

// method is one that timers run; it takes its time.
func (k *ticks) method(takes time.Duration, then hosttest.Func) hosttest.Func {
	return func(t *hosttest.Turn) error {
		if c := t.Frame; c.Cause != abi.CauseTimer || c.Attempt != 1 || c.DueUnixNano > time.Now().UnixNano() {
			return fmt.Errorf("the turn does not know that a timer asks for it: %+v", c)
		}
		k.mu.Lock()
		k.at = append(k.at, time.Since(k.began).Round(time.Millisecond))
		k.mu.Unlock()
		time.Sleep(takes) // of a bubble's clock
		return then(t)
	}
}

func (k *ticks) want(t *testing.T, seconds ...float64) {
	t.Helper()
	synctest.Wait()
	k.mu.Lock()
	defer k.mu.Unlock()
	want := []time.Duration{}
	for _, s := range seconds {
		want = append(want, time.Duration(s*float64(time.Second)))
	}
	if !slices.Equal(k.at, want) {
		t.Errorf("timers fired at %v, want %v", k.at, want)
	}
}

func idle(*hosttest.Turn) error { return nil }

// timerSet sets a timer and replies with the result.
func timerSet(r abi.Reminder) hosttest.Func {
	return func(t *hosttest.Turn) error {
		replaced, code := t.Calls.TimerSet(&r)
		if code != 0 {
			return hosttest.Fail(fmt.Sprintf("%d: %s", code, t.Calls.Problem()))
		}
		return t.Reply(strconv.FormatBool(replaced))
	}
}

func timerCancel(name string) hosttest.Func {
	return func(t *hosttest.Turn) error {
		existed, code := t.Calls.TimerCancel([]byte(name))
		if code != 0 {
			return hosttest.Fail(fmt.Sprintf("%d: %s", code, t.Calls.Problem()))
		}
		return t.Reply(strconv.FormatBool(existed))
	}
}

func sequence(steps ...hosttest.Func) hosttest.Func {
	return func(t *hosttest.Turn) error {
		for _, f := range steps {
			if err := f(t); err != nil {
				return err
			}
		}
		return nil
	}
}

func seconds(s float64) int64 { return int64(s * float64(time.Second)) }

func (s *stage) mustCall(t *testing.T, id, method, want string) {
	t.Helper()
	if got, err := s.call(t.Context(), id, method); err != nil || got != want {
		t.Errorf("%s: %q, %v, want %q", method, got, err, want)
	}
}

func (s *stage) wantTimers(t *testing.T, want int) {
	t.Helper()
	synctest.Wait()
	if n := s.Timers(); n != want {
		t.Errorf("%d timers are set, want %d", n, want)
	}
}

// A timer fires after its delay, and then each time so long after the end of its turn,
// in every lane, until it is cancelled.
func TestTimerFires(t *testing.T) {
	for _, placement := range []string{abi.PlacementRing, abi.PlacementSticky, abi.PlacementAny, abi.PlacementStateless} {
		t.Run(placement, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var fired []host.TimerFired
				var mu sync.Mutex
				s := newStage(t, host.Config{Observers: []host.Events{{TimerFired: func(f host.TimerFired) {
					mu.Lock()
					defer mu.Unlock()
					fired = append(fired, f)
				}}}})
				k := newTicks()
				s.world.Deploy("app", "T", hosttest.Actor{Placement: placement, Methods: map[string]hosttest.Func{
					"Set":    timerSet(abi.Reminder{Name: "t", Method: "Tick", DelayNano: seconds(1), PeriodNano: seconds(10), Payload: []byte("in")}),
					"Cancel": timerCancel("t"),
					"Tick": k.method(2*time.Second, func(t *hosttest.Turn) error {
						if string(t.Frame.Payload) != "in" || t.Frame.CauseName != "t" {
							return errors.New("another timer")
						}
						return nil
					}),
				}})
				s.mustCall(t, "a", "Set", "false")
				s.wantTimers(t, 1)
				time.Sleep(30 * time.Second)
				k.want(t, 1, 13, 25)
				s.mustCall(t, "a", "Cancel", "true")
				s.mustCall(t, "a", "Cancel", "false")
				s.wantTimers(t, 0)
				time.Sleep(time.Minute)
				k.want(t, 1, 13, 25)
				mu.Lock()
				defer mu.Unlock()
				if len(fired) != 3 || fired[0] != (host.TimerFired{Key: key("a"), Name: "t", Method: "Tick"}) {
					t.Errorf("events %+v", fired)
				}
			})
		})
	}
}

// A timer of no delay and no period fires once, when the turn that set it is answered; one
// of a period alone after that.
func TestTimerWithoutDelay(t *testing.T) {
	both(t, func(t *testing.T, placement string) {
		s, k := newStage(t, host.Config{}), newTicks()
		s.world.Deploy("app", "T", hosttest.Actor{Placement: placement, Methods: map[string]hosttest.Func{
			"Once":  timerSet(abi.Reminder{Name: "once", Method: "Tick"}),
			"Every": timerSet(abi.Reminder{Name: "every", Method: "Tick", PeriodNano: seconds(5)}),
			"Past":  timerSet(abi.Reminder{Name: "past", Method: "Tick", DueUnixNano: 1}),
			"Tick":  k.method(0, add),
		}})
		s.mustCall(t, "a", "Once", "false")
		s.wantTimers(t, 0)
		k.want(t, 0)
		s.mustCall(t, "a", "Once", "false")
		s.mustCall(t, "a", "Past", "false")
		s.mustCall(t, "a", "Every", "false")
		time.Sleep(6 * time.Second)
		k.want(t, 0, 0, 0, 5)
		s.wantTimers(t, 1)
	})
}

// What a turn does to timers is done when it has committed: not if it fails, and not
// before its commit has landed.
func TestTimersGoWithTheTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, k := newStage(t, host.Config{}), newTicks()
		once := timerSet(abi.Reminder{Name: "t", Method: "Tick", DelayNano: seconds(10)})
		no := func(*hosttest.Turn) error { return hosttest.Fail("no") }
		s.world.Deploy("app", "T", hosttest.Actor{Methods: map[string]hosttest.Func{
			"Set": sequence(add, once), "SetAlone": once, "SetFails": sequence(once, no), "Cancel": timerCancel("t"), "CancelFails": sequence(timerCancel("t"), no),
			"Tick": k.method(0, idle), "Add": add,
		}})
		if _, err := s.call(t.Context(), "a", "SetFails"); err == nil {
			t.Error("no error")
		}
		s.wantTimers(t, 0)
		s.store.plan("commit", "unavailable")
		if _, err := s.call(t.Context(), "a", "Set"); !errors.Is(err, actor.ErrUnavailable) {
			t.Error(err)
		}
		s.wantTimers(t, 0)

		// The commit takes three seconds, from which the delay counts. What follows it sees
		// the timer, and what has nothing to commit waits for it all the same.
		hold := make(chan struct{})
		s.store.setHold(hold)
		first := s.start(t.Context(), "a", "Set")
		synctest.Wait()
		again := s.start(t.Context(), "a", "SetAlone")
		time.Sleep(3 * time.Second)
		s.wantTimers(t, 0)
		close(hold)
		if a := <-first; a.err != nil || a.reply != "false" {
			t.Errorf("%+v", a)
		}
		if a := <-again; a.err != nil || a.reply != "true" {
			t.Errorf("%+v", a)
		}
		s.wantTimers(t, 1)
		if _, err := s.call(t.Context(), "a", "CancelFails"); err == nil {
			t.Error("no error")
		}
		time.Sleep(11 * time.Second)
		k.want(t, 13)

		// A commit that is refused: the turn runs again, and sets one timer.
		s.store.plan("commit", "stale")
		s.mustCall(t, "a", "Set", "false")
		s.wantTimers(t, 1)
	})
}

// A timer that a turn cancels does not fire any more, also if it waits for its turn
// already; if that turn's commit comes to nothing, it does.
func TestCancelledTimerThatWaits(t *testing.T) {
	for _, lands := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s, k := newStage(t, host.Config{}), newTicks()
			s.world.Deploy("app", "T", hosttest.Actor{Methods: map[string]hosttest.Func{
				"Set": timerSet(abi.Reminder{Name: "t", Method: "Tick", DelayNano: seconds(1)}), "Cancel": sequence(add, timerCancel("t")),
				"Tick": k.method(0, add), "Add": add,
			}})
			s.mustCall(t, "a", "Add", "1")
			s.mustCall(t, "a", "Set", "false")
			if !lands {
				s.store.plan("commit", "unavailable")
			}
			hold := make(chan struct{})
			s.store.setHold(hold)
			cancelled := s.start(t.Context(), "a", "Cancel")
			time.Sleep(2 * time.Second)
			k.want(t) // it waits for the commit
			close(hold)
			if a := <-cancelled; (a.err == nil) != lands {
				t.Errorf("%+v", a)
			}
			if lands {
				k.want(t)
			} else {
				k.want(t, 2)
			}
			s.wantTimers(t, 0)
		})
	}
}

// lockedBuffer is what a log is written to that is read meanwhile.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// A turn that fails is logged and counted, and the next period fires all the same; a
// timer that has one firing is gone.
func TestTimerWhoseTurnFails(t *testing.T) {
	both(t, func(t *testing.T, placement string) {
		var log lockedBuffer
		var failed atomic.Int32
		s := newStage(t, host.Config{Logger: slog.New(slog.NewTextHandler(&log, nil)), Observers: []host.Events{{TimerFired: func(f host.TimerFired) {
			if f.Err != nil {
				failed.Add(1)
			}
		}}}})
		k := newTicks()
		no := func(*hosttest.Turn) error { return hosttest.Fail("overdrawn") }
		s.world.Deploy("app", "T", hosttest.Actor{Placement: placement, Methods: map[string]hosttest.Func{
			"Set":  timerSet(abi.Reminder{Name: "t", Method: "Tick", PeriodNano: seconds(10)}),
			"Once": timerSet(abi.Reminder{Name: "u", Method: "Tick", DelayNano: seconds(5)}), "Tick": k.method(0, no),
		}})
		s.mustCall(t, "a", "Set", "false")
		s.mustCall(t, "a", "Once", "false")
		time.Sleep(21 * time.Second)
		k.want(t, 5, 10, 20)
		s.wantTimers(t, 1)
		if n := failed.Load(); n != 3 || !strings.Contains(log.String(), "overdrawn") || !strings.Contains(log.String(), "timer=u") {
			t.Errorf("%d failures, log %s", n, log.String())
		}
		// A store that is away ends no timer.
		s.store.plan("load", "unavailable")
		time.Sleep(10 * time.Second)
		s.wantTimers(t, 1)
		// What nobody serves any more does.
		s.world.Remove("app", "T")
		time.Sleep(20 * time.Second)
		s.wantTimers(t, 0)
	})
}

// A timer neither keeps its actor in memory nor counts as a use of it; what it sets goes
// with the activation. Actors of sticky types stay, and those without activations.
func TestTimersGoWithTheActivation(t *testing.T) {
	for placement, stays := range map[string]bool{
		abi.PlacementRing: false, abi.PlacementSticky: true, abi.PlacementAny: true, abi.PlacementStateless: true,
	} {
		t.Run(placement, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				gone := map[host.DeactivateReason]int{}
				s := newStage(t, host.Config{
					Limits: host.Limits{IdleTimeout: time.Minute}, SweepEvery: time.Second,
					Observers: []host.Events{{Deactivated: func(d host.Deactivation) { gone[d.Reason]++ }}},
				})
				k := newTicks()
				s.world.Deploy("app", "T", hosttest.Actor{Placement: placement, Methods: map[string]hosttest.Func{
					"Set": timerSet(abi.Reminder{Name: "t", Method: "Tick", PeriodNano: seconds(25)}), "Tick": k.method(0, idle), "Idle": idle,
				}})
				s.mustCall(t, "a", "Set", "false")
				time.Sleep(30 * time.Second)
				s.mustCall(t, "a", "Idle", "") // which is a use
				time.Sleep(55 * time.Second)
				k.want(t, 25, 50, 75)
				time.Sleep(time.Minute)
				want := 0
				if stays {
					want = 1
				} else {
					k.want(t, 25, 50, 75)
				}
				s.wantTimers(t, want)
				if left := gone[host.DeactivateIdle]; placement == abi.PlacementRing && left != 1 {
					t.Errorf("left memory %d times", left)
				}
			})
		})
	}
}

// Room that others need, a delete, a hand-over and the loss of the lease end timers.
func TestWhatEndsTimers(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, s *stage, holds *hosttest.Holdings){
		"pressure": func(t *testing.T, s *stage, _ *hosttest.Holdings) { s.mustCall(t, "b", "Add", "1") },
		"delete": func(t *testing.T, s *stage, _ *hosttest.Holdings) {
			if err := s.Delete(t.Context(), key("a")); err != nil {
				t.Error(err)
			}
		},
		"hand-over": func(t *testing.T, s *stage, holds *hosttest.Holdings) {
			holds.Set(func(actor.Key) actor.Hold { return actor.NotHeld })
			if err := s.HandOver(t.Context(), func(k actor.Key) bool { return k.ID == "a" }); err != nil {
				t.Error(err)
			}
		},
		"loss": func(_ *testing.T, s *stage, holds *hosttest.Holdings) {
			holds.Pause()
			s.DropAll()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				holds := hosttest.NewHoldings(actor.HeldClean)
				s, k := newStage(t, host.Config{MaxActivations: 1, Ownership: holds}), newTicks()
				s.world.Deploy("app", "T", hosttest.Actor{Methods: map[string]hosttest.Func{
					"Set": sequence(add, timerSet(abi.Reminder{Name: "t", Method: "Tick", PeriodNano: seconds(25)})), "Tick": k.method(0, idle), "Add": add,
				}})
				s.mustCall(t, "a", "Set", "false")
				s.wantTimers(t, 1)
				end(t, s, holds)
				s.wantTimers(t, 0)
				time.Sleep(time.Minute)
				k.want(t)
			})
		})
	}
}

// A lease that is late ends no timer of an actor that stays: it fires a second later.
func TestTimerOutlivesALateLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		holds := hosttest.NewHoldings(actor.HeldClean)
		s, k := newStage(t, host.Config{Ownership: holds}), newTicks()
		s.world.Deploy("app", "T", hosttest.Actor{Methods: map[string]hosttest.Func{
			"Set": timerSet(abi.Reminder{Name: "t", Method: "Tick", DelayNano: seconds(1)}), "Tick": k.method(0, idle),
		}})
		s.mustCall(t, "a", "Set", "false")
		holds.Pause()
		time.Sleep(1500 * time.Millisecond)
		s.wantTimers(t, 1)
		holds.Resume()
		time.Sleep(time.Second)
		k.want(t, 2)
		s.wantTimers(t, 0)
	})
}

// A timer keeps what it has, and not the frame that it came in; nor does what a turn sets
// and cancels add up.
func TestTimerKeepsItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, host.Config{})
		frame := []byte(`{"amount":3}`)
		var got []string
		s.world.Deploy("app", "T", hosttest.Actor{Methods: map[string]hosttest.Func{
			"Set": func(t *hosttest.Turn) error {
				for i := range 10 * actor.MaxTimers {
					name := fmt.Sprint("gone ", i)
					if _, code := t.Calls.TimerSet(&abi.Reminder{Name: name, Method: "Tick", Payload: frame}); code != 0 {
						return fmt.Errorf("timer %d: %d", i, code)
					}
					if existed, code := t.Calls.TimerCancel([]byte(name)); !existed || code != 0 {
						return fmt.Errorf("cancel %d: %t, %d", i, existed, code)
					}
				}
				if _, code := t.Calls.TimerSet(&abi.Reminder{Name: "t", Method: "Tick", Payload: frame, DelayNano: seconds(1)}); code != 0 {
					return fmt.Errorf("%d", code)
				}
				clear(frame)
				return nil
			},
			"Tick": func(t *hosttest.Turn) error { got = append(got, string(t.Frame.Payload)); return nil },
		}})
		s.mustCall(t, "a", "Set", "")
		s.wantTimers(t, 1)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if len(got) != 1 || got[0] != `{"amount":3}` {
			t.Errorf("fired with %q", got)
		}
	})
}

// A firing that finds no room comes again a second later.
func TestTimerFindsNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, k, g := newStage(t, host.Config{Limits: host.Limits{Mailbox: 1}}), newTicks(), newGate()
		s.world.Deploy("app", "T", hosttest.Actor{Methods: map[string]hosttest.Func{
			"Set": timerSet(abi.Reminder{Name: "t", Method: "Tick", DelayNano: seconds(1)}), "Tick": k.method(0, idle), "Slow": g.addAfter, "Add": add,
		}})
		s.mustCall(t, "a", "Set", "false")
		slow := s.start(t.Context(), "a", "Slow")
		<-g.entered
		waits := s.start(t.Context(), "a", "Add")
		time.Sleep(2500 * time.Millisecond)
		close(g.leave)
		for _, c := range []<-chan answer{slow, waits} {
			if a := <-c; a.err != nil {
				t.Error(a.err)
			}
		}
		k.want(t)
		time.Sleep(time.Second)
		k.want(t, 3)
	})
}

// What cannot be is refused, with why, and nothing is set.
func TestTimersThatCannotBe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, host.Config{TimerMemory: 300 << 10 * 8 / 7})
		many := func(t *hosttest.Turn) error {
			for i := range actor.MaxTimers {
				if _, code := t.Calls.TimerSet(&abi.Reminder{Name: fmt.Sprint(i), Method: "Add", DelayNano: seconds(1)}); code != 0 {
					return fmt.Errorf("timer %d: %d", i, code)
				}
			}
			t.Calls.TimerCancel([]byte("7"))
			if _, code := t.Calls.TimerSet(&abi.Reminder{Name: "another", Method: "Add"}); code != 0 {
				return fmt.Errorf("another: %d", code)
			}
			return timerSet(abi.Reminder{Name: "beyond", Method: "Add"})(t)
		}
		large := func(t *hosttest.Turn) error {
			for i := range 5 {
				if err := timerSet(abi.Reminder{Name: fmt.Sprint(i), Method: "Add", Payload: make([]byte, 60<<10)})(t); err != nil {
					return err
				}
			}
			return nil
		}
		refused := map[string]struct {
			do   hosttest.Func
			says string
		}{
			"Cron":     {timerSet(abi.Reminder{Name: "t", Method: "Add", Cron: "@daily"}), "-2: a timer has"},
			"Attempts": {timerSet(abi.Reminder{Name: "t", Method: "Add", Attempts: 2}), "-2: a timer has"},
			"Count":    {timerSet(abi.Reminder{Name: "t", Method: "Add", Count: 2}), "-2: a timer has"},
			"Metadata": {timerSet(abi.Reminder{Name: "t", Method: "Add", Metadata: []abi.Header{{Name: "a"}}}), "-2: a timer has"},
			"Name":     {timerSet(abi.Reminder{Method: "Add"}), "-2: timer name is empty"},
			"Long":     {timerSet(abi.Reminder{Name: strings.Repeat("n", 10_000), Method: "Add"}), "-2: timer name"},
			"Method":   {timerSet(abi.Reminder{Name: "t", Method: "Nope"}), `has no method "Nope"`},
			"ReadOnly": {timerSet(abi.Reminder{Name: "t", Method: "View"}), "a timer runs one that may change"},
			"Period":   {timerSet(abi.Reminder{Name: "t", Method: "Add", PeriodNano: -1}), "-2: timer period"},
			"Both":     {timerSet(abi.Reminder{Name: "t", Method: "Add", DueUnixNano: 1, DelayNano: 1}), "-2: timer schedule"},
			"Payload":  {timerSet(abi.Reminder{Name: "t", Method: "Add", Payload: make([]byte, 64<<10+1)}), "-2: timer payload"},
			"Unname":   {timerCancel("\x00"), "-2: timer name"},
			"Many":     {many, "-9: an actor has at most 100 timers"},
			"Large":    {large, "-4: the timers of this actor"},
		}
		methods := map[string]hosttest.Func{"Add": add}
		for name, r := range refused {
			methods[name] = r.do
		}
		s.world.Deploy("app", "T", hosttest.Actor{Methods: methods, ReadOnly: map[string]hosttest.Func{"View": sequence(timerSet(abi.Reminder{Name: "t", Method: "Add"}))}})
		for name, r := range refused {
			if _, err := s.call(t.Context(), "a", name); err == nil || !strings.Contains(err.Error(), r.says) {
				t.Errorf("%s: %v, want %q", name, err, r.says)
			}
		}
		if _, err := s.call(t.Context(), "a", "View"); err == nil || !strings.Contains(err.Error(), "-3") {
			t.Errorf("in a read-only method: %v", err)
		}
		s.wantTimers(t, 0)
		// Another actor may not have what the host has no memory for.
		fat := actor.TimerSpec{Name: "t", Method: "Add", Payload: actor.Payload{Data: make([]byte, 60<<10)}, Schedule: actor.Schedule{After: time.Hour}}
		for i, ok := range []bool{true, true, true, true, false} {
			fat.Key = key(fmt.Sprint("fat", i))
			if _, err := s.SetTimer(t.Context(), fat); (err == nil) != ok {
				t.Errorf("timer %d: %v", i, err)
			}
		}
		s.wantTimers(t, 4)
	})
}

// TestViewHasTimers: in order of their names, and without their payloads.
func TestViewHasTimers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, host.Config{})
		s.world.Deploy("app", "T", hosttest.Actor{Methods: map[string]hosttest.Func{
			"Set":  func(c *hosttest.Turn) error { return c.Set("k", "1") },
			"Tick": func(*hosttest.Turn) error { return nil },
		}})
		if _, err := s.call(t.Context(), "a", "Set"); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"second", "first"} {
			spec := actor.TimerSpec{Key: key("a"), Name: name, Method: "Tick", Payload: actor.Payload{Data: []byte("x")}, Schedule: actor.Schedule{Every: time.Minute}}
			if _, err := s.SetTimer(t.Context(), spec); err != nil {
				t.Fatal(err)
			}
		}
		v, err := s.View(t.Context(), key("a"))
		if err != nil {
			t.Fatal(err)
		}
		if len(v.Timers) != 2 || v.Timers[0].Name != "first" || v.Timers[1].Name != "second" || v.Timers[0].Payload.Data != nil || !v.Timers[0].Due.Equal(time.Now().Add(time.Minute)) {
			t.Errorf("%+v", v.Timers)
		}
	})
}

// A timer is set and cancelled from outside, and its actor is in memory then.
func TestTimersFromOutside(t *testing.T) {
	for _, placement := range []string{abi.PlacementRing, abi.PlacementAny, abi.PlacementStateless} {
		t.Run(placement, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				activated := 0
				s := newStage(t, host.Config{Observers: []host.Events{{Activated: func(actor.Key) { activated++ }}}})
				k := newTicks()
				s.world.Deploy("app", "T", hosttest.Actor{Placement: placement, Methods: map[string]hosttest.Func{"Tick": k.method(0, idle)}})
				spec := actor.TimerSpec{Key: key("a"), Name: "t", Method: "Tick", Schedule: actor.Schedule{After: time.Second, Every: 10 * time.Second, Times: 3}}
				for _, replaces := range []bool{false, true} {
					if replaced, err := s.SetTimer(t.Context(), spec); err != nil || replaced != replaces {
						t.Errorf("%v, %v", replaced, err)
					}
				}
				if placement == abi.PlacementRing && activated != 1 {
					t.Error("its actor is not in memory")
				}
				got, err := s.GetTimer(t.Context(), key("a"), "t")
				if want := (actor.Timer{TimerSpec: spec, Due: time.Now().Add(time.Second), Left: 3}); err != nil || !reflect.DeepEqual(got, want) {
					t.Errorf("read: %+v, %v, want %+v", got, err, want)
				}
				_, err = s.GetTimer(t.Context(), key("nobody"), "t")
				wantCondition(t, err, actor.ErrTimerNotFound)
				if placement == abi.PlacementRing && activated != 1 {
					t.Error("reading took an actor into memory")
				}
				spec.Name, spec.Schedule = "until", actor.Schedule{Every: 15 * time.Second, Until: time.Now().Add(40 * time.Second)}
				if _, err := s.SetTimer(t.Context(), spec); err != nil {
					t.Error(err)
				}
				time.Sleep(time.Minute)
				k.want(t, 1, 11, 15, 21, 30)
				s.wantTimers(t, 0)
				spec.Schedule = actor.Schedule{After: time.Hour}
				if _, err := s.SetTimer(t.Context(), spec); err != nil {
					t.Error(err)
				}
				for _, there := range []bool{true, false} {
					if existed, err := s.CancelTimer(t.Context(), key("a"), "until"); err != nil || existed != there {
						t.Errorf("%v, %v", existed, err)
					}
				}
				spec.Method = "Nope"
				_, err = s.SetTimer(t.Context(), spec)
				wantCondition(t, err, actor.ErrMethodNotFound)
				spec.Method, spec.Name = "Tick", ""
				if _, err := s.SetTimer(t.Context(), spec); !errors.As(err, new(*actor.ArgumentError)) {
					t.Error(err)
				}
				_, err = s.CancelTimer(t.Context(), actor.Key{App: "app", Type: "Other", ID: "a"}, "t")
				wantCondition(t, err, actor.ErrTypeNotFound)
				s.wantTimers(t, 0)
			})
		})
	}
}

// A host that stops fires nothing more, and waits for the turn that it has begun.
func TestStopWithTimers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, k := newStage(t, host.Config{}), newTicks()
		s.world.Deploy("app", "T", hosttest.Actor{Methods: map[string]hosttest.Func{
			"Set":  timerSet(abi.Reminder{Name: "t", Method: "Tick", PeriodNano: seconds(1)}),
			"Long": timerSet(abi.Reminder{Name: "u", Method: "Tick", DelayNano: seconds(3600)}), "Tick": k.method(3*time.Second, add),
		}})
		s.mustCall(t, "a", "Set", "false")
		s.mustCall(t, "a", "Long", "false")
		time.Sleep(2 * time.Second)
		if err := s.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		k.want(t, 1)
		if took := time.Since(k.began); took != 4*time.Second {
			t.Errorf("stopped after %v", took)
		}
		if n := s.Timers(); n != 0 {
			t.Errorf("%d timers are left", n)
		}
		if n := s.store.row(key("a")).Version; n == 0 {
			t.Error("the turn under way was not committed")
		}
	})
}
