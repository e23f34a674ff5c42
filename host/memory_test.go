package host_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/hosttest"
)

// small is a host whose memory a few large calls or states use up.
func small(t *testing.T) *stage {
	s := newStage(t, host.Config{
		CallMemory: 128 << 10, StateMemory: 256 << 10,
		Limits: host.Limits{PayloadBytes: 8 << 10, StateBytes: 16 << 10},
	})
	large := strings.Repeat("x", 8<<10)
	s.world.Deploy("quiet", "T", hosttest.Actor{Methods: map[string]hosttest.Func{"Add": add}})
	s.world.Deploy("app", "T", hosttest.Actor{
		Methods: map[string]hosttest.Func{
			"Add":   add,
			"Touch": view,
			"Large": func(turn *hosttest.Turn) error { return errors.Join(add(turn), turn.Reply(large)) },
			"Grow":  func(turn *hosttest.Turn) error { return errors.Join(add(turn), turn.Set("large", large)) },
		},
		ReadOnly: map[string]hosttest.Func{"View": view},
	})
	return s
}

// outcomes counts how calls ended.
type outcomes struct {
	mu                      sync.Mutex
	running                 sync.WaitGroup
	served, hostFull, boxed int
}

func (o *outcomes) start(t *testing.T, s *stage, id, method string, payload []byte) {
	o.running.Go(func() {
		_, err := s.Invoke(t.Context(), actor.Invocation{Key: key(id), Method: method, Payload: actor.Payload{Data: payload}})
		o.mu.Lock()
		defer o.mu.Unlock()
		switch {
		case err == nil:
			o.served++
		case errors.Is(err, actor.ErrHostFull):
			o.hostFull++
		case errors.Is(err, actor.ErrMailboxFull):
			o.boxed++
		default:
			t.Error(err)
		}
	})
}

// TestCallsAreBoundedByBytes: while the store stands still, what is above the
// bound is refused at once, and everything else is answered afterwards.
func TestCallsAreBoundedByBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const calls = 100
		s := small(t)
		hold := make(chan struct{})
		s.store.setHold(hold)
		var o outcomes
		for i := range calls {
			o.start(t, s, fmt.Sprint(i), "Add", bytes.Repeat([]byte("x"), 8<<10))
		}
		synctest.Wait()
		if o.hostFull == 0 || o.served > 0 || o.boxed > 0 {
			t.Errorf("%d refused, %d served, %d boxed while the store stands still", o.hostFull, o.served, o.boxed)
		}
		if used := s.CallMemory(); used == 0 || used > 128<<10 {
			t.Errorf("calls take %d bytes", used)
		}
		full, other := s.CheckCall("app", 8<<10), s.CheckCall("other", 1)
		if !errors.Is(full, actor.ErrHostFull) || other != nil {
			t.Errorf("one more of the app: %v; a small one of another: %v", full, other)
		}
		close(hold)
		o.running.Wait()
		if o.served+o.hostFull != calls || o.served < 10 {
			t.Errorf("%d served, %d refused", o.served, o.hostFull)
		}
		synctest.Wait()
		if used := s.CallMemory(); used != 0 {
			t.Errorf("%d bytes are left", used)
		}
	})
}

// TestOneActorsCallsLeaveRoom: a flooded actor is refused before it has taken
// what its neighbours need.
func TestOneActorsCallsLeaveRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := small(t)
		hold := make(chan struct{})
		s.store.setHold(hold)
		var o outcomes
		for range 100 {
			o.start(t, s, "hot", "Add", bytes.Repeat([]byte("x"), 4<<10))
		}
		synctest.Wait()
		if o.boxed == 0 || o.hostFull > 0 {
			t.Errorf("%d refused by the actor, %d by the host", o.boxed, o.hostFull)
		}
		if used := s.CallMemory(); used > 16<<10 {
			t.Errorf("one actor's calls take %d bytes", used)
		}
		others := new(outcomes)
		for i := range 8 {
			others.start(t, s, fmt.Sprint(i), "Add", bytes.Repeat([]byte("x"), 8<<10))
		}
		synctest.Wait()
		close(hold)
		o.running.Wait()
		others.running.Wait()
		if others.served != 8 || o.served+o.boxed != 100 {
			t.Errorf("%d of 8 neighbours served; of the hot actor's calls %d served, %d refused", others.served, o.served, o.boxed)
		}
	})
}

// TestCallsOfOneAppRefuseNoOther: an app whose calls take all the memory that they can get has
// further calls refused, and another app none.
func TestCallsOfOneAppRefuseNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const calls, neighbours = 100, 5
		s := small(t)
		hold := make(chan struct{})
		s.store.setHold(hold)
		var o outcomes
		for i := range calls {
			o.start(t, s, fmt.Sprint(i), "Add", bytes.Repeat([]byte("x"), 2<<10))
		}
		synctest.Wait()
		if o.hostFull == 0 {
			t.Error("nothing was refused")
		}
		refused := 0
		var running sync.WaitGroup
		for i := range neighbours {
			running.Go(func() {
				_, err := s.Invoke(t.Context(), actor.Invocation{Key: actor.Key{App: "quiet", Type: "T", ID: fmt.Sprint(i)}, Method: "Add"})
				if err != nil {
					refused++ // one at a time runs in a bubble
				}
			})
			synctest.Wait()
		}
		close(hold)
		running.Wait()
		o.running.Wait()
		if refused > 0 {
			t.Errorf("%d of %d calls of another app were refused", refused, neighbours)
		}
		synctest.Wait()
		if used := s.CallMemory(); used != 0 {
			t.Errorf("%d bytes are left", used)
		}
	})
}

// TestHeldRepliesAreBounded: replies that wait for their commits count as well.
func TestHeldRepliesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := small(t)
		hold := make(chan struct{})
		s.store.setHold(hold)
		var o outcomes
		const calls, running = 200, 64 // instances: what runs is not refused any more
		for i := range calls {
			o.start(t, s, fmt.Sprint(i), "Large", nil)
			if used := s.CallMemory(); used > 128<<10+running*(8<<10) {
				t.Fatalf("calls take %d bytes", used)
			}
			if i%10 == 0 {
				synctest.Wait()
			}
		}
		synctest.Wait()
		if o.hostFull == 0 {
			t.Error("nothing was refused")
		}
		close(hold)
		o.running.Wait()
		synctest.Wait()
		if used := s.CallMemory(); used != 0 || o.served+o.hostFull != calls {
			t.Errorf("%d bytes are left; %d served, %d refused", used, o.served, o.hostFull)
		}
	})
}

// TestStatesAreBoundedByBytes: idle actors leave memory for others, by the size
// of their states, and lose nothing; with all at work, turns are refused.
func TestStatesAreBoundedByBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := small(t)
		const actors = 100
		for round := 1; round <= 2; round++ {
			for i := range actors {
				reply, err := s.call(t.Context(), fmt.Sprint(i), "Grow")
				if err != nil || reply != fmt.Sprint(round) {
					t.Fatalf("actor %d in round %d: %q, %v", i, round, reply, err)
				}
				if view, err := s.call(t.Context(), fmt.Sprint((i+50)%actors), "View"); err != nil || round == 2 && view != "1" && view != "2" {
					t.Fatalf("%q, %v", view, err)
				}
				synctest.Wait()
				if used, bound := s.StateMemory(), int64(256<<10+3*16<<10); used > bound {
					t.Fatalf("states take %d bytes, above %d", used, bound)
				}
			}
		}
		hold := make(chan struct{})
		s.store.setHold(hold)
		var o outcomes
		for i := range actors {
			o.start(t, s, fmt.Sprint(i), "Grow", nil)
			synctest.Wait()
			if used, bound := s.StateMemory(), int64(256<<10+3*16<<10); used > bound {
				t.Fatalf("states at work take %d bytes, above %d", used, bound)
			}
		}
		if o.hostFull == 0 || o.hostFull == actors {
			t.Errorf("%d of %d refused while all are at work", o.hostFull, actors)
		}
		close(hold)
		o.running.Wait()
		if o.served+o.hostFull != actors {
			t.Errorf("%d served, %d refused", o.served, o.hostFull)
		}
		if _, err := s.call(t.Context(), "0", "Grow"); err != nil {
			t.Errorf("after the rush: %v", err)
		}
	})
}

// TestRefusedLimits: limits under which some turn could never be admitted, or
// never be committed, are refused with the field to change.
func TestRefusedLimits(t *testing.T) {
	for want, cfg := range map[string]host.Config{
		"StateBytes 6000000 and PayloadBytes":      {Limits: host.Limits{StateBytes: 6_000_000}},
		"StateMemory must":                         {StateMemory: 1 << 20},
		"CallMemory must":                          {CallMemory: 1 << 20},
		"Overrides[a/T].StateBytes 7000000":        {Overrides: map[host.Scope]host.Limits{{App: "a", Type: "T"}: {StateBytes: 7_000_000}}},
		"StateMemory is -1; give a positive value": {StateMemory: -1},
	} {
		w := hosttest.New()
		cfg.Committer, cfg.Modules, cfg.Engine = newFakeStore(), w, w
		if _, err := host.New(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in the error: %v", want, err)
		}
	}
}
