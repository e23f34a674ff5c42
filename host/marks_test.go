package host_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/hosttest"
)

// newBank returns two hosts with accounts. Pay moves 5 from p to b, and fails if p has less; Try replies
// then instead, and so it does if it does not learn what became of b.
func newBank(t *testing.T) *hosts {
	t.Helper()
	hs := newHosts(t, host.Limits{})
	methods := map[string]hosttest.Func{
		"Take": func(t *hosttest.Turn) error {
			if n, err := t.Add("n", -5); err != nil || n < 0 {
				return errors.Join(err, hosttest.Fail("insufficient"))
			}
			return nil
		},
		"Pay": func(t *hosttest.Turn) error {
			if _, err := t.Call("T", "p", "Take", ""); err != nil {
				return err
			}
			if _, err := t.Call("T", "b", "Do", addFive); err != nil {
				return err
			}
			_, err := t.Add("n", 1)
			return errors.Join(err, t.Reply("paid"))
		},
		"Try": func(t *hosttest.Turn) error {
			var failed *actor.GuestError
			if _, err := t.Call("T", "p", "Take", ""); errors.As(err, &failed) {
				_, err := t.Add("n", 1)
				return errors.Join(err, t.Reply("refused"))
			}
			if _, err := t.Call("T", "b", "Do", addFive); errors.As(err, &failed) {
				_, err := t.Add("n", 1)
				return errors.Join(err, t.Reply("doubtful"))
			}
			_, err := t.Add("n", 1)
			return errors.Join(err, t.Reply("paid"))
		},
	}
	for _, s := range hs.stages {
		s.world.Deploy("app", "T", withMethods(methods))
	}
	hs.give(t)
	return hs
}

// give gives p 5.
func (hs *hosts) give(t *testing.T) {
	t.Helper()
	if _, err := hs.invoke(t.Context(), "p", "Do", addFive, ""); err != nil {
		t.Fatal(err)
	}
}

// TestRunThatDoesNotCallAgain: a call with a key has had another host change an actor, and was not committed
// itself. A later run that does not make that call, since it decides otherwise, is neither committed nor answered
// with a failure that says that nothing has happened; one that makes it is, and the actor has changed once.
func TestRunThatDoesNotCallAgain(t *testing.T) {
	for _, method := range []string{"Pay", "Try"} {
		for name, move := range map[string][]string{"here": nil, "at the callee's host": {"a", "p"}, "the callee here": {"b"}} {
			t.Run(method+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					hs := newBank(t)
					hs.unavailableOnce()
					_, err := hs.invoke(t.Context(), "a", method, "", "k")
					wantCondition(t, err, actor.ErrUnavailable)
					hs.want(t, map[string]int64{"a": 0, "p": 5, "b": 5})
					if _, err := hs.invoke(t.Context(), "p", "Take", "", ""); err != nil {
						t.Fatal(err)
					}
					for _, id := range move {
						hs.move(t, id, 1-hs.holder(id))
					}
					for range 2 {
						_, err = hs.invoke(t.Context(), "a", method, "", "k")
						wantCondition(t, err, actor.ErrLeft)
						if !strings.Contains(err.Error(), "has called Do of T b") {
							t.Error(err)
						}
					}
					hs.want(t, map[string]int64{"a": 0, "p": 0, "b": 5})
					hs.give(t)
					for range 2 {
						if reply, err := hs.invoke(t.Context(), "a", method, "", "k"); reply != "paid" || err != nil {
							t.Errorf("%q, %v", reply, err)
						}
						hs.want(t, map[string]int64{"a": 1, "p": 0, "b": 5})
					}
					// Another call knows nothing of that.
					if reply, err := hs.invoke(t.Context(), "a", "Try", "", "other"); reply != "refused" || err != nil {
						t.Errorf("%q, %v", reply, err)
					}
				})
			})
		}
	}
}

// TestKeyOfAMarkedCall: a key whose first attempt was not committed is still that of its call alone.
func TestKeyOfAMarkedCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hs := newBank(t)
		hs.unavailableOnce()
		_, err := hs.invoke(t.Context(), "a", "Pay", "", "k")
		wantCondition(t, err, actor.ErrUnavailable)
		_, err = hs.invoke(t.Context(), "a", "Pay", "other", "k")
		wantCondition(t, err, actor.ErrKeyReused)
		hs.want(t, map[string]int64{"a": 0, "p": 5, "b": 5})
	})
}

// TestLateCallOfATurnThatIsOver: a turn has got no answer to a call of another host, and is committed without
// one. When the call arrives there, it changes nothing. If it had been committed before, the turn runs again,
// and gets the reply.
func TestLateCallOfATurnThatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hs := newBank(t)
		for _, s := range hs.stages {
			s.world.Deploy("app", "T", withMethods(map[string]hosttest.Func{"Wait": func(t *hosttest.Turn) error {
				m := message("b", "Do", 50)
				m.Payload = []byte(addFive)
				r, _, err := t.Calls.Call(&m)
				if err != nil {
					t.End(err)
				}
				_, err = t.Add("n", 1)
				return errors.Join(err, t.Reply(r.Code))
			}}))
		}
		hs.outcomes = []string{"late"}
		if reply, err := hs.invoke(t.Context(), "a", "Wait", "", "k"); reply != "timeout" || err != nil {
			t.Errorf("%q, %v", reply, err)
		}
		for _, arrive := range hs.late {
			arrive()
		}
		synctest.Wait()
		hs.want(t, map[string]int64{"a": 1, "b": 0})
	})
	synctest.Test(t, func(t *testing.T) {
		hs := newBank(t)
		hs.outcomes = []string{"lost"}
		if reply, err := hs.invoke(t.Context(), "a", "Try", "", "k"); reply != "paid" || err != nil {
			t.Errorf("%q, %v", reply, err)
		}
		hs.want(t, map[string]int64{"a": 1, "p": 0, "b": 5})
	})
}

// TestCallOfACallWhoseActorHasMoved: an actor of another host, called by a turn with a key, has called a third one,
// and was not committed. When the next run of the turn finds the actor at its own host, the actor's call is the
// same one, and the third has changed once; if the actor does not call it any more, or fails before, that run is
// not committed.
func TestCallOfACallWhoseActorHasMoved(t *testing.T) {
	for _, to := range []int{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			hs := newHosts(t, host.Limits{})
			middle := addAndCall(1, "c.Inner")
			deploy := func() {
				methods := map[string]hosttest.Func{"Begin": addAndCall(1, "b.Middle"), "Middle": middle, "Inner": addAndCall(5)}
				for _, s := range hs.stages {
					s.world.Deploy("app", "T", withMethods(methods))
				}
			}
			deploy()
			hs.unavailableOnce()
			if _, err := hs.invoke(t.Context(), "a", "Begin", "", "k"); err == nil {
				t.Error("no error")
			}
			hs.want(t, map[string]int64{"a": 0, "b": 0, "c": 5})
			hs.move(t, "b", to)
			again := middle
			for _, middle = range []hosttest.Func{addAndCall(1), func(*hosttest.Turn) error { return hosttest.Fail("no") }} {
				deploy()
				_, err := hs.invoke(t.Context(), "a", "Begin", "", "k")
				wantCondition(t, err, actor.ErrLeft)
				hs.want(t, map[string]int64{"a": 0, "b": 0, "c": 5})
			}
			middle = again
			deploy()
			if reply, err := hs.invoke(t.Context(), "a", "Begin", "", "k"); reply != "called" || err != nil {
				t.Errorf("%q, %v", reply, err)
			}
			hs.want(t, map[string]int64{"a": 1, "b": 1, "c": 5})
		})
	}
}
