package host_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/hosttest"
)

// TestDeployedElsewhere: a type or a method that another host has deployed is
// there for the first call of it, and calls of what nobody has deployed make the
// host look once in a second.
func TestDeployedElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, host.Config{})
		s.world.DeployElsewhere("app", "T", hosttest.Actor{Methods: map[string]hosttest.Func{"Add": add}})
		if got, err := s.call(t.Context(), "a", "Add"); err != nil || got != "1" {
			t.Errorf("a type from elsewhere: %q, %v", got, err)
		}
		s.world.DeployElsewhere("app", "T", hosttest.Actor{Methods: map[string]hosttest.Func{"Add": add, "Twice": func(turn *hosttest.Turn) error {
			if err := add(turn); err != nil {
				return err
			}
			return add(turn)
		}}})
		if got, err := s.call(t.Context(), "a", "Twice"); err != nil || got != "3" {
			t.Errorf("a method from elsewhere: %q, %v", got, err)
		}

		before := s.world.Changes()
		for range 3 {
			for range 100 {
				_, err := s.call(t.Context(), "a", "None")
				wantCondition(t, err, actor.ErrMethodNotFound)
				_, err = s.Invoke(t.Context(), actor.Invocation{Key: actor.Key{App: "app", Type: "None", ID: "a"}, Method: "Add"})
				wantCondition(t, err, actor.ErrTypeNotFound)
			}
			time.Sleep(time.Second)
		}
		if looks := s.world.Changes() - before; looks != 3 {
			t.Errorf("the host looked %d times in 3 s", looks)
		}
	})
}
