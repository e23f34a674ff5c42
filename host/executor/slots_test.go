package executor

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/greenroom-run/greenroom/actor"
)

// slots returns so many slots for one pool.
func slots(number int) *Slots { return New(number, []PoolConfig{{Name: "user"}}) }

// only returns the pool of slots.
func only(s *Slots) *Pool { return s.Pool("user") }

// scarce returns so many slots, for new turns too.
func scarce(number int) *Slots {
	s := slots(number)
	s.first = s.most
	return s
}

// player is a turn that does what it is asked to.
type player struct {
	Slot
	of     *Pool
	key    actor.Key
	ctx    context.Context
	cancel context.CancelFunc
	asked  chan func()
	inside bool // between Enter and Leave
	paused bool
	waits  atomic.Bool
}

// ask has the turn do something, which may take until it is dealt a slot.
func (p *player) ask(do func()) {
	p.waits.Store(true)
	p.asked <- do
	time.Sleep(time.Millisecond) // in which the pauses of Yield are over
	synctest.Wait()
}

// Whatever turns of whatever pools do in whatever order, no more run than there are slots for new
// turns, and no more of a pool than it may have; none waits while a slot is free that it may have, none keeps a slot that others want for longer than it may, a turn whose
// context has ended does not wait, and at the end all slots are free.
func TestSlotsKeepTheirBound(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		broken := ""
		most := rapid.IntRange(1, 3).Draw(r, "slots")
		players := rapid.IntRange(1, 8).Draw(r, "turns")
		pools := rapid.SliceOfN(rapid.Custom(func(r *rapid.T) PoolConfig {
			return PoolConfig{Concurrency: rapid.IntRange(0, 3).Draw(r, "concurrency"), Weight: rapid.IntRange(1, 9).Draw(r, "weight")}
		}), 1, 3).Draw(r, "pools")
		for i := range pools {
			pools[i].Name = fmt.Sprint("pool", i)
		}
		type step struct {
			who, what int
			fuel      uint64
		}
		steps := rapid.SliceOfN(rapid.Custom(func(r *rapid.T) step {
			return step{rapid.IntRange(0, players-1).Draw(r, "who"), rapid.IntRange(0, 9).Draw(r, "what"), rapid.Uint64Range(0, 2*begin).Draw(r, "fuel")}
		}), 20, 100).Draw(r, "steps")
		synctest.Test(t, func(t *testing.T) {
			s := New(most, pools)
			var all []*player
			for i := range players {
				p := &player{
					of: s.Pools()[i%len(pools)], asked: make(chan func(), 1),
					key: actor.Key{App: fmt.Sprint("app", i%3), Type: fmt.Sprint("type", i%2)},
				}
				all = append(all, p)
				go func() {
					for do := range p.asked {
						do()
						p.waits.Store(false)
					}
				}()
			}
			check := func(i int) {
				running, waiting := 0, 0
				runs, waits := map[*Pool]int{}, map[*Pool]int{}
				for _, p := range all {
					if p.waits.Load() {
						waiting++
						waits[p.of]++
						if p.ctx.Err() != nil && broken == "" {
							broken = fmt.Sprintf("step %d: a turn waits whose context has ended", i)
						}
					} else if p.has {
						running++
						runs[p.of]++
					}
				}
				state, ready := s.state.Load(), 0
				for at, p := range s.Pools() {
					full := pools[at].Concurrency > 0 && runs[p] >= pools[at].Concurrency
					if !full {
						ready += waits[p]
					}
					if broken == "" && (full && runs[p] > pools[at].Concurrency || p.Running() != runs[p] || p.Waiting() != waits[p]) {
						broken = fmt.Sprintf("step %d: %d run and %d wait of %+v, which has %x", i, runs[p], waits[p], pools[at], p.state.Load())
					}
				}
				if broken == "" && (running > Beginners*most || ready > 0 && running < most || s.Waiting() != waiting || state != uint64(ready)*waitingOne+uint64(running)) {
					broken = fmt.Sprintf("step %d: %d of %d run, %d wait and %d are ready; the slots say %x", i, running, most, waiting, ready, state)
				}
			}
			for i, st := range steps {
				p := all[st.who]
				switch {
				case p.waits.Load():
					if st.what == 0 {
						p.cancel()
						synctest.Wait()
					}
				case !p.inside:
					p.ctx, p.cancel = context.WithCancel(t.Context())
					p.ask(func() { p.inside = p.Enter(p.ctx, p.of, &p.key) == nil })
				case p.paused:
					p.ask(func() { p.Resume(); p.paused = false })
				case st.what < 5:
					p.ask(func() { p.Yield(st.fuel) })
					if !p.waits.Load() && p.has && p.used >= p.may && p.of.crowded() {
						broken = fmt.Sprintf("step %d: a turn keeps its slot after fuel of %d while others want one", i, p.used)
					}
				case st.what < 7:
					had := p.has
					p.ask(func() { p.paused = p.Pause() })
					if p.paused != had {
						broken = fmt.Sprintf("step %d: paused: %v, running before: %v", i, p.paused, had)
					}
				default:
					p.ask(func() { p.Leave(st.fuel); p.Leave(st.fuel); p.inside = false })
					p.cancel()
				}
				check(i)
			}
			for range all { // all of them come to their end
				for _, p := range all {
					if p.inside && !p.waits.Load() {
						p.ask(func() { p.Leave(0); p.inside, p.paused = false, false })
						p.cancel()
					}
				}
			}
			for _, p := range all {
				close(p.asked)
				if p.cancel != nil {
					p.cancel()
				}
			}
			synctest.Wait()
			for _, p := range all {
				p.Leave(0)
			}
			for _, p := range s.Pools() {
				if broken == "" && (s.state.Load() != 0 || p.state.Load() != 0 || p.queue.Len() != 0 || p.ready != 0) {
					broken = fmt.Sprintf("at the end the slots say %x, and %s %x", s.state.Load(), p.Name(), p.state.Load())
				}
			}
		})
		if broken != "" {
			r.Fatal(broken)
		}
	})
}

// Two apps that always have something to run use as much fuel as each other, whatever their
// turns use and however many they are. A unit of fuel takes a nanosecond.
func TestSlotsAreDealtByFuel(t *testing.T) {
	for _, uses := range []uint64{1_000, slice, 3 * begin} {
		synctest.Test(t, func(t *testing.T) {
			s := slots(2)
			ctx, end := context.WithCancel(t.Context())
			var used [2]atomic.Int64
			turn := func(app int, fuel uint64) {
				run := func(fuel uint64) {
					time.Sleep(time.Duration(fuel))
					used[app].Add(int64(fuel))
				}
				var slot Slot
				for ctx.Err() == nil && slot.Enter(ctx, only(s), &actor.Key{App: fmt.Sprint(app), Type: "T"}) == nil {
					left := fuel
					for ; left > slice && ctx.Err() == nil; left -= slice {
						run(slice)
						slot.Yield(slice)
					}
					run(min(left, slice) + least)
					slot.Leave(fuel)
				}
			}
			for range 60 {
				go turn(0, 1<<40)
			}
			for range 8 {
				go turn(1, uses)
			}
			time.Sleep(500 * time.Duration(slice))
			if loud, quiet := used[0].Load(), used[1].Load(); loud > quiet*5/4 || quiet > loud*5/4 {
				t.Errorf("turns of %d: one app used %d of fuel, the other one %d", uses, loud, quiet)
			}
			end()
			time.Sleep(time.Second)
		})
	}
}

// Turns that begin do not wait for each other, up to a bound, and those that go on do.
func TestNewTurnsDoNotWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := slots(2)
		key := &actor.Key{App: "a", Type: "T"}
		turns := make([]Slot, 2*Beginners+1)
		for i := range turns[1:] {
			if err := turns[i].Enter(t.Context(), only(s), key); err != nil {
				t.Fatal(err)
			}
			turns[i].Yield(begin - 1)
		}
		var entered atomic.Int32
		last := &turns[len(turns)-1]
		go func() {
			_ = last.Enter(t.Context(), only(s), key)
			entered.Add(1)
		}()
		synctest.Wait()
		if entered.Load() != 0 || s.Waiting() != 1 {
			t.Fatalf("%d turns have a slot", len(turns))
		}
		for i := range turns[1:] {
			go turns[i].Yield(1)
		}
		synctest.Wait()
		if running := int(s.state.Load() & takenMask); running != 2 || s.Waiting() != len(turns)-2 {
			t.Errorf("%d run and %d wait after they have used what is for new ones", running, s.Waiting())
		}
		for range turns { // each in its turn
			for i := range turns {
				if turns[i].has {
					turns[i].Leave(begin)
					synctest.Wait()
				}
			}
		}
		if entered.Load() != 1 || s.state.Load() != 0 {
			t.Errorf("the last one has entered: %d; state %x", entered.Load(), s.state.Load())
		}
	})
}

// A turn that was dealt a slot while its context ended leaves it to others.
func TestSlotOfATurnThatHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scarce(1)
		key := &actor.Key{App: "a", Type: "T"}
		var first, second, third Slot
		if err := first.Enter(t.Context(), only(s), key); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- second.Enter(ctx, only(s), key) }()
		synctest.Wait()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("entered: %v", err)
		}
		if s.Waiting() != 0 {
			t.Errorf("%d wait", s.Waiting())
		}
		second.Leave(0)
		first.Leave(0)
		if err := third.Enter(t.Context(), only(s), key); err != nil || !third.has {
			t.Errorf("the slot is lost: %v", err)
		}
	})
}

// A called turn goes on with the slot of the turn that waits for it, also where others wait for a
// slot, and each of both pays for what its own guest uses.
func TestCalledTurnHasTheSlotOfItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scarce(1)
		mine, theirs := actor.Key{App: "mine", Type: "T"}, actor.Key{App: "theirs", Type: "T"}
		var caller, called, other Slot
		if err := caller.Enter(t.Context(), only(s), &mine); err != nil {
			t.Fatal(err)
		}
		waiting, stop := context.WithCancel(t.Context())
		entered := make(chan error, 1)
		go func() { entered <- other.Enter(waiting, only(s), &theirs) }()
		synctest.Wait()

		caller.Yield(slice)
		if !called.TakeFrom(t.Context(), &caller, &mine) || caller.has || !called.has {
			t.Fatal("the called turn has not taken the slot")
		}
		called.Leave(3 * slice)
		called.Leave(0)
		if !caller.has || called.has || caller.used != 4*slice {
			t.Fatalf("the caller has the slot: %t, after fuel of %d slices", caller.has, caller.used/slice)
		}
		synctest.Wait()
		if len(entered) > 0 {
			t.Fatal("another turn has got a slot meanwhile")
		}

		// A called turn that uses more goes behind the other one, and comes back.
		called.TakeFrom(t.Context(), &caller, &mine)
		yielded := make(chan struct{})
		go func() {
			called.Yield(10 * slice)
			called.Leave(10 * slice)
			close(yielded)
		}()
		if err := <-entered; err != nil {
			t.Fatal(err)
		}
		other.Leave(slice)
		<-yielded
		if !caller.has || called.TakeFrom(t.Context(), &other, &mine) {
			t.Errorf("the caller has the slot: %t", caller.has)
		}
		caller.Leave(slice)
		if stop(); s.state.Load() != 0 {
			t.Errorf("state %x at the end", s.state.Load())
		}
	})
}

// The cost at which a slot was dealt goes with the slot, so that its app pays what it was used for.
func TestCalledTurnPaysForTheSlotThatItHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scarce(1)
		mine, theirs := actor.Key{App: "mine", Type: "T"}, actor.Key{App: "theirs", Type: "T"}
		var caller, called, other Slot
		entered := make(chan error, 1)
		enter := func(slot *Slot, who *actor.Key) { // when other leaves
			_ = other.Enter(t.Context(), only(s), &theirs)
			go func() { entered <- slot.Enter(t.Context(), only(s), who) }()
			synctest.Wait()
			other.Leave(0)
			if err := <-entered; err != nil {
				t.Fatal(err)
			}
		}
		called.entry.Cost = slice // of an earlier turn
		enter(&caller, &mine)
		called.TakeFrom(t.Context(), &caller, &mine)
		if called.entry.Cost != unknown {
			t.Errorf("a slot that was dealt at %d counts as %d", unknown, called.entry.Cost)
		}
		called.Pause()
		called.Resume() // without a queue
		called.Leave(0)
		if caller.entry.Cost != 0 {
			t.Errorf("a slot that was free counts as %d", caller.entry.Cost)
		}
		caller.Leave(0)
	})
}

// A called turn whose context ends in the queue leaves its caller with a slot.
func TestCallerHasASlotAfterACalledTurnThatHasNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scarce(1)
		who := actor.Key{App: "a", Type: "T"}
		var caller, called, other Slot
		if err := caller.Enter(t.Context(), only(s), &who); err != nil {
			t.Fatal(err)
		}
		go func() { _ = other.Enter(t.Context(), only(s), &actor.Key{App: "b", Type: "T"}) }()
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		called.TakeFrom(ctx, &caller, &who)
		ended := make(chan struct{})
		go func() {
			called.Yield(10 * slice)
			called.Leave(10 * slice)
			close(ended)
		}()
		synctest.Wait() // the other one has the slot
		cancel()
		synctest.Wait()
		other.Leave(0)
		<-ended
		if !caller.has {
			t.Error("the caller goes on without a slot")
		}
		caller.Leave(0)
		if s.state.Load() != 0 {
			t.Errorf("state %x at the end", s.state.Load())
		}
	})
}

// TestProcessorIsIdleWhileSlotsAreTaken: a turn leaves its processor without work for a moment where
// as many turns run as may keep their slots.
func TestProcessorIsIdleWhileSlotsAreTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, key := slots(2), actor.Key{App: "a", Type: "T", ID: "1"}
		for running, want := range []time.Duration{0, idleFor} {
			turn := &Slot{}
			if err := turn.Enter(t.Context(), only(s), &key); err != nil {
				t.Fatal(err)
			}
			defer turn.Leave(0)
			began := time.Now()
			if turn.Yield(1); time.Since(began) != want {
				t.Errorf("beside %d turns: idle for %v", running, time.Since(began))
			}
		}
	})
}
