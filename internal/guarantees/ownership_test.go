package guarantees

import (
	"errors"
	"fmt"
	"testing"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/hosttest"
	"github.com/greenroom-run/greenroom/store"
	"github.com/greenroom-run/greenroom/store/faultstore"
)

// inEveryPlace runs f for each placement whose actors are in one place, on every store.
func inEveryPlace(t *testing.T, f func(t *testing.T, s store.Store, placement string)) {
	onEveryStore(t, func(t *testing.T, s store.Store) {
		for _, placement := range []string{abi.PlacementRing, abi.PlacementSticky} {
			t.Run(placement, func(t *testing.T) { f(t, s, placement) })
		}
	})
}

// owner is a host with what it holds, and the turns on it that wait in the middle.
type owner struct {
	*host.Host
	holdings *hosttest.Holdings
	entered  chan struct{}
	leave    chan struct{}
}

// gated are the methods of counter, and the same with a wait in the middle: Slow and then
// the name.
func gated(placement string, entered, leave chan struct{}) hosttest.Actor {
	a := counter(placement)
	slow := func(methods map[string]hosttest.Func) {
		for _, name := range []string{"Add", "Touch", "AddThenFail", "Get"} {
			if f := methods[name]; f != nil {
				methods["Slow"+name] = func(t *hosttest.Turn) error {
					entered <- struct{}{}
					<-leave
					return f(t)
				}
			}
		}
	}
	slow(a.Methods)
	slow(a.ReadOnly)
	return a
}

// owner starts a host that holds nothing yet. Its guests are its own.
func (r *rig) owner(t *testing.T, placement string) *owner {
	o := &owner{holdings: hosttest.NewHoldings(actor.NotHeld), entered: make(chan struct{}, 100), leave: make(chan struct{})}
	own := &rig{store: r.store, world: hosttest.New(), app: r.app}
	own.world.Deploy(r.app, "Counter", gated(placement, o.entered, o.leave))
	o.Host = own.hostOf(t, r.store, host.Limits{}, o.holdings)
	return o
}

func (o *owner) gets(hold actor.Hold) { o.holdings.Set(func(actor.Key) actor.Hold { return hold }) }

func (o *owner) handsOver(t *testing.T) {
	t.Helper()
	o.gets(actor.NotHeld)
	if err := o.HandOver(t.Context(), func(actor.Key) bool { return true }); err != nil {
		t.Error(err)
	}
}

// outcome is what a call in the background got.
type outcome struct {
	n   int64
	err error
}

func (r *rig) start(t *testing.T, h *host.Host, id, method string) <-chan outcome {
	got := make(chan outcome, 1)
	go func() {
		n, err := r.call(t, h, id, method)
		got <- outcome{n, err}
	}()
	return got
}

// TestGuarantee4Leases: a host whose lease is over, which it finds out when a turn has ended
// or not at all before it is told, answers nothing that is not the newest; what it held it
// answers without the store as long as its lease lasts.
func TestGuarantee4Leases(t *testing.T) {
	inEveryPlace(t, func(t *testing.T, s store.Store, placement string) {
		for _, told := range []bool{false, true} {
			for _, method := range []string{"SlowTouch", "SlowGet", "SlowAddThenFail"} {
				t.Run(fmt.Sprintf("%s, told %t", method, told), func(t *testing.T) {
					r := newRig(t, s, fmt.Sprintf("lease-%s-%s-%t", placement, method, told), faultstore.Config{})
					a, b := r.owner(t, placement), r.owner(t, placement)
					a.gets(actor.HeldClean)
					r.must(t, a.Host, "x", "Add")
					frozen := r.start(t, a.Host, "x", method)
					<-a.entered
					// a is frozen for longer than its lease, and b takes over.
					a.holdings.Pause()
					a.gets(actor.NotHeld)
					b.gets(actor.Held)
					if n := r.must(t, b.Host, "x", "Add"); n != 2 {
						t.Errorf("the next owner answers %d", n)
					}
					if told {
						a.DropAll()
						a.holdings.Resume() // as another host
					}
					close(a.leave)
					got := <-frozen
					switch {
					case errors.Is(got.err, actor.ErrNotOwner):
					case method == "SlowGet" && !told && got.n == 2: // confirmed, and read again
					default:
						t.Errorf("the frozen one answers %+v", got)
					}
					a.holdings.Resume()
					for _, method := range []string{"Get", "Touch"} {
						if n, err := r.call(t, a.Host, "x", method); told && !errors.Is(err, actor.ErrNotOwner) {
							t.Errorf("it goes on to answer: %d, %v", n, err)
						}
					}
					b.handsOver(t)
					a.DropAll()
					a.gets(actor.HeldClean)
					for _, method := range []string{"Get", "Touch"} {
						if n := r.must(t, a.Host, "x", method); n != 2 {
							t.Errorf("%s by who has it again: %d", method, n)
						}
					}
				})
			}
		}
	})
}

// TestGuarantee5OneActivation: after the second owner of a sticky actor has begun its first
// turn, the first neither commits nor answers, be its turns in the middle or their
// commits under way, and whether or not it knows.
func TestGuarantee5OneActivation(t *testing.T) {
	onEveryStore(t, func(t *testing.T, s store.Store) {
		r := newRig(t, s, "one-activation", faultstore.Config{})
		hosts := [2]*owner{r.owner(t, abi.PlacementSticky), r.owner(t, abi.PlacementSticky)}
		hosts[0].gets(actor.HeldClean)
		acknowledged := int64(0)
		add := func(h *owner) {
			t.Helper()
			acknowledged++
			if n := r.must(t, h.Host, "x", "Add"); n != acknowledged {
				t.Fatalf("an add answers %d, want %d", n, acknowledged)
			}
		}
		for round := range 8 {
			first, second := hosts[round%2], hosts[1-round%2]
			told, takes := round&2 != 0, []string{"Touch", "Get", "Add"}[round%3]
			add(first)
			if round == 5 { // in order, once between: no fence is needed
				first.handsOver(t)
				second.gets(actor.HeldClean)
				add(second)
				continue
			}
			inCommit := round&4 != 0
			method, entered, release := "SlowAdd", (<-chan struct{})(first.entered), func() { first.leave <- struct{}{} }
			if inCommit {
				held := r.store.Hold(faultstore.BeforeCommit)
				method, entered, release = "Add", held.Reached(), held.Release
			}
			late := r.start(t, first.Host, "x", method)
			<-entered
			var waiting <-chan outcome
			if !inCommit {
				waiting = r.start(t, first.Host, "x", "Add")
			}

			first.holdings.Pause()
			first.gets(actor.NotHeld)
			second.gets(actor.Held)
			if n := r.must(t, second.Host, "x", takes); takes == "Add" {
				if acknowledged++; n != acknowledged {
					t.Errorf("round %d: the second owner's first turn answers %d, want %d", round, n, acknowledged)
				}
			} else if n != acknowledged {
				t.Errorf("round %d: the second owner's first turn shows %d, want %d", round, n, acknowledged)
			}
			if told {
				first.DropAll()
			}
			release()
			if got := <-late; !errors.Is(got.err, actor.ErrNotOwner) {
				t.Errorf("round %d: the first owner's turn got %+v after the second's had begun", round, got)
			}
			if waiting != nil {
				if got := <-waiting; !errors.Is(got.err, actor.ErrNotOwner) {
					t.Errorf("round %d: what waited at the first owner got %+v", round, got)
				}
			}
			add(second)
			first.DropAll()
			first.holdings.Resume()
		}
		if n := r.strong(t, hosts[0].Host, "x"); n != acknowledged {
			t.Errorf("%d turns were acknowledged, %d are stored", acknowledged, n)
		}
	})
}
