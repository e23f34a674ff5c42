package guarantees

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/hosttest"
	"github.com/greenroom-run/greenroom/store"
	"github.com/greenroom-run/greenroom/store/faultstore"
)

// transferring is an actor that transfers to others, in calls, and that keeps its balance as
// a counter keeps its number.
func transferring(placement string) hosttest.Actor {
	a := counter(placement)
	add := func(t *hosttest.Turn, n int64) error {
		sum, err := t.Add("left", n)
		if err != nil {
			return err
		}
		return errors.Join(t.SetNumber("right", sum), t.ReplyNumber(sum))
	}
	a.Methods["Deposit"] = func(t *hosttest.Turn) error {
		n, err := strconv.ParseInt(string(t.Frame.Payload), 10, 64)
		if err != nil {
			return err
		}
		if err := add(t, n); err != nil || n != 13 {
			return err
		}
		return hosttest.Fail("unlucky")
	}
	// Transfer takes the amount, gives it to the first account, or, if that refuses it, to
	// the second.
	a.Methods["Transfer"] = func(t *hosttest.Turn) error {
		args := strings.Fields(string(t.Frame.Payload))
		n, err := strconv.ParseInt(args[0], 10, 64)
		if err != nil {
			return err
		}
		if err := add(t, -n); err != nil {
			return err
		}
		_, err = t.Call("Counter", args[1], "Deposit", args[0])
		if err == nil {
			return nil
		}
		if err := add(t, n-14); err != nil {
			return err
		}
		_, err = t.Call("Counter", args[2], "Deposit", "14")
		return err
	}
	// Stamp changes the account, and calls nobody: a locked turn, of a type placed any.
	a.Methods["Stamp"] = func(t *hosttest.Turn) error {
		_, err := t.Add("stamp", 1)
		return err
	}
	// Sum adds up the balances of others, without a change.
	a.Methods["Sum"] = func(t *hosttest.Turn) error {
		var sum int64
		for _, id := range strings.Fields(string(t.Frame.Payload)) {
			reply, err := t.Call("Counter", id, "Get", "")
			if err != nil {
				return err
			}
			n, err := strconv.ParseInt(reply, 10, 64)
			if err != nil {
				return err
			}
			sum += n
		}
		return t.ReplyNumber(sum)
	}
	return a
}

// TestChainsConserveMoney transfers between accounts on two hosts that know nothing of each
// other, with faults of the store: a transfer happens or does not, as a whole, whatever the
// callers are told, and every sum that a turn answers is right.
func TestChainsConserveMoney(t *testing.T) {
	onEveryStore(t, func(t *testing.T, s store.Store) {
		inEveryLane(t, func(t *testing.T, placement string) { conserveMoney(t, s, placement) })
	})
}

func conserveMoney(t *testing.T, s store.Store, placement string) {
	const accounts, callers, each = 5, 6, 12
	r := newRig(t, s, "chains-"+placement, faultstore.Config{Seed: 5})
	r.world.Deploy(r.app, "Counter", transferring(placement))
	hosts := []*host.Host{r.host(t, host.Limits{}), r.host(t, host.Limits{})}
	var names []string
	for i := range accounts {
		names = append(names, fmt.Sprint("acc", i))
	}
	invoke := func(h *host.Host, id, method, payload string) (string, error) {
		reply, err := h.Invoke(t.Context(), actor.Invocation{Key: r.key(id), Method: method, Payload: actor.Payload{Data: []byte(payload)}})
		return string(reply.Payload.Data), err
	}
	var all sync.WaitGroup
	for caller := range callers {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(3, uint64(caller)))
			for i := range each {
				h := hosts[(caller+i/4)%len(hosts)]
				if i%4 == caller%4 {
					r.store.Arm([]faultstore.Fault{faultstore.CommitFails, faultstore.CommitLost, faultstore.CommitReplyLost}[rng.IntN(3)], 1)
				}
				method, id := "Transfer", names[rng.IntN(accounts)]
				payload := fmt.Sprint(rng.IntN(15), " ", names[rng.IntN(accounts)], " ", names[rng.IntN(accounts)])
				switch i % 5 {
				case 0:
					method, id, payload = "Sum", "auditor", strings.Join(names, " ")
				case 1:
					method = "Stamp"
				}
				reply, err := invoke(h, id, method, payload)
				var guest *actor.GuestError
				switch {
				case err == nil && method == "Sum" && reply != "0":
					t.Errorf("a sum is %s", reply)
				case err == nil, errors.As(err, &guest), errors.Is(err, actor.ErrUnavailable), errors.Is(err, actor.ErrAmbiguous):
				default:
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	var sum int64
	for _, id := range names {
		sum += r.strong(t, hosts[0], id)
	}
	if sum != 0 {
		t.Errorf("the sum is %d", sum)
	}
}
