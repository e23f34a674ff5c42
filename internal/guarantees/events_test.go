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
// first, and the store meets every fault: each event takes effect once at each subscriber, in order, and
// so does the end of a publisher's life, between the last event of that life and the first of the next.
func TestGuarantee6EventOnce(t *testing.T) { onEveryStore(t, subscriptions) }

// publishedEach is how many events a turn publishes.
const publishedEach = 3

// heardEach is how many turns a life of the actor "mortal" is for each of its subscribers: its events
// and its end.
const heardEach = publishedEach + 1

// subscriber is an actor that publishes numbers, and counts what it gets from each publisher: from the
// actor "x", which lives on, and from "mortal", each of whose lives ends with the turn in which it begins.
func subscriber(placement string) hosttest.Actor {
	c := counter(placement)
	c.Methods["Subscribe"] = func(t *hosttest.Turn) error {
		for _, to := range lanes {
			for id, method := range map[string]string{"x": "Take", "mortal": "Hear"} {
				if code, err := t.Calls.EventSubscribe(to, id, method); err != nil {
					t.End(err)
				} else if code != 0 {
					return hosttest.Fail(notNow)
				}
			}
		}
		return t.ReplyNumber(0)
	}
	c.Methods["Leave"] = func(t *hosttest.Turn) error {
		for _, to := range lanes {
			for _, id := range []string{"x", "mortal"} {
				subscribed, code, err := t.Calls.EventUnsubscribe(to, id)
				switch {
				case err != nil:
					t.End(err)
				case code != 0:
					return hosttest.Fail(notNow)
				case !subscribed:
					return hosttest.Fail("not_subscribed")
				}
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
	c.Methods["Finish"] = func(t *hosttest.Turn) error {
		for n := range publishedEach {
			if code := t.Calls.Publish("number", "", strconv.AppendInt(nil, int64(n)+1, 10)); code != 0 {
				return hosttest.Fail(notNow)
			}
		}
		if code := t.Calls.PassAway(); code != 0 {
			return hosttest.Fail(notNow)
		}
		return t.ReplyNumber(0)
	}
	c.Methods["Hear"] = func(t *hosttest.Turn) error {
		f := t.Frame
		if f.Cause != abi.CauseEvent || f.CallerID != "mortal" || f.DueUnixNano == 0 || (f.CauseName == "number") != (f.Failed == "") {
			return fmt.Errorf("cause %d of %s, event %q, %q", f.Cause, f.CallerType, f.CauseName, f.Failed)
		}
		ended := f.Failed == abi.PublisherPassedAway
		if ended && f.Attempt == 1 {
			return hosttest.Fail("on_purpose")
		}
		n, err := t.Add("heard of "+f.CallerType, 1)
		if err != nil {
			return err
		}
		// Each life says the numbers from 1 on, and its end comes behind them.
		place := (n-1)%heardEach + 1
		if inOrder := ended == (place == heardEach) && (ended || string(f.Payload) == fmt.Sprint(place)); !inOrder {
			_, err = t.Add("disorder", 1)
		}
		return err
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

// eachWave is what a subscriber counts of each publisher, and how much of it a wave brings.
var eachWave = map[string]int64{"got from ": publishedEach, "heard of ": heardEach}

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
	mortal := func(typ string) actor.Key { return actor.Key{App: r.app, Type: typ, ID: "mortal"} }
	anywhere := func(of func(string) actor.Key, method, idem string) { // of an actor of each lane
		var group sync.WaitGroup
		for _, typ := range lanes {
			h := to.hosts[rand.IntN(len(to.hosts))]
			group.Go(func() { tell(t, h, of(typ), method, idem) })
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

	anywhere(key, "Subscribe", "subscribe")
	const most = 20
	waves := int64(0)
	for ; waves < 3 || waves < most && len(r.store.Pending()) > 0; waves++ {
		for _, f := range r.store.Pending() {
			r.store.Arm(f, 1)
		}
		r.store.Arm(faultstore.BucketFails, 1)
		r.store.Arm(faultstore.BucketReplyLost, 1)
		r.store.Arm(faultstore.ReminderReadFails, 1)
		anywhere(key, "Arm", fmt.Sprint("wave ", waves))
		anywhere(mortal, "Finish", fmt.Sprint("wave ", waves))
		for _, svc := range services {
			for _, typ := range lanes {
				svc.Published(key(typ))
				svc.Published(mortal(typ))
			}
		}
		for _, at := range lanes {
			for _, from := range lanes {
				for what, each := range eachWave {
					for got := count(at, what+from); got < each*(waves+1); got = count(at, what+from) {
						select {
						case <-ended:
						case <-t.Context().Done():
							t.Fatalf("%s: %s%s is %d in %d waves", at, what, from, got, waves+1)
						}
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
			for what, each := range eachWave {
				if got := count(at, what+from); got != each*waves {
					t.Errorf("%s: %s%s is %d, want %d", at, what, from, got, each*waves)
				}
			}
		}
	}
	anywhere(key, "Leave", "leave")
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
