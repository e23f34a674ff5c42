package host_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/hosttest"
)

// TestFoldingIsBounded calls one actor many times under keys, with large replies,
// while its first commit is held: no commit may grow beyond what a store takes.
func TestFoldingIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const calls, reply, most = 24, 1 << 20, 8 << 20
		groups := make(chan int, calls)
		s := newStage(t, host.Config{Observers: []host.Events{{Commit: func(c host.CommitEnd) {
			if c.Err != nil {
				t.Errorf("commit: %v", c.Err)
			}
			groups <- c.GroupSize
		}}}})
		large := strings.Repeat("x", reply)
		s.world.Deploy("app", "T", hosttest.Actor{Methods: map[string]hosttest.Func{"Add": func(turn *hosttest.Turn) error {
			if _, err := turn.Add("n", 1); err != nil {
				return err
			}
			return turn.Reply(large)
		}}})
		hold := make(chan struct{})
		s.store.setHold(hold)
		answers := make(chan error, calls)
		for i := range calls {
			go func() {
				_, err := s.Invoke(t.Context(), actor.Invocation{Key: key("a"), Method: "Add", IdempotencyKey: fmt.Sprint("k", i)})
				answers <- err
			}()
			// One after the other: the first commit is held, folding comes to its
			// bound, and the rest comes to an actor that has calls and no worker.
			synctest.Wait()
		}
		close(hold)
		for range calls {
			if err := <-answers; err != nil {
				t.Error(err)
			}
		}
		folded, total := 0, 0
		for total < calls {
			n := <-groups
			folded, total = max(folded, n), total+n
		}
		if folded < 2 || folded*reply > most {
			t.Errorf("%d turns of %d bytes in one commit", folded, reply)
		}
	})
}
