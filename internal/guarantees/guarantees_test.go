package guarantees

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/hosttest"
	"github.com/greenroom-run/greenroom/store"
	"github.com/greenroom-run/greenroom/store/faultstore"
)

// TestGuarantee1SerialTurns: no two turns of one actor interleave, except
// read-only methods, which see committed state only.
func TestGuarantee1SerialTurns(t *testing.T) {
	const callers, each = 8, 10
	onEveryStore(t, func(t *testing.T, s store.Store) {
		inEveryLane(t, func(t *testing.T, placement string) {
			r := newRig(t, s, "serial-"+placement, faultstore.Config{})
			var inside atomic.Int32
			c := counter(placement)
			add := c.Methods["Add"]
			c.Methods["Add"] = func(t *hosttest.Turn) error {
				if n := inside.Add(1); n != 1 {
					panic(fmt.Sprintf("%d turns of one actor at once", n))
				}
				defer inside.Add(-1)
				return add(t)
			}
			r.world.Deploy(r.app, "Counter", c)
			h := r.host(t, host.Limits{})

			var mu sync.Mutex
			var replies []int64
			var group sync.WaitGroup
			for range callers {
				group.Go(func() {
					var last int64
					for range each {
						n, err := r.call(t, h, "a", "Add")
						if err != nil {
							t.Error(err)
							return
						}
						if n <= last {
							t.Errorf("%d after %d", n, last)
						}
						last = n
						mu.Lock()
						replies = append(replies, n)
						mu.Unlock()
						if _, err := r.call(t, h, "a", "Get"); err != nil && !lockedOut(t, placement, err) {
							t.Error(err)
						}
					}
				})
			}
			group.Wait()
			slices.Sort(replies)
			for i, n := range replies {
				if n != int64(i+1) {
					t.Fatalf("reply %d is %d: turns were lost or doubled", i+1, n)
				}
			}
			if n := r.strong(t, h, "a"); n != callers*each {
				t.Errorf("%d of %d turns are stored", n, callers*each)
			}
		})
	})
}

// TestGuarantee2AtomicTurn: a turn's effects are there together or not at all.
func TestGuarantee2AtomicTurn(t *testing.T) {
	onEveryStore(t, func(t *testing.T, s store.Store) {
		inEveryLane(t, func(t *testing.T, placement string) {
			r := newRig(t, s, "atomic-"+placement, faultstore.Config{})
			r.world.Deploy(r.app, "Counter", counter(placement))
			h, hurried := r.host(t, host.Limits{}), r.host(t, host.Limits{TurnDeadline: 2 * time.Second})
			r.must(t, h, "a", "Add")

			fails, lost, replyLost := faultstore.CommitFails, faultstore.CommitLost, faultstore.CommitReplyLost
			if placement == abi.PlacementAny {
				fails, lost, replyLost = faultstore.TurnFails, faultstore.TurnLost, faultstore.TurnReplyLost
			}
			for _, tc := range []struct {
				name, method string
				faults       []faultstore.Fault
				adds         int64 // what must be stored more afterwards
				check        func(error) bool
			}{
				{"guest error", "AddThenFail", nil, 0, is[*actor.GuestError]},
				{"trap", "AddThenTrap", nil, 0, is[*actor.TrapError]},
				{"deadline", "AddThenHang", nil, 0, condition(actor.ErrDeadline)},
				{"state too large", "AddThenGrow", nil, 0, is[*actor.StateTooLargeError]},
				{"refused commit", "Add", []faultstore.Fault{fails}, 0, condition(actor.ErrUnavailable)},
				{"lost commit", "Add", []faultstore.Fault{lost}, 1, success},
				{"lost answer", "Add", []faultstore.Fault{replyLost}, 1, success},
				{"lost answer, settling fails at first", "Add", []faultstore.Fault{replyLost, faultstore.SettleFails}, 1, success},
				{"lost commit, lost answer of settling", "Add", []faultstore.Fault{lost, faultstore.SettleReplyLost}, 1, success},
			} {
				before := r.strong(t, h, "a")
				for _, f := range tc.faults {
					r.store.Arm(f, 1)
				}
				where := h
				if tc.method == "AddThenHang" {
					where = hurried // the others' turns must not depend on the machine
				}
				_, err := r.call(t, where, "a", tc.method)
				if !tc.check(err) {
					t.Errorf("%s: the outcome is %v", tc.name, err)
				}
				if got := r.strong(t, h, "a"); got != before+tc.adds {
					t.Errorf("%s: %d stored, want %d", tc.name, got, before+tc.adds)
				}
				r.allFired(t)
			}
			if placement == abi.PlacementAny {
				r.store.Arm(faultstore.TurnRetried, 2)
				before := r.strong(t, h, "a")
				if n := r.must(t, h, "a", "Add"); n != before+1 {
					t.Errorf("after serialization failures: %d, want %d", n, before+1)
				}
				r.allFired(t)
			}
		})
	})
}

func is[T error](err error) bool {
	var target T
	return errors.As(err, &target)
}

func condition(c *actor.Condition) func(error) bool {
	return func(err error) bool { return errors.Is(err, c) }
}

func success(err error) bool { return err == nil }

// hasPast reports whether a read that may be stale shows an earlier state of an actor.
func (r *rig) hasPast(t *testing.T, id string) bool {
	var rows [2]actor.Row
	for i := range rows {
		read, err := r.store.LoadActors(t.Context(), []actor.Key{r.key(id)}, actor.LoadOptions{AllowStale: i == 0})
		if err != nil {
			t.Fatal(err)
		}
		rows[i] = read[0]
	}
	return rows[0].Version < rows[1].Version
}

// TestGuarantee3DurableBeforeSeen: no reply and no reader shows what is not
// durable yet.
func TestGuarantee3DurableBeforeSeen(t *testing.T) {
	onEveryStore(t, func(t *testing.T, s store.Store) {
		inEveryLane(t, func(t *testing.T, placement string) {
			r := newRig(t, s, "durable-"+placement, faultstore.Config{})
			r.world.Deploy(r.app, "Counter", counter(placement))
			h := r.host(t, host.Limits{})
			last := r.must(t, h, "a", "Add")
			for placement == abi.PlacementAny && s.Name() == "cockroachdb" && !r.hasPast(t, "a") {
				last = r.must(t, h, "a", "Add")
			}

			point := faultstore.BeforeCommit
			if placement == abi.PlacementAny {
				point = faultstore.BeforeTurnCommit
			}
			held := r.store.Hold(point)
			defer held.Release()
			answered := make(chan int64, 1)
			go func() {
				n, err := r.call(t, h, "a", "Add")
				if err != nil {
					t.Error(err)
				}
				answered <- n
			}()
			<-held.Reached()
			// The guest has run to its end; only the commit is missing. A reader
			// that does not wait for the row's lock may see an even older state.
			if n, err := r.call(t, h, "a", "Get"); n > last || err != nil && !lockedOut(t, placement, err) {
				t.Errorf("a reader sees %d before the commit, %v", n, err)
			}
			select {
			case n := <-answered:
				t.Errorf("the turn replied %d before its commit", n)
			default:
			}
			held.Release()
			if n := <-answered; n != last+1 {
				t.Errorf("the turn replied %d", n)
			}
			if n := r.strong(t, h, "a"); n != last+1 {
				t.Errorf("a reader sees %d after the reply", n)
			}
			// What was acknowledged is in the store, not only in this host.
			if n := r.must(t, r.host(t, host.Limits{}), "a", "Add"); n != last+2 {
				t.Errorf("another host goes on to %d", n)
			}
		})
	})
	onEveryStore(t, outputGate)
	t.Run("crash of the machine", func(t *testing.T) {
		inEveryLane(t, crashes)
	})
}

// outputGate shows that an actor goes on while its commit is under way, and that
// nothing of what its turns observe leaves before that: no reply of a turn that
// wrote or did not, no error, no read.
func outputGate(t *testing.T, s store.Store) {
	for _, placement := range []string{abi.PlacementRing, abi.PlacementSticky} {
		t.Run("speculation/"+placement, func(t *testing.T) {
			r := newRig(t, s, "gate-"+placement, faultstore.Config{})
			ran := make(chan string, 100)
			c := counter(placement)
			for name, method := range c.Methods {
				c.Methods[name] = func(t *hosttest.Turn) error {
					defer func() { ran <- name }()
					return method(t)
				}
			}
			r.world.Deploy(r.app, "Counter", c)
			h := r.host(t, host.Limits{})
			r.must(t, h, "a", "Add")
			<-ran

			held := r.store.Hold(faultstore.BeforeCommit)
			defer held.Release()
			answered := make(chan string, 100)
			// When the last one runs, the one before it is part of its batch.
			methods := []string{"Add", "Touch", "AddThenFail", "AddThenTrap", "Add", "Touch", "AddThenFail", "Add", "Touch"}
			var group sync.WaitGroup
			for _, method := range methods {
				group.Go(func() {
					n, err := r.call(t, h, "a", method)
					answered <- fmt.Sprintf("%s: %d, %v", method, n, err)
				})
				if got := <-ran; got != method { // and in this order
					t.Errorf("%s ran, not %s", got, method)
				}
			}
			<-held.Reached()
			for range 10 {
				if n := r.must(t, h, "a", "Get"); n != 1 {
					t.Errorf("a reader sees %d before the commit", n)
				}
			}
			select {
			case got := <-answered:
				t.Errorf("answered before the commit: %s", got)
			default:
			}
			held.Release()
			group.Wait()
			if n := r.strong(t, h, "a"); n != 4 {
				t.Errorf("%d turns are stored, want 4", n)
			}
			if n := r.folded.Load(); n != 1 {
				t.Errorf("%d turns shared a commit with an earlier one, want 1", n)
			}
		})
	}
}

// crashes takes copies of the disk as a crash would leave it, with every unsynced
// byte gone, while turns run, and looks for acknowledged turns in each.
func crashes(t *testing.T, placement string) {
	const rounds = 10
	disk := vfs.NewCrashableMem()
	r := newRig(t, openEmbedded(t, disk), "crash", faultstore.Config{})
	r.world.Deploy(r.app, "Counter", counter(placement))
	h := r.host(t, host.Limits{})

	var acknowledged [4]atomic.Int64
	done := make(chan struct{})
	var group sync.WaitGroup
	progress, stopped := make(chan struct{}, 1), make(chan struct{})
	for i := range acknowledged {
		group.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				n, err := r.call(t, h, fmt.Sprint(i), "Add")
				if err != nil {
					t.Error(err)
					return
				}
				acknowledged[i].Store(n)
				select {
				case progress <- struct{}{}:
				default:
				}
			}
		})
	}
	go func() { group.Wait(); close(stopped) }()
	for range rounds {
		for range 20 {
			select {
			case <-progress:
			case <-stopped:
				t.Fatal("no turn succeeds any more")
			}
		}
		var atLeast [len(acknowledged)]int64
		for i := range acknowledged {
			atLeast[i] = acknowledged[i].Load()
		}
		after := openEmbedded(t, disk.CrashClone(vfs.CrashCloneCfg{}))
		survivor := newRig(t, after, r.app, faultstore.Config{})
		survivor.world.Deploy(r.app, "Counter", counter(placement))
		h := survivor.host(t, host.Limits{})
		for i, want := range atLeast {
			if got := survivor.strong(t, h, fmt.Sprint(i)); got < want {
				t.Errorf("%d turns of actor %d were acknowledged, %d survived", want, i, got)
			}
		}
	}
	close(done)
	group.Wait()
}

// TestGuarantee4StaleOwner: a host that remembers an older state never writes
// over a newer one.
func TestGuarantee4StaleOwner(t *testing.T) {
	onEveryStore(t, func(t *testing.T, s store.Store) {
		inEveryLane(t, func(t *testing.T, placement string) {
			r := newRig(t, s, "stale-"+placement, faultstore.Config{})
			r.world.Deploy(r.app, "Counter", counter(placement))
			a, b := r.host(t, host.Limits{}), r.host(t, host.Limits{})

			t.Run("in turns", func(t *testing.T) {
				for want := int64(1); want <= 10; want++ {
					h := a
					if want%3 == 0 {
						h = b
					}
					if got := r.must(t, h, "turns", "Add"); got != want {
						t.Fatalf("turn %d gives %d", want, got)
					}
				}
			})
			t.Run("deleted and made anew", func(t *testing.T) {
				r.must(t, a, "anew", "Add")
				r.must(t, a, "anew", "Add")
				if err := b.Delete(t.Context(), r.key("anew")); err != nil {
					t.Fatal(err)
				}
				if got := r.must(t, a, "anew", "Add"); got != 1 {
					t.Errorf("the old owner brought a deleted state back: %d", got)
				}
				if err := a.Delete(t.Context(), r.key("anew")); err != nil {
					t.Fatal(err)
				}
				if err := b.Delete(t.Context(), r.key("anew")); !errors.Is(err, actor.ErrActorNotFound) && err != nil {
					t.Error(err)
				}
				if got := r.must(t, b, "anew", "Add"); got != 1 {
					t.Errorf("the other one gets %d", got)
				}
			})
			t.Run("both at once", func(t *testing.T) {
				const each = 15
				var group sync.WaitGroup
				for _, h := range []*host.Host{a, b} {
					group.Go(func() {
						for range each {
							if _, err := r.call(t, h, "both", "Add"); err != nil {
								t.Error(err)
							}
						}
					})
				}
				group.Wait()
				if n := r.strong(t, a, "both"); n != 2*each {
					t.Errorf("%d of %d turns are stored", n, 2*each)
				}
			})
			if placement == abi.PlacementAny {
				return // a locked turn is never overtaken between its load and its commit
			}
			t.Run("overtaken while committing", func(t *testing.T) {
				r.must(t, a, "overtaken", "Add")
				held := r.store.Hold(faultstore.BeforeCommit)
				defer held.Release()
				slow := make(chan int64, 1)
				go func() {
					n, err := r.call(t, a, "overtaken", "Add")
					if err != nil {
						t.Error(err)
					}
					slow <- n
				}()
				<-held.Reached()
				if n := r.must(t, b, "overtaken", "Add"); n != 2 {
					t.Errorf("the faster one gets %d", n)
				}
				held.Release()
				if n := <-slow; n != 3 {
					t.Errorf("the slower one gets %d, want the turn run again on 2", n)
				}
			})
		})
	})
}

// TestGuarantee8BadInput: each wrong request gets a typed error and has no
// effect; what merely looks wrong works. Names that nothing can have are refused at
// the edge: TestValidation, TestInvokeStreamValidates and TestParseActorPath of
// package server.
func TestGuarantee8BadInput(t *testing.T) {
	onEveryStore(t, func(t *testing.T, s store.Store) {
		inEveryLane(t, func(t *testing.T, placement string) {
			r := newRig(t, s, "input-"+placement, faultstore.Config{})
			r.world.Deploy(r.app, "Counter", counter(placement))
			h := r.host(t, host.Limits{PayloadBytes: 100})

			for _, id := range []string{"a||b", "a/b", "../..", "a b", "😀", "%2F", strings.Repeat("x", actor.MaxIDLen)} {
				if n := r.must(t, h, id, "Add"); n != 1 {
					t.Errorf("%q: %d", id, n)
				}
				if n := r.must(t, h, id, "Add"); n != 2 {
					t.Errorf("%q again: %d", id, n)
				}
				if v, err := h.View(t.Context(), r.key(id)); err != nil || len(v.Entries) != 2 {
					t.Errorf("%q: %+v, %v", id, v, err)
				}
			}
			for _, tc := range []struct {
				name  string
				spoil func(*actor.Invocation)
				check func(error) bool
			}{
				{"unknown type", func(i *actor.Invocation) { i.Key.Type = "Nobody" }, condition(actor.ErrTypeNotFound)},
				{"unknown method", func(i *actor.Invocation) { i.Method = "Nothing" }, condition(actor.ErrMethodNotFound)},
				{"not read-only", func(i *actor.Invocation) { i.ReadOnly = true }, condition(actor.ErrNotReadOnly)},
				{"payload", func(i *actor.Invocation) { i.Payload.Data = make([]byte, 101) }, condition(actor.ErrPayloadTooLarge)},
				{"state", func(i *actor.Invocation) { i.Method = "AddThenGrow" }, is[*actor.StateTooLargeError]},
			} {
				inv := actor.Invocation{Key: r.key("victim"), Method: "Add"}
				tc.spoil(&inv)
				if _, err := h.Invoke(t.Context(), inv); !tc.check(err) {
					t.Errorf("%s: the outcome is %v", tc.name, err)
				}
			}
			if _, err := h.View(t.Context(), r.key("victim")); !errors.Is(err, actor.ErrActorNotFound) {
				t.Errorf("a refused request had an effect: %v", err)
			}
			damaged(t, r, h)
		})
	})
}

// damaged shows that a state that nobody can decode refuses turns, keeps its
// bytes, and can be removed.
func damaged(t *testing.T, r *rig, h *host.Host) {
	row := actor.RowWrite{
		Key: r.key("damaged"), NewVersion: actor.FirstVersion(), Generation: 1,
		State: &actor.EncodedState{Format: actor.FormatEnvelope, Data: []byte("GRE1, but nothing more")},
	}
	if err := r.store.Commit(t.Context(), []actor.Commit{actor.CommitOf(row)})[0]; err != nil {
		t.Fatal(err)
	}
	for _, method := range []string{"Add", "Get"} {
		_, err := h.Invoke(t.Context(), actor.Invocation{Key: row.Key, Method: method, Consistency: actor.ConsistencyStrong})
		if !errors.Is(err, actor.ErrStateDamaged) {
			t.Errorf("%s of a damaged state: %v", method, err)
		}
	}
	rows, err := r.store.LoadActors(context.Background(), []actor.Key{row.Key}, actor.LoadOptions{})
	if err != nil || rows[0].Version != row.NewVersion {
		t.Errorf("the damaged row was touched: %+v, %v", rows, err)
	}
	if err := h.Delete(t.Context(), row.Key); err != nil {
		t.Fatal(err)
	}
	if n := r.must(t, h, "damaged", "Add"); n != 1 {
		t.Errorf("after the delete: %d", n)
	}
}
