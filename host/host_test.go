package host_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/hosttest"
	"github.com/greenroom-run/greenroom/host/pipeline"
	"github.com/greenroom-run/greenroom/internal/leaktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(leaktest.Patient(m)) }

// stage is a started host over a fake store, for tests in a synctest bubble.
type stage struct {
	*host.Host
	store *fakeStore
	world *hosttest.World
}

func newStage(t *testing.T, cfg host.Config) *stage {
	t.Helper()
	s := &stage{store: newFakeStore(), world: hosttest.New()}
	if cfg.Committer == nil {
		cfg.Committer = s.store
	}
	if cfg.Engine = s.world; cfg.Modules == nil {
		cfg.Modules = s.world
	}
	h, err := host.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s.Host = h
	if err := h.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		s.world.CheckClosed(t)
	})
	return s
}

func key(id string) actor.Key { return actor.Key{App: "app", Type: "T", ID: id} }

func (s *stage) call(ctx context.Context, id, method string) (string, error) {
	r, err := s.Invoke(ctx, actor.Invocation{Key: key(id), Method: method})
	return string(r.Payload.Data), err
}

// answer is the outcome of a call in the background.
type answer struct {
	reply string
	err   error
}

func (s *stage) start(ctx context.Context, id, method string) <-chan answer {
	c := make(chan answer, 1)
	go func() {
		reply, err := s.call(ctx, id, method)
		c <- answer{reply, err}
	}()
	return c
}

func wantCondition(t *testing.T, err error, want *actor.Condition) {
	t.Helper()
	var turn *actor.TurnError
	if !errors.Is(err, want) || !errors.As(err, &turn) {
		t.Errorf("error %v, want %q in a TurnError", err, want.Kind())
	}
}

// add is a method that counts.
func add(t *hosttest.Turn) error {
	n, err := t.Add("n", 1)
	if err != nil {
		return err
	}
	return t.ReplyNumber(n)
}

func view(t *hosttest.Turn) error {
	n, err := t.Number("n")
	if err != nil {
		return err
	}
	return t.ReplyNumber(n)
}

// gate is a method that tells that it runs and then waits for leave, or for its
// end.
type gate struct{ entered, leave chan struct{} }

func newGate() *gate { return &gate{make(chan struct{}, 100), make(chan struct{})} }

func (g *gate) wait(t *hosttest.Turn) error {
	g.entered <- struct{}{}
	select {
	case <-g.leave:
	case <-t.Context.Done():
	}
	return nil
}

func (g *gate) addAfter(t *hosttest.Turn) error {
	g.wait(t)
	return add(t)
}

func both(t *testing.T, f func(t *testing.T, placement string)) {
	for _, placement := range []string{abi.PlacementRing, abi.PlacementAny, abi.PlacementSticky} {
		t.Run(placement, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { f(t, placement) })
		})
	}
}

func TestMailboxIsBoundedAndInOrder(t *testing.T) {
	both(t, func(t *testing.T, placement string) {
		s := newStage(t, host.Config{Limits: host.Limits{Mailbox: 3}})
		g := newGate()
		s.world.Deploy("app", "T", hosttest.Actor{Placement: placement, Methods: map[string]hosttest.Func{"Add": add, "Gate": g.addAfter}})
		first := s.start(t.Context(), "a", "Gate")
		<-g.entered
		var waiting []<-chan answer
		for range 3 {
			waiting = append(waiting, s.start(t.Context(), "a", "Add"))
			synctest.Wait()
		}
		_, err := s.call(t.Context(), "a", "Add")
		wantCondition(t, err, actor.ErrMailboxFull)
		if reply, err := s.call(t.Context(), "b", "Add"); reply != "1" || err != nil {
			t.Errorf("another actor: %q, %v", reply, err)
		}
		if v, _ := s.View(t.Context(), key("b")); v.QueueDepth != 0 {
			t.Errorf("queue depth %d", v.QueueDepth)
		}
		close(g.leave)
		for i, c := range append([]<-chan answer{first}, waiting...) {
			if got := <-c; got.err != nil || got.reply != fmt.Sprint(i+1) {
				t.Errorf("call %d: %+v", i, got)
			}
		}
	})
}

// TestHeldCallsCount: what waits for a commit takes room in the mailbox as well.
func TestHeldCallsCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, host.Config{Limits: host.Limits{Mailbox: 3}})
		s.world.Deploy("app", "T", hosttest.Actor{Methods: map[string]hosttest.Func{"Add": add}})
		s.store.setHold(make(chan struct{}))
		var calls []<-chan answer
		for range 4 {
			calls = append(calls, s.start(t.Context(), "a", "Add"))
			synctest.Wait()
		}
		_, err := s.call(t.Context(), "a", "Add")
		wantCondition(t, err, actor.ErrMailboxFull)
		close(s.store.hold)
		for i, c := range calls {
			if got := <-c; got.err != nil || got.reply != fmt.Sprint(i+1) {
				t.Errorf("call %d: %+v", i, got)
			}
		}
		if reply, err := s.call(t.Context(), "a", "Add"); reply != "5" || err != nil {
			t.Errorf("afterwards: %q, %v", reply, err)
		}
	})
}

// TestSlowStoreRefuses: what a store cannot keep up with is refused at once, and
// all that was taken is answered.
func TestSlowStoreRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, host.Config{Pipeline: pipeline.Config{Workers: 1, GroupRows: 2, QueueRows: 5}})
		s.world.Deploy("app", "T", hosttest.Actor{Methods: map[string]hosttest.Func{"Add": add}})
		for i := range 20 { // loads are not held
			if _, err := s.call(t.Context(), fmt.Sprint(i), "Add"); err != nil {
				t.Fatal(err)
			}
		}
		s.store.setHold(make(chan struct{}))
		var calls []<-chan answer
		for i := range 20 {
			calls = append(calls, s.start(t.Context(), fmt.Sprint(i), "Add"))
			synctest.Wait()
		}
		taken := 0
		for i, c := range calls {
			select {
			case got := <-c:
				wantCondition(t, got.err, actor.ErrUnavailable)
			default:
				taken++
				defer func() {
					if got := <-c; got.err != nil || got.reply != "2" {
						t.Errorf("call %d: %+v", i, got)
					}
				}()
			}
		}
		if taken != 6 { // one at the store, five in the queue
			t.Errorf("%d of 20 commits were taken", taken)
		}
		close(s.store.hold)
	})
}

func TestCallerLeavesTheQueue(t *testing.T) {
	both(t, func(t *testing.T, placement string) {
		s := newStage(t, host.Config{Limits: host.Limits{Mailbox: 2}})
		g := newGate()
		s.world.Deploy("app", "T", hosttest.Actor{Placement: placement, Methods: map[string]hosttest.Func{"Add": add, "Gate": g.wait}})
		first := s.start(t.Context(), "a", "Gate")
		<-g.entered

		ctx, cancel := context.WithCancel(t.Context())
		gone := s.start(ctx, "a", "Add")
		late, cancelLate := context.WithTimeout(t.Context(), time.Second)
		defer cancelLate()
		overdue := s.start(late, "a", "Add")
		synctest.Wait()
		cancel()
		wantCondition(t, (<-gone).err, actor.ErrCanceled)
		wantCondition(t, (<-overdue).err, actor.ErrDeadline)
		// Their places are free again.
		a, b := s.start(t.Context(), "a", "Add"), s.start(t.Context(), "a", "Add")
		synctest.Wait()
		close(g.leave)
		<-first
		if x, y := <-a, <-b; x.reply+y.reply != "12" && x.reply+y.reply != "21" {
			t.Errorf("replies %+v and %+v: a call that left was run", x, y)
		}
	})
}

func TestRunningTurnIsStopped(t *testing.T) {
	for name, tc := range map[string]struct {
		ctx  func(context.Context) (context.Context, context.CancelFunc)
		want *actor.Condition
		text string // in the error
	}{
		"caller's deadline": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Second)
		}, actor.ErrDeadline, "its caller set it; give the call a longer timeout"},
		"caller gone": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(time.Second, cancel)
			return ctx, cancel
		}, actor.ErrCanceled, ""},
		"turn limit": {context.WithCancel, actor.ErrDeadline, "--limit app/T:turn-deadline=…"},
	} {
		t.Run(name, func(t *testing.T) {
			both(t, func(t *testing.T, placement string) {
				s := newStage(t, host.Config{})
				s.world.Deploy("app", "T", hosttest.Actor{Placement: placement, Methods: map[string]hosttest.Func{
					"Add":  add,
					"Hang": func(t *hosttest.Turn) error { add(t); <-t.Context.Done(); return nil },
				}})
				if _, err := s.call(t.Context(), "a", "Add"); err != nil {
					t.Fatal(err)
				}
				before := s.store.row(key("a"))
				ctx, cancel := tc.ctx(t.Context())
				defer cancel()
				_, err := s.call(ctx, "a", "Hang")
				wantCondition(t, err, tc.want)
				if !strings.Contains(err.Error(), tc.text) {
					t.Errorf("%v does not say %q", err, tc.text)
				}
				if after := s.store.row(key("a")); after.Version != before.Version {
					t.Error("the turn left a trace")
				}
				if reply, err := s.call(t.Context(), "a", "Add"); reply != "2" || err != nil {
					t.Errorf("the next turn: %q, %v", reply, err)
				}
			})
		})
	}
}

func TestQueueTimeIsNotTurnTime(t *testing.T) {
	both(t, func(t *testing.T, placement string) {
		s := newStage(t, host.Config{Limits: host.Limits{TurnDeadline: 3 * time.Second}})
		s.world.Deploy("app", "T", hosttest.Actor{Placement: placement, Methods: map[string]hosttest.Func{
			"Slow": func(t *hosttest.Turn) error { time.Sleep(2 * time.Second); return add(t) },
		}})
		var calls []<-chan answer
		for range 5 { // 10 s in all
			calls = append(calls, s.start(t.Context(), "a", "Slow"))
		}
		for _, c := range calls {
			if got := <-c; got.err != nil {
				t.Error(got.err)
			}
		}
	})
}

func TestSealedTurnIsCarriedThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, host.Config{SettleGrace: 5 * time.Second})
		s.world.Deploy("app", "T", hosttest.Actor{Methods: map[string]hosttest.Func{"Add": add}})
		s.store.hold = make(chan struct{})

		ctx, cancel := context.WithCancel(t.Context())
		c := s.start(ctx, "a", "Add")
		synctest.Wait() // in Commit
		cancel()
		synctest.Wait()
		s.store.hold <- struct{}{}
		if got := <-c; got.reply != "1" || got.err != nil {
			t.Errorf("a sealed turn: %+v", got)
		}

		// A caller does not wait for ever, and is not told a guess.
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		c = s.start(ctx, "a", "Add")
		synctest.Wait()
		next := s.start(t.Context(), "a", "Add")
		wantCondition(t, (<-c).err, actor.ErrAmbiguous)
		close(s.store.hold)
		if got := <-next; got.reply != "3" {
			t.Errorf("the turn after it: %+v", got)
		}
	})
}

func TestTimeIsUpBeforeSealing(t *testing.T) {
	both(t, func(t *testing.T, placement string) {
		s := newStage(t, host.Config{})
		ctx, cancel := context.WithCancel(t.Context())
		s.world.Deploy("app", "T", hosttest.Actor{Placement: placement, Late: true, Methods: map[string]hosttest.Func{
			"Add": func(t *hosttest.Turn) error { cancel(); return add(t) },
		}})
		_, err := s.call(ctx, "a", "Add")
		wantCondition(t, err, actor.ErrCanceled)
		if s.store.row(key("a")).Version != 0 {
			t.Error("the turn left a trace")
		}
		if reply, err := s.call(t.Context(), "a", "Add"); reply != "1" || err != nil {
			t.Errorf("the next turn: %q, %v", reply, err)
		}
	})
}

func TestReplyWaitsForTheCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, host.Config{})
		s.world.Deploy("app", "T", hosttest.Actor{
			Methods:  map[string]hosttest.Func{"Add": add},
			ReadOnly: map[string]hosttest.Func{"View": view},
		})
		s.call(t.Context(), "a", "Add")
		s.store.hold = make(chan struct{})
		c := s.start(t.Context(), "a", "Add")
		synctest.Wait()
		select {
		case got := <-c:
			t.Errorf("answered before the commit: %+v", got)
		default:
		}
		if reply, _ := s.call(t.Context(), "a", "View"); reply != "1" {
			t.Errorf("a reader sees %q before the commit", reply)
		}
		close(s.store.hold)
		<-c
		if reply, _ := s.call(t.Context(), "a", "View"); reply != "2" {
			t.Errorf("a reader sees %q after the commit", reply)
		}
	})
}

func TestConflictsEndWithTheTurn(t *testing.T) {
	both(t, func(t *testing.T, placement string) {
		var end host.TurnEnd
		s := newStage(t, host.Config{
			Limits:    host.Limits{TurnDeadline: time.Second},
			Observers: []host.Events{{TurnEnd: func(e host.TurnEnd) { end = e }}},
		})
		s.world.Deploy("app", "T", hosttest.Actor{Placement: placement, Methods: map[string]hosttest.Func{"Add": add}})
		s.store.plan("commit", slices.Repeat([]string{"lost"}, 1000)...)
		_, err := s.call(t.Context(), "a", "Add")
		wantCondition(t, err, actor.ErrStale)
		if end.Runs < 5 || end.Runs > 100 || end.Duration > 2*time.Second {
			t.Errorf("%d runs in %s", end.Runs, end.Duration)
		}
		if len(s.store.row(key("a")).State.Data) != 0 {
			t.Error("the turn left a trace")
		}
	})
}

// TestDeleteNamesOnlyDeployedTypes: what a caller made up is told apart from the
// names of deployments, which metrics are labelled with.
func TestDeleteNamesOnlyDeployedTypes(t *testing.T) {
	var ends []host.TurnEnd
	s := newStage(t, host.Config{Observers: []host.Events{{TurnEnd: func(e host.TurnEnd) { ends = append(ends, e) }}}})
	s.world.Deploy("app", "T", hosttest.Actor{Methods: map[string]hosttest.Func{"Add": add}})
	for _, key := range []actor.Key{
		{App: "app", Type: "T", ID: "a"}, {App: "app", Type: "madeUp", ID: "a"}, {App: "madeUp", Type: "T", ID: "a"},
	} {
		wantCondition(t, s.Delete(t.Context(), key), actor.ErrActorNotFound)
	}
	_, _ = s.Invoke(t.Context(), actor.Invocation{Key: actor.Key{App: "app", Type: "madeUp", ID: "a"}, Method: "Add"})
	_, _ = s.Invoke(t.Context(), actor.Invocation{Key: actor.Key{App: "app", Type: "T", ID: "a"}, Method: "madeUp"})
	for i, want := range []host.Lane{host.LaneWarm, host.LaneNone, host.LaneNone, host.LaneNone, host.LaneNone} {
		if ends[i].Lane != want {
			t.Errorf("%+v: lane %v, want %v", ends[i], ends[i].Lane, want)
		}
	}
}

func TestSettlingGivesUp(t *testing.T) {
	both(t, func(t *testing.T, placement string) {
		s := newStage(t, host.Config{SettleGrace: 3 * time.Second})
		s.world.Deploy("app", "T", hosttest.Actor{Placement: placement, Methods: map[string]hosttest.Func{"Add": add}})
		s.store.plan("commit", "applied")
		s.store.plan("settle", slices.Repeat([]string{"unavailable"}, 1000)...)
		began := time.Now()
		_, err := s.call(t.Context(), "a", "Add")
		wantCondition(t, err, actor.ErrAmbiguous)
		if took := time.Since(began); took < 3*time.Second || took > 4*time.Second {
			t.Errorf("gave up after %s", took)
		}
		// It was applied, it was not run again, and the next turn builds on it.
		if reply, err := s.call(t.Context(), "a", "Add"); reply != "2" || err != nil {
			t.Errorf("the next turn: %q, %v", reply, err)
		}
	})
}

func TestReadersRunBesideEverything(t *testing.T) {
	both(t, func(t *testing.T, placement string) {
		s := newStage(t, host.Config{})
		w, r := newGate(), newGate()
		s.world.Deploy("app", "T", hosttest.Actor{
			Placement: placement,
			Methods:   map[string]hosttest.Func{"Add": add, "Gate": w.addAfter},
			ReadOnly: map[string]hosttest.Func{"Gated": func(t *hosttest.Turn) error {
				r.wait(t)
				return view(t)
			}},
		})
		s.call(t.Context(), "a", "Add")
		writer := s.start(t.Context(), "a", "Gate")
		<-w.entered
		var readers []<-chan answer
		for range 5 {
			readers = append(readers, s.start(t.Context(), "a", "Gated"))
			<-r.entered // all are inside at once, beside the writer
		}
		close(w.leave)
		if got := <-writer; got.reply != "2" {
			t.Errorf("the writer: %+v", got)
		}
		close(r.leave)
		for _, c := range readers {
			if got := <-c; got.reply != "1" || got.err != nil {
				t.Errorf("a reader that began before the commit: %+v", got)
			}
		}
	})
}

func TestDroppedStateIsNotBroughtBackByAReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &slowLoad{fakeStore: newFakeStore()}
		s := newStage(t, host.Config{Committer: slow})
		s.world.Deploy("app", "T", hosttest.Actor{
			Methods:  map[string]hosttest.Func{"Add": add},
			ReadOnly: map[string]hosttest.Func{"View": view},
		})
		// A reader has loaded the empty actor, and is held up.
		slow.answered = make(chan struct{})
		reader := s.start(t.Context(), "a", "View")
		synctest.Wait()
		held := slow.answered
		slow.setAnswered(nil)
		// Meanwhile the actor is written and leaves memory again.
		if _, err := s.call(t.Context(), "a", "Add"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		close(held)
		if got := <-reader; got.err != nil && !errors.Is(got.err, actor.ErrDeadline) {
			t.Error(got.err)
		}
		if reply, _ := s.call(t.Context(), "a", "View"); reply != "1" {
			t.Errorf("a later reader sees %q: older than what was answered", reply)
		}
	})
}

// slowLoad holds the answers of loads back, deaf to contexts.
type slowLoad struct {
	*fakeStore
	amu      sync.Mutex
	answered chan struct{}
}

func (s *slowLoad) setAnswered(c chan struct{}) {
	s.amu.Lock()
	defer s.amu.Unlock()
	s.answered = c
}

func (s *slowLoad) LoadActors(ctx context.Context, keys []actor.Key, opts actor.LoadOptions) ([]actor.Row, error) {
	rows, err := s.fakeStore.LoadActors(ctx, keys, opts)
	s.amu.Lock()
	wait := s.answered
	s.amu.Unlock()
	if wait != nil {
		<-wait
	}
	return rows, err
}

func TestPlacementChangesUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, host.Config{})
		var inside atomic.Int32
		count := func(t *hosttest.Turn) error {
			if inside.Add(1) != 1 {
				panic("two turns of one actor at once")
			}
			defer inside.Add(-1)
			time.Sleep(time.Millisecond)
			return add(t)
		}
		placements := []string{abi.PlacementRing, abi.PlacementAny, abi.PlacementSticky}
		s.world.Deploy("app", "T", hosttest.Actor{Methods: map[string]hosttest.Func{"Count": count}})
		var calls []<-chan answer
		for i := range 300 {
			calls = append(calls, s.start(t.Context(), "a", "Count"))
			if i%10 == 0 {
				s.world.Deploy("app", "T", hosttest.Actor{Placement: placements[i/10%3], Methods: map[string]hosttest.Func{"Count": count}})
			}
			time.Sleep(time.Millisecond)
		}
		for _, c := range calls {
			if got := <-c; got.err != nil {
				t.Fatal(got.err)
			}
		}
		if got := string(s.store.row(key("a")).State.Data); got != `{"n":300}` {
			t.Errorf("state %s after 300 turns", got)
		}
	})
}

func TestRevisionsNeverComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, host.Config{Limits: host.Limits{Instances: 1}})
		// A guest that caches what it decoded, as the SDKs do, and dirties it.
		type cached struct {
			id  string
			rev uint64
			n   int64
		}
		cachedAdd := func(t *hosttest.Turn) error {
			c, ok := t.Local["cache"].(*cached)
			if !ok || c.id != t.Frame.ID || c.rev != t.Calls.StateRevision() {
				n, err := t.Number("n")
				if err != nil {
					return err
				}
				c = &cached{id: t.Frame.ID, n: n}
				t.Local["cache"] = c
			}
			c.n++
			c.rev = t.Frame.Revision
			if t.Frame.Method == "Fail" {
				return hosttest.Fail("on purpose")
			}
			if t.Frame.Method == "Peek" {
				return t.ReplyNumber(c.n - 1)
			}
			if err := t.SetNumber("n", c.n); err != nil {
				return err
			}
			c.rev = t.Calls.StateRevision()
			return t.ReplyNumber(c.n)
		}
		s.world.Deploy("app", "T", hosttest.Actor{
			Methods:  map[string]hosttest.Func{"Add": cachedAdd, "Fail": cachedAdd},
			ReadOnly: map[string]hosttest.Func{"Peek": cachedAdd},
		})
		for i, step := range []struct{ method, fault, want string }{
			{"Add", "", "1"}, {"Fail", "", ""}, {"Add", "", "2"}, {"Peek", "", "2"}, {"Add", "", "3"}, {"Peek", "", "3"}, {"Peek", "", "3"},
			{"Add", "lost", "4"}, {"Add", "unavailable", ""}, {"Add", "", "5"}, {"Add", "applied", "6"}, {"Add", "", "7"},
		} {
			if step.fault != "" {
				s.store.plan("commit", step.fault)
			}
			if reply, _ := s.call(t.Context(), "a", step.method); reply != step.want {
				t.Errorf("step %d, %s: %q, want %q", i, step.method, reply, step.want)
			}
		}
	})
}

func TestArguments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, host.Config{
			Limits:    host.Limits{PayloadBytes: 100},
			Overrides: map[host.Scope]host.Limits{{App: "app", Type: "Small"}: {PayloadBytes: 50}},
		})
		long := strings.Repeat("x", 101)
		echo := func(t *hosttest.Turn) error {
			if code := t.Calls.Reply("", []byte(long)); code != abi.CodeTooLarge {
				panic("a reply above the limit was taken")
			}
			return t.Reply(string(t.Frame.Payload))
		}
		a := hosttest.Actor{Methods: map[string]hosttest.Func{"Echo": echo}}
		s.world.Deploy("app", "T", a)
		s.world.Deploy("app", "Small", a)
		a.Limits = abi.Limits{PayloadBytes: 10}
		s.world.Deploy("app", "Tiny", a)
		a.Limits = abi.Limits{PayloadBytes: 1 << 40}
		s.world.Deploy("app", "Greedy", a)
		for _, tc := range []struct {
			name, typ, id, method string
			payload               int
			want                  *actor.Condition
			says                  string
		}{
			{"fine", "T", "a", "Echo", 100, nil, ""},
			{"odd but fine", "T", "a||b/ 😀", "Echo", 1, nil, ""},
			{"unknown type", "U", "a", "Echo", 1, actor.ErrTypeNotFound, "U"},
			{"unknown method", "T", "a", "echo", 1, actor.ErrMethodNotFound, "echo"},
			{"large", "T", "a", "Echo", 101, actor.ErrPayloadTooLarge, "at most 100 are allowed, by --max-payload or --limit app/T:max-payload=… of the server"},
			{"large for the type", "Small", "a", "Echo", 51, actor.ErrPayloadTooLarge, "at most 50 are allowed, by --max-payload or --limit app/Small:max-payload=…"},
			{"large for the manifest", "Tiny", "a", "Echo", 11, actor.ErrPayloadTooLarge, "at most 10 are allowed, by payload_bytes in the limits that the type declares"},
			{"a manifest raises nothing", "Greedy", "a", "Echo", 101, actor.ErrPayloadTooLarge, "at most 100 are allowed, by --max-payload"},
		} {
			inv := actor.Invocation{Key: actor.Key{App: "app", Type: tc.typ, ID: tc.id}, Method: tc.method}
			inv.Payload.Data = []byte(long[:tc.payload])
			reply, err := s.Invoke(t.Context(), inv)
			switch {
			case tc.want != nil:
				wantCondition(t, err, tc.want)
				if !strings.Contains(err.Error(), tc.says) {
					t.Errorf("%s: %v, want %q", tc.name, err, tc.says)
				}
			case err != nil || len(reply.Payload.Data) != tc.payload:
				t.Errorf("%s: %v", tc.name, err)
			}
		}
	})
}

func TestConfig(t *testing.T) {
	w := hosttest.New()
	good := host.Config{Committer: newFakeStore(), Modules: w, Engine: w}
	for field, spoil := range map[string]func(*host.Config){
		"Committer":      func(c *host.Config) { c.Committer = nil },
		"Modules":        func(c *host.Config) { c.Modules = nil },
		"Engine":         func(c *host.Config) { c.Engine = nil },
		"GuestMemory":    func(c *host.Config) { c.GuestMemory = -1 },
		"Limits.Mailbox": func(c *host.Config) { c.Limits.Mailbox = -1 },
		"Overrides[app/T].": func(c *host.Config) {
			c.Overrides = map[host.Scope]host.Limits{{App: "app", Type: "T"}: {StateBytes: -1}}
		},
		"scope without an app": func(c *host.Config) { c.Overrides = map[host.Scope]host.Limits{{Type: "T"}: {}} },
	} {
		c := good
		spoil(&c)
		if _, err := host.New(c); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func TestGuestErrorsAreTidied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, host.Config{})
		s.world.Deploy("app", "T", hosttest.Actor{Methods: map[string]hosttest.Func{"Fail": func(*hosttest.Turn) error {
			return &actor.GuestError{
				Status: 99, Code: strings.Repeat("c", 1000), Message: strings.Repeat("é", 5000) + "\xff",
				Detail: actor.Payload{Data: []byte("detail")}, Retryable: true,
			}
		}}})
		_, err := s.call(t.Context(), "a", "Fail")
		var guest *actor.GuestError
		if !errors.As(err, &guest) {
			t.Fatal(err)
		}
		if guest.Status != 2 || len(guest.Code) != abi.MaxErrorCodeLen || len(guest.Message) != abi.MaxErrorMessageLen ||
			string(guest.Detail.Data) != "detail" || !guest.Retryable {
			t.Errorf("got %+v", guest)
		}
	})
}

func TestGuestLogAndRandom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines []host.GuestLog
		s := newStage(t, host.Config{Observers: []host.Events{{GuestLog: func(l host.GuestLog) { lines = append(lines, l) }}}})
		s.world.Deploy("app", "T", hosttest.Actor{Methods: map[string]hosttest.Func{"Chat": func(t *hosttest.Turn) error {
			for i := range 5000 {
				t.Calls.Log(4, fmt.Sprint(i))
			}
			var p [32]byte
			t.Calls.Random(p[:])
			return t.Reply(string(p[:]))
		}}})
		a, _ := s.call(t.Context(), "a", "Chat")
		if len(lines) != 1000 || lines[0].Text != "0" || lines[0].Key != key("a") || lines[0].InvocationID == "" {
			t.Errorf("%d lines, the first %+v", len(lines), lines[0])
		}
		if b, _ := s.call(t.Context(), "a", "Chat"); a == b || len(a) != 32 {
			t.Error("two turns have one random stream")
		}
	})
}

// TestDiscardedRunsAreMarked: a run whose commit was refused has logged what has
// not happened; the next one says so, and each line has the number of its run.
func TestDiscardedRunsAreMarked(t *testing.T) {
	both(t, func(t *testing.T, placement string) {
		var lines []string
		s := newStage(t, host.Config{Observers: []host.Events{{GuestLog: func(l host.GuestLog) {
			lines = append(lines, fmt.Sprintf("%d %s", l.Run, l.Text[:min(len(l.Text), 25)]))
		}}}})
		s.world.Deploy("app", "T", hosttest.Actor{Placement: placement, Methods: map[string]hosttest.Func{
			"Add": func(t *hosttest.Turn) error {
				t.Calls.Log(0, "adding")
				return add(t)
			},
		}})
		s.store.plan("commit", "lost")
		if _, err := s.call(t.Context(), "a", "Add"); err != nil {
			t.Fatal(err)
		}
		want := []string{"1 adding", "2 the run before was discar", "2 adding"}
		if !slices.Equal(lines, want) {
			t.Errorf("lines %q, want %q", lines, want)
		}
		lines = nil
		if _, err := s.call(t.Context(), "b", "Add"); err != nil || !slices.Equal(lines, []string{"1 adding"}) {
			t.Errorf("a turn that ran once: lines %q, %v", lines, err)
		}
	})
}
