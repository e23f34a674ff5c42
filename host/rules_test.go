package host_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/hosttest"
)

// rulebook is where a host reads the rules of all apps.
type rulebook struct{ atomic.Pointer[actor.Rules] }

func (b *rulebook) Rules(context.Context, string) (*actor.Rules, error) {
	if r := b.Load(); r != nil {
		return r, nil
	}
	return &actor.Rules{}, nil
}

// rule changes the rules of app.
func (b *rulebook) rule(t *testing.T, s *stage, r actor.Rules) {
	t.Helper()
	b.Store(&r)
	if err := s.RulesChanged(t.Context(), "app"); err != nil {
		t.Fatal(err)
	}
}

func paused(refuse bool) actor.Rules {
	return actor.Rules{Paused: map[string]actor.Pause{"T": {Refuse: refuse}}}
}

// eachPlacement runs a test for types of each placement.
func eachPlacement(t *testing.T, test func(t *testing.T, placement string)) {
	for _, placement := range []string{abi.PlacementRing, abi.PlacementSticky, abi.PlacementAny, abi.PlacementStateless} {
		t.Run(placement, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, placement) })
		})
	}
}

// TestPausedTypes: calls of all kinds wait or are refused, those that wait run in their order when the type is
// resumed, and nothing else waits.
func TestPausedTypes(t *testing.T) {
	eachPlacement(t, func(t *testing.T, placement string) {
		book := &rulebook{}
		s := newStage(t, host.Config{Rules: book})
		var order []string
		of := hosttest.Actor{Placement: placement, Methods: map[string]hosttest.Func{"Add": func(turn *hosttest.Turn) error {
			order = append(order, string(turn.Frame.Payload))
			return nil
		}}, ReadOnly: map[string]hosttest.Func{"View": func(*hosttest.Turn) error { return nil }}}
		s.world.Deploy("app", "T", of)
		s.world.Deploy("app", "U", hosttest.Actor{Methods: map[string]hosttest.Func{"Add": func(*hosttest.Turn) error { return nil }, "CallT": func(turn *hosttest.Turn) error {
			_, err := turn.Call("T", "a", "Add", "")
			return err
		}}})
		begin := func(method, payload string) chan error {
			ended := make(chan error, 1)
			go func() {
				_, err := s.Invoke(t.Context(), actor.Invocation{Key: key("a"), Method: method, Payload: actor.Payload{Data: []byte(payload)}})
				ended <- err
			}()
			synctest.Wait()
			return ended
		}
		other := func(method string) error {
			_, err := s.Invoke(t.Context(), actor.Invocation{Key: actor.Key{App: "app", Type: "U", ID: "u"}, Method: method})
			return err
		}
		book.rule(t, s, paused(false))
		var ends []chan error
		for _, payload := range []string{"1", "2", "3"} {
			ends = append(ends, begin("Add", payload))
		}
		ends = append(ends, begin("View", ""))
		time.Sleep(time.Second)
		for i, end := range ends {
			if len(end) > 0 {
				t.Fatalf("call %d has ended: %v", i, <-end)
			}
		}
		if err := other("Add"); err != nil {
			t.Errorf("another type: %v", err)
		}
		var guest *actor.GuestError
		if err := other("CallT"); !errors.As(err, &guest) || guest.Code != "type_paused" {
			t.Errorf("a turn that calls the type: %v", err)
		}
		firing := actor.Invocation{Key: key("a"), Method: "Add", Firing: &actor.Firing{}}
		if _, err := s.Invoke(t.Context(), firing); !errors.Is(err, actor.ErrTypePaused) {
			t.Errorf("a firing: %v", err)
		}
		book.rule(t, s, actor.Rules{})
		for _, end := range ends {
			if err := <-end; err != nil {
				t.Error(err)
			}
		}
		if placement != abi.PlacementStateless && fmt.Sprint(order) != "[1 2 3]" {
			t.Errorf("calls ran in the order %v", order)
		}

		// A call waits for as long as a turn may take, or for as long as its caller does.
		book.rule(t, s, paused(false))
		began := time.Now()
		if err := <-begin("Add", ""); !errors.Is(err, actor.ErrTypePaused) || time.Since(began) != host.DefaultLimits().TurnDeadline {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		if _, err := s.call(ctx, "a", "Add"); !errors.Is(err, actor.ErrDeadline) {
			t.Errorf("a caller that waits no longer: %v", err)
		}
		cancel()

		// To refuse calls answers those that wait.
		ends = []chan error{begin("Add", ""), begin("Add", ""), begin("View", "")}
		book.rule(t, s, paused(true))
		for _, end := range append(ends, begin("Add", ""), begin("View", "")) {
			if err := <-end; !errors.Is(err, actor.ErrTypePaused) {
				t.Errorf("refused with %v", err)
			}
		}
		if err := s.Delete(t.Context(), key("a")); err != nil && !errors.Is(err, actor.ErrActorNotFound) {
			t.Errorf("an actor of a paused type cannot be deleted: %v", err)
		}

		// The end of the host does not wait for them.
		book.rule(t, s, paused(false))
		ends = []chan error{begin("Add", ""), begin("View", "")}
		began = time.Now()
		if err := s.Stop(t.Context()); err != nil || time.Since(began) > time.Second {
			t.Errorf("stopped with %v after %v", err, time.Since(began))
		}
		for _, end := range ends {
			if err := <-end; !errors.Is(err, actor.ErrStopping) {
				t.Errorf("ended with %v", err)
			}
		}
	})
}

// TestRulesChooseThePool: a method's goes before its type's, and that before the manifest's; a pool that the host does not have changes
// nothing.
func TestRulesChooseThePool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		book := &rulebook{}
		s := newStage(t, host.Config{Rules: book, Slots: 2, Pools: []host.PoolConfig{{Name: "reports"}}})
		g := newGate()
		s.world.Deploy("app", "T", hosttest.Actor{Yields: true, Methods: map[string]hosttest.Func{"Hold": g.wait}})
		for _, c := range []struct {
			typ, method, want string
		}{{"", "", "user1"}, {"batch", "", "batch1"}, {"batch", "reports", "reports1"}, {"", "batch", "batch1"}, {"moon", "", "user1"}} {
			limits := map[actor.LimitScope]actor.Limit{{Type: "T"}: {Pool: c.typ}, {Type: "T", Method: "Hold"}: {Pool: c.method}}
			book.rule(t, s, actor.Rules{Limits: limits})
			held := s.start(t.Context(), "a", "Hold")
			<-g.entered
			if got := s.running(); got != c.want {
				t.Errorf("%+v runs in %q", c, got)
			}
			g.leave <- struct{}{}
			if a := <-held; a.err != nil {
				t.Error(a.err)
			}
		}
	})
}

// TestLimitsAndQuotas: calls above them are refused before they run, and turns above a concurrency wait without a place for a guest.
func TestLimitsAndQuotas(t *testing.T) {
	eachPlacement(t, func(t *testing.T, placement string) {
		book := &rulebook{}
		s := newStage(t, host.Config{Rules: book, Slots: 1})
		g := newGate()
		ran := 0
		s.world.Deploy("app", "T", hosttest.Actor{Yields: true, Placement: placement, Methods: map[string]hosttest.Func{"Hold": g.wait, "Add": func(turn *hosttest.Turn) error {
			ran++
			turn.Calls.Fuel().Used += 1000
			return nil
		}}})
		book.rule(t, s, actor.Rules{Limits: map[actor.LimitScope]actor.Limit{{Type: "T", Method: "Add"}: {Rate: actor.Rate{PerSecond: 1, Burst: 3}}}})
		admitted := func() (n int, last error) {
			for range 10 {
				if _, err := s.call(t.Context(), "a", "Add"); err == nil {
					n++
				} else {
					last = err
				}
			}
			return n, last
		}
		if n, err := admitted(); n != 3 || ran != 3 || !errors.Is(err, actor.ErrRateLimited) {
			t.Errorf("%d calls admitted, %d turns: %v", n, ran, err)
		}
		book.rule(t, s, actor.Rules{Quotas: map[actor.Quota]actor.Rate{actor.QuotaTurns: {PerSecond: 2}}})
		if n, err := admitted(); n != 2 || !errors.Is(err, actor.ErrQuotaExceeded) {
			t.Errorf("%d calls admitted: %v", n, err)
		}
		book.rule(t, s, actor.Rules{Quotas: map[actor.Quota]actor.Rate{actor.QuotaFuel: {PerSecond: 2500}}})
		if n, err := admitted(); n != 3 || !errors.Is(err, actor.ErrQuotaExceeded) {
			t.Errorf("%d calls admitted, of 1000 units of fuel each: %v", n, err)
		}

		book.rule(t, s, actor.Rules{Limits: map[actor.LimitScope]actor.Limit{{Type: "T", Method: "Hold"}: {Concurrency: 2}}})
		var held []<-chan answer
		for i := range 5 {
			held = append(held, s.start(t.Context(), fmt.Sprint(i), "Hold"))
			synctest.Wait()
		}
		if n := len(g.entered); n+s.WaitingForProcessor() > 2 {
			t.Errorf("%d turns run or wait for a processor", n)
		}
		if _, err := s.call(t.Context(), "b", "Add"); err != nil {
			t.Errorf("another method: %v", err)
		}
		for range held {
			<-g.entered
			g.leave <- struct{}{}
		}
		for _, a := range held {
			if a := <-a; a.err != nil {
				t.Error(a.err)
			}
		}
	})
}

// TestRatesOfLists: each call of a list counts for the limit of its type and its token once, the first one too, and a
// list that meets a limit changes nothing.
func TestRatesOfLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		book := &rulebook{}
		s := newStage(t, host.Config{Rules: book})
		s.world.Deploy("app", "T", hosttest.Actor{Methods: map[string]hosttest.Func{"Add": func(turn *hosttest.Turn) error {
			_, err := turn.Add("n", 1)
			return err
		}}})
		all := func(token string, ids ...string) error {
			var list []actor.Call
			for _, id := range ids {
				list = append(list, actor.Call{Key: key(id), Method: "Add"})
			}
			_, err := s.Invoke(t.Context(), actor.Invocation{
				Key: list[0].Key, Method: actor.MethodAll, Payload: actor.Payload{Data: actor.EncodeCalls(list)}, Token: token,
			})
			return err
		}
		limits := map[string]actor.Rules{
			"type":  {Limits: map[actor.LimitScope]actor.Limit{{Type: "T"}: {Rate: actor.Rate{PerSecond: 1, Burst: 3}}}},
			"token": {Limits: map[actor.LimitScope]actor.Limit{{Type: "T"}: {Rate: actor.Rate{PerSecond: 1, Burst: 3}, Per: actor.PerToken}}},
			"quota": {Quotas: map[actor.Quota]actor.Rate{actor.QuotaTurns: {PerSecond: 1, Burst: 3}}},
		}
		for what, rules := range limits {
			book.rule(t, s, rules)
			if err := all("one", what+"1"); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			if err := all("one", what+"2", what+"3"); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			err := all("one", what+"4")
			if limit := (*actor.LimitError)(nil); !errors.As(err, &limit) || limit.RetryAfter == 0 {
				t.Errorf("%s: four calls are within a limit of three: %v", what, err)
			}
			time.Sleep(2 * time.Second) // of the bubble: two more
			if err = all("one", what+"4", what+"4", what+"4"); err == nil {
				t.Errorf("%s: three calls are within the two of two seconds", what)
			}
			if row := s.store.row(key(what + "4")); row.Version != 0 {
				t.Errorf("%s: a list that met the limit has changed an actor", what)
			}
			if err := all("two", what+"5"); (what == "token") != (err == nil) {
				t.Errorf("%s: another token: %v", what, err)
			}
		}
	})
}

// TestRatesOfListsThatRunAgain: a list that runs again, since its commit was lost, counts each of its calls once.
func TestRatesOfListsThatRunAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		book := &rulebook{}
		s := newStage(t, host.Config{Rules: book})
		s.world.Deploy("app", "T", hosttest.Actor{Methods: map[string]hosttest.Func{"Add": func(turn *hosttest.Turn) error {
			_, err := turn.Add("n", 1)
			return err
		}}})
		book.rule(t, s, actor.Rules{Limits: map[actor.LimitScope]actor.Limit{{Type: "T"}: {Rate: actor.Rate{PerSecond: 1, Burst: 3}}}})
		all := func(ids ...string) error {
			var list []actor.Call
			for _, id := range ids {
				list = append(list, actor.Call{Key: key(id), Method: "Add"})
			}
			_, err := s.Invoke(t.Context(), actor.Invocation{Key: list[0].Key, Method: actor.MethodAll, Payload: actor.Payload{Data: actor.EncodeCalls(list)}})
			return err
		}
		s.store.plan("commit", "lost", "lost")
		if err := all("a", "b"); err != nil {
			t.Errorf("two calls within a limit of three, which run three times: %v", err)
		}
		if err := all("a"); err != nil {
			t.Errorf("the third call: %v", err)
		}
		if err := all("a"); !errors.Is(err, actor.ErrRateLimited) {
			t.Errorf("the fourth call: %v", err)
		}
	})
}

// TestRatesOfCalledTurns: turns that a guest calls have no token, and so are one key of a limit per token.
func TestRatesOfCalledTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		book := &rulebook{}
		s := newStage(t, host.Config{Rules: book})
		s.world.Deploy("app", "T", hosttest.ScriptedActor())
		book.rule(t, s, actor.Rules{Limits: map[actor.LimitScope]actor.Limit{{Type: "T"}: {Rate: actor.Rate{PerSecond: 1, Burst: 2}, Per: actor.PerToken}}})
		calls := func(token string) error {
			ops := script(op{Do: "must", ID: "b", Ops: []op{{Do: "add", N: 1}}}, op{Do: "must", ID: "c", Ops: []op{{Do: "add", N: 1}}})
			_, err := s.Invoke(t.Context(), actor.Invocation{Key: key("a"), Method: "Do", Payload: actor.Payload{Data: []byte(ops)}, Token: token})
			return err
		}
		if err := calls("one"); err != nil {
			t.Errorf("one turn of the token and two without a token: %v", err)
		}
		if err := calls("two"); err == nil {
			t.Error("four turns without a token are within the limit of two")
		}
	})
}

// TestChainGoesBeforeTurnsThatWait: a turn that waits for a place of a concurrency, or for the end of a pause, does not hold
// up a chain that waits for its actor and may have the place. The calls of the actor keep their order.
func TestChainGoesBeforeTurnsThatWait(t *testing.T) {
	both(t, func(t *testing.T, placement string) {
		for _, pauses := range []bool{false, true} {
			book := &rulebook{}
			s := newStage(t, host.Config{Rules: book})
			g, busy := newGate(), newGate()
			a := scriptedActor()
			a.Placement, a.Instance = placement, abi.InstanceShared
			a.Methods["Begin"] = func(t *hosttest.Turn) error {
				g.wait(t)
				reply, err := t.Call("T", "b", "Do", script(opAdd(1)))
				if refused := (*actor.GuestError)(nil); errors.As(err, &refused) {
					reply, err = refused.Code, nil
				}
				return errors.Join(err, t.Reply(reply))
			}
			a.Methods["Gate"] = busy.wait
			var order []string
			a.Methods["Note"] = func(t *hosttest.Turn) error {
				order = append(order, string(t.Frame.Payload))
				return nil
			}
			s.world.Deploy("app", "T", a)
			if !pauses {
				book.rule(t, s, actor.Rules{Limits: map[actor.LimitScope]actor.Limit{{Type: "T"}: {Concurrency: 1}}})
			}
			chain := s.start(t.Context(), "a", "Begin")
			<-g.entered
			var ends []chan error
			if pauses { // the actor has a turn, so that others of it and the chain wait for that
				s.start(t.Context(), "b", "Gate")
				<-busy.entered
			}
			for _, payload := range []string{"1", "2", "3"} {
				ended := make(chan error, 1)
				go func() {
					_, err := s.Invoke(t.Context(), actor.Invocation{Key: key("b"), Method: "Note", Payload: actor.Payload{Data: []byte(payload)}})
					ended <- err
				}()
				ends = append(ends, ended)
				synctest.Wait()
			}
			close(g.leave) // a turn of a type placed any begins again at its first call
			synctest.Wait()
			want := "1"
			if pauses {
				want = "type_paused"
				book.rule(t, s, paused(false))
				busy.leave <- struct{}{}
			}
			began := time.Now()
			if a := <-chain; a.reply != want || a.err != nil || time.Since(began) > time.Second {
				t.Errorf("paused %t: the chain ended with %q, %v after %v, want %q", pauses, a.reply, a.err, time.Since(began), want)
			}
			book.rule(t, s, actor.Rules{})
			for _, end := range ends {
				if err := <-end; err != nil {
					t.Error(err)
				}
			}
			if fmt.Sprint(order) != "[1 2 3]" {
				t.Errorf("the other calls ran in the order %q", order)
			}
		}
	})
}

// TestRulesOfCallsOfOtherHosts: a turn that a turn of another host calls waits for nothing, since that one is held meanwhile.
func TestRulesOfCallsOfOtherHosts(t *testing.T) {
	eachPlacement(t, func(t *testing.T, placement string) {
		book := &rulebook{}
		s := newStage(t, host.Config{Rules: book})
		g := newGate()
		s.world.Deploy("app", "T", hosttest.Actor{Placement: placement, Methods: map[string]hosttest.Func{"Hold": g.wait, "Add": func(*hosttest.Turn) error { return nil }}})
		called := func(id string) <-chan error {
			ended := make(chan error, 1)
			go func() {
				_, err := s.Invoke(t.Context(), actor.Invocation{Key: key(id), Method: "Add", Origin: &actor.Origin{From: key("there"), Chain: "c", Depth: 1}})
				ended <- err
			}()
			return ended
		}
		began := time.Now()
		book.rule(t, s, actor.Rules{Limits: map[actor.LimitScope]actor.Limit{{Type: "T"}: {Concurrency: 1}}})
		held := s.start(t.Context(), "a", "Hold")
		<-g.entered
		if err := <-called("b"); err != nil {
			t.Errorf("while the place is taken: %v", err)
		}
		busy := called("a")
		synctest.Wait()
		book.rule(t, s, paused(false))
		if err := <-called("b"); !errors.Is(err, actor.ErrTypePaused) {
			t.Errorf("while the type is paused: %v", err)
		}
		close(g.leave)
		if a := <-held; a.err != nil {
			t.Error(a.err)
		}
		if err := <-busy; err != nil && !errors.Is(err, actor.ErrTypePaused) {
			t.Errorf("that waited for its actor: %v", err)
		}
		if waited := time.Since(began); waited > 0 {
			t.Errorf("something has waited for %v", waited)
		}
	})
}

// fullApp is an app that stores this.
type fullApp actor.Stored

func (a fullApp) CountStored(context.Context, string, []actor.Quota) (actor.Stored, error) {
	return actor.Stored(a), nil
}

// TestStoredQuotas: a turn that would store more than a quota allows leaves no trace, also a called one, whose caller goes
// on; other turns of the app go on.
func TestStoredQuotas(t *testing.T) {
	for _, placement := range []string{abi.PlacementRing, abi.PlacementAny} {
		t.Run(placement, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				book := &rulebook{}
				s, rems := remind(t, host.Config{Rules: book, Counter: fullApp{Actors: 1, Messages: 1}})
				of := hosttest.Actor{Placement: placement, Methods: map[string]hosttest.Func{"Add": add, "Take": add, "Send": sends("1")}}
				of.Methods["CallB"] = sequence(add, func(turn *hosttest.Turn) error {
					_, err := turn.Call("T", "b", "Add", "")
					if guest := (*actor.GuestError)(nil); errors.As(err, &guest) && guest.Code == "quota_exceeded" {
						return nil
					}
					return hosttest.Fail(fmt.Sprint("the called turn ended with ", err))
				})
				s.world.Deploy("app", "T", of)
				if _, err := s.call(t.Context(), "a", "Add"); err != nil {
					t.Fatal(err)
				}
				book.rule(t, s, actor.Rules{Stored: map[actor.Quota]int64{actor.QuotaActors: 1, actor.QuotaMessages: 1}})
				if _, err := s.call(t.Context(), "c", "Add"); err != nil { // which has it counted
					t.Fatal(err)
				}
				synctest.Wait()
				for id, method := range map[string]string{"b": "Add", "a": "Send"} {
					_, err := s.call(t.Context(), id, method)
					wantCondition(t, err, actor.ErrQuotaExceeded)
				}
				if _, err := s.call(t.Context(), "a", "CallB"); err != nil {
					t.Error(err)
				}
				if n, err := s.call(t.Context(), "a", "Add"); err != nil || n != "3" {
					t.Errorf("a turn that stores no more actors: %q, %v", n, err)
				}
				if list := rems.messages(key("b")); len(list) > 0 {
					t.Errorf("sent: %v", texts(list))
				}
				rows, err := s.store.LoadActors(t.Context(), []actor.Key{key("b")}, actor.LoadOptions{})
				if err != nil || rows[0].Version != 0 && !rows[0].Deleted {
					t.Errorf("b has the row %+v, %v", rows[0], err)
				}
			})
		})
	}
}
