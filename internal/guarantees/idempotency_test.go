package guarantees

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/hosttest"
	"github.com/greenroom-run/greenroom/store"
	"github.com/greenroom-run/greenroom/store/faultstore"
)

// keyed invokes a method with an idempotency key.
func (r *rig) keyed(t *testing.T, h *host.Host, id, method, idem, payload string) (int64, error) {
	reply, err := h.Invoke(t.Context(), actor.Invocation{
		Key: r.key(id), Method: method, IdempotencyKey: idem, Payload: actor.Payload{Data: []byte(payload)},
	})
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(string(reply.Payload.Data), 10, 64)
}

// TestIdempotencyKeys: a call with a key takes effect once, and every call with
// the same key and payload gets that one's reply.
func TestIdempotencyKeys(t *testing.T) {
	onEveryStore(t, func(t *testing.T, s store.Store) {
		inEveryLane(t, func(t *testing.T, placement string) {
			t.Run("one by one", func(t *testing.T) { keysOneByOne(t, s, placement) })
			t.Run("retries under faults", func(t *testing.T) { retries(t, s, placement) })
			t.Run("window", func(t *testing.T) { windows(t, s, placement) })
		})
		t.Run("stateless", func(t *testing.T) { keysWithoutState(t, s) })
		t.Run("stateless window", func(t *testing.T) { windows(t, s, abi.PlacementStateless) })
	})
}

func keysOneByOne(t *testing.T, s store.Store, placement string) {
	r := newRig(t, s, "keys-"+placement, faultstore.Config{})
	r.world.Deploy(r.app, "Counter", counter(placement))
	h, other := r.host(t, host.Limits{}), r.host(t, host.Limits{})
	lost, replyLost := faultstore.CommitLost, faultstore.CommitReplyLost
	if placement == abi.PlacementAny {
		lost, replyLost = faultstore.TurnLost, faultstore.TurnReplyLost
	}
	for i, step := range []struct {
		host              *host.Host
		method, idem, pay string
		fault             faultstore.Fault
		want              int64
		check             func(error) bool
	}{
		{h, "Add", "k1", "", "", 1, success},
		{h, "Add", "k1", "", "", 1, success},
		{other, "Add", "k1", "", "", 1, success},
		{other, "Add", "k1", "other payload", "", 0, condition(actor.ErrKeyReused)},
		{h, "Add", "k1", "other payload", "", 0, condition(actor.ErrKeyReused)},
		{h, "Add", "k2", "", replyLost, 2, success},
		{other, "Add", "k2", "", "", 2, success},
		{h, "Add", "k3", "", lost, 3, success},
		{h, "Add", "k3", "", lost, 3, success},
		// The scope of a key is the method.
		{h, "Touch", "k1", "", "", 3, success},
		{h, "Add", "", "", "", 4, success},
		// Nothing changed, and the reply stays what it was.
		{other, "Touch", "k1", "", "", 3, success},
		// A failure is not recorded.
		{h, "AddThenFail", "k4", "", "", 0, is[*actor.GuestError]},
		{other, "AddThenFail", "k4", "", "", 0, is[*actor.GuestError]},
		{h, "AddThenTrap", "k4", "", "", 0, is[*actor.TrapError]},
		{h, "Add", "no\nline", "", "", 0, is[*actor.ArgumentError]},
		{h, "Get", "k1", "", "", 4, success}, // read-only: ignored
	} {
		if step.fault != "" {
			r.store.Arm(step.fault, 1)
		}
		n, err := r.keyed(t, step.host, "a", step.method, step.idem, step.pay)
		if n != step.want || !step.check(err) {
			t.Errorf("step %d, %s with %q: %d, %v; want %d", i, step.method, step.idem, n, err, step.want)
		}
	}
	// Each actor has keys of its own, and a delete takes nothing back.
	if n, err := r.keyed(t, h, "b", "Add", "k1", ""); n != 1 || err != nil {
		t.Errorf("another actor: %d, %v", n, err)
	}
	if err := h.Delete(t.Context(), r.key("a")); err != nil {
		t.Fatal(err)
	}
	if n, err := r.keyed(t, h, "a", "Add", "k2", ""); n != 2 || err != nil {
		t.Errorf("after the delete: %d, %v", n, err)
	}
	if n, err := r.keyed(t, h, "fresh", "Touch", "k", ""); n != 0 || err != nil {
		t.Errorf("no effect on an actor without a row: %d, %v", n, err)
	}
	if _, err := h.View(t.Context(), r.key("fresh")); !errors.Is(err, actor.ErrActorNotFound) {
		t.Errorf("the record alone made a row: %v", err)
	}
	r.allFired(t)

	short := r.host(t, host.Limits{IdempotencyTTL: time.Microsecond})
	first, err := r.keyed(t, short, "c", "Add", "k", "")
	again, errAgain := r.keyed(t, short, "c", "Add", "k", "")
	if first != 1 || again != 2 || err != nil || errAgain != nil {
		t.Errorf("after the window: %d, %v, then %d, %v", first, err, again, errAgain)
	}
}

// windows looks at what is left of the records of types that ask for a window of
// their own: the host's is the longest.
func windows(t *testing.T, s store.Store, placement string) {
	r := newRig(t, s, "window-"+placement, faultstore.Config{})
	short := r.host(t, host.Limits{IdempotencyTTL: time.Hour})
	for i, tt := range []struct {
		host  *host.Host
		asked time.Duration
		want  time.Duration
	}{
		{r.host(t, host.Limits{}), 0, 24 * time.Hour},
		{r.host(t, host.Limits{}), 2 * time.Hour, 2 * time.Hour},
		{short, 2 * time.Hour, time.Hour},
		{short, 0, time.Hour},
	} {
		a := hosttest.Actor{
			Placement: placement, Limits: abi.Limits{IdempotencyMillis: tt.asked.Milliseconds()},
			Methods: map[string]hosttest.Func{"One": func(t *hosttest.Turn) error { return t.ReplyNumber(1) }},
		}
		r.world.Deploy(r.app, "Counter", a)
		id := fmt.Sprint(i)
		if _, err := r.keyed(t, tt.host, id, "One", "k", ""); err != nil {
			t.Fatal(err)
		}
		found, err := r.store.LoadIdempotency(t.Context(), []actor.KeyedCall{{Actor: r.key(id), Method: "One", Key: "k"}})
		if err != nil {
			t.Fatal(err)
		}
		// Less than the hour between two of them has passed since, on any machine.
		if left := found[0].Record.TTL; !found[0].Found || left > tt.want || left <= tt.want-time.Hour {
			t.Errorf("a type that asks for %v: %v are left (%+v), want %v", tt.asked, left, found[0], tt.want)
		}
	}
}

// retries lets impatient clients on two hosts repeat their calls until each is
// answered: every call must count once, and every reply must be its own.
func retries(t *testing.T, s store.Store, placement string) {
	const clients, each, most = 8, 15, 300
	seed := seeded(t)
	faults := rates(placement)
	if placement == abi.PlacementAny {
		delete(faults, faultstore.LoadFails) // a locked turn loads its own row
	}
	r := newRig(t, s, "retries-"+placement, faultstore.Config{Seed: seed, Rates: faults})
	r.world.Deploy(r.app, "Counter", counter(placement))
	hosts := []*host.Host{r.host(t, host.Limits{}), r.host(t, host.Limits{})}
	var mu sync.Mutex
	var replies []int64
	var made atomic.Int64
	var group sync.WaitGroup
	for client := range clients {
		group.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(client)))
			// How many commits and loads they come to is a matter of timing.
			for i := 0; i < each || i < most && len(r.store.Pending()) > 0; i++ {
				made.Add(1)
				idem := fmt.Sprintf("%d/%d", client, i)
				asked := 2 + rng.IntN(2) // also when the first was answered
				answers := make(chan int64, asked)
				var calls sync.WaitGroup
				for range asked {
					h := hosts[rng.IntN(len(hosts))]
					calls.Go(func() {
						for {
							n, err := r.keyed(t, h, "a", "Add", idem, "")
							if err == nil {
								answers <- n
								return
							}
							if actor.AsCondition(err) == nil || t.Context().Err() != nil {
								t.Error(err)
								return
							}
						}
					})
				}
				calls.Wait()
				close(answers)
				first, ok := <-answers
				for n := range answers {
					if n != first {
						t.Errorf("the call %s was answered %d and %d", idem, first, n)
					}
				}
				if ok {
					mu.Lock()
					replies = append(replies, first)
					mu.Unlock()
				}
			}
		})
	}
	group.Wait()
	slices.Sort(replies)
	for i, n := range replies {
		if n != int64(i+1) {
			t.Fatalf("reply %d is %d: a call was lost or counted twice", i+1, n)
		}
	}
	if len(replies) != int(made.Load()) {
		t.Errorf("%d of %d calls were answered", len(replies), made.Load())
	}
	r.allFired(t)
}

func keysWithoutState(t *testing.T, s store.Store) {
	r := newRig(t, s, "keys-stateless", faultstore.Config{})
	var runs int64
	a := hosttest.Actor{Placement: abi.PlacementStateless, Methods: map[string]hosttest.Func{
		"Count": func(t *hosttest.Turn) error {
			runs++
			return t.ReplyNumber(runs)
		},
	}}
	r.world.Deploy(r.app, "Counter", a)
	h, other := r.host(t, host.Limits{}), r.host(t, host.Limits{})
	for i, h := range []*host.Host{h, h, other} {
		if n, err := r.keyed(t, h, "a", "Count", "k", ""); n != 1 || err != nil {
			t.Errorf("call %d: %d, %v", i, n, err)
		}
	}
}
