package host_test

import (
	"bytes"
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/hosttest"
)

// TestGivenUpCallsLeaveRoom: calls that are given up while they wait take nothing of
// what the calls of their actor may have.
func TestGivenUpCallsLeaveRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := small(t) // an actor's calls may have 16 KiB
		release := make(chan struct{})
		s.world.Deploy("app", "T", hosttest.Actor{Methods: map[string]hosttest.Func{
			"Wait": func(turn *hosttest.Turn) error { <-release; return turn.ReplyNumber(0) },
			"Add":  add,
		}})
		first := s.start(t.Context(), "hot", "Wait")
		synctest.Wait()
		send := func(ctx context.Context) error {
			_, err := s.Invoke(ctx, actor.Invocation{Key: key("hot"), Method: "Add", Payload: actor.Payload{Data: bytes.Repeat([]byte("x"), 8<<10)}})
			return err
		}
		for range 8 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			wantCondition(t, send(ctx), actor.ErrDeadline)
			cancel()
		}
		last := make(chan error, 1)
		go func() { last <- send(t.Context()) }()
		synctest.Wait()
		close(release)
		if err := <-last; err != nil {
			t.Errorf("after calls that were given up: %v", err)
		}
		<-first
	})
}

// TestReadersKeepAnActorInMemory: an actor that is read is not idle.
func TestReadersKeepAnActorInMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var gone []host.DeactivateReason
		s := newStage(t, host.Config{
			SweepEvery: time.Second, Limits: host.Limits{IdleTimeout: 3 * time.Second},
			Events: host.Events{Deactivated: func(_ actor.Key, why host.DeactivateReason) {
				mu.Lock()
				defer mu.Unlock()
				gone = append(gone, why)
			}},
		})
		left := func() int {
			mu.Lock()
			defer mu.Unlock()
			return len(gone)
		}
		s.world.Deploy("app", "T", counted())
		if _, err := s.call(t.Context(), "a", "Add"); err != nil {
			t.Fatal(err)
		}
		for range 10 {
			time.Sleep(time.Second)
			if reply, err := s.call(t.Context(), "a", "View"); reply != "1" || err != nil {
				t.Fatal(reply, err)
			}
		}
		if n := left(); n > 0 {
			t.Errorf("it left memory %d times while it was read", n)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n := left(); n != 1 {
			t.Errorf("it left memory %d times after that", n)
		}
	})
}

// TestRowMadeAnew: a row that another host has swept and made anew may have a lower
// version than the one in memory, and is seen all the same.
func TestRowMadeAnew(t *testing.T) {
	for _, method := range []string{"View", "Touch"} {
		t.Run(method, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fake := newFakeStore()
				fake.shared = true
				s := newStage(t, host.Config{Committer: fake})
				s.world.Deploy("app", "T", counted())
				if _, err := s.call(t.Context(), "a", "Add"); err != nil {
					t.Fatal(err)
				}
				fake.write(key("a"), func(row *actor.Row) {
					row.Version -= 5
					row.State = actor.EncodedState{Format: actor.FormatJSON, Data: []byte(`{"n":7}`)}
				})
				time.Sleep(2 * actor.MaxReadAge)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if reply, err := s.call(ctx, "a", method); reply != "7" || err != nil {
					t.Errorf("got %q, %v", reply, err)
				}
			})
		})
	}
}
