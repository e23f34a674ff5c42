package host_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/hosttest"
)

// TestPrivateMethods: calls from outside of a private method are refused before anything
// runs, on every lane; calls of actors and timers run it.
func TestPrivateMethods(t *testing.T) {
	for _, placement := range []string{abi.PlacementRing, abi.PlacementAny, abi.PlacementStateless} {
		t.Run(placement, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t, host.Config{})
				ran := 0
				do := func(turn *hosttest.Turn) error { ran++; return turn.Reply("done") }
				s.world.Deploy("app", "T", hosttest.Actor{
					Placement: placement, Private: []string{"Do", "Look"},
					Methods: map[string]hosttest.Func{"Do": do, "Call": func(turn *hosttest.Turn) error {
						reply, err := turn.Call("T", "b", "Do", "")
						if err != nil {
							return err
						}
						return turn.Reply(reply)
					}, "Time": func(turn *hosttest.Turn) error {
						if _, code := turn.Calls.TimerSet(&abi.Reminder{Name: "t", Method: "Do", DelayNano: seconds(1)}); code != 0 {
							return hosttest.Fail("refused")
						}
						return nil
					}},
					ReadOnly: map[string]hosttest.Func{"Look": do},
				})
				for _, inv := range []actor.Invocation{
					{Method: "Do"}, {Method: "Do", IdempotencyKey: "k"}, {Method: "Look"}, {Method: "Look", ReadOnly: true},
					{Method: "Look", ReadOnly: true, Consistency: actor.ConsistencyStrong},
				} {
					inv.Key = key("a")
					if _, err := s.Invoke(t.Context(), inv); !errors.Is(err, actor.ErrMethodPrivate) {
						t.Errorf("%+v: %v", inv, err)
					}
				}
				if _, err := s.SetTimer(t.Context(), actor.TimerSpec{Key: key("a"), Name: "t", Method: "Do"}); !errors.Is(err, actor.ErrMethodPrivate) {
					t.Errorf("a timer that is set from outside: %v", err)
				}
				synctest.Wait()
				if ran != 0 {
					t.Errorf("ran %d times", ran)
				}
				if placement == abi.PlacementRing {
					if reply, err := s.call(t.Context(), "a", "Call"); err != nil || reply != "done" || ran != 1 {
						t.Errorf("%q, %v, ran %d times", reply, err, ran)
					}
				}
				ran = 0
				if _, err := s.call(t.Context(), "a", "Time"); err != nil {
					t.Error(err)
				}
				time.Sleep(2 * time.Second)
				synctest.Wait()
				if ran != 1 {
					t.Errorf("the timer ran it %d times", ran)
				}
			})
		})
	}
}
