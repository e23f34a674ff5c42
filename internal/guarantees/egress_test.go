package guarantees

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/hosttest"
	"github.com/greenroom-run/greenroom/store"
	"github.com/greenroom-run/greenroom/store/faultstore"
)

// outside is where requests go: it keeps their bodies, and calls meet for each.
type outside struct {
	meet func(ctx context.Context, app, body string)

	mu   sync.Mutex
	seen []string
}

func (o *outside) Do(ctx context.Context, r host.EgressRequest) (abi.HTTPResponse, error) {
	if err := r.Leave(); err != nil {
		return abi.HTTPResponse{}, err
	}
	body := string(r.Request.Body)
	o.mu.Lock()
	o.seen = append(o.seen, body)
	o.mu.Unlock()
	if o.meet != nil {
		o.meet(ctx, r.App, body)
	}
	return abi.HTTPResponse{Status: 200}, nil
}

func (o *outside) requests() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Join(o.seen, " ")
}

// teller is a counter that tells the outside what it found before it counts on.
func teller(placement string) hosttest.Actor {
	a := counter(placement)
	a.Methods["TellAndAdd"] = func(t *hosttest.Turn) error {
		n, err := t.Number("left")
		if err != nil {
			return err
		}
		t.HTTP(abi.HTTPRequest{Method: "POST", URL: "https://outside.example/", Body: []byte(t.Frame.ID + "=" + strconv.FormatInt(n, 10))})
		return errors.Join(t.SetNumber("left", n+1), t.SetNumber("right", n+1), t.ReplyNumber(n+1))
	}
	a.Methods["TellAndFail"] = func(t *hosttest.Turn) error {
		t.HTTP(abi.HTTPRequest{URL: "https://outside.example/", Body: []byte("failing")})
		return hosttest.Fail("on_purpose")
	}
	return a
}

// TestRequestsLeaveDurably: when a request arrives outside, all that its turn could
// have observed is in the store: what a crash could not take back.
func TestRequestsLeaveDurably(t *testing.T) {
	onEveryStore(t, func(t *testing.T, s store.Store) {
		inEveryLane(t, func(t *testing.T, placement string) {
			const callers, rounds = 4, 10
			r := newRig(t, s, "leave-"+placement, faultstore.Config{})
			r.egress = &outside{meet: func(ctx context.Context, _, body string) {
				id, told, _ := strings.Cut(body, "=")
				rows, err := s.LoadActors(ctx, []actor.Key{r.key(id)}, actor.LoadOptions{})
				if err != nil {
					t.Errorf("load: %v", err)
					return
				}
				stored := string(rows[0].State.Data)
				if want := fmt.Sprintf(`"left":%s,`, told); told != "0" && !strings.Contains(stored, want) {
					t.Errorf("the turn told %s, and the store has %q", told, stored)
				}
			}}
			if placement == abi.PlacementAny {
				// Its row is locked while it runs: reading it would wait.
				r.egress.(*outside).meet = nil
			}
			r.world.Deploy(r.app, "Counter", teller(placement))
			h := r.host(t, host.Limits{})
			var wg sync.WaitGroup
			for range callers {
				wg.Go(func() {
					for n := range rounds {
						method := "Add"
						if n%2 == 0 {
							method = "TellAndAdd"
						}
						if _, err := r.call(t, h, "hot", method); err != nil {
							t.Error(err)
						}
					}
				})
			}
			wg.Wait()
			if got := r.strong(t, h, "hot"); got != callers*rounds {
				t.Errorf("counted %d, want %d", got, callers*rounds)
			}
			if got := len(strings.Fields(r.egress.(*outside).requests())); got != callers*rounds/2 {
				t.Errorf("%d requests, want %d", got, callers*rounds/2)
			}
		})
	})
}

// TestRefusedAfterRequest: a turn that sent a request and was then not committed is
// not run again, and its caller is told so; with an idempotency key it is run again.
func TestRefusedAfterRequest(t *testing.T) {
	onEveryStore(t, func(t *testing.T, s store.Store) {
		inEveryLane(t, func(t *testing.T, placement string) {
			faults := []faultstore.Fault{faultstore.CommitFails, faultstore.CommitLost, "another writer"}
			if placement == abi.PlacementAny {
				faults = []faultstore.Fault{faultstore.TurnRetried, faultstore.TurnFails, faultstore.TurnLost}
			}
			for _, fault := range faults {
				t.Run(string(fault), func(t *testing.T) { refusedAfterRequest(t, s, placement, fault) })
			}
		})
	})
}

func refusedAfterRequest(t *testing.T, s store.Store, placement string, fault faultstore.Fault) {
	r := newRig(t, s, "left-"+placement+"-"+strings.ReplaceAll(string(fault), " ", "-"), faultstore.Config{})
	out := &outside{}
	r.egress = out
	r.world.Deploy(r.app, "Counter", teller(placement))
	h, other := r.host(t, host.Limits{}), r.host(t, host.Limits{})
	spoil := func() {
		if fault != "another writer" {
			r.store.Arm(fault, 1)
			return
		}
		once := sync.OnceFunc(func() { r.must(t, other, "x", "Add") })
		out.meet = func(context.Context, string, string) { once() }
	}
	r.must(t, h, "x", "Add")

	spoil()
	_, err := r.call(t, h, "x", "TellAndAdd")
	if !errors.Is(err, actor.ErrLeft) || actor.ErrLeft.Retryable() {
		t.Errorf("without a key: %v", err)
	}
	if got := out.requests(); got != "x=1" {
		t.Errorf("requests %q", got)
	}
	before := r.strong(t, h, "x")
	if want := map[bool]int64{true: 2, false: 1}[fault == "another writer"]; before != want {
		t.Errorf("the state is %d, want %d", before, want)
	}

	// The same with a key: it is run again, by itself or by its caller.
	spoil()
	n, err := r.keyed(t, h, "x", "TellAndAdd", "k", "")
	if err != nil {
		if c := (*actor.Condition)(nil); !errors.As(err, &c) || !c.Retryable() {
			t.Fatalf("with a key: %v", err)
		}
		if n, err = r.keyed(t, h, "x", "TellAndAdd", "k", ""); err != nil {
			t.Fatalf("again: %v", err)
		}
	}
	if after := r.strong(t, h, "x"); n != after || after <= before {
		t.Errorf("replied %d, the state went from %d to %d", n, before, after)
	}
	if got := len(strings.Fields(out.requests())); got != 3 {
		t.Errorf("requests %q, want one and then two", out.requests())
	}
	r.allFired(t)

	// What the guest says itself reaches the caller as it is.
	var guest *actor.GuestError
	if _, err := r.call(t, h, "x", "TellAndFail"); !errors.As(err, &guest) || guest.Code != "on_purpose" {
		t.Errorf("a failure on purpose: %v", err)
	}
	if got := r.must(t, h, "x", "Add"); got != n+1 {
		t.Errorf("afterwards it counts to %d, want %d", got, n+1)
	}
}
