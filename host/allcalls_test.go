package host_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/hosttest"
)

// doAll has an actor's host run calls, each "ID method payload", and returns the replies.
func doAll(t *testing.T, h *host.Host, idem string, calls ...string) (string, error) {
	t.Helper()
	var list []actor.Call
	for _, c := range calls {
		args := strings.SplitN(c, " ", 3)
		list = append(list, actor.Call{Key: key(args[0]), Method: args[1], Payload: actor.Payload{Data: []byte(args[2])}})
	}
	inv := actor.Invocation{Key: list[0].Key, Method: actor.MethodAll, IdempotencyKey: idem, Payload: actor.Payload{Data: actor.EncodeCalls(list)}}
	reply, err := h.Invoke(t.Context(), inv)
	if err != nil {
		return "", err
	}
	replies, err := actor.DecodePayloads(reply.Payload.Data)
	var all []string
	for _, r := range replies {
		all = append(all, string(r.Data))
	}
	return strings.Join(all, ", "), err
}

// TestAllCalls: several calls from outside have effect together, in order, or not at all.
func TestAllCalls(t *testing.T) {
	for _, placement := range []string{abi.PlacementRing, abi.PlacementSticky, abi.PlacementAny} {
		synctest.Test(t, func(t *testing.T) {
			s := newStage(t, host.Config{})
			a := scriptedActor()
			a.Placement = placement
			a.Methods["Who"] = func(t *hosttest.Turn) error { return t.Reply(fmt.Sprint(t.Frame.Cause, t.Frame.CallerID)) }
			s.world.Deploy("app", "T", a)
			var commits int
			s.store.applying = func(*actor.Commit) { commits++ }
			for range 2 { // the second time it is the record
				reply, err := doAll(t, s.Host, "k", "a Do "+addFive, "b Do "+addFive, "a Do "+addFive, `b Do [{"do":"must","id":"c","ops":[{"do":"add","n":2}]}]`, "a Look ", "b Who ", "d Look ")
				if reply != "5, 5, 10, (2), 10, 0, 0" || err != nil {
					t.Errorf("%q, %v", reply, err)
				}
				s.wantNumbers(t, map[string]int64{"a": 10, "b": 5, "c": 2})
			}
			if commits != 1 {
				t.Errorf("%d commits", commits)
			}
			for name, tt := range map[string]struct {
				calls []string
				index int
				want  string
			}{
				"a guest's error": {[]string{"a Do " + addFive, "b Do " + addFive, `c Do [{"do":"add","n":1},{"do":"fail"}]`}, 2, "on_purpose"},
				"a trap":          {[]string{"a Do " + addFive, `b Do [{"do":"trap"}]`}, 1, "on purpose"},
				"its own actor's": {[]string{"b Do " + addFive, "a Do " + addFive, `b Do [{"do":"fail"}]`}, 2, "on_purpose"},
				"no method":       {[]string{"a Do " + addFive, "b Nothing "}, 1, "no method Nothing"},
				"a circle":        {[]string{"a Do " + addFive, `b Do [{"do":"must","id":"b","ops":[]}]`}, 1, "not_reentrant"},
			} {
				_, err := doAll(t, s.Host, "", tt.calls...)
				var failed *actor.CallError
				if !errors.As(err, &failed) || failed.Index != tt.index || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("%s: %v", name, err)
				}
			}
			s.wantNumbers(t, map[string]int64{"a": 10, "b": 5, "c": 2})
			for range 2 { // what failed may run again under its key
				if _, err := doAll(t, s.Host, "k2", "a Do "+addFive, `b Do [{"do":"fail"}]`); err == nil {
					t.Error("no error")
				}
			}
			if _, err := doAll(t, s.Host, "k2", "a Do "+addFive); err != nil {
				t.Error(err)
			}
			s.wantNumbers(t, map[string]int64{"a": 15})
			_, err := doAll(t, s.Host, "k2", "a Do "+addFive, "b Look ")
			wantCondition(t, err, actor.ErrKeyReused)
		})
	}
}

// TestAllCallsMeetAnEarlierOwner: where a commit of an earlier owner lands before the fence of one of the
// actors, the calls give all actors back and run again.
func TestAllCallsMeetAnEarlierOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOwned(t, abi.PlacementSticky, actor.Held, host.Config{})
		o.store.write(key("c"), setTo(1))
		late := actor.CommitOf(actor.RowWrite{
			Key: key("c"), ReadVersion: 1, NewVersion: 2, Generation: 1,
			State: &actor.EncodedState{Format: actor.FormatJSON, Data: []byte(`{"n":100}`)},
		})
		hold := make(chan struct{})
		o.store.setHold(hold)
		var reply string
		var err error
		done := make(chan struct{})
		go func() {
			defer close(done)
			reply, err = doAll(t, o.Host, "", "a Add ", "b Add ", "c Add ")
		}()
		hold <- struct{}{} // the fence of a
		hold <- struct{}{} // and of b
		synctest.Wait()
		if err := o.store.applyNow(late); err != nil {
			t.Fatal(err)
		}
		o.store.setHold(nil)
		close(hold)
		<-done
		if reply != "1, 1, 101" || err != nil {
			t.Errorf("%q, %v", reply, err)
		}
		for _, id := range []string{"b", "c"} {
			o.must(t, id, "View", map[string]string{"b": "1", "c": "101"}[id])
		}
	})
}

// TestAllCallsAreMigrated: the state of the first actor is migrated like that of the others.
func TestAllCallsAreMigrated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newChainStage(t, host.Config{Limits: host.Limits{Fuel: 1000}})
		if _, err := doAll(t, s.Host, "", "a Do "+addFive, "b Do "+addFive); err != nil {
			t.Fatal(err)
		}
		newer := scriptedActor()
		newer.StateSchema = 1
		var fuel []uint64
		newer.Migrate = func(t *hosttest.Turn) error {
			fuel = append(fuel, t.Calls.Fuel().Limit)
			_, err := t.Add("n", 100)
			return err
		}
		s.world.Deploy("app", "T", newer)
		if reply, err := doAll(t, s.Host, "", "a Do "+addFive, "b Do "+addFive, "a Do "+addFive); reply != "110, 110, 115" || err != nil {
			t.Errorf("%q, %v", reply, err)
		}
		if !slices.Equal(fuel, []uint64{1000, 1000}) {
			t.Errorf("the migrations may use %d", fuel)
		}
	})
}

// TestFuelOfAllCalls: each call has the fuel of its type. What they call has that of the first actor's
// type, all together, as if one turn had called it. A call of another host has what is left there.
func TestFuelOfAllCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, host.Config{Limits: host.Limits{Fuel: 1000}})
		a := scriptedActor()
		var limits []uint64
		a.Methods["Use"] = func(t *hosttest.Turn) error {
			fuel := t.Calls.Fuel()
			limits = append(limits, fuel.Limit)
			fuel.Used += 300
			for _, callee := range string(t.Frame.Payload) {
				if _, err := t.Call("T", string(callee), "Use", ""); err != nil {
					return err
				}
			}
			return nil
		}
		s.world.Deploy("app", "T", a)
		check := func(what string, err error, want ...uint64) {
			t.Helper()
			if err != nil || !slices.Equal(limits, want) {
				t.Errorf("%s may use %d, %v, want %d", what, limits, err, want)
			}
			limits = nil
		}
		_, err := doAll(t, s.Host, "", "a Use x", "a Use yz", "b Use ", "c Use x")
		check("the turns", err, 1000, 1000, 1000, 700, 400, 1000, 1000, 100)
		_, err = s.Invoke(t.Context(), actor.Invocation{Key: key("a"), Method: "Use", Payload: actor.Payload{Data: []byte("xyzx")}})
		check("the turns of one call", err, 1000, 1000, 700, 400, 100)
		for left, called := range map[uint64]uint64{500: 200, 5000: 1000} { // its turn's use is of that
			_, err = s.Invoke(t.Context(), actor.Invocation{
				Key: key("a"), Method: "Use", Payload: actor.Payload{Data: []byte("x")},
				Origin: &actor.Origin{From: key("z"), Chain: "of another host", Depth: 1, Fuel: left},
			})
			check("the turns of a call of another host", err, min(left, 1000), called)
		}
	})
}

// TestAllCallsApart: calls of actors that are not together are refused before one has run.
func TestAllCallsApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hs := newHosts(t, host.Limits{})
		ran := 0
		a := scriptedActor()
		a.Methods["Count"] = func(*hosttest.Turn) error { ran++; return nil }
		for _, s := range hs.stages {
			s.world.Deploy("app", "T", a)
			s.world.Deploy("app", "Stateless", hosttest.Actor{Placement: abi.PlacementStateless, Methods: a.Methods})
		}
		_, err := doAll(t, hs.stages[0].Host, "", "a Count ", "c Count ", "b Count ")
		wantCondition(t, err, actor.ErrNotAtomic)
		if !strings.Contains(err.Error(), "T b is held by the host host-1, and T a by the host host-0") || ran != 0 {
			t.Errorf("%v; %d turns have run", err, ran)
		}
		list := []actor.Call{{Key: key("a"), Method: "Count"}, {Key: actor.Key{App: "app", Type: "Stateless", ID: "x"}, Method: "Count"}}
		for range 2 {
			_, err := hs.stages[0].Invoke(t.Context(), actor.Invocation{Key: list[0].Key, Method: actor.MethodAll, Payload: actor.Payload{Data: actor.EncodeCalls(list)}})
			wantCondition(t, err, actor.ErrNotAtomic)
			list[0], list[1] = list[1], list[0]
		}
		if ran != 0 || len(hs.invocations()) != 0 {
			t.Errorf("%d turns have run, %d calls were sent", ran, len(hs.invocations()))
		}
	})
}

// TestAllCallsAreRepeatedApart: calls that were committed under a key have the recorded replies, also
// when their actors are not together any more.
func TestAllCallsAreRepeatedApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hs := newHosts(t, host.Limits{})
		repeat := func(idem, want string) error {
			t.Helper()
			reply, err := doAll(t, hs.stages[hs.holder("a")].Host, idem, "a Do "+addFive, "c Do "+addFive)
			if reply != want {
				t.Errorf("%q, %v, want %q", reply, err, want)
			}
			return err
		}
		_ = repeat("k", "5, 5")
		for _, moves := range []string{"c", "a", "c"} { // to the other host
			hs.move(t, moves, 1-hs.holder(moves))
			_ = repeat("k", "5, 5")
			if hs.holder("a") != hs.holder("c") {
				wantCondition(t, repeat("k2", ""), actor.ErrNotAtomic)
			}
		}
		hs.want(t, map[string]int64{"a": 5, "c": 5})
	})
}

// TestBadAllCalls are refused with what to change.
func TestBadAllCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newChainStage(t, host.Config{})
		many := make([]actor.Call, actor.MaxCalls+1)
		for i := range many {
			many[i] = actor.Call{Key: key(fmt.Sprint("a", i)), Method: "Look"}
		}
		for what, payload := range map[string][]byte{
			"are none":                nil,
			"are more than 64":        actor.EncodeCalls(many),
			"not the encoding":        {0x12, 0xff},
			"have 4194305 bytes":      make([]byte, actor.MaxCallBytes+1),
			"not that of the first":   actor.EncodeCalls([]actor.Call{{Key: key("b"), Method: "Look"}}),
			"call 2, of T a1.no name": actor.EncodeCalls([]actor.Call{many[0], {Key: key("a1"), Method: "no name"}}),
		} {
			_, err := s.Invoke(t.Context(), actor.Invocation{Key: key("a0"), Method: actor.MethodAll, Payload: actor.Payload{Data: payload}})
			var argument *actor.ArgumentError
			if !errors.As(err, &argument) || !strings.Contains(err.Error(), what) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if reply, err := doAll(t, s.Host, "", func() (all []string) {
			for i := range actor.MaxCalls {
				all = append(all, fmt.Sprintf("x%d Do %s", i, addFive))
			}
			return all
		}()...); err != nil || strings.Count(reply, "5") != actor.MaxCalls {
			t.Errorf("%q, %v", reply, err)
		}
	})
}
