package guarantees

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/hosttest"
	"github.com/greenroom-run/greenroom/store"
	"github.com/greenroom-run/greenroom/store/faultstore"
)

// link is what joins the hosts of a test: it knows who holds which actor, and loses calls and
// answers.
type link struct {
	hosts []*host.Host

	mu       sync.RWMutex
	holders  map[string]int
	rng      *rand.Rand
	outcomes map[string]*atomic.Int64
}

func newLink() *link {
	l := &link{holders: map[string]int{}, rng: rand.New(rand.NewPCG(11, 13)), outcomes: map[string]*atomic.Int64{}}
	for _, what := range []string{"repeated", "lost", "unsent", "moved", "killed"} {
		l.outcomes[what] = new(atomic.Int64)
	}
	return l
}

func (l *link) holder(id string) int {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.holders[id]
}

// move gives an actor to another host: in order, or, if its host is lost, by the fence of the new
// holder alone.
func (l *link) move(ctx context.Context, id string, lost bool) error {
	l.mu.Lock()
	from := l.holders[id]
	l.holders[id] = (from + 1) % len(l.hosts)
	l.mu.Unlock()
	if lost {
		l.outcomes["killed"].Add(1)
		l.hosts[from].DropAll()
		return nil
	}
	l.outcomes["moved"].Add(1)
	for { // it fails at most once for each planned fault
		err := l.hosts[from].HandOver(ctx, func(k actor.Key) bool { return k.ID == id })
		if !errors.Is(err, actor.ErrUnavailable) && !errors.Is(err, actor.ErrAmbiguous) {
			return err
		}
	}
}

// invoke has the holder of an actor run a call, wherever it is by then.
func (l *link) invoke(ctx context.Context, inv actor.Invocation) (actor.Reply, error) {
	for {
		reply, err := l.hosts[l.holder(inv.Key.ID)].Invoke(ctx, inv)
		if !errors.Is(err, actor.ErrNotOwner) {
			return reply, err
		}
	}
}

// linked are the peers of a host.
type linked struct {
	*link
	self int
}

// Locate implements host.Peers.
func (l linked) Locate(_ context.Context, key actor.Key) (holder, self actor.HostID, err error) {
	return actor.HostID(fmt.Sprint(l.holder(key.ID))), actor.HostID(fmt.Sprint(l.self)), nil
}

// Session implements host.Peers: it never breaks.
func (l linked) Session(actor.HostID) context.Context { return context.Background() }

// Begin implements host.Peers.
func (l linked) Begin(ctx context.Context, inv actor.Invocation, to host.Receiver) host.Begun {
	l.mu.Lock()
	fault := l.rng.IntN(12)
	l.mu.Unlock()
	go func() {
		switch fault {
		case 0: // the session breaks before the call was sent
			l.outcomes["unsent"].Add(1)
			to.Answer(actor.Reply{}, actor.ErrNoOwner)
			return
		case 1: // it breaks before the answer, and the call is sent again
			l.outcomes["repeated"].Add(1)
			l.invoke(ctx, inv)
		case 2: // the host is lost between its commit and the answer
			l.outcomes["lost"].Add(1)
			l.invoke(ctx, inv)
			if err := l.move(ctx, inv.Key.ID, true); err != nil {
				to.Answer(actor.Reply{}, err)
				return
			}
			to.Answer(actor.Reply{}, actor.ErrAmbiguous)
			return
		}
		to.Answer(l.invoke(ctx, inv))
	}()
	return givenUp{}
}

type givenUp struct{}

func (givenUp) GiveUp() {}

// paying is an actor that pays others, which may be at another host: a saga without a way back.
// The payee is paid once, however often the turn runs; the turn is repeated until it is sure.
func paying() hosttest.Actor {
	a := transferring("")
	add := func(t *hosttest.Turn, n int64) error {
		sum, err := t.Add("left", n)
		return errors.Join(err, t.SetNumber("right", sum), t.ReplyNumber(sum))
	}
	a.Methods["Pay"] = func(t *hosttest.Turn) error {
		to, amount, _ := strings.Cut(string(t.Frame.Payload), " ")
		n, err := strconv.ParseInt(amount, 10, 64)
		if err != nil {
			return err
		}
		if err := add(t, -n); err != nil {
			return err
		}
		_, err = t.Call("Counter", to, "Deposit", amount)
		var refused *actor.GuestError
		if errors.As(err, &refused) && refused.Code == "unlucky" { // it has not got it
			return add(t, n)
		}
		return err
	}
	return a
}

// TestForwardedCallsConserveMoney pays between accounts of two hosts, while actors move, hosts are
// lost, answers get lost and the store fails: each payment with an idempotency key that is
// repeated until it is sure has happened once at both accounts.
func TestForwardedCallsConserveMoney(t *testing.T) {
	onEveryStore(t, func(t *testing.T, s store.Store) {
		const accounts, callers, each = 6, 6, 20
		r := newRig(t, s, "forwarded", faultstore.Config{Seed: 5})
		r.world.Deploy(r.app, "Counter", paying())
		l := newLink()
		for n := range 2 {
			holdings := hosttest.NewHoldings(actor.Held)
			holdings.Set(func(k actor.Key) actor.Hold {
				if l.holder(k.ID) == n {
					return actor.Held
				}
				return actor.NotHeld
			})
			r.peers = linked{l, n}
			l.hosts = append(l.hosts, r.hostOf(t, r.store, host.Limits{}, holdings))
		}
		var names []string
		for i := range accounts {
			names = append(names, fmt.Sprint("acc", i))
			l.holders[names[i]] = i % 2
		}
		var all sync.WaitGroup
		for caller := range callers {
			all.Go(func() {
				rng := rand.New(rand.NewPCG(3, uint64(caller)))
				for i := range each {
					if i%4 == caller%4 {
						r.store.Arm([]faultstore.Fault{faultstore.CommitFails, faultstore.CommitLost, faultstore.CommitReplyLost}[rng.IntN(3)], 1)
					}
					if i%5 == 0 {
						if err := l.move(t.Context(), names[rng.IntN(accounts)], false); err != nil {
							t.Error(err)
						}
					}
					// In one order, since chains of two hosts that wait for each other do so
					// until their deadlines.
					pair := rng.Perm(accounts)[:2]
					slices.Sort(pair)
					inv := actor.Invocation{
						Key: r.key(names[pair[0]]), Method: "Pay", IdempotencyKey: fmt.Sprint(caller, " ", i),
						Payload: actor.Payload{Data: fmt.Appendf(nil, "%s %d", names[pair[1]], rng.IntN(22)-7)},
					}
					for {
						_, err := l.invoke(t.Context(), inv)
						if err == nil {
							break
						}
						var guest *actor.GuestError
						switch {
						case errors.As(err, &guest) && (guest.Code == "no_owner" || guest.Code == "unavailable" || guest.Code == "store_unavailable" || guest.Code == "conflict"):
						case errors.Is(err, actor.ErrUnavailable), errors.Is(err, actor.ErrAmbiguous), errors.Is(err, actor.ErrStale), errors.Is(err, actor.ErrDeadlock):
						default:
							t.Error(err)
							return
						}
					}
				}
			})
		}
		all.Wait()
		var sum int64
		for _, id := range names {
			sum += r.strong(t, l.hosts[l.holder(id)], id)
		}
		if sum != 0 {
			t.Errorf("the sum is %d", sum)
		}
		for what, n := range l.outcomes {
			if n.Load() == 0 {
				t.Errorf("%s: never", what)
			}
		}
	})
}
