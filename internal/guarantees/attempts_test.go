package guarantees

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/hosttest"
	"github.com/greenroom-run/greenroom/store"
	"github.com/greenroom-run/greenroom/store/faultstore"
)

// account is a counter whose balance can be withdrawn.
func account(placement string) hosttest.Actor {
	a := counter(placement)
	a.Methods["Withdraw"] = func(t *hosttest.Turn) error {
		n, err := t.Number("left")
		if err != nil {
			return err
		}
		if n < 1 {
			return hosttest.Fail("insufficient_funds")
		}
		return errors.Join(t.SetNumber("left", n-1), t.SetNumber("right", n-1), t.ReplyNumber(n-1))
	}
	a.Methods["Note"] = func(t *hosttest.Turn) error {
		if _, err := t.Add("notes", 1); err != nil {
			return err
		}
		return t.ReplyNumber(0)
	}
	a.Methods["Charge"] = func(t *hosttest.Turn) error {
		n, err := t.Number("left")
		if err != nil {
			return err
		}
		t.HTTP(abi.HTTPRequest{Method: "POST", URL: "https://bank.example/charge", Body: []byte("charge=" + t.Frame.ID)})
		return errors.Join(t.SetNumber("left", n+1), t.SetNumber("right", n+1), t.ReplyNumber(n+1))
	}
	return a
}

// recorded reports whether a call is recorded.
func (r *rig) recorded(t *testing.T, id, method, idem string) bool {
	t.Helper()
	found, err := r.store.LoadIdempotency(t.Context(), []actor.KeyedCall{{Actor: r.key(id), Method: method, Key: idem}})
	if err != nil || found[0].Err != nil {
		t.Fatal(err, found)
	}
	return found[0].Found
}

// TestRecordedCallSendsNothing: a call with a key that is recorded already sends
// nothing to the outside again, on whichever host it is repeated.
func TestRecordedCallSendsNothing(t *testing.T) {
	onEveryStore(t, func(t *testing.T, s store.Store) {
		for _, placement := range []string{abi.PlacementRing, abi.PlacementSticky, abi.PlacementAny, abi.PlacementStateless} {
			t.Run(placement, func(t *testing.T) {
				r := newRig(t, s, "sends-nothing-"+placement, faultstore.Config{})
				out := &outside{}
				r.egress = out
				a := account(placement)
				if placement == abi.PlacementStateless {
					a = hosttest.Actor{Placement: placement, Methods: map[string]hosttest.Func{"Charge": func(t *hosttest.Turn) error {
						t.HTTP(abi.HTTPRequest{Method: "POST", URL: "https://bank.example/charge", Body: []byte("charge=" + t.Frame.ID)})
						return t.ReplyNumber(1)
					}}}
				}
				r.world.Deploy(r.app, "Counter", a)
				h, other := r.host(t, host.Limits{}), r.host(t, host.Limits{})
				for i, where := range []*host.Host{h, h, other, h, other} {
					if n, err := r.keyed(t, where, "x", "Charge", "order-1", ""); n != 1 || err != nil {
						t.Fatalf("call %d: %d, %v", i, n, err)
					}
				}
				if _, err := r.keyed(t, other, "x", "Charge", "order-1", "another payload"); !errors.Is(err, actor.ErrKeyReused) {
					t.Errorf("another payload: %v", err)
				}
				if sent := strings.Fields(out.requests()); len(sent) != 1 {
					t.Errorf("%d requests for one recorded call: %q", len(sent), sent)
				}
				// Another call is not kept from it.
				if _, err := r.keyed(t, h, "x", "Charge", "order-2", ""); err != nil {
					t.Error(err)
				}
				if sent := strings.Fields(out.requests()); len(sent) != 2 {
					t.Errorf("%d requests for two calls: %q", len(sent), sent)
				}
			})
		}
	})
}

// afterLookUp calls once when a look-up of a key is over.
type afterLookUp struct {
	*faultstore.Store
	once func()
}

func (s *afterLookUp) LoadIdempotency(ctx context.Context, calls []actor.KeyedCall) ([]actor.Recorded, error) {
	found, err := s.Store.LoadIdempotency(ctx, calls)
	s.once()
	return found, err
}

// TestGuarantee6RepeatedOnTwoHosts: a repeated call whose guest fails is answered
// with the recorded reply, if the first attempt is applied at any moment before
// that: here right after the first look-up, if there is one.
func TestGuarantee6RepeatedOnTwoHosts(t *testing.T) {
	onEveryStore(t, func(t *testing.T, s store.Store) {
		inEveryLane(t, func(t *testing.T, placement string) {
			r := newRig(t, s, "repeated-"+placement, faultstore.Config{})
			r.world.Deploy(r.app, "Counter", account(placement))
			b := r.host(t, host.Limits{})
			var armed atomic.Bool
			hook := &afterLookUp{Store: r.store, once: func() {
				if armed.CompareAndSwap(true, false) {
					if _, err := r.keyed(t, b, "x", "Withdraw", "K", ""); err != nil {
						t.Errorf("first attempt: %v", err)
					}
				}
			}}
			a := r.hostOn(t, hook, host.Limits{})
			r.must(t, a, "x", "Add")
			r.must(t, b, "x", "Note") // so that a is stale
			armed.Store(true)
			n, err := r.keyed(t, a, "x", "Withdraw", "K", "")
			if err != nil && r.recorded(t, "x", "Withdraw", "K") {
				t.Errorf("recorded as applied, and answered %d, %v", n, err)
			}
		})
	})
}

// TestGuarantee6FailureBehindAFence: the first attempt of a call is on its way to
// the store while the second one fails on another host: then the first one can
// never be applied any more.
func TestGuarantee6FailureBehindAFence(t *testing.T) {
	onEveryStore(t, func(t *testing.T, s store.Store) {
		for _, placement := range []string{abi.PlacementRing, abi.PlacementSticky} {
			for _, change := range []string{"Note", "Withdraw", "delete"} {
				t.Run(placement+"/"+change, func(t *testing.T) {
					r := newRig(t, s, "fence-"+placement+"-"+change, faultstore.Config{})
					r.world.Deploy(r.app, "Counter", account(placement))
					a, b := r.host(t, host.Limits{}), r.host(t, host.Limits{})
					r.must(t, a, "x", "Note") // what a has: no balance
					r.must(t, b, "x", "Add")
					held := r.store.Hold(faultstore.BeforeCommit)
					defer held.Release()
					ctx, gone := context.WithCancel(t.Context())
					first := make(chan error, 1)
					go func() {
						_, err := b.Invoke(ctx, actor.Invocation{Key: r.key("x"), Method: "Withdraw", IdempotencyKey: "K"})
						first <- err
					}()
					<-held.Reached()
					gone() // its client tries elsewhere
					var err error
					switch change {
					case "Note": // the repetition finds what the first attempt did
					case "Withdraw":
						r.must(t, r.host(t, host.Limits{}), "x", "Withdraw")
					case "delete":
						err = r.host(t, host.Limits{}).Delete(t.Context(), r.key("x"))
					}
					if err != nil {
						t.Fatal(err)
					}
					_, err = r.keyed(t, a, "x", "Withdraw", "K", "")
					held.Release()
					t.Logf("first: %v; second: %v", <-first, err)
					if wants := change == "Note"; wants != (err == nil) || r.recorded(t, "x", "Withdraw", "K") != wants {
						t.Errorf("answered %v, recorded: %t", err, !wants)
					}
				})
			}
		}
	})
}

// TestGuarantee4NoStaleAnswer: what no commit proves is answered only on the newest
// state: that there is no actor, a guest's error, a request to the outside.
func TestGuarantee4NoStaleAnswer(t *testing.T) {
	onEveryStore(t, func(t *testing.T, s store.Store) {
		inEveryLane(t, func(t *testing.T, placement string) {
			r := newRig(t, s, "stale-"+placement, faultstore.Config{})
			out := &outside{}
			r.egress = out
			a := account(placement)
			a.Methods["Tell"] = func(t *hosttest.Turn) error {
				n, err := t.Number("left")
				if err != nil || n == 0 {
					return errors.Join(err, t.ReplyNumber(n))
				}
				t.HTTP(abi.HTTPRequest{Method: "POST", URL: "https://bank.example/", Body: []byte{byte('0' + n)}})
				return t.ReplyNumber(n)
			}
			r.world.Deploy(r.app, "Counter", a)
			ha, hb := r.host(t, host.Limits{}), r.host(t, host.Limits{})
			r.must(t, ha, "x", "Touch") // what a knows: no row
			r.must(t, hb, "x", "Add")
			if n, err := r.call(t, ha, "x", "Withdraw"); n != 0 || err != nil {
				t.Errorf("withdrawing what was acknowledged: %d, %v", n, err)
			}
			r.must(t, ha, "y", "Touch")
			r.must(t, hb, "y", "Add")
			if err := ha.Delete(t.Context(), r.key("y")); err != nil {
				t.Errorf("deleting what was acknowledged: %v", err)
			}
			if n := r.strong(t, hb, "y"); n != 0 {
				t.Errorf("%d after the delete", n)
			}
			r.must(t, ha, "z", "Add")
			r.must(t, hb, "z", "Add")
			r.must(t, ha, "z", "Tell")
			if got := out.requests(); got != "2" {
				t.Errorf("the outside was told %q", got)
			}
		})
	})
}

// TestGuarantee4NeverBackwards: a host that has answered a state answers nothing
// older, whoever asks, in whichever way it has come to know of it.
func TestGuarantee4NeverBackwards(t *testing.T) {
	onEveryStore(t, func(t *testing.T, s store.Store) {
		inEveryLane(t, func(t *testing.T, placement string) {
			for _, knows := range []string{"strong read", "recorded reply", "view", "strong read during a turn"} {
				t.Run(knows, func(t *testing.T) {
					r := newRig(t, s, "backwards-"+placement+"-"+strings.ReplaceAll(knows, " ", "-"), faultstore.Config{})
					c := account(placement)
					entered, release := make(chan struct{}), make(chan struct{})
					var once sync.Once
					c.Methods["Slow"] = func(t *hosttest.Turn) error {
						n, err := t.Number("left")
						once.Do(func() {
							close(entered)
							<-release
						})
						return errors.Join(err, t.ReplyNumber(n))
					}
					r.world.Deploy(r.app, "Counter", c)
					a, b := r.host(t, host.Limits{}), r.host(t, host.Limits{})
					r.must(t, a, "x", "Add")
					slow := make(chan int64, 1)
					during := knows == "strong read during a turn" && placement != abi.PlacementAny // which holds the row's lock
					if during {
						go func() { slow <- r.must(t, a, "x", "Slow") }()
						<-entered
					}
					if n, err := r.keyed(t, b, "x", "Add", "K", ""); n != 2 || err != nil {
						t.Fatal(n, err)
					}
					var least int64
					var err error
					switch knows {
					case "recorded reply":
						least, err = r.keyed(t, a, "x", "Add", "K", "")
					case "view":
						_, err = a.View(t.Context(), r.key("x"))
						least = 2
					default:
						least = r.strong(t, a, "x")
					}
					if least != 2 || err != nil {
						t.Fatal(least, err)
					}
					if during {
						close(release)
						if n := <-slow; n < least {
							t.Errorf("a turn answers %d after %d", n, least)
						}
					}
					for range 3 {
						get, touch := r.must(t, a, "x", "Get"), r.must(t, a, "x", "Touch")
						if get < least || touch < get {
							t.Errorf("%s shows %d, a read %d, a turn %d", knows, least, get, touch)
						}
					}
				})
			}
		})
	})
}

// TestDefaultReadsAgeABit: a reader on one host comes to see what another one
// writes.
func TestDefaultReadsAgeABit(t *testing.T) {
	onEveryStore(t, func(t *testing.T, s store.Store) {
		inEveryLane(t, func(t *testing.T, placement string) {
			r := newRig(t, s, "age-"+placement, faultstore.Config{})
			r.world.Deploy(r.app, "Counter", account(placement))
			a, b := r.host(t, host.Limits{}), r.host(t, host.Limits{})
			r.must(t, b, "x", "Add")
			for want := int64(1); want < 4; want++ {
				for _, method := range []string{"Get", "Touch"} {
					for t.Context().Err() == nil && r.must(t, a, "x", method) != want {
						// It goes on until the test's own deadline.
					}
				}
				r.must(t, b, "x", "Add")
			}
		})
	})
}
