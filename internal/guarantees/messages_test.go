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

// TestGuarantee6MessageOnce: actors of two hosts of one store send messages to actors of every
// lane, each message is delivered to both hosts at once, deliveries and answers are lost, turns
// fail at first, and the store meets every fault: each message that was sent takes effect once, in
// the order of its sender, and none that was not sent does. What a receiver never takes comes back
// to its sender once, and is a dead letter.
func TestGuarantee6MessageOnce(t *testing.T) { onEveryStore(t, messages) }

const (
	// sentToEach is how many messages a sender sends to each receiver in one turn.
	sentToEach = 3
	refuser    = "Refuser"
)

// correspondent is an actor that counts what it sends to each receiver and what it gets from each
// sender, by number.
func correspondent(placement string) hosttest.Actor {
	c := counter(placement)
	c.Messages = abi.MessagePolicy{Attempts: 1000, IntervalMillis: 1, MaxMillis: 20}
	c.Methods["Arm"] = func(t *hosttest.Turn) error {
		for _, to := range lanes {
			for range sentToEach {
				n, err := t.Add("sent to "+to, 1)
				if err != nil {
					return err
				}
				if err := sendNumber(t, to, "Take", n); err != nil {
					return err
				}
			}
		}
		n, err := t.Add("refused", 1)
		if err != nil {
			return err
		}
		return errors.Join(sendNumber(t, refuser, "Take", n), t.ReplyNumber(0))
	}
	c.Methods["Take"] = func(t *hosttest.Turn) error {
		f := t.Frame
		n, err := strconv.ParseInt(string(f.Payload), 10, 64)
		if err != nil {
			return err
		}
		if n%4 == 0 && f.Attempt == 1 {
			return hosttest.Fail("on_purpose")
		}
		got, err := t.Add("got from "+f.CallerType, 1)
		if err != nil || got == n {
			return err
		}
		_, err = t.Add("disorder", 1)
		return err
	}
	c.Methods["Back"] = func(t *hosttest.Turn) error {
		f := t.Frame
		if f.Cause != abi.CauseUndelivered || f.CallerType != refuser || f.Failed == "" {
			return fmt.Errorf("cause %d from %s, %q", f.Cause, f.CallerType, f.Failed)
		}
		_, err := t.Add("back", 1)
		return err
	}
	c.ReadOnly["Count"] = func(t *hosttest.Turn) error {
		n, err := t.Number(string(t.Frame.Payload))
		return errors.Join(err, t.ReplyNumber(n))
	}
	return c
}

// sendNumber sends a number. A host that cannot make tokens fails the turn, which goes again.
func sendNumber(t *hosttest.Turn, typ, method string, n int64) error {
	m := abi.Message{Type: typ, ID: "x", Method: method, Payload: strconv.AppendInt(nil, n, 10)}
	if typ == refuser {
		m.Undelivered = "Back"
	}
	code, err := t.Calls.Send(&m)
	switch {
	case err != nil:
		t.End(err)
	case code != 0:
		return hosttest.Fail(notNow)
	}
	return nil
}

func messages(t *testing.T, s store.Store) {
	t.Parallel()
	seed := seeded(t)
	faults := map[faultstore.Fault]float64{}
	for _, placement := range lanes {
		maps.Copy(faults, rates(placement))
	}
	r := newRig(t, s, "messages", faultstore.Config{Seed: seed, Rates: faults})
	for _, placement := range lanes {
		r.world.Deploy(r.app, placement, correspondent(placement))
	}
	r.world.Deploy(r.app, refuser, hosttest.Actor{
		Messages: abi.MessagePolicy{Attempts: 2, IntervalMillis: 1},
		Methods:  map[string]hosttest.Func{"Take": func(*hosttest.Turn) error { return hosttest.Fail("never") }},
	})

	to, services, ended := startBoth(t, r, s)

	const most = 20
	waves := int64(0)
	for ; waves == 0 || waves < most && len(r.store.Pending()) > 0; waves++ {
		for _, f := range r.store.Pending() {
			r.store.Arm(f, 1)
		}
		r.store.Arm(faultstore.BucketFails, 1)
		r.store.Arm(faultstore.BucketReplyLost, 1)
		r.store.Arm(faultstore.ReminderReadFails, 1)
		var group sync.WaitGroup
		for _, placement := range lanes {
			h := to.hosts[rand.IntN(len(to.hosts))]
			group.Go(func() { arm(t, h, actor.Key{App: r.app, Type: placement, ID: "x"}, fmt.Sprint("wave ", waves)) })
		}
		group.Wait()
		for left := 1; left > 0; {
			left = 0
			for _, typ := range append([]string{refuser}, lanes...) {
				list, _, err := s.ListMessages(t.Context(), store.MessageQuery{Key: actor.Key{App: r.app, Type: typ, ID: "x"}, Limit: 100})
				if err != nil {
					t.Fatal(err)
				}
				left += len(list)
			}
			if left > 0 {
				select {
				case <-ended:
				case <-t.Context().Done():
					t.Fatalf("%d messages are left", left)
				}
			}
		}
	}
	r.allFired(t)
	stop(t, r, services)

	retried := uint64(0)
	for _, svc := range services {
		retried += svc.Stats().Retried
	}
	t.Logf("%d waves: %d deliveries, %d were retried", waves, to.count, retried)
	if to.count < lossEvery || retried == 0 {
		t.Errorf("%d deliveries, %d retried: none was lost", to.count, retried)
	}
	count := func(typ, what string) int64 {
		t.Helper()
		reply, err := to.hosts[0].Invoke(t.Context(), actor.Invocation{
			Key: actor.Key{App: r.app, Type: typ, ID: "x"}, Method: "Count", ReadOnly: true, Consistency: actor.ConsistencyStrong, Payload: actor.Payload{Data: []byte(what)},
		})
		if err != nil {
			t.Fatal(err)
		}
		n, err := strconv.ParseInt(string(reply.Payload.Data), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for _, at := range lanes {
		if n := count(at, "disorder"); n != 0 {
			t.Errorf("%s got %d messages out of their order", at, n)
		}
		for _, from := range lanes {
			if sent, got := count(from, "sent to "+at), count(at, "got from "+from); sent != got || sent != sentToEach*waves {
				t.Errorf("%s has sent %d messages to %s, of which %d took effect, in %d waves", from, sent, at, got, waves)
			}
		}
		if n := count(at, "back"); n != waves {
			t.Errorf("%d messages came back to %s, of %d", n, at, waves)
		}
	}
	letters, err := s.ListDeadLetters(t.Context(), store.DeadLetterQuery{App: r.app, Limit: 100})
	if want := int(waves) * len(lanes); len(letters) != want || err != nil {
		t.Errorf("%d dead letters, want %d: %v", len(letters), want, err)
	}
	to.checkTaken(t)
}
