package host_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/hosttest"
	"github.com/greenroom-run/greenroom/scheduler/reminder"
)

// hosts are two hosts of one store. The actors whose IDs begin with "b" are the second one's,
// the others the first one's, but for those that have moved.
type hosts struct {
	stages [2]*stage
	store  *fakeStore

	mu       sync.Mutex
	moved    map[string]int
	sent     []actor.Invocation // between the hosts
	outcomes []string           // of what is sent next: "lost", "repeated", "broken", "stuck", "late", "busy"
	broken   func()             // ends the call whose outcome is "broken", which is repeated then
	late     []func()           // has calls arrive that are late
	// meanwhile, if not nil, happens while a call is late.
	meanwhile func()
	// locating, if not nil, happens before an actor is located.
	locating func()
	ends     []host.TurnEnd
	told     []host.Told
	methods  map[string]hosttest.Func // that are deployed
	sessions [2]session               // to each of the hosts
	rems     *fakeReminders
	services *directory
}

// holder returns which host holds an actor.
func (hs *hosts) holder(id string) int {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	if at, ok := hs.moved[id]; ok {
		return at
	}
	if strings.HasPrefix(id, "b") {
		return 1
	}
	return 0
}

// move moves an actor, as a hand-over does.
func (hs *hosts) move(t *testing.T, id string, to int) {
	t.Helper()
	from := hs.holder(id)
	hs.mu.Lock()
	hs.moved[id] = to
	hs.mu.Unlock()
	if err := hs.stages[from].HandOver(t.Context(), func(k actor.Key) bool { return k.ID == id }); err != nil {
		t.Error(err)
	}
}

func (hs *hosts) invocations() []actor.Invocation {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	return hs.sent
}

// peersOf are the other hosts, for one of them.
type peersOf struct {
	*hosts
	self int
}

func hostName(n int) actor.HostID { return actor.HostID(fmt.Sprint("host-", n)) }

// Locate implements host.Peers.
func (p *peersOf) Locate(_ context.Context, key actor.Key) (holder, self actor.HostID, err error) {
	if p.locating != nil {
		p.locating()
	}
	return hostName(p.holder(key.ID)), hostName(p.self), nil
}

// session is the one to a host, until it breaks. The lock of hosts guards it.
type session struct {
	whole context.Context
	fall  func()
}

// Session implements host.Peers.
func (p *peersOf) Session(id actor.HostID) context.Context {
	p.mu.Lock()
	defer p.mu.Unlock()
	for n := range p.sessions {
		if s := &p.sessions[n]; id == hostName(n) {
			if s.whole == nil || s.whole.Err() != nil {
				s.whole, s.fall = context.WithCancel(context.Background())
			}
			return s.whole
		}
	}
	panic("no host " + id)
}

// breakSession breaks the session to a host.
func (hs *hosts) breakSession(to int) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	if s := hs.sessions[to]; s.fall != nil {
		s.fall()
	}
}

// Begin implements host.Peers.
func (p *peersOf) Begin(ctx context.Context, inv actor.Invocation, to host.Receiver) host.Begun {
	p.mu.Lock()
	p.sent = append(p.sent, inv)
	outcome := ""
	if len(p.outcomes) > 0 {
		outcome, p.outcomes = p.outcomes[0], p.outcomes[1:]
	}
	p.mu.Unlock()
	s := p.stages[p.holder(inv.Key.ID)]
	switch outcome {
	case "lost": // its answer, for good
		return s.Begin(ctx, inv, lostReceiver{to})
	case "repeated": // after its first answer was lost
		return s.Begin(ctx, inv, repeatedReceiver{func() { s.Begin(ctx, inv, to) }})
	case "broken": // while it ran
		first, broken := context.WithCancel(ctx)
		p.mu.Lock()
		p.broken = broken
		p.mu.Unlock()
		return s.Begin(first, inv, repeatedReceiver{func() { s.Begin(ctx, inv, to) }})
	case "stuck":
		return s.Begin(ctx, inv, noReceiver{})
	case "late": // though its caller has given it up
		p.mu.Lock()
		p.late = append(p.late, func() { s.Begin(context.WithoutCancel(ctx), inv, noReceiver{}) })
		p.mu.Unlock()
		if p.meanwhile != nil {
			p.meanwhile()
		}
		return noBegun{}
	case "busy":
		to.Answer(actor.Reply{}, &actor.TurnError{Key: inv.Key, Method: inv.Method, Err: actor.ErrMailboxFull})
		return noBegun{}
	}
	return s.Begin(ctx, inv, to)
}

// message is a call with a limit in milliseconds; 0: none.
func message(id, method string, limit uint32) abi.Message {
	return abi.Message{Type: "T", ID: id, Method: method, LimitMillis: limit}
}

type lostReceiver struct{ to host.Receiver }

func (r lostReceiver) Answer(actor.Reply, error) { r.to.Answer(actor.Reply{}, actor.ErrAmbiguous) }

type repeatedReceiver struct{ again func() }

func (r repeatedReceiver) Answer(actor.Reply, error) { go r.again() }

type noBegun struct{}

func (noBegun) GiveUp() {}

type noReceiver struct{}

func (noReceiver) Answer(actor.Reply, error) {}

// newHosts starts two hosts with the scripted actor and what forwarding is tested with.
func newHosts(t *testing.T, limits host.Limits) *hosts {
	t.Helper()
	hs := &hosts{store: sharedFake(), moved: map[string]int{}, services: &directory{of: map[string]actor.Key{}}}
	hs.store.applying = hs.services.apply
	hs.rems = newReminders(hs.store)
	a := scriptedActor()
	// Forward calls an actor: "ID flags method payload". It adds to its number before, and
	// replies with what it got.
	a.Methods["Forward"] = func(t *hosttest.Turn) error {
		if _, err := t.Add("n", 1); err != nil {
			return err
		}
		args := strings.SplitN(string(t.Frame.Payload), " ", 4)
		m := abi.Message{Type: "T", ID: args[0], Method: args[2], Payload: []byte(args[3])}
		if strings.Contains(args[1], "a") {
			m.Flags = abi.MessageAtomic
		}
		if strings.Contains(args[1], "t") {
			m.LimitMillis = 50
		}
		r, _, err := t.Calls.Call(&m)
		switch {
		case err != nil:
			t.End(err)
		case strings.Contains(args[1], "f"):
			return hosttest.Fail("afterwards")
		case r.Status != 0:
			return t.Reply(r.Code + ": " + r.Message)
		}
		return t.Reply(fmt.Sprintf("%s flags %d", r.Payload, r.Flags))
	}
	a.Methods["Who"] = func(t *hosttest.Turn) error {
		if _, err := t.Add("n", 1); err != nil {
			return err
		}
		return t.Reply(fmt.Sprintf("cause %d %s %s", t.Frame.Cause, t.Frame.CallerType, t.Frame.CallerID))
	}
	a.Methods["Once"] = func(t *hosttest.Turn) error {
		if n, err := t.Add("n", 5); err != nil || n > 5 {
			return errors.Join(err, hosttest.Fail("twice"))
		}
		return t.Reply("5")
	}
	a.Methods["Together"] = a.Methods["Who"]
	a.Atomic = map[string]bool{"Together": true}
	// Down calls the next actor of the other host, as deep as it can, and replies how deep
	// that was.
	a.Methods["Down"] = func(t *hosttest.Turn) error {
		var n int
		fmt.Sscanf(strings.TrimLeft(t.Frame.ID, "ab"), "%d", &n)
		next := fmt.Sprintf("%c%d", "ab"[n%2], n+1)
		reply, err := t.Call("T", next, "Down", "")
		var refused *actor.GuestError
		if errors.As(err, &refused) {
			return t.Reply(fmt.Sprint(n, " ", refused.Code))
		}
		return errors.Join(err, t.Reply(reply))
	}
	hs.methods = a.Methods
	for n := range hs.stages {
		holdings := hosttest.NewHoldings(actor.Held)
		holdings.Set(func(k actor.Key) actor.Hold {
			if hs.holder(k.ID) == n || k.Type == "Any" {
				return actor.Held
			}
			return actor.NotHeld
		})
		hs.stages[n] = newStage(t, host.Config{Committer: hs.store, Ownership: holdings, Peers: &peersOf{hs, n}, Limits: limits, Reminders: hs.rems, Services: hs.services, NewTrace: sampledTrace, Observers: []host.Events{{TurnEnd: func(e host.TurnEnd) {
			hs.mu.Lock()
			hs.ends = append(hs.ends, e)
			hs.mu.Unlock()
		}, Told: func(m host.Told) {
			hs.mu.Lock()
			hs.told = append(hs.told, m)
			hs.mu.Unlock()
		}}}})
		hs.stages[n].store = hs.store
		hs.stages[n].world.Deploy("app", "T", a)
	}
	return hs
}

func sampledTrace() *actor.Trace {
	return actor.ParseTrace("00-2af7651916cd43dd8448eb211c80319c-c7ad6b7169203331-01").Child()
}

// forward invokes Forward of an actor, with an idempotency key if it is not empty.
func (hs *hosts) forward(t *testing.T, id, payload, key string) (string, error) {
	return hs.invoke(t.Context(), id, "Forward", payload, key)
}

func (hs *hosts) invoke(ctx context.Context, id, method, payload, idem string) (string, error) {
	r, err := hs.stages[hs.holder(id)].Invoke(ctx, actor.Invocation{Key: key(id), Method: method, IdempotencyKey: idem, Payload: actor.Payload{Data: []byte(payload)}})
	return string(r.Payload.Data), err
}

func (hs *hosts) want(t *testing.T, numbers map[string]int64) {
	t.Helper()
	hs.stages[0].wantNumbers(t, numbers)
}

const addFive = `[{"do":"add","n":5}]`

// TestForwardedCall: an actor of another host is called there, and its turn is committed on
// its own: also if the caller's turn fails later.
func TestForwardedCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hs := newHosts(t, host.Limits{Fuel: 1000})
		if reply, err := hs.forward(t, "a", "b . Do "+addFive, ""); reply != "5 flags 1" || err != nil {
			t.Errorf("%q, %v", reply, err)
		}
		hs.want(t, map[string]int64{"a": 1, "b": 5})
		if _, err := hs.forward(t, "a", "b f Do "+addFive, ""); err == nil {
			t.Error("no error")
		}
		hs.want(t, map[string]int64{"a": 1, "b": 10})
		if reply, err := hs.forward(t, "a", "b . Who ", ""); reply != "cause 1 T a flags 1" || err != nil {
			t.Errorf("%q, %v", reply, err)
		}
		if reply, err := hs.forward(t, "a", `b . Do [{"do":"add","n":1},{"do":"fail"}]`, ""); reply != "on_purpose: on_purpose" || err != nil {
			t.Errorf("%q, %v", reply, err)
		}
		if reply, err := hs.forward(t, "a", "b . Do [{\"do\":\"trap\"}]", ""); !strings.HasPrefix(reply, "trap: ") || err != nil {
			t.Errorf("%q, %v", reply, err)
		}
		hs.want(t, map[string]int64{"a": 4, "b": 11})
		if reply, err := hs.forward(t, "a", "b . Look ", ""); reply != "11 flags 0" || err != nil {
			t.Errorf("%q, %v", reply, err)
		}
		keys := map[string]bool{}
		for _, inv := range hs.invocations() {
			o := inv.Origin
			if o == nil || o.From != key("a") || o.Chain == "" || o.Depth != 1 || o.Fuel == 0 {
				t.Errorf("origin %+v", o)
			}
			if look := inv.Method == "Look"; look != inv.ReadOnly || look != (inv.IdempotencyKey == "") || keys[inv.IdempotencyKey] {
				t.Errorf("%s has the key %q", inv.Method, inv.IdempotencyKey)
			}
			keys[inv.IdempotencyKey] = true
		}
		// What the host holds is in the same commit still.
		if reply, err := hs.forward(t, "a", "c . Do "+addFive, ""); reply != "5 flags 0" || err != nil {
			t.Errorf("%q, %v", reply, err)
		}
	})
}

// TestEndOfAForwardedCall: where it was called from, the end of a forwarded call has the reason of its
// failure.
func TestEndOfAForwardedCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hs := newHosts(t, host.Limits{})
		hs.outcomes = []string{"", "lost"}
		for _, want := range []string{"on_purpose", "whether the turn was committed"} {
			if _, err := hs.forward(t, "a", `b . Do [{"do":"fail"}]`, ""); err != nil {
				t.Error(err)
			}
			var called []string
			for _, e := range hs.ends {
				if e.Lane == host.LaneCalled {
					called = append(called, fmt.Sprint(e.Err))
				}
			}
			if hs.ends = nil; len(called) != 1 || !strings.Contains(called[0], want) {
				t.Errorf("the ends are %q, want %q", called, want)
			}
		}
	})
}

// TestAtomicCall: a call that is to be in the caller's commit fails before anything has run
// where the actors are apart.
func TestAtomicCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hs := newHosts(t, host.Limits{})
		const want = "not_atomic: T b is held by the host host-1, and T a by the host host-0; see co_locate in docs/calls.md"
		for _, payload := range []string{"b a Do " + addFive, "b . Together "} {
			if reply, err := hs.forward(t, "a", payload, ""); reply != want || err != nil {
				t.Errorf("%s: %q, %v", payload, reply, err)
			}
		}
		if len(hs.invocations()) != 0 {
			t.Error("something was sent")
		}
		if reply, err := hs.forward(t, "a", "c a Together ", ""); reply != "cause 1 T a flags 0" || err != nil {
			t.Errorf("%q, %v", reply, err)
		}
		hs.want(t, map[string]int64{"a": 3, "b": 0, "c": 1})
	})
}

// TestAtomicCallOfAnActorThatHasMovedAlong: both actors have moved, and the caller's host has not let go of the caller
// yet. The call goes on at their new host.
func TestAtomicCallOfAnActorThatHasMovedAlong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hs := newHosts(t, host.Limits{})
		hs.warm(t, "a")
		hs.locating = func() { // as the directory has it by now
			hs.mu.Lock()
			defer hs.mu.Unlock()
			hs.moved["a"] = 1
		}
		_, err := hs.forward(t, "a", "b a Do "+addFive, "")
		wantCondition(t, err, actor.ErrNotOwner)
		hs.want(t, map[string]int64{"a": 1, "b": 0})
	})
}

// TestRepliesThatAChainKeeps: a turn that calls without end does not have the host keep more replies
// than a commit may have.
func TestRepliesThatAChainKeeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hs := newHosts(t, host.Limits{})
		ran := 0
		a := scriptedActor()
		a.Methods["Large"] = func(t *hosttest.Turn) error {
			ran++
			return t.Reply(strings.Repeat("x", 1<<20))
		}
		a.Methods["Loop"] = func(t *hosttest.Turn) error {
			for range 100 {
				if _, err := t.Call("T", "c", "Large", ""); err != nil {
					return err
				}
			}
			return nil
		}
		hs.stages[0].world.Deploy("app", "T", a)
		_, err := hs.invoke(t.Context(), "a", "Loop", "", "k")
		wantCondition(t, err, actor.ErrChainTooLarge)
		if ran > actor.MaxCommitBytes>>20 {
			t.Errorf("%d turns have run", ran)
		}
	})
}

// recordedKey returns the idempotency key of a recorded call.
func (hs *hosts) recordedKey(id string) string {
	hs.store.mu.Lock()
	defer hs.store.mu.Unlock()
	for _, r := range hs.store.calls {
		if r.Actor == key(id) {
			return r.Key
		}
	}
	return ""
}

// TestLostForwardedCall: the caller learns that the call perhaps ran, or the repetition of
// the call gets the reply.
func TestLostForwardedCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hs := newHosts(t, host.Limits{})
		for outcome, want := range map[string]string{"repeated": "5 flags 1", "lost": "unavailable: whether", "stuck": "timeout: the call of T b-stuck did not end in time at the host host-1, where it perhaps ran or may run yet"} {
			id := "b-" + outcome
			hs.outcomes = []string{outcome}
			if reply, err := hs.forward(t, "a", id+" t Do "+addFive, ""); !strings.HasPrefix(reply, want) || err != nil {
				t.Errorf("%s: %q, %v", outcome, reply, err)
			}
			synctest.Wait()
			hs.want(t, map[string]int64{id: 5})
		}
		hs.want(t, map[string]int64{"a": 3})
	})
}

// TestCircleOverHosts: a call that comes back to an actor whose turn is open, of a method that is not
// reentrant, is refused at once; chains that hold each other's actors at two hosts end at their deadlines.
func TestCircleOverHosts(t *testing.T) {
	t.Run("one chain", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			hs := newHosts(t, host.Limits{})
			began := time.Now()
			for payload, want := range map[string]string{
				"b . Forward a . Do " + addFive:                         "not_reentrant: a turn of T a is waiting for this call, and the method Do is not declared reentrant flags 1",
				"b . Forward c . Forward b . Do " + addFive:             "not_reentrant: a turn of T b is waiting for this call, and the method Do is not declared reentrant flags 1 flags 1",
				"c . Forward b . Forward d . Forward c . Do " + addFive: "not_reentrant: a turn of T c is waiting for this call, and the method Do is not declared reentrant flags 1 flags 1 flags 0",
			} {
				if reply, err := hs.forward(t, "a", payload, ""); reply != want || err != nil {
					t.Errorf("%s: %q, %v", payload, reply, err)
				}
			}
			if time.Since(began) > 0 {
				t.Error("a chain has waited for itself")
			}
		})
	})
	t.Run("two chains", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			hs := newHosts(t, host.Limits{TurnDeadline: time.Minute})
			g := newGate()
			for _, s := range hs.stages {
				a := scriptedActor()
				a.Methods["Cross"] = func(t *hosttest.Turn) error {
					if err := g.wait(t); err != nil {
						return err
					}
					_, err := t.Call("T", string(t.Frame.Payload), "Do", addFive)
					return err
				}
				s.world.Deploy("app", "T", a)
			}
			began := time.Now()
			errs := make(chan error, 2)
			for from, to := range map[string]string{"a": "b", "b": "a"} {
				go func() {
					_, err := hs.invoke(t.Context(), from, "Cross", to, "")
					if waited := fmt.Sprintf("it waited for its call of T %s at the host %s", to, hostName(hs.holder(to))); !errors.Is(err, actor.ErrDeadline) || !strings.Contains(err.Error(), waited) {
						err = fmt.Errorf("%w, want the deadline and that %s", err, waited)
					} else {
						err = nil
					}
					errs <- err
				}()
			}
			synctest.Wait()
			close(g.leave)
			for range 2 {
				if err := <-errs; err != nil {
					t.Error(err)
				}
			}
			if took := time.Since(began); took > time.Minute {
				t.Errorf("they took %s", took)
			}
		})
	})
}

// TestCallAfterOneThatWasGivenUp: a call of an actor whose turn a call of the same chain began, and has given up, waits for
// the end of that turn.
func TestCallAfterOneThatWasGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hs := newHosts(t, host.Limits{})
		busy, stops := newGate(), make(chan struct{})
		runs := 0
		methods := map[string]hosttest.Func{
			"Begin": func(t *hosttest.Turn) error {
				m := message("b", "Slow", 50)
				r, _, err := t.Calls.Call(&m)
				if err != nil {
					t.End(err)
				}
				go func() {
					synctest.Wait() // until the next call waits
					close(stops)
				}()
				reply, err := t.Call("T", "b", "Slow", "")
				return errors.Join(err, t.Reply(r.Code+", "+reply))
			},
			"Slow": func(t *hosttest.Turn) error {
				if err := addAndCall(1, "b1.Inner")(t); err != nil {
					return err
				}
				if runs++; runs == 1 {
					<-stops // a guest is not stopped at once
				}
				return nil
			},
			"Inner": addAndCall(1), "Gate": busy.wait,
		}
		for _, s := range hs.stages {
			s.world.Deploy("app", "T", withMethods(methods))
		}
		first := hs.stages[1].start(t.Context(), "b", "Gate") // so that the call is begun and not run where it is begun
		<-busy.entered
		go func() {
			synctest.Wait()
			close(busy.leave)
		}()
		if reply, err := hs.invoke(t.Context(), "a", "Begin", "", ""); reply != "timeout, called" || err != nil {
			t.Errorf("%q, %v", reply, err)
		}
		hs.want(t, map[string]int64{"b": 1, "b1": 1})
		if a := <-first; a.err != nil || runs != 2 {
			t.Errorf("%v, and %d runs", a.err, runs)
		}
		hs.settled(t)
	})
}

// TestFiringsInACircleOverHosts: two reminders that are due at once, and whose turns call each other's
// actors at two hosts, both fire before their attempts are used up.
func TestFiringsInACircleOverHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hs := newHosts(t, host.Limits{TurnDeadline: 30 * time.Second})
		cross := withMethods(map[string]hosttest.Func{"Cross": func(t *hosttest.Turn) error {
			<-time.After(20 * time.Millisecond)
			_, err := t.Call("T", string(t.Frame.Payload), "Do", addFive)
			return err
		}})
		var firings sync.WaitGroup
		planner, attempts := reminder.NewPlanner(), [2]int{}
		for n, s := range hs.stages {
			s.world.Deploy("app", "T", cross)
			id := actor.ReminderID{Prefix: 1, Token: uint32(n + 1), Vector: someVector}
			r, err := planner.Prepare(actor.ReminderSpec{Key: key([]string{"a", "b"}[n]), Name: "n", Method: "Cross", Payload: actor.Payload{Data: []byte([]string{"b", "a"}[n])}}, id, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			r.Version = 1
			hs.store.mu.Lock()
			hs.store.setReminder(r)
			hs.store.mu.Unlock()
			firings.Go(func() {
				for {
					<-time.After(time.Until(r.FireAt))
					plan, err := planner.Plan(&r, time.Now())
					if err != nil {
						t.Error(err)
						return
					}
					attempts[n]++
					inv := actor.Invocation{Key: r.Key, Method: r.Method, Payload: r.Payload, Firing: &plan.Firing}
					if _, err = s.Invoke(t.Context(), inv); err == nil {
						return
					}
					step := planner.Failed(&r, &plan, time.Now(), err.Error())
					if step.Then == nil {
						t.Errorf("the reminder of %s is dead: %v", r.Key.ID, err)
						return
					}
					r.ReminderProgress = *step.Then
					r.Version++
					hs.store.mu.Lock()
					hs.store.setReminder(r)
					hs.store.mu.Unlock()
				}
			})
		}
		firings.Wait()
		if attempts[0]+attempts[1] == 2 {
			t.Error("the firings have not met")
		}
		hs.want(t, map[string]int64{"a": 5, "b": 5})
	})
}

// TestDepthOverHosts: the bound on nested calls counts those of all hosts.
func TestDepthOverHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hs := newHosts(t, host.Limits{})
		if reply, err := hs.invoke(t.Context(), "b0", "Down", "", ""); reply != "32 too_deep" || err != nil {
			t.Errorf("%q, %v", reply, err)
		}
	})
}
