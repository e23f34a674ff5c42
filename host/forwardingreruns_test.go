package host_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/hosttest"
)

// TestRerunAfterForwardedCall: a turn that has called another host runs again only with an
// idempotency key, and gets the same reply then: the callee has changed once.
func TestRerunAfterForwardedCall(t *testing.T) {
	t.Run("without a key", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			hs := newHosts(t, host.Limits{})
			hs.staleOnce("a")
			_, err := hs.forward(t, "a", "b . Do "+addFive, "")
			wantCondition(t, err, actor.ErrLeft)
			hs.want(t, map[string]int64{"a": 100, "b": 5})
		})
	})
	t.Run("with a key", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			hs := newHosts(t, host.Limits{})
			hs.staleOnce("a")
			for range 2 {
				if reply, err := hs.forward(t, "a", "b . Do "+addFive, "k"); reply != "5 flags 1" || err != nil {
					t.Errorf("%q, %v", reply, err)
				}
			}
			hs.want(t, map[string]int64{"a": 101, "b": 5})
			if sent := hs.invocations(); len(sent) != 2 || sent[0].IdempotencyKey != sent[1].IdempotencyKey {
				t.Errorf("sent %+v", sent)
			}
		})
	})
	t.Run("the attempt failed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			hs := newHosts(t, host.Limits{})
			hs.store.mu.Lock()
			hs.store.wrote = func(k actor.Key, _, _ actor.Row) { // the callee's commit is the first
				hs.store.wrote = nil
				hs.store.faults["commit"] = []string{"unavailable"}
			}
			hs.store.mu.Unlock()
			_, err := hs.forward(t, "a", "b . Do "+addFive, "k")
			wantCondition(t, err, actor.ErrUnavailable)
			if reply, err := hs.forward(t, "a", "b . Do "+addFive, "k"); reply != "5 flags 1" || err != nil {
				t.Errorf("%q, %v", reply, err)
			}
			hs.want(t, map[string]int64{"a": 1, "b": 5})
		})
	})
	t.Run("another way", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			hs := newHosts(t, host.Limits{})
			for _, s := range hs.stages {
				a := scriptedActor()
				a.Methods["Change"] = func(t *hosttest.Turn) error {
					n, err := t.Add("n", 1)
					if err == nil {
						_, err = t.Call("T", "b", "Do", script(op{Do: "add", N: n}))
					}
					return err
				}
				s.world.Deploy("app", "T", a)
			}
			hs.staleOnce("a")
			_, err := hs.invoke(t.Context(), "a", "Change", "", "k")
			wantCondition(t, err, actor.ErrLeft)
			if !strings.Contains(err.Error(), "another payload") {
				t.Error(err)
			}
			hs.want(t, map[string]int64{"a": 100, "b": 1})
		})
	})
}

// TestRefusalOfACallThatAnEarlierRunHasMade: the callee's host refuses a call that an earlier run of its
// caller has made. The caller gets the reply of that earlier call. If the earlier run got no answer, the
// caller does not get "did not run".
func TestRefusalOfACallThatAnEarlierRunHasMade(t *testing.T) {
	t.Run("committed", func(t *testing.T) {
		for _, again := range []string{"by the host", "by the client"} {
			synctest.Test(t, func(t *testing.T) {
				hs := newHosts(t, host.Limits{})
				hs.outcomes = []string{"", "busy"}
				var err error
				if again == "by the host" {
					hs.staleOnce("a")
				} else {
					hs.unavailableOnce()
					_, err = hs.forward(t, "a", "b . Do "+addFive, "k")
					wantCondition(t, err, actor.ErrUnavailable)
				}
				if reply, err := hs.forward(t, "a", "b . Do "+addFive, "k"); reply != "5 flags 1" || err != nil {
					t.Errorf("%s: %q, %v", again, reply, err)
				}
				hs.want(t, map[string]int64{"b": 5})
			})
		}
	})
	for _, second := range []string{"is refused", "fails", "fails after a move"} {
		t.Run("late, and "+second, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hs := newHosts(t, host.Limits{})
				hs.warm(t, "a")
				hs.warm(t, "b") // so that Once fails
				hs.store.write(key("a"), func(*actor.Row) {})
				switch hs.outcomes = []string{"late"}; second {
				case "is refused":
					hs.outcomes = append(hs.outcomes, "busy")
				case "fails after a move":
					hs.meanwhile = func() { hs.move(t, "b", 0) }
				}
				reply, err := hs.forward(t, "a", "b t Once ", "k")
				if !strings.HasPrefix(reply, "unavailable: ") || err != nil {
					t.Errorf("%q, %v", reply, err)
				}
			})
		})
	}
}

// TestCallThatFailsKeepsEarlierRunsOut: when the caller has learnt that a call has failed here, and its turn
// is committed, no commit of an earlier run of the same call can land any more.
func TestCallThatFailsKeepsEarlierRunsOut(t *testing.T) {
	fail := []op{{Do: "fail"}}
	for _, ops := range [][]op{
		{{Do: "call", ID: "c", Ops: fail}},
		{{Do: "call", ID: "d", Ops: []op{{Do: "call", ID: "c", Ops: fail}, {Do: "fail"}}}},
		{{Do: "call", ID: "c", Ops: []op{{Do: "call", ID: "c", Ops: fail, Again: true}, {Do: "add", N: 1}}}},
		{{Do: "call", ID: "d", Ops: []op{{Do: "call", ID: "a", Ops: fail, Again: true}}}},
	} {
		synctest.Test(t, func(t *testing.T) {
			hs := newHosts(t, host.Limits{})
			at := "c"
			if ops[0].Ops[0].ID == "a" {
				at = "a"
			}
			for _, id := range []string{"a", "c", "d"} {
				hs.warm(t, id)
			}
			before := hs.store.row(key(at)).Version
			if reply, err := hs.invoke(t.Context(), "a", "Do", script(ops...), "k"); !strings.Contains(reply, "on_purpose") || err != nil {
				t.Errorf("%+v: %q, %v", ops, reply, err)
			}
			if hs.store.row(key(at)).Version == before {
				t.Errorf("%+v: a commit that rests on the callee's version of before can land", ops)
			}
		})
	}
}

// TestForwardedCallAfterFewerCalls: a call of another host takes effect once, also if the chain runs
// again and makes fewer calls of other actors before it.
func TestForwardedCallAfterFewerCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hs := newHosts(t, host.Limits{})
		a := scriptedActor()
		runs := 0
		a.Methods["Change"] = func(t *hosttest.Turn) error {
			runs++
			for range 3 - min(runs, 3) {
				if _, err := t.Call("T", "c", "Do", addFive); err != nil {
					return err
				}
			}
			reply, err := t.Call("T", "b", "Do", addFive)
			return errors.Join(err, t.Reply(reply))
		}
		hs.stages[0].world.Deploy("app", "T", a)
		hs.warm(t, "a")
		hs.store.write(key("a"), func(*actor.Row) {})
		if reply, err := hs.invoke(t.Context(), "a", "Change", "", "k"); reply != "5" || err != nil || runs < 2 {
			t.Errorf("%q, %v after %d runs", reply, err, runs)
		}
		hs.want(t, map[string]int64{"b": 5})
	})
}

// TestLateCallOfAnotherContent: a call that an earlier run has sent, and that arrives when a later run has made
// its call of the same number with another payload, has no effect; nor is its reply taken for the other's.
func TestLateCallOfAnotherContent(t *testing.T) {
	for _, pending := range []bool{false, true} { // when it arrives, the commit of the other is
		synctest.Test(t, func(t *testing.T) {
			hs := newHosts(t, host.Limits{})
			a := scriptedActor()
			runs := 0
			a.Methods["Change"] = func(t *hosttest.Turn) error {
				runs++
				m := abi.Message{Type: "T", ID: "b", Method: "Do", Payload: []byte(script(op{Do: "add", N: int64(100 * runs)})), LimitMillis: 50}
				r, _, err := t.Calls.Call(&m)
				if err != nil {
					t.End(err)
				}
				return t.Reply(r.Code + string(r.Payload))
			}
			hs.stages[0].world.Deploy("app", "T", a)
			hs.warm(t, "a")
			hs.store.write(key("a"), func(*actor.Row) {})
			hs.outcomes = []string{"late"}
			arrive := func() { hs.late[0]() }
			if pending {
				hs.store.mu.Lock()
				hs.store.applying = func(c *actor.Commit) {
					if len(c.Rows) == 1 && c.Rows[0].Key == key("b") {
						go hs.late[0]()
					}
				}
				hs.store.mu.Unlock()
				arrive = func() {}
			}
			if reply, err := hs.invoke(t.Context(), "a", "Change", "", "k"); reply != "200" || err != nil {
				t.Errorf("%q, %v", reply, err)
			}
			arrive()
			synctest.Wait()
			hs.want(t, map[string]int64{"b": 200})
			var codes []error
			for _, e := range hs.ends {
				if e.Key == key("b") && e.Lane == host.LaneWarm {
					codes = append(codes, e.Err)
				}
			}
			if len(codes) != 2 || codes[0] != nil && codes[1] != nil || !errors.Is(errors.Join(codes...), actor.ErrKeyReused) {
				t.Errorf("the ends are %v", codes)
			}
		})
	}
}

// warm has an actor's host commit something of it.
func (hs *hosts) warm(t *testing.T, id string) {
	t.Helper()
	if _, err := hs.invoke(t.Context(), id, "Do", `[{"do":"add","n":1}]`, ""); err != nil {
		t.Fatal(err)
	}
}

// unavailableOnce has the commit fail that follows the first one of all.
func (hs *hosts) unavailableOnce() {
	hs.store.mu.Lock()
	defer hs.store.mu.Unlock()
	hs.store.wrote = func(actor.Key, actor.Row, actor.Row) {
		hs.store.wrote = nil
		hs.store.faults["commit"] = []string{"unavailable"}
	}
}

// failWhen has the commit fail that follows the first one of an actor.
func (hs *hosts) failWhen(id string) {
	hs.store.mu.Lock()
	defer hs.store.mu.Unlock()
	hs.store.wrote = func(k actor.Key, _, _ actor.Row) {
		if k.ID == id {
			hs.store.wrote = nil
			hs.store.faults["commit"] = []string{"unavailable"}
		}
	}
}

// staleOnce has another writer set an actor to 100 when something else is first written.
func (hs *hosts) staleOnce(id string) {
	hs.store.mu.Lock()
	defer hs.store.mu.Unlock()
	hs.store.wrote = func(actor.Key, actor.Row, actor.Row) {
		hs.store.wrote = nil
		row := hs.store.rows[key(id)]
		row.Version, row.CommitID = row.Version+1, actor.NewCommitID()
		setTo(100)(&row)
		hs.store.rows[key(id)] = row
	}
}

// TestForwardedCallOfAnActorThatMoves: whether a call is forwarded or not in two runs of its
// caller, it takes effect once.
func TestForwardedCallOfAnActorThatMoves(t *testing.T) {
	for _, there := range []int{0, 1} { // where the callee is in the first run
		synctest.Test(t, func(t *testing.T) {
			hs := newHosts(t, host.Limits{})
			hs.move(t, "b", there)
			hs.store.mu.Lock()
			hs.store.wrote = func(k actor.Key, _, _ actor.Row) {
				if hs.store.wrote = nil; there == 1 { // the commit of the callee, before the caller's
					hs.store.faults["commit"] = []string{"unavailable"}
				}
			}
			hs.store.mu.Unlock()
			reply, err := hs.forward(t, "a", "b . Do "+addFive, "k")
			if there == 1 {
				wantCondition(t, err, actor.ErrUnavailable)
				hs.move(t, "b", 0)
				reply, err = hs.forward(t, "a", "b . Do "+addFive, "k")
			}
			if want := fmt.Sprint("5 flags ", there); reply != want || err != nil {
				t.Errorf("%q, %v, want %q", reply, err, want)
			}
			hs.want(t, map[string]int64{"a": 1, "b": 5})
			if there == 1 {
				return
			}
			// What is taken back is not recorded either.
			if reply, err := hs.forward(t, "a", `b . Do [{"do":"add","n":1},{"do":"fail"}]`, "k2"); reply != "on_purpose: on_purpose" || err != nil {
				t.Errorf("%q, %v", reply, err)
			}
			// What an earlier run has sent arrives after another one has called the actor here.
			r, err := hs.stages[0].Invoke(t.Context(), actor.Invocation{
				Key: key("b"), Method: "Do", Payload: actor.Payload{Data: []byte(addFive)}, IdempotencyKey: hs.recordedKey("b"),
				Origin: &actor.Origin{From: key("a"), Chain: "c", Depth: 1},
			})
			if string(r.Payload.Data) != "5" || err != nil {
				t.Errorf("%q, %v", r.Payload.Data, err)
			}
			hs.want(t, map[string]int64{"b": 5})
			if n := len(hs.store.calls); n != 3 { // of a twice, of b once
				t.Errorf("%d calls are recorded", n)
			}
		})
	}
}

// TestCallOfAnActorThatComesBack: a call waits for an actor that moves away, and is back when the caller
// looks for it. The call waits once more, and gets the actor.
func TestCallOfAnActorThatComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hs := newHosts(t, host.Limits{})
		refused, back := make(chan struct{}), make(chan struct{})
		hs.locating = sync.OnceFunc(func() {
			close(refused)
			<-back
		})
		g, s := newGate(), hs.stages[0]
		a := scriptedActor()
		a.Methods["Hold"] = g.wait
		s.world.Deploy("app", "T", a)
		first := s.start(t.Context(), "c", "Hold")
		<-g.entered
		caller := make(chan error, 1)
		go func() {
			_, err := hs.invoke(t.Context(), "a", "Do", script(op{Do: "add", N: 1}, op{Do: "call", ID: "c", Ops: []op{{Do: "add", N: 5}}}), "")
			caller <- err
		}()
		synctest.Wait()
		moved := make(chan struct{})
		go func() {
			defer close(moved)
			hs.move(t, "c", 1)
		}()
		<-refused
		g.leave <- struct{}{}
		<-moved
		hs.move(t, "c", 0)
		second := s.start(t.Context(), "c", "Hold")
		<-g.entered
		close(back)
		synctest.Wait()
		g.leave <- struct{}{}
		for _, held := range []<-chan answer{first, second} {
			if got := <-held; got.err != nil {
				t.Error(got.err)
			}
		}
		if err := <-caller; err != nil {
			t.Error(err)
		}
		hs.want(t, map[string]int64{"a": 1, "c": 5})
		if n := s.CallMemory(); n != 0 {
			t.Errorf("%d bytes count for calls that have ended", n)
		}
	})
}

// TestCallThatFailsAfterItsActorHasMoved: a call that an earlier run has made at another host gets the
// reply of then, also if the callee, which is here by now, refuses to do the same again.
func TestCallThatFailsAfterItsActorHasMoved(t *testing.T) {
	for name, look := range map[string]string{"": "5 flags 1", "load": "5 flags 1", "lookup": "5 flags 1"} {
		synctest.Test(t, func(t *testing.T) {
			hs := newHosts(t, host.Limits{})
			hs.store.mu.Lock()
			hs.store.wrote = func(actor.Key, actor.Row, actor.Row) { // the commit of the callee, before the caller's
				hs.store.wrote = nil
				hs.store.faults["commit"] = []string{"unavailable"}
			}
			hs.store.mu.Unlock()
			_, err := hs.forward(t, "a", "b . Once ", "k")
			wantCondition(t, err, actor.ErrUnavailable)
			hs.move(t, "b", 0)
			if name != "" {
				_, _ = hs.invoke(t.Context(), "a", "Look", "", "") // its state is loaded
				hs.store.plan(name, "unavailable")
			}
			if reply, err := hs.forward(t, "a", "b . Once ", "k"); !strings.HasPrefix(reply, look) || err != nil {
				t.Errorf("%s: %q, %v, want %q", name, reply, err, look)
			}
			hs.want(t, map[string]int64{"a": 1, "b": 5})
			// One that no run has made fails.
			if reply, err := hs.forward(t, "a", "b . Once ", "k2"); reply != "twice: twice" || err != nil {
				t.Errorf("%q, %v", reply, err)
			}
			hs.want(t, map[string]int64{"a": 2, "b": 5})
		})
	}
}
