package host_test

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/hosttest"
)

// waking starts a host whose actors have a hook activated, which runs activated.
func waking(t *testing.T, activated hosttest.Func) (*stage, *hooked, *gate) {
	t.Helper()
	s, ran, g := newChainStage(t, host.Config{}), new(hooked), newGate()
	add := func(t *hosttest.Turn) error { _, err := t.Add("n", 1); return err }
	s.world.Deploy("app", "T", hosttest.Actor{
		Placement: abi.PlacementRing,
		Life:      hosttest.Life{Hooks: abi.Hooks{Activated: "OnActivated"}},
		Methods: map[string]hosttest.Func{
			"OnActivated": ran.note("activated", activated),
			"Idle":        ran.note("idle", nil),
			"Add":         ran.note("add", add),
			"Fail":        ran.note("fail", func(*hosttest.Turn) error { return hosttest.Fail("on_purpose") }),
			"Wait":        ran.note("wait", g.wait),
			"AskToWait": func(t *hosttest.Turn) error {
				_, err := t.Call("T", string(t.Frame.Payload), "Wait", "")
				return err
			},
			"Ask": ran.note("ask", func(t *hosttest.Turn) error {
				_, err := t.Call("T", string(t.Frame.Payload), "Idle", "")
				return err
			}),
			"AskToAdd": ran.note("ask", func(t *hosttest.Turn) error {
				_, err := t.Call("T", string(t.Frame.Payload), "Add", "")
				return errors.Join(err, add(t))
			}),
		},
	})
	return s, ran, g
}

// wake calls an actor in the background.
func (s *stage) wake(t *testing.T, id, method, payload, idempotency string) <-chan error {
	t.Helper()
	c := make(chan error, 1)
	go func() {
		_, err := s.Invoke(t.Context(), actor.Invocation{Key: key(id), Method: method, Payload: actor.Payload{Data: []byte(payload)}, IdempotencyKey: idempotency})
		c <- err
	}()
	synctest.Wait()
	return c
}

// The hook activated runs once on a state that was loaded, although no turn changes the actor: neither one
// from outside, nor one that another actor calls.
func TestActivatedRunsOnceWithoutChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, ran, _ := waking(t, nil)
		for _, method := range []string{"Fail", "Idle", "Idle"} {
			<-s.wake(t, "a", method, "", "")
		}
		ran.wants(t, "activated", "fail", "activated", "idle", "idle")
		<-s.wake(t, "b", "Idle", "", "")
		for range 2 {
			<-s.wake(t, "b", "Ask", "c", "")
		}
		<-s.wake(t, "d", "Ask", "c", "")
		ran.wants(t, "activated", "idle", "ask", "activated", "idle", "ask", "idle", "activated", "ask", "idle")
		<-s.wake(t, "c", "Idle", "", "")
		<-s.wake(t, "c", "Add", "", "")
		<-s.wake(t, "d", "Idle", "", "")
		ran.wants(t, "idle", "add", "idle")
	})
}

// The hook runs once although its turn waits for an earlier commit, and again if that is refused.
func TestActivatedBehindACommit(t *testing.T) {
	for _, refused := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s, ran, _ := waking(t, nil)
			hold := make(chan struct{})
			s.store.setHold(hold)
			failed := s.wake(t, "a", "Fail", "", "key") // no turn of an earlier attempt lands after it
			if refused {
				s.store.write(key("a"), func(*actor.Row) {})
			}
			first, second := s.wake(t, "a", "Idle", "", ""), s.wake(t, "a", "Idle", "", "")
			want := []string{"activated", "fail", "activated", "idle", "idle"}
			ran.wants(t, want...)
			s.store.setHold(nil)
			close(hold)
			if <-failed == nil || errors.Join(<-first, <-second) != nil {
				t.Error("other outcomes")
			}
			synctest.Wait()
			if !refused {
				want = nil
			}
			ran.wants(t, want...)
		})
	}
}

// A turn that runs again, because the commit of another actor that it shares one with was refused, runs its
// hook again, also if another turn has run on its state meanwhile.
func TestActivatedRunsAgainWithItsTurn(t *testing.T) {
	for _, meanwhile := range []string{"", "Wait", "AskToWait"} {
		t.Run(meanwhile, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, ran, g := waking(t, func(t *hosttest.Turn) error { _, err := t.Add("woken", 1); return err })
				<-s.wake(t, "b", "Add", "", "")
				<-s.wake(t, "c", "Add", "", "")
				hold := make(chan struct{})
				s.store.setHold(hold)
				s.store.write(key("b"), func(*actor.Row) {})
				calls := []<-chan error{s.wake(t, "b", "Add", "", "")} // is refused
				failed := s.wake(t, "a", "Fail", "", "key")            // its commit is under way longer
				calls = append(calls, s.wake(t, "b", "AskToAdd", "a", ""))
				ran.wants(t, "activated", "add", "activated", "add", "add", "activated", "fail", "ask", "activated", "add")
				switch meanwhile {
				case "Wait":
					calls = append(calls, s.wake(t, "a", "Wait", "", ""))
					<-g.entered
				case "AskToWait":
					calls = append(calls, s.wake(t, "c", "AskToWait", "a", ""))
					<-g.entered
				}
				hold <- struct{}{}
				synctest.Wait()
				close(g.leave)
				synctest.Wait()
				s.store.setHold(nil)
				close(hold)
				if <-failed == nil {
					t.Error("no failure")
				}
				for _, c := range calls {
					if err := <-c; err != nil {
						t.Error(err)
					}
				}
				if got := string(s.store.row(key("a")).State.Data); got != `{"n":1,"woken":1}` {
					t.Errorf("the state is %s", got)
				}
			})
		})
	}
}
