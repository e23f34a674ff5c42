package host_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/hosttest"
)

// TestStatelessCallees: a turn of a type without state is part of the transaction as to what it calls,
// also while another one of the same actor waits for it, and has neither state nor timers.
func TestStatelessCallees(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newChainStage(t, host.Config{})
		var commits int
		s.store.applying = func(*actor.Commit) { commits++ }
		through := func(t *hosttest.Turn) error { // calls b, and itself
			args := strings.Fields(string(t.Frame.Payload))
			if _, err := t.Call("T", "b", "Do", script(op{Do: "add", N: 1})); err != nil {
				return err
			}
			if len(args) > 1 {
				if _, err := t.Call("S", t.Frame.ID, "Through", strings.Join(args[1:], " ")); err != nil && args[1] != "fail" {
					return err
				}
			}
			if args[0] == "fail" {
				return hosttest.Fail("on_purpose")
			}
			return nil
		}
		state := func(t *hosttest.Turn) error { return t.SetNumber("n", 1) }
		s.world.Deploy("app", "S", hosttest.Actor{Placement: abi.PlacementStateless, Methods: map[string]hosttest.Func{
			"Through": through, "State": state, "Time": timerSet(abi.Reminder{Name: "t", Method: "State", DelayNano: seconds(1)}),
		}})
		a := scriptedActor()
		for _, method := range []string{"State", "Time"} {
			a.Methods[method] = func(t *hosttest.Turn) error {
				_, err := t.Call("S", "x", method, "")
				return err
			}
		}
		a.Methods["Calls"] = func(t *hosttest.Turn) error {
			if _, err := t.Add("n", 1); err != nil {
				return err
			}
			_, err := t.Call("S", "x", "Through", string(t.Frame.Payload))
			return err
		}
		s.world.Deploy("app", "T", a)
		for _, c := range []struct {
			how  string
			a, b int64
		}{{"ok", 1, 1}, {"ok ok", 2, 3}, {"ok fail", 3, 4}, {"fail", 3, 4}} {
			_, err := s.Invoke(t.Context(), actor.Invocation{Key: key("a"), Method: "Calls", Payload: actor.Payload{Data: []byte(c.how)}})
			if (err != nil) != (c.how == "fail") {
				t.Errorf("%s: %v", c.how, err)
			}
			s.wantNumbers(t, map[string]int64{"a": c.a, "b": c.b})
		}
		if commits != 3 {
			t.Errorf("%d commits", commits)
		}
		for method, code := range map[string]string{"State": "code -5", "Time": "-8"} {
			_, err := s.call(t.Context(), "a", method)
			var refused *actor.GuestError
			if !errors.As(err, &refused) || !strings.Contains(refused.Error(), code) {
				t.Errorf("%s: %v", method, err)
			}
		}
		if n := s.Timers(); n != 0 {
			t.Errorf("%d timers", n)
		}
	})
}
