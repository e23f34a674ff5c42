package reminder

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/scheduler/reminder/remindertest"
)

// world is a store, a host and the services of a test's bubble.
type world struct {
	*testing.T
	store *memory
	host  *host
	born  int
}

func inBubble(t *testing.T, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		test(&world{T: t, store: m, host: &host{store: m}})
	})
}

func (w *world) config() Config {
	w.born++
	cfg := Config{Store: w.store, Deliverer: w.host, Host: actor.HostID(fmt.Sprint("h", w.born))}
	if w.store.shared {
		cfg.Members = &remindertest.Leased{Rows: w.store, ID: cfg.Host}
	}
	return cfg
}

func (w *world) start(cfg Config) *Service {
	w.Helper()
	s, err := New(cfg)
	if err != nil {
		w.Fatal(err)
	}
	if err := s.Start(w.Context()); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = s.Stop(context.Background()) })
	return s
}

// set creates a reminder as a turn does; notice: the service hears of it.
func (w *world) set(s *Service, name string, notice bool, change func(*actor.ReminderSpec)) actor.Reminder {
	w.Helper()
	what := actor.ReminderSpec{Key: actor.Key{App: "default", Type: "T", ID: name}, Name: name, Method: "M"}
	change(&what)
	r, err := s.Prepare(w.Context(), what)
	if err != nil {
		w.Fatal(err)
	}
	c := actor.CommitOf()
	c.Reminders.Set = []actor.Reminder{r}
	if err := w.store.commit(&c); err != nil {
		w.Fatal(err)
	}
	if notice {
		s.Committed(&c.Reminders)
	}
	return r
}

// after lets time pass, until everything that this brings is done.
func after(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func once(d time.Duration) func(*actor.ReminderSpec) {
	return func(s *actor.ReminderSpec) { s.Schedule.After = d }
}

func every(d time.Duration, times uint32) func(*actor.ReminderSpec) {
	return func(s *actor.ReminderSpec) { s.Schedule.Every, s.Schedule.Times = d, times }
}

func TestFiresWhenDue(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.start(w.config())
		r := w.set(s, "a", true, once(100*time.Millisecond))
		after(99 * time.Millisecond)
		if got := w.host.list(); len(got) != 0 {
			t.Fatalf("early: %+v", got)
		}
		after(2 * time.Millisecond)
		got := w.host.list()
		if len(got) != 1 || !got[0].due.Equal(r.Due) || got[0].at.Before(r.Due) || got[0].at.Sub(r.Due) > time.Millisecond || got[0].attempt != 1 {
			t.Fatalf("%+v, due at %s", got, r.Due)
		}
		after(time.Hour)
		if got := w.host.list(); len(got) != 1 || len(w.store.reminders) != 0 {
			t.Fatalf("%+v, left %v", got, w.store.reminders)
		}
		if st := s.Stats(); st.Fired != 1 || st.Running+st.Waiting+st.InMemory != 0 {
			t.Errorf("%+v", st)
		}
	})
}

// What nobody could deliver by the end of its schedule is not delivered afterwards.
func TestNothingFiresLongAfterItsEnd(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.start(w.config())
		end := time.Now().Add(time.Hour)
		w.set(s, "once", true, func(sp *actor.ReminderSpec) { sp.Schedule.After, sp.Schedule.Until = 30*time.Minute, end })
		w.set(s, "every", true, func(sp *actor.ReminderSpec) { sp.Schedule.Every, sp.Schedule.Until = 10*time.Minute, end })
		after(25 * time.Minute)
		if err := s.Stop(context.Background()); err != nil {
			t.Fatal(err)
		}
		after(10 * time.Hour)
		s = w.start(w.config())
		after(time.Minute)
		if got := w.host.list(); len(got) != 2 || w.store.left() != 0 || s.Stats().Missed != 5 {
			t.Errorf("fired %+v, %d left, %d missed", got, w.store.left(), s.Stats().Missed)
		}
	})
}

func TestRecurringFiresEachTime(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.start(w.config())
		r := w.set(s, "a", true, every(7*time.Minute, 100)) // beyond the window each time
		after(24 * time.Hour)
		got := w.host.list()
		if len(got) != 100 {
			t.Fatalf("%d firings of 100", len(got))
		}
		for i, c := range got {
			if want := r.Due.Add(time.Duration(i) * 7 * time.Minute); !c.due.Equal(want) || c.at.Before(want) || c.at.Sub(want) > 10*time.Millisecond {
				t.Errorf("firing %d is of %s at %s, want %s", i, c.due, c.at, want)
			}
		}
	})
}

func TestLostNoticeCostsTwoSeconds(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.start(w.config())
		w.set(s, "first", true, once(time.Hour)) // the app has a bucket
		after(3*time.Second + 500*time.Millisecond)
		for i := range 20 {
			w.set(s, fmt.Sprint(i), i%2 == 0, once(0))
		}
		after(pollEvery + 10*time.Millisecond)
		got := w.host.list()
		if len(got) != 20 {
			t.Fatalf("%d of 20 fired", len(got))
		}
		for _, c := range got {
			if late := c.at.Sub(c.due); late > pollEvery+time.Millisecond {
				t.Errorf("%s was %v late", c.name, late)
			}
		}
	})
}

// A commit that takes long leaves a gap in the tokens, which is looked at for a minute.
func TestTokenThatIsCommittedLate(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.start(w.config())
		r, err := s.Prepare(w.Context(), actor.ReminderSpec{Key: actor.Key{App: "default", Type: "T", ID: "slow"}, Name: "slow", Method: "M"})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 5 {
			w.set(s, fmt.Sprint(i), true, once(0))
		}
		after(50 * time.Second)
		c := actor.CommitOf()
		c.Reminders.Set = []actor.Reminder{r}
		if err := w.store.commit(&c); err != nil {
			t.Fatal(err)
		}
		after(pollEvery + time.Millisecond)
		if got := w.host.list(); len(got) != 6 || got[5].name != "slow" {
			t.Errorf("%+v", got)
		}
	})
}

func TestFailuresAreTriedAgainAndThenDeadLetters(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.start(w.config())
		w.host.turn = func(f actor.Firing) error {
			if f.Name == "bad" {
				return &actor.GuestError{Code: "card_refused", Message: fmt.Sprint("attempt ", f.Attempt)}
			}
			return nil
		}
		r := w.set(s, "bad", true, func(sp *actor.ReminderSpec) {
			sp.Schedule.Every, sp.Schedule.Times = time.Hour, 2
			sp.Failure = actor.FailurePolicy{Kind: actor.FailureExponential, Attempts: 3, Interval: time.Second}
		})
		w.set(s, "good", true, every(time.Hour, 2))
		after(3 * time.Hour)
		if got := w.host.list(); len(got) != 2 || got[0].name != "good" {
			t.Errorf("committed %+v", got)
		}
		dead := w.store.dead
		if len(dead) != 2 || dead[0].Reason != "card_refused: attempt 3" || !dead[1].Reminder.Due.Equal(r.Due.Add(time.Hour)) {
			t.Fatalf("%+v", dead)
		}
		if late := dead[0].FailedAt.Sub(r.Due); late < 3*time.Second*3/4 || late > 3*time.Second+100*time.Millisecond {
			t.Errorf("the third attempt was %v after the first; 1 s and 2 s lie between, or a quarter less", late)
		}
		if len(w.store.reminders) != 0 {
			t.Errorf("left: %v", w.store.reminders)
		}
	})
}

func TestSlowReminderDoesNotOverlapItself(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.start(w.config())
		w.host.turn = func(actor.Firing) error {
			<-time.After(3500 * time.Millisecond)
			return nil
		}
		w.set(s, "a", true, every(time.Second, 20))
		after(time.Minute)
		occurrences := 0
		for _, c := range w.host.list() {
			occurrences += 1 + int(c.missed)
		}
		if w.host.overlaps != 0 || occurrences != 20 {
			t.Errorf("%d overlaps, %d of 20 occurrences accounted for: %+v", w.host.overlaps, occurrences, w.host.list())
		}
	})
}

// What a process that is gone has set fires from the next one, on a store of its own at
// once, what was under way as well.
func TestNextProcessTakesOver(t *testing.T) {
	inBubble(t, func(w *world) {
		first := w.start(w.config())
		for i := range 50 {
			w.set(first, fmt.Sprint(i), true, once(time.Duration(i)*time.Minute))
		}
		after(20*time.Minute + 30*time.Second)
		if err := first.Stop(context.Background()); err != nil {
			t.Fatal(err)
		}
		after(10 * time.Minute)
		began := time.Now()
		w.start(w.config())
		after(2 * time.Second)
		if got := len(w.host.list()); got != 31 {
			t.Errorf("%d fired 2 s after the start at %s, want 31", got, began)
		}
		after(20 * time.Minute)
		if got := len(w.host.list()); got != 50 || len(w.store.reminders) != 0 {
			t.Errorf("%d of 50 fired", got)
		}
	})
}

// Of two instances one is lost without a word; the other delivers what was the lost one's.
func TestLostInstance(t *testing.T) {
	inBubble(t, func(w *world) {
		w.store.shared = true
		cut := map[actor.HostID]bool{}
		var mu sync.Mutex
		a := w.start(w.config())
		cfg := w.config()
		store := &cutStore{w.store, func() bool {
			mu.Lock()
			defer mu.Unlock()
			return cut[cfg.Host]
		}}
		cfg.Store, cfg.Members = store, &remindertest.Leased{Rows: store, ID: cfg.Host}
		b := w.start(cfg)
		after(5 * time.Second)
		for i := range 40 {
			w.set([]*Service{a, b}[i%2], fmt.Sprint(i), true, once(time.Duration(i)*10*time.Second))
		}
		after(100 * time.Second)
		mu.Lock()
		cut[cfg.Host] = true
		mu.Unlock()
		after(10 * time.Minute)
		if got := len(w.host.list()); got != 40 || w.host.overlaps != 0 {
			t.Errorf("%d of 40 fired, %d overlaps", got, w.host.overlaps)
		}
		for _, r := range w.store.buckets {
			if r.Owner != "h1" || r.Creator == cfg.Host && !r.Closed {
				t.Errorf("%v, closed %t", r, r.Closed)
			}
		}
	})
}

// cutStore is a store that one process cannot reach any more.
type cutStore struct {
	*memory
	cut func() bool
}

func (c *cutStore) err() error {
	if c.cut() {
		return actor.ErrUnavailable
	}
	return nil
}

func (c *cutStore) Now(ctx context.Context) (time.Time, error) {
	return time.Now(), c.err()
}

func (c *cutStore) LoadReminders(ctx context.Context, ids []actor.ReminderID) ([]actor.Reminder, error) {
	if err := c.err(); err != nil {
		return nil, err
	}
	return c.memory.LoadReminders(ctx, ids)
}

func (c *cutStore) RenewHost(ctx context.Context, id actor.HostID, length time.Duration, sticky int) (time.Time, error) {
	if err := c.err(); err != nil {
		return time.Time{}, err
	}
	return c.memory.RenewHost(ctx, id, length, sticky)
}

// Whatever fails, is lost or starts again: every occurrence has one committed turn or is
// accounted for as missed, none is early, and nothing is left over.
func TestEveryOccurrenceOnceUnderFaults(t *testing.T) {
	happened := map[string]int{}
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inBubble(t, func(w *world) {
				var mu sync.Mutex
				rng := rand.New(rand.NewPCG(seed, 13))
				faulty := true
				roll := func(n int) int {
					mu.Lock()
					defer mu.Unlock()
					return rng.IntN(n)
				}
				draw := func(n int) bool {
					mu.Lock()
					defer mu.Unlock()
					return faulty && rng.IntN(n) == 0
				}
				fired := map[string]int{}
				fault := func(name string, n int) bool {
					hit := draw(n)
					if hit {
						mu.Lock()
						fired[name]++
						mu.Unlock()
					}
					return hit
				}
				w.store.fail = func(op string) error {
					if op != "now" && fault(op, 12) {
						return actor.ErrUnavailable
					}
					return nil
				}
				w.store.lose = func() error {
					if fault("lost answer", 8) {
						return actor.ErrAmbiguous
					}
					return nil
				}
				w.host.turn = func(actor.Firing) error {
					if fault("overloaded", 10) {
						return actor.ErrOverloaded
					}
					if fault("hangs", 40) {
						<-time.After(2 * time.Minute)
					}
					return nil
				}
				s := w.start(w.config())
				want := map[string]int{}
				dues := map[string]time.Time{}
				set := func(name string, notice bool, change func(*actor.ReminderSpec)) {
					for {
						what := actor.ReminderSpec{Key: actor.Key{App: "default", Type: "T", ID: name}, Name: name, Method: "M"}
						change(&what)
						what.Failure.Attempts = 100 // a turn that hangs has failed
						r, err := s.Prepare(w.Context(), what)
						if err != nil {
							continue // the store failed; nothing was set
						}
						c := actor.CommitOf()
						c.Reminders.Set = []actor.Reminder{r}
						if err := w.store.commit(&c); err != nil && !errors.Is(err, actor.ErrAmbiguous) {
							continue
						}
						if notice {
							s.Committed(&c.Reminders)
						}
						want[name], dues[name] = max(1, int(what.Schedule.Times)), r.Due
						return
					}
				}
				for i := range 60 {
					times := uint32(1 + roll(5))
					set(fmt.Sprint("r", i), i%3 > 0, every(time.Duration(1+roll(90))*time.Second, times))
					after(time.Duration(roll(3000)) * time.Millisecond)
					if i%20 == 19 {
						ctx, cancel := context.WithTimeout(context.Background(), time.Second)
						_ = s.Stop(ctx) // under faults
						cancel()
						after(time.Duration(roll(30)) * time.Second)
						s = w.start(w.config())
					}
				}
				after(5 * time.Minute)
				mu.Lock()
				faulty = false
				mu.Unlock()
				after(15 * time.Minute)

				got := map[string]int{}
				for _, c := range w.host.list() {
					got[c.name] += 1 + int(c.missed)
					if c.at.Before(c.due) {
						t.Errorf("%s fired %v early", c.name, c.due.Sub(c.at))
					}
				}
				for name, n := range want {
					if got[name] != n {
						t.Errorf("%s: %d occurrences are accounted for, want %d", name, got[name], n)
					}
				}
				if len(w.store.reminders) != 0 || w.host.overlaps != 0 {
					t.Errorf("%d reminders are left, %d overlaps: %v", len(w.store.reminders), w.host.overlaps, w.store.reminders)
				}
				for name, n := range fired {
					happened[name] += n
				}
			})
		})
	}
	for _, name := range []string{"load", "commit", "due", "recent", "buckets", "save", "lost answer", "overloaded", "hangs"} {
		if happened[name] == 0 {
			t.Errorf("the fault %q was planned and never happened", name)
		}
	}
}

// A firing that nobody can take for a long time is tried less and less often, and then
// every few seconds all along, however often the store is looked at meanwhile.
func TestUnavailableIsNotTriedMoreAndMoreOften(t *testing.T) {
	inBubble(t, func(w *world) {
		var tries atomic.Int64
		random := rand.New(rand.NewPCG(1, 2))
		w.host.turn = func(actor.Firing) error {
			tries.Add(1)
			<-time.After(time.Duration(random.IntN(20_000)) * time.Microsecond)
			return actor.ErrUnavailable
		}
		s := w.start(w.config())
		w.set(s, "a", true, once(time.Second))
		after(time.Hour)
		before := tries.Load()
		after(time.Minute)
		if n := tries.Load() - before; n < 7 || n > 10 {
			t.Errorf("%d tries within a minute, an hour later", n)
		}
		if n := s.Stats().InMemory; n > 1 {
			t.Errorf("one reminder is in memory %d times", n)
		}
	})
}

// What a firing of a type or a method needs that is not deployed, or is paused, is waited for, without an
// end and without using its attempts up; why it waits is in its row.
func TestWaitsForADeployment(t *testing.T) {
	for _, why := range []error{actor.ErrTypeNotFound, actor.ErrMethodNotFound, actor.ErrTypePaused} {
		inBubble(t, func(w *world) {
			var deployed atomic.Bool
			var tries atomic.Int64
			w.host.turn = func(f actor.Firing) error {
				tries.Add(1)
				if deployed.Load() {
					return nil
				}
				return &actor.TurnError{Key: f.Key, Method: f.Method, Err: fmt.Errorf("%w: deploy it", why)}
			}
			s := w.start(w.config())
			r := w.set(s, "a", true, func(sp *actor.ReminderSpec) {
				sp.Schedule.After = time.Second
				sp.Failure = actor.FailurePolicy{Kind: actor.FailureDrop}
			})
			after(24 * time.Hour)
			row := w.store.reminders[actor.ReminderName{Key: r.Key, Name: r.Name}]
			if row.Failures != 0 || row.LastError != why.Error()+": deploy it" || !row.Due.Equal(r.Due) || len(w.store.dead) != 0 {
				t.Errorf("%+v, dead letters %+v", row, w.store.dead)
			}
			if row.Version != 2 { // it is told once, not with each try
				t.Errorf("the row was written %d times", row.Version-1)
			}
			if n := tries.Load(); n < 24*60 || n > 24*60*4/3+10 {
				t.Errorf("%d tries within a day", n)
			}
			if st := s.Stats(); st.Unserved != uint64(tries.Load()) || st.Failed != 0 || st.Dead != 0 {
				t.Errorf("%+v", st)
			}
			deployed.Store(true)
			after(longestWaitUnserved)
			if got := w.host.list(); len(got) != 1 || got[0].attempt != 1 {
				t.Errorf("once it is deployed: %+v", got)
			}
		})
	}
}

// Waits double up to the longest, and are not the same for all reminders; what is postponed
// leaves nothing behind once it is over.
func TestBackoff(t *testing.T) {
	waits := map[time.Duration]bool{}
	for token := range uint32(100) {
		id := actor.ReminderID{Prefix: 1, Token: token}
		for n, seconds := range []int{1, 2, 4, 8, 8, 8} {
			want := time.Duration(seconds) * time.Second
			wait := backoff(id, uint32(n), longestWait)
			if wait > want || wait < want*3/4 {
				t.Fatalf("after %d waits: %v, want up to %v", n, wait, want)
			}
			waits[wait] = true
		}
		if wait := backoff(id, 1<<31, longestWait); wait > longestWait || wait < longestWait*3/4 {
			t.Fatalf("after very many: %v", wait)
		}
	}
	if len(waits) < 500 {
		t.Errorf("%d different waits of 600", len(waits))
	}
	inBubble(t, func(w *world) {
		fails := 3
		w.host.turn = func(actor.Firing) error {
			if fails--; fails >= 0 {
				return actor.ErrOverloaded
			}
			return nil
		}
		s := w.start(w.config())
		w.set(s, "a", true, once(time.Second))
		after(time.Minute)
		if len(s.pending.tries) != 0 || len(s.pending.retried) != 0 || len(w.host.list()) != 1 {
			t.Errorf("%d postponed, %d to be read again, %d fired", len(s.pending.tries), len(s.pending.retried), len(w.host.list()))
		}
	})
}

// A reminder whose commit lands long after it was prepared, without notice, is delivered:
// with the next sweep after a turn that took as long as one may, and within the hour after
// one that was held up for longer.
func TestLateCommitIsDelivered(t *testing.T) {
	for _, late := range []struct{ commit, within time.Duration }{
		{startMargin + 55*time.Second, sweepEvery + 2*pollEvery}, {30 * time.Minute, time.Hour},
	} {
		inBubble(t, func(w *world) {
			s := w.start(w.config())
			what := actor.ReminderSpec{Key: actor.Key{App: "default", Type: "T", ID: "a"}, Name: "a", Method: "M", Schedule: actor.Schedule{After: time.Second}}
			r, err := s.Prepare(t.Context(), what)
			if err != nil {
				t.Fatal(err)
			}
			for range late.commit / (15 * time.Second) { // others are set and fire meanwhile
				after(15 * time.Second)
				w.set(s, "other", true, once(time.Second))
			}
			after(late.commit % (15 * time.Second))
			c := actor.CommitOf()
			c.Reminders.Set = []actor.Reminder{r}
			if err := w.store.commit(&c); err != nil {
				t.Fatal(err)
			}
			after(late.within)
			if _, left := w.store.reminders[actor.ReminderName{Key: r.Key, Name: r.Name}]; left {
				t.Errorf("what was committed %v late is not delivered %v after that", late.commit, late.within)
			}
		})
	}
}

// What keeps a firing from its actor is no failure of the actor's: it fires, for the first
// time, once that is over.
func TestNotTheActorsFailure(t *testing.T) {
	for name, why := range map[string]error{
		"its server is away": &actor.HostAwayError{Name: "till-1"},
		"the disk is full":   fmt.Errorf("commit turn: %w", &actor.SpaceError{Free: 1, Minimum: 2}),
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *world) {
				over := time.Now().Add(time.Hour)
				w.host.turn = func(f actor.Firing) error {
					if time.Now().Before(over) {
						return &actor.TurnError{Key: f.Key, Method: f.Method, Err: why}
					}
					return nil
				}
				s := w.start(w.config())
				w.set(s, "a", true, once(time.Second))
				after(time.Hour + 10*time.Second)
				if got := w.host.list(); len(got) != 1 || got[0].attempt != 1 || len(w.store.dead) != 0 {
					t.Errorf("%+v, dead letters %+v", got, w.store.dead)
				}
			})
		})
	}
}

func TestConfigIsChecked(t *testing.T) {
	good := Config{Store: newMemory(), Deliverer: &host{}, Host: "h"}
	if _, err := New(good); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Config){
		"store":     func(c *Config) { c.Store = nil },
		"deliverer": func(c *Config) { c.Deliverer = nil },
		"host":      func(c *Config) { c.Host = "" },
		"window":    func(c *Config) { c.Window = time.Second },
		"memory":    func(c *Config) { c.MaxInMemory = 1 },
		"limits":    func(c *Config) { c.MaxOfType = -1 },
		"timeout":   func(c *Config) { c.ExecutionTimeout = 1 },
	} {
		cfg := good
		change(&cfg)
		var fault *actor.ArgumentError
		if _, err := New(cfg); !errors.As(err, &fault) {
			t.Errorf("%s: %v", name, err)
		}
	}
	s, err := New(good)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Stop(t.Context()), s.Stop(t.Context())); err != nil {
		t.Errorf("stopped before it started: %v", err)
	}
}

// A firing that fails for good is a dead letter whatever its error says: of an actor, which
// forwarded errors of guests may leave without words, and of a subscriber.
func TestDeadLetterWithoutAReason(t *testing.T) {
	for name, tt := range map[string]struct {
		err  error
		want string
	}{
		"words":       {errors.New("words"), "words"},
		"a turn's":    {&actor.TurnError{Err: &actor.GuestError{Code: "declined"}}, "declined"},
		"nothing":     {errors.New(""), noReason},
		"a zero byte": {&actor.GuestError{Message: "\x00"}, noReason},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *world) {
				w.host.turn = func(actor.Firing) error { return tt.err }
				s := w.start(w.config())
				c := w.subscribe(s, 1, "jobs")
				once := func(sp *actor.ReminderSpec) { sp.Failure.Attempts = 1 }
				w.set(s, "a", true, once)
				w.set(s, "b", true, forSubscribers(once))
				after(time.Second)
				for _, x := range c.Take() {
					answer(t, c, x.ID, tt.err)
				}
				after(time.Second)
				if w.store.left() != 0 || len(w.store.dead) != 2 {
					t.Fatalf("%d reminders and %d dead letters are left", w.store.left(), len(w.store.dead))
				}
				for _, d := range w.store.dead {
					if d.Reason != tt.want {
						t.Errorf("%s: %q", d.Reminder.Name, d.Reason)
					}
				}
			})
		})
	}
}
