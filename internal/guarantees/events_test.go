package guarantees

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/hosttest"
	"github.com/greenroom-run/greenroom/store"
	"github.com/greenroom-run/greenroom/store/faultstore"
)

// TestGuarantee6EventOnce: actors of every lane subscribe to each other's events, on two hosts of one
// store; each event is delivered to both hosts at once, deliveries and answers are lost, turns fail at
// first, and the store meets every fault: each event takes effect once at each subscriber, in order.
func TestGuarantee6EventOnce(t *testing.T) { onEveryStore(t, subscriptions) }

// publishedEach is how many events a turn publishes.
const publishedEach = 3

// subscriber is an actor that publishes numbers, and counts what it gets from each publisher.
func subscriber(placement string) hosttest.Actor {
	c := counter(placement)
	c.Methods["Subscribe"] = func(t *hosttest.Turn) error {
		for _, to := range lanes {
			if code, err := t.Calls.EventSubscribe(to, "x", "Take"); err != nil {
				t.End(err)
			} else if code != 0 {
				return hosttest.Fail(notNow)
			}
		}
		return t.ReplyNumber(0)
	}
	c.Methods["Leave"] = func(t *hosttest.Turn) error {
		for _, to := range lanes {
			subscribed, code, err := t.Calls.EventUnsubscribe(to, "x")
			switch {
			case err != nil:
				t.End(err)
			case code != 0:
				return hosttest.Fail(notNow)
			case !subscribed:
				return hosttest.Fail("not_subscribed")
			}
		}
		return t.ReplyNumber(0)
	}
	c.Methods["Arm"] = func(t *hosttest.Turn) error {
		for range publishedEach {
			n, err := t.Add("published", 1)
			if err != nil {
				return err
			}
			if code := t.Calls.Publish("number", "", strconv.AppendInt(nil, n, 10)); code != 0 {
				return hosttest.Fail(notNow)
			}
		}
		return t.ReplyNumber(0)
	}
	c.Methods["Take"] = func(t *hosttest.Turn) error {
		f := t.Frame
		if f.Cause != abi.CauseEvent || f.CauseName != "number" || f.CallerID != "x" || f.Failed != "" || f.DueUnixNano == 0 {
			return fmt.Errorf("cause %d of %s, event %q, %q", f.Cause, f.CallerType, f.CauseName, f.Failed)
		}
		n, err := strconv.ParseInt(string(f.Payload), 10, 64)
		if err != nil {
			return err
		}
		if n%publishedEach == 0 && f.Attempt == 1 {
			return hosttest.Fail("on_purpose")
		}
		got, err := t.Add("got from "+f.CallerType, 1)
		if err != nil || got == n {
			return err
		}
		_, err = t.Add("disorder", 1)
		return err
	}
	c.ReadOnly["Count"] = func(t *hosttest.Turn) error {
		n, err := t.Number(string(t.Frame.Payload))
		return errors.Join(err, t.ReplyNumber(n))
	}
	return c
}

func subscriptions(t *testing.T, s store.Store) {
	t.Parallel()
	seed := seeded(t)
	faults := map[faultstore.Fault]float64{}
	for _, placement := range lanes {
		maps.Copy(faults, rates(placement))
	}
	r := newRig(t, s, "events", faultstore.Config{Seed: seed, Rates: faults})
	for _, placement := range lanes {
		r.world.Deploy(r.app, placement, subscriber(placement))
	}
	to, services, ended := startBoth(t, r, s)

	key := func(typ string) actor.Key { return actor.Key{App: r.app, Type: typ, ID: "x"} }
	anywhere := func(method, idem string) { // of an actor of each lane
		var group sync.WaitGroup
		for _, typ := range lanes {
			h := to.hosts[rand.IntN(len(to.hosts))]
			group.Go(func() { tell(t, h, key(typ), method, idem) })
		}
		group.Wait()
	}
	count := func(typ, what string) int64 {
		t.Helper()
		invoke := func() (actor.Reply, error) {
			return to.hosts[0].Invoke(t.Context(), actor.Invocation{
				Key: key(typ), Method: "Count", ReadOnly: true, Consistency: actor.ConsistencyStrong, Payload: actor.Payload{Data: []byte(what)},
			})
		}
		reply, err := invoke()
		for actor.AsCondition(err) != nil && actor.AsCondition(err).Retryable() { // a fault
			reply, err = invoke()
		}
		if err != nil {
			t.Fatal(err)
		}
		n, err := strconv.ParseInt(string(reply.Payload.Data), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}

	anywhere("Subscribe", "subscribe")
	const most = 20
	waves := int64(0)
	for ; waves < 3 || waves < most && len(r.store.Pending()) > 0; waves++ {
		for _, f := range r.store.Pending() {
			r.store.Arm(f, 1)
		}
		r.store.Arm(faultstore.BucketFails, 1)
		r.store.Arm(faultstore.BucketReplyLost, 1)
		r.store.Arm(faultstore.ReminderReadFails, 1)
		anywhere("Arm", fmt.Sprint("wave ", waves))
		for _, svc := range services {
			for _, typ := range lanes {
				svc.Published(key(typ))
			}
		}
		for _, at := range lanes {
			for _, from := range lanes {
				for got := count(at, "got from "+from); got < publishedEach*(waves+1); got = count(at, "got from "+from) {
					select {
					case <-ended:
					case <-t.Context().Done():
						t.Fatalf("%s got %d events from %s in %d waves", at, got, from, waves+1)
					}
				}
			}
		}
	}
	r.allFired(t)
	r.store.Calm()

	for _, at := range lanes {
		if n := count(at, "disorder"); n != 0 {
			t.Errorf("%s got %d events out of their order", at, n)
		}
		for _, from := range lanes {
			if got := count(at, "got from "+from); got != publishedEach*waves {
				t.Errorf("%d events of %s took effect at %s, of %d", got, from, at, publishedEach*waves)
			}
		}
	}
	anywhere("Leave", "leave")
	for _, typ := range lanes {
		names, err := s.ReminderNames(t.Context(), store.ReminderNameQuery{Key: key(typ), Prefix: actor.CursorNames, Limit: 10})
		if len(names) > 0 || err != nil {
			t.Errorf("%s is still subscribed: %q, %v", typ, names, err)
		}
	}
	stop(t, r, services)
	retried := uint64(0)
	for _, svc := range services {
		retried += svc.Stats().Retried
	}
	t.Logf("%d waves: %d deliveries, %d were retried", waves, to.count, retried)
	if to.count < lossEvery || retried == 0 {
		t.Errorf("%d deliveries, %d retried: none was lost", to.count, retried)
	}
	to.checkTaken(t)
}
