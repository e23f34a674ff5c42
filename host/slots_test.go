package host_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/executor"
	"github.com/greenroom-run/greenroom/host/hosttest"
	"github.com/greenroom-run/greenroom/host/instance"
	"github.com/greenroom-run/greenroom/settings"
	"github.com/greenroom-run/greenroom/store"
)

// processors are as many as a machine has: who wants one has it in turn, as goroutines do.
type processors chan struct{}

// use has a guest run for a grant of fuel at most.
func (p processors) use(d time.Duration) {
	p <- struct{}{}
	time.Sleep(d)
	<-p
}

const (
	grant     = 100_000
	grantTime = grant * time.Nanosecond
)

// fill has new turns that run Hold take all slots of a host that has one.
func (s *stage) fill(ctx context.Context, entered <-chan struct{}) []<-chan answer {
	var held []<-chan answer
	for i := range executor.Beginners {
		held = append(held, s.start(ctx, fmt.Sprint("held", i), "Hold"))
		<-entered
	}
	return held
}

// TestAppsThatSpinHoldUpNoOther has 500 actors of one app in endless loops, in each lane, and
// counts what they run while another app makes calls.
func TestAppsThatSpinHoldUpNoOther(t *testing.T) {
	lanes := []struct {
		name string
		loud hosttest.Actor
	}{
		{"ring", hosttest.Actor{}}, {"read-only", hosttest.Actor{}}, {"sticky", hosttest.Actor{Placement: abi.PlacementSticky}},
		{"any", hosttest.Actor{Placement: abi.PlacementAny}}, {"stateless", hosttest.Actor{Placement: abi.PlacementStateless}},
	}
	for _, lane := range lanes {
		t.Run(lane.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const actors, slots, calls = 500, 2, 100
				s := newStage(t, host.Config{Slots: slots, LockedTurns: 2 * actors, Limits: host.Limits{Instances: actors}})
				machine := make(processors, slots)
				var ran atomic.Int64
				spin := func(turn *hosttest.Turn) error {
					for {
						machine.use(grantTime)
						ran.Add(1)
						turn.Yield(grant)
					}
				}
				loud := lane.loud
				loud.Yields = true
				if lane.name == "read-only" {
					loud.ReadOnly = map[string]hosttest.Func{"Spin": spin}
				} else {
					loud.Methods = map[string]hosttest.Func{"Spin": spin}
				}
				s.world.Deploy("app", "T", loud)
				s.world.Deploy("quiet", "T", hosttest.Actor{Yields: true, Methods: map[string]hosttest.Func{"Add": func(turn *hosttest.Turn) error {
					machine.use(grantTime / 10)
					return add(turn)
				}}})
				ctx, end := context.WithCancel(t.Context())
				for i := range actors {
					s.start(ctx, fmt.Sprint(i), "Spin")
				}
				time.Sleep(time.Second) // all have begun
				synctest.Wait()         // the grants that end at this instant have passed on their processors
				if waiting := s.WaitingForProcessor(); waiting != actors-slots {
					t.Errorf("%d turns wait for a processor, want %d", waiting, actors-slots)
				}
				before := ran.Load()
				for range calls {
					if _, err := s.Invoke(t.Context(), actor.Invocation{Key: actor.Key{App: "quiet", Type: "T", ID: "q"}, Method: "Add"}); err != nil {
						t.Fatal(err)
					}
				}
				// Of each call both processors may be with the other app when it comes.
				if grants := ran.Load() - before; grants > calls*2*slots {
					t.Errorf("the loops had %d grants of fuel during %d calls of another app", grants, calls)
				}
				end()
			})
		})
	}
}

// TestCallWhoseTimeEndsBeforeItHasAProcessor: it did not run, and leaves its instance and the
// processors to others.
func TestCallWhoseTimeEndsBeforeItHasAProcessor(t *testing.T) {
	both(t, func(t *testing.T, placement string) {
		ran := make(chan int, 1) // how often the guest of a turn of a
		var closed atomic.Int32
		s := newStage(t, host.Config{Slots: 1, Observers: []host.Events{{
			TurnEnd: func(e host.TurnEnd) {
				if e.Key.ID == "a" {
					ran <- e.Runs
				}
			},
			InstanceClosed: func(instance.Event) { closed.Add(1) },
		}}})
		g := newGate()
		s.world.Deploy("app", "T", hosttest.Actor{
			Placement: placement, Yields: true, Methods: map[string]hosttest.Func{"Add": add, "Hold": g.wait}, ReadOnly: map[string]hosttest.Func{"View": view},
		})
		held := s.fill(t.Context(), g.entered)
		for _, method := range []string{"Add", "View"} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if _, err := s.call(ctx, "a", method); !errors.Is(err, actor.ErrDeadline) {
				t.Errorf("%s ended with %v", method, err)
			}
			cancel()
			if n := <-ran; n != 0 {
				t.Errorf("%s ran %d times", method, n)
			}
		}
		if n := s.WaitingForProcessor(); n != 0 || closed.Load() != 0 {
			t.Errorf("%d turns still wait; %d instances that ran nothing were closed", n, closed.Load())
		}
		close(g.leave)
		for _, c := range held {
			if a := <-c; a.err != nil {
				t.Error(a.err)
			}
		}
		if reply, err := s.call(t.Context(), "a", "Add"); reply != "1" || err != nil {
			t.Errorf("afterwards: %q, %v", reply, err)
		}
	})
}

// TestStopEndsTurnsThatWaitForAProcessor stops a host by force while guests have all slots.
func TestStopEndsTurnsThatWaitForAProcessor(t *testing.T) {
	both(t, func(t *testing.T, placement string) {
		s := newStage(t, host.Config{Slots: 1})
		entered, leave := make(chan struct{}, executor.Beginners), make(chan struct{})
		s.world.Deploy("app", "T", hosttest.Actor{Placement: placement, Yields: true, Methods: map[string]hosttest.Func{
			"Add": add,
			"Hold": func(*hosttest.Turn) error { // until the other turn has ended: it would run otherwise
				entered <- struct{}{}
				<-leave
				return nil
			},
		}})
		held := s.fill(t.Context(), entered)
		waiting := s.start(t.Context(), "a", "Add")
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			_ = s.Stop(ctx)
		}()
		if a := <-waiting; !errors.Is(a.err, actor.ErrStopping) {
			t.Errorf("it ended with %q, %v", a.reply, a.err)
		}
		close(leave)
		for _, c := range held {
			<-c
		}
		<-stopped
	})
}

// slowEgress answers when it is asked to.
type slowEgress struct{ asked, answer chan struct{} }

func (e slowEgress) Do(ctx context.Context, r host.EgressRequest) (abi.HTTPResponse, error) {
	e.asked <- struct{}{}
	<-e.answer
	return abi.HTTPResponse{Status: 200}, nil
}

// TestTurnsThatWaitHoldNoProcessor: while a guest waits for an HTTP answer, others run, and it
// goes on when one has ended.
func TestTurnsThatWaitHoldNoProcessor(t *testing.T) {
	both(t, func(t *testing.T, placement string) {
		out := slowEgress{make(chan struct{}), make(chan struct{})}
		s := newStage(t, host.Config{Slots: 1, Egress: out})
		g := newGate()
		s.world.Deploy("app", "T", hosttest.Actor{Placement: placement, Yields: true, Methods: map[string]hosttest.Func{
			"Add": add, "Hold": g.wait,
			"Ask": func(turn *hosttest.Turn) error {
				turn.HTTP(abi.HTTPRequest{})
				return add(turn)
			},
		}})
		asks := s.start(t.Context(), "asks", "Ask")
		<-out.asked
		if reply, err := s.call(t.Context(), "a", "Add"); reply != "1" || err != nil {
			t.Fatalf("beside a turn that waits: %q, %v", reply, err)
		}
		held := s.fill(t.Context(), g.entered)
		out.answer <- struct{}{}
		synctest.Wait()
		if len(asks) > 0 || s.WaitingForProcessor() != 1 {
			t.Errorf("a guest runs beside those that have all slots; %d wait", s.WaitingForProcessor())
		}
		close(g.leave)
		for _, c := range append(held, asks) {
			if a := <-c; a.err != nil {
				t.Error(a.err)
			}
		}
	})
}

// slowStore answers loads, and what is deployed, when it is asked to.
type slowStore struct {
	*fakeStore
	*hosttest.World
	answer atomic.Pointer[chan struct{}] // nil: at once
}

func (s *slowStore) wait() {
	if answer := s.answer.Load(); answer != nil {
		<-*answer
	}
}

func (s *slowStore) LoadActors(ctx context.Context, keys []actor.Key, opts actor.LoadOptions) ([]actor.Row, error) {
	s.wait()
	return s.fakeStore.LoadActors(ctx, keys, opts)
}

func (s *slowStore) Refresh(ctx context.Context, app string) error {
	s.wait()
	return s.World.Refresh(ctx, app)
}

// TestCallsThatWaitForTheStoreHoldNoProcessor: while turns that call wait for what the store knows of the
// callee's type or state, others run.
func TestCallsThatWaitForTheStoreHoldNoProcessor(t *testing.T) {
	const slots = 2
	deployed := func(t *testing.T, s *stage, slow func()) {
		slow()
		s.world.DeployElsewhere("app", "U", hosttest.Actor{Yields: true, Methods: map[string]hosttest.Func{"Add": add}})
	}
	for name, c := range map[string]struct {
		ready func(t *testing.T, s *stage, slow func())
		call  func(t *testing.T, s *stage, i int) error
	}{
		"for an unknown type": {deployed, func(t *testing.T, s *stage, i int) error {
			_, err := s.call(t.Context(), fmt.Sprint("a", i), "CallU")
			return err
		}},
		"for an unknown type of several calls": {deployed, func(t *testing.T, s *stage, i int) error {
			calls := []actor.Call{{Key: key(fmt.Sprint("a", i)), Method: "Add"}, {Key: actor.Key{App: "app", Type: "U", ID: fmt.Sprint(i)}, Method: "Add"}}
			_, err := s.Invoke(t.Context(), actor.Invocation{Key: calls[0].Key, Method: actor.MethodAll, Payload: actor.Payload{Data: actor.EncodeCalls(calls)}})
			return err
		}},
		"for a newer state": {func(t *testing.T, s *stage, slow func()) {
			slow()
			for i := range slots { // a strong read learns that there is one, and waits for it
				s.store.write(key(fmt.Sprint("b", i)), func(*actor.Row) {})
				go s.Invoke(t.Context(), actor.Invocation{Key: key(fmt.Sprint("b", i)), Method: "View", Consistency: actor.ConsistencyStrong})
			}
			synctest.Wait()
		}, func(t *testing.T, s *stage, i int) error {
			_, err := s.call(t.Context(), fmt.Sprint("a", i), "CallB")
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				slow := &slowStore{fakeStore: sharedFake(), World: hosttest.New()}
				s := newStage(t, host.Config{Slots: slots, Committer: slow, Modules: slow})
				s.store, slow.World = slow.fakeStore, s.world
				calls := func(typ, prefix string) hosttest.Func {
					return func(turn *hosttest.Turn) error {
						_, err := turn.Call(typ, prefix+turn.Frame.ID[1:], "Add", "")
						return err
					}
				}
				s.world.Deploy("app", "T", hosttest.Actor{
					Yields: true, Methods: map[string]hosttest.Func{"Add": add, "CallU": calls("U", ""), "CallB": calls("T", "b")},
					ReadOnly: map[string]hosttest.Func{"View": view},
				})
				quiet := actor.Invocation{Key: actor.Key{App: "quiet", Type: "T", ID: "q"}, Method: "Add"}
				s.world.Deploy("quiet", "T", hosttest.Actor{Yields: true, Methods: map[string]hosttest.Func{"Add": add}})
				for i := range slots {
					for _, id := range []string{"a", "b"} {
						if _, err := s.call(t.Context(), fmt.Sprint(id, i), "Add"); err != nil {
							t.Fatal(err)
						}
					}
				}
				if _, err := s.Invoke(t.Context(), quiet); err != nil {
					t.Fatal(err)
				}
				answer := make(chan struct{})
				c.ready(t, s, func() { slow.answer.Store(&answer) })
				ended := make(chan error, slots)
				for i := range slots {
					go func() { ended <- c.call(t, s, i) }()
				}
				synctest.Wait()
				if len(ended) > 0 {
					t.Error("a turn has not waited")
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if _, err := s.Invoke(ctx, quiet); err != nil {
					t.Error(err)
				}
				close(answer)
				for range slots {
					if err := <-ended; err != nil {
						t.Error(err)
					}
				}
			})
		})
	}
}

// TestFailedTurnsGiveTheirProcessorBack: however a guest ends, the only slot is free after it.
func TestFailedTurnsGiveTheirProcessorBack(t *testing.T) {
	both(t, func(t *testing.T, placement string) {
		s := newStage(t, host.Config{Slots: 1, Limits: host.Limits{TurnDeadline: time.Second}})
		loop := func(turn *hosttest.Turn) error {
			for {
				time.Sleep(grantTime)
				turn.Yield(grant)
			}
		}
		methods := map[string]hosttest.Func{
			"Fail": func(*hosttest.Turn) error { return hosttest.Fail("no") }, "Trap": func(*hosttest.Turn) error { panic("trap") }, "Loop": loop,
		}
		s.world.Deploy("app", "T", hosttest.Actor{Placement: placement, Yields: true, Methods: methods, ReadOnly: map[string]hosttest.Func{"Look": loop}})
		s.world.Deploy("app", "U", hosttest.Actor{Yields: true, Methods: map[string]hosttest.Func{"Add": add}})
		var calls sync.WaitGroup
		for n, method := range []string{"Fail", "Trap", "Loop", "Look"} {
			for i := range 5 {
				calls.Go(func() {
					if _, err := s.call(t.Context(), fmt.Sprint(n, i), method); err == nil {
						t.Errorf("%s succeeded", method)
					}
				})
			}
		}
		calls.Wait()
		if n := s.WaitingForProcessor(); n != 0 {
			t.Errorf("%d turns wait", n)
		}
		if _, err := s.Invoke(t.Context(), actor.Invocation{Key: actor.Key{App: "app", Type: "U", ID: "u"}, Method: "Add"}); err != nil {
			t.Error(err)
		}
	})
}

// deadSettings is a store of settings that answers nothing before it is closed.
type deadSettings struct {
	store.Store
	asked, closed chan struct{}
}

func (s deadSettings) Settings(context.Context, string) ([]actor.Setting, error) {
	s.asked <- struct{}{}
	<-s.closed
	return nil, nil
}

// TestTurnsThatWaitForSettingsHoldNoProcessor: while the guests of one app wait for the store, to
// read what the app was given, another app's guests run.
func TestTurnsThatWaitForSettingsHoldNoProcessor(t *testing.T) {
	both(t, func(t *testing.T, placement string) {
		const flood, calls = 20, 10
		dead := deadSettings{asked: make(chan struct{}, flood), closed: make(chan struct{})}
		service, err := settings.New(settings.Config{Store: dead})
		if err != nil {
			t.Fatal(err)
		}
		s := newStage(t, host.Config{Slots: 1, Settings: service})
		s.world.Deploy("app", "T", hosttest.Actor{
			Placement: placement, Yields: true, Uses: abi.Capabilities{Config: []string{"a"}},
			Methods: map[string]hosttest.Func{"Read": func(turn *hosttest.Turn) error {
				turn.Calls.ConfigGet([]byte("a"))
				return add(turn)
			}},
		})
		s.world.Deploy("quiet", "T", hosttest.Actor{Placement: placement, Yields: true, Methods: map[string]hosttest.Func{"Add": add}})
		var reads []<-chan answer
		for i := range flood {
			reads = append(reads, s.start(t.Context(), fmt.Sprint(i), "Read"))
		}
		<-dead.asked
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for range calls {
			if _, err := s.Invoke(ctx, actor.Invocation{Key: actor.Key{App: "quiet", Type: "T", ID: "q"}, Method: "Add"}); err != nil {
				t.Fatal(err)
			}
		}
		close(dead.closed)
		for _, c := range reads {
			if a := <-c; a.reply != "1" || a.err != nil {
				t.Errorf("a turn that waited: %q, %v", a.reply, a.err)
			}
		}
	})
}
