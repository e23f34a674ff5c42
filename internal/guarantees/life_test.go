package guarantees

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/hosttest"
	"github.com/greenroom-run/greenroom/store"
	"github.com/greenroom-run/greenroom/store/faultstore"
)

// living is a counter that changes its method set, spawns and passes away.
func living(placement string) hosttest.Actor {
	a := counter(placement)
	become := func(set string) hosttest.Func {
		return func(t *hosttest.Turn) error { return errors.Join(t.Become(set), t.Reply(t.Frame.MethodSet)) }
	}
	a.Methods["Hidden"], a.Private = become(""), []string{"Hidden"}
	a.Life.Sets = map[string][]string{"Open": {"closed"}, "Close": {"open"}, "Add": {"open"}, "Peek": {"closed"}}
	a.Methods["Open"], a.Methods["Close"], a.Methods["Anything"] = become("open"), become("closed"), become("")
	a.Methods["CloseThenFail"] = func(t *hosttest.Turn) error { return errors.Join(t.Become("closed"), hosttest.Fail("on_purpose")) }
	a.Methods["BecomeUnknown"] = func(t *hosttest.Turn) error { return errors.Join(t.Become("ajar"), t.Reply(t.Calls.Problem())) }
	a.Methods["Spawn"] = func(t *hosttest.Turn) error {
		first, err := t.Spawn("Child")
		second, err2 := t.Spawn("Child")
		_, err3 := t.Add("left", 1)
		_, err4 := t.Add("right", 1)
		return errors.Join(err, err2, err3, err4, t.Reply(first+" "+second))
	}
	a.Methods["SpawnThenFail"] = func(t *hosttest.Turn) error {
		id, err := t.Spawn("Child")
		return errors.Join(err, &actor.GuestError{Status: 9, Code: "on_purpose", Message: id})
	}
	a.Methods["SpawnUnknown"] = func(t *hosttest.Turn) error {
		_, err := t.Spawn("Nobody")
		return errors.Join(t.Reply(fmt.Sprint(err, ": ", t.Calls.Problem())))
	}
	a.Methods["PassAway"] = func(t *hosttest.Turn) error {
		t.Calls.ReminderSet(&abi.Reminder{Name: "late", Method: "Touch", DelayNano: 1e15})
		n, err := t.Number("left")
		err = errors.Join(err, t.PassAway())
		for what, code := range map[string]abi.Code{
			"state": t.Calls.StateSet([]byte("left"), []byte("7"), abi.FormatJSON), "become": t.Calls.Become([]byte("open")), "again": t.Calls.PassAway(),
			"remind": t.Calls.ReminderSet(&abi.Reminder{Name: "later", Method: "Touch", DelayNano: 1e15}),
		} {
			if code != abi.CodeOver {
				err = errors.Join(err, fmt.Errorf("after the end of the life, %s has the code %d", what, code))
			}
		}
		return errors.Join(err, t.ReplyNumber(n))
	}
	a.Methods["PassAwayThenFail"] = func(t *hosttest.Turn) error { return errors.Join(t.PassAway(), hosttest.Fail("on_purpose")) }
	a.Methods["Remind"] = func(t *hosttest.Turn) error {
		if code := t.Calls.ReminderSet(&abi.Reminder{Name: "r", Method: "Touch", DelayNano: 1e15}); code != 0 {
			return fmt.Errorf("code %d: %s", code, t.Calls.Problem())
		}
		return t.Reply("0")
	}
	a.ReadOnly["Peek"] = func(t *hosttest.Turn) error { return t.Reply(t.Frame.MethodSet) }
	return a
}

// text invokes a method and returns its reply.
func (r *rig) text(t *testing.T, h *host.Host, key actor.Key, method, idem string) (string, error) {
	t.Helper()
	reply, err := h.Invoke(t.Context(), actor.Invocation{Key: key, Method: method, IdempotencyKey: idem})
	return string(reply.Payload.Data), err
}

// says is text for turns that have to succeed.
func (r *rig) says(t *testing.T, h *host.Host, key actor.Key, method string) string {
	t.Helper()
	text, err := r.text(t, h, key, method, "")
	if err != nil {
		t.Fatalf("%s.%s: %v", key, method, err)
	}
	return text
}

// refuses checks that a call gets a condition whose text has a part.
func (r *rig) refuses(t *testing.T, h *host.Host, key actor.Key, method string, want *actor.Condition, part string) {
	t.Helper()
	if _, err := r.text(t, h, key, method, ""); !errors.Is(err, want) || !strings.Contains(err.Error(), part) {
		t.Errorf("%s.%s: %v; want %q with %q", key, method, err, want.Kind(), part)
	}
}

// TestMethodSets: a set that a turn has chosen is committed with its state, and holds on every
// host until another turn chooses another one.
func TestMethodSets(t *testing.T) {
	onEveryStore(t, func(t *testing.T, s store.Store) {
		inEveryLane(t, func(t *testing.T, placement string) {
			r := newRig(t, s, "sets-"+placement, faultstore.Config{})
			r.world.Deploy(r.app, "Counter", living(placement))
			a, b := r.host(t, host.Limits{}), r.host(t, host.Limits{})
			x := r.key("x")
			r.must(t, a, "x", "Add") // without a set, it accepts all
			r.says(t, a, x, "Close")
			for _, h := range []*host.Host{a, b} {
				r.refuses(t, h, x, "Add", actor.ErrNotAccepted, `Add is in the set "open"; the actor is in "closed", which takes Add`)
				r.refuses(t, h, x, "Close", actor.ErrNotAccepted, "Open")
				if _, err := r.text(t, h, x, "Add", ""); strings.Contains(err.Error(), "Hidden") {
					t.Errorf("a caller from outside is told of a private method: %v", err)
				}
			}
			if got := r.strong(t, a, "x"); got != 1 {
				t.Errorf("it counts %d", got)
			}
			if got := r.says(t, b, x, "Peek"); got != "closed" {
				t.Errorf("a reader is told of the set %q", got)
			}
			if got := r.says(t, b, x, "Open"); got != "closed" {
				t.Errorf("the turn that opens it was told of the set %q", got)
			}
			r.refuses(t, b, x, "Peek", actor.ErrNotAccepted, `"open"`)
			if n := r.must(t, a, "x", "Add"); n != 2 {
				t.Errorf("open, it counts to %d", n)
			}

			// A turn that fails, or whose commit was refused, has chosen nothing.
			if _, err := r.text(t, a, x, "CloseThenFail", ""); !is[*actor.GuestError](err) {
				t.Errorf("a turn that fails: %v", err)
			}
			if n := r.must(t, b, "x", "Add"); n != 3 {
				t.Errorf("still open, it counts to %d", n)
			}
			if got, err := r.text(t, a, x, "BecomeUnknown", ""); err == nil || got != "" {
				t.Errorf("a set that no method is in: %q, %v", got, err)
			}

			// A call that closes it is answered once more from its record.
			if _, err := r.text(t, a, x, "Close", "K"); err != nil {
				t.Fatal(err)
			}
			for _, h := range []*host.Host{a, b} {
				if got, err := r.text(t, h, x, "Close", "K"); err != nil || got != "open" {
					t.Errorf("repeated: %q, %v", got, err)
				}
				if _, err := r.text(t, h, x, "Close", "other"); !errors.Is(err, actor.ErrNotAccepted) {
					t.Errorf("with another key: %v", err)
				}
			}
			r.says(t, b, x, "Anything")
			r.must(t, a, "x", "Add")

			// A deployment without the set refuses what the set had not, and names it.
			r.says(t, a, x, "Close")
			without := living(placement)
			without.Life.Sets = map[string][]string{"Add": {"other"}}
			r.world.Deploy(r.app, "Counter", without)
			r.refuses(t, a, x, "Add", actor.ErrNotAccepted, `"closed", which no method`)
			r.says(t, b, x, "Anything")
			r.must(t, b, "x", "Add")

			// The set goes with the state.
			r.world.Deploy(r.app, "Counter", living(placement))
			r.says(t, a, x, "Close")
			if err := b.Delete(t.Context(), x); err != nil {
				t.Fatal(err)
			}
			if n := r.must(t, a, "x", "Add"); n != 1 {
				t.Errorf("deleted, it counts to %d", n)
			}
		})
	})
}

// TestSpawn: what a turn spawns is there when the turn is, under the same IDs however often the
// turn is run, and dead once its life is over.
func TestSpawn(t *testing.T) {
	onEveryStore(t, func(t *testing.T, s store.Store) {
		inEveryLane(t, func(t *testing.T, placement string) {
			r := newRig(t, s, "spawn-"+placement, faultstore.Config{})
			r.reminders = &setOnly{Store: s}
			var mu sync.Mutex
			runs := map[string]int{} // by the IDs that a run got
			parent := living(placement)
			spawn := parent.Methods["Spawn"]
			parent.Methods["Spawn"] = func(t *hosttest.Turn) error {
				err := spawn(t)
				mu.Lock()
				defer mu.Unlock()
				id, _ := t.Spawn("Child")
				runs[id]++
				return err
			}
			child := living(placement)
			child.Life.Spawn = abi.SpawnOnly
			r.world.Deploy(r.app, "Counter", parent)
			r.world.Deploy(r.app, "Child", child)
			a, b := r.host(t, host.Limits{}), r.host(t, host.Limits{})
			childKey := func(id string) actor.Key { return actor.Key{App: r.app, Type: "Child", ID: id} }
			r.refuses(t, a, childKey("anybody"), "Add", actor.ErrPassedAway, "exists only once")

			seen := map[string]bool{}
			spawned := func(reply string) []actor.Key {
				t.Helper()
				ids := strings.Fields(reply)
				if len(ids) != 2 || seen[ids[0]] || seen[ids[1]] || ids[0] == ids[1] || len(ids[0]) > abi.MaxSpawnedIDLen {
					t.Fatalf("it spawned %q", reply)
				}
				seen[ids[0]], seen[ids[1]] = true, true
				return []actor.Key{childKey(ids[0]), childKey(ids[1])}
			}
			children := spawned(r.says(t, a, r.key("x"), "Spawn"))
			for i, h := range []*host.Host{a, b} {
				if got := r.says(t, h, children[i], "Add"); got != "1" {
					t.Errorf("a child counts to %s", got)
				}
			}

			// Another run, after another writer or a lost outcome, gets the same IDs.
			clear(runs)
			fault := faultstore.CommitLost
			if placement == abi.PlacementAny {
				fault = faultstore.TurnRetried
			}
			r.store.Arm(fault, 1)
			children = append(children, spawned(r.says(t, a, r.key("x"), "Spawn"))...)
			r.allFired(t)
			if len(runs) != 1 || r.store.Fired(fault) == 0 {
				t.Errorf("the runs of one turn spawned %v", runs)
			}
			// So does a call that is repeated, of which nothing was committed; one that was is
			// answered from its record.
			reply, err := r.text(t, a, r.key("x"), "Spawn", "K")
			if err != nil {
				t.Fatal(err)
			}
			children = append(children, spawned(reply)...)
			if again, err := r.text(t, b, r.key("x"), "Spawn", "K"); err != nil || again != reply {
				t.Errorf("repeated: %q, %v; want %q", again, err, reply)
			}
			// A turn that fails leaves nobody.
			_, err = r.text(t, a, r.key("x"), "SpawnThenFail", "")
			var failed *actor.GuestError
			if !errors.As(err, &failed) || failed.Code != "on_purpose" {
				t.Fatalf("a turn that spawns and fails: %v", err)
			}
			r.refuses(t, b, childKey(failed.Message), "Add", actor.ErrPassedAway, "exists only once")
			if got := r.says(t, a, r.key("x"), "SpawnUnknown"); !strings.Contains(got, `no type "Nobody"`) {
				t.Errorf("a type that nothing serves: %s", got)
			}

			for _, key := range children {
				for _, end := range []string{"PassAway", "Delete"} {
					if end == "Delete" && key == children[0] {
						continue
					}
					if end == "PassAway" && key == children[0] {
						r.says(t, b, key, end)
					} else if end == "Delete" {
						if err := a.Delete(t.Context(), key); err != nil {
							t.Fatal(err)
						}
					}
				}
				for _, h := range []*host.Host{a, b} {
					r.refuses(t, h, key, "Add", actor.ErrPassedAway, "its life is over")
					if _, err := h.Invoke(t.Context(), actor.Invocation{Key: key, Method: "Get", ReadOnly: true, Consistency: actor.ConsistencyStrong}); !errors.Is(err, actor.ErrPassedAway) {
						t.Errorf("a reader of a dead actor: %v", err)
					}
				}
			}
		})
	})
}

// TestPassAway: the end of a life removes state, set and reminders in one commit, and what comes
// after meets an empty actor.
func TestPassAway(t *testing.T) {
	onEveryStore(t, func(t *testing.T, s store.Store) {
		inEveryLane(t, func(t *testing.T, placement string) {
			r := newRig(t, s, "life-"+placement, faultstore.Config{})
			rems := &setOnly{Store: s}
			r.reminders = rems
			r.world.Deploy(r.app, "Counter", living(placement))
			a, b := r.host(t, host.Limits{}), r.host(t, host.Limits{})
			x := r.key("x")
			reminders := func() int {
				t.Helper()
				names, err := rems.ReminderNames(t.Context(), x, "", 10)
				if err != nil {
					t.Fatal(err)
				}
				return len(names)
			}
			row := func() actor.Row {
				t.Helper()
				rows, err := s.LoadActors(t.Context(), []actor.Key{x}, actor.LoadOptions{})
				if err != nil {
					t.Fatal(err)
				}
				return rows[0]
			}
			for life := range uint64(2) {
				for n := int64(1); n <= 3; n++ {
					if got := r.must(t, a, "x", "Add"); got != n {
						t.Fatalf("life %d counts to %d, want %d", life, got, n)
					}
				}
				r.says(t, b, x, "Remind")
				r.says(t, b, x, "Open")
				if _, err := r.text(t, a, x, "PassAwayThenFail", ""); !is[*actor.GuestError](err) {
					t.Errorf("a turn that fails: %v", err)
				}
				if got, n := r.strong(t, b, "x"), reminders(); got != 3 || n != 1 {
					t.Errorf("after a turn that failed it has %d and %d reminders", got, n)
				}
				fault := faultstore.CommitLost
				if placement == abi.PlacementAny {
					fault = faultstore.TurnLost
				}
				r.store.Arm(fault, 1) // it runs again
				if got, err := r.text(t, a, x, "PassAway", fmt.Sprint(life)); err != nil || got != "3" {
					t.Fatalf("it passed away at %q: %v", got, err)
				}
				r.allFired(t)
				if got := row(); got.Life != life+1 || !got.Deleted || got.MethodSet != "" || reminders() != 0 {
					t.Errorf("the row is %+v, with %d reminders", got, reminders())
				}
				if got := r.strong(t, b, "x"); got != 0 {
					t.Errorf("a reader of the next life sees %d", got)
				}
				if got, err := r.text(t, b, x, "PassAway", fmt.Sprint(life)); err != nil || got != "3" {
					t.Errorf("repeated: %q, %v", got, err)
				}
			}
			if _, err := a.View(t.Context(), x); !errors.Is(err, actor.ErrActorNotFound) {
				t.Errorf("the view of an actor that passed away: %v", err)
			}

			// Among turns that are committed together, each life counts from 1.
			const callers, turns = 8, 20
			var wg sync.WaitGroup
			var mu sync.Mutex
			ends := 0
			for i := range callers {
				wg.Go(func() {
					for j := range turns {
						h, method := []*host.Host{a, b}[i%2], "Add"
						if placement != abi.PlacementAny {
							h = a
						}
						if (i+j)%7 == 0 {
							method = "PassAway"
						}
						if n, err := r.call(t, h, "x", method); err != nil {
							t.Errorf("%s: %v", method, err)
						} else if n > callers*turns {
							t.Errorf("%s: %d", method, n)
						}
						if method == "PassAway" {
							mu.Lock()
							ends++
							mu.Unlock()
						}
					}
				})
			}
			wg.Wait()
			if got := row(); got.Life != uint64(2+ends) {
				t.Errorf("%d lives ended, and the row counts %d", 2+ends, got.Life)
			}
		})
	})
}

// TestServices: one actor at a time stands for a service, from the commit of the turn that claims
// it until one that releases it, or to the end of its life; calls by the service's name reach it.
func TestServices(t *testing.T) {
	onEveryStore(t, func(t *testing.T, s store.Store) {
		inEveryLane(t, func(t *testing.T, placement string) {
			r := newRig(t, s, "services-"+placement, faultstore.Config{})
			r.reminders = &setOnly{Store: s}
			a := living(placement)
			claim := func(t *hosttest.Turn) error { return errors.Join(t.Claim("mailer"), t.Reply(t.Calls.Problem())) }
			a.Methods["Claim"] = claim
			a.Methods["ClaimThenFail"] = func(t *hosttest.Turn) error { return errors.Join(claim(t), hosttest.Fail("on_purpose")) }
			a.Methods["Release"] = func(t *hosttest.Turn) error {
				held, err := t.Release("mailer")
				return errors.Join(err, t.Reply(fmt.Sprint(held)))
			}
			a.Methods["ClaimAndRelease"] = func(t *hosttest.Turn) error {
				err := t.Claim("mailer")
				held, err2 := t.Release("mailer")
				return errors.Join(err, err2, t.Reply(fmt.Sprint(held)))
			}
			a.Methods["ClaimBoth"] = func(t *hosttest.Turn) error {
				err := t.Claim("mailer")
				_, refused := t.Call("Counter", "b", "Claim", "")
				return errors.Join(err, t.Reply(fmt.Sprint(refused)))
			}
			r.world.Deploy(r.app, "Counter", a)
			// Another type calls by name, so that it waits for no turn of its own.
			r.world.Deploy(r.app, "Caller", hosttest.Actor{Methods: map[string]hosttest.Func{"Call": func(t *hosttest.Turn) error {
				reply, err := t.CallWith(&abi.Message{Service: "mailer", Method: "Add"})
				var refused *actor.GuestError
				if errors.As(err, &refused) {
					reply, err = refused.Code, nil
				}
				return errors.Join(err, t.Reply(reply))
			}}})
			stands := func(id string) {
				t.Helper()
				found, err := s.FindService(t.Context(), r.app, "mailer")
				if err != nil || found.Actor.ID != id {
					t.Errorf("for the service stands %q (%v), want %q", found.Actor.ID, err, id)
				}
			}
			// Each caller is of a host that knows nothing of before.
			calls := func(want string) {
				t.Helper()
				h := r.host(t, host.Limits{})
				if got := r.says(t, h, actor.Key{App: r.app, Type: "Caller", ID: "c"}, "Call"); got != want {
					t.Errorf("a call of the service gets %s, want %s", got, want)
				}
			}
			h, other := r.host(t, host.Limits{}), r.host(t, host.Limits{})
			calls("service_not_found")
			if _, err := r.text(t, h, r.key("a"), "ClaimThenFail", ""); !is[*actor.GuestError](err) {
				t.Errorf("a turn that fails: %v", err)
			}
			if got := r.says(t, h, r.key("a"), "ClaimAndRelease"); got != "true" {
				t.Errorf("released in the turn that claimed it: %s", got)
			}
			stands("")
			if got := r.says(t, h, r.key("a"), "ClaimBoth"); !strings.Contains(got, fmt.Sprint(abi.CodeTaken)) {
				t.Errorf("claimed by two actors of a transaction: %s", got)
			}
			stands("a")
			r.says(t, h, r.key("a"), "Release")
			fault := faultstore.CommitLost
			if placement == abi.PlacementAny {
				fault = faultstore.TurnLost
			}
			r.store.Arm(fault, 1)
			if _, err := r.text(t, h, r.key("a"), "Claim", "K"); err != nil { // with a key it goes again
				t.Fatal(err)
			}
			r.allFired(t)
			stands("a")
			r.says(t, h, r.key("a"), "Claim")
			calls("1")
			if _, err := r.text(t, other, r.key("b"), "Claim", ""); err == nil || !strings.Contains(err.Error(), fmt.Sprint(abi.CodeTaken)) {
				t.Errorf("a claim of what another one stands for: %v", err)
			}
			if got := r.says(t, other, r.key("b"), "Release"); got != "false" {
				t.Errorf("a release of what another one stands for: %s", got)
			}
			if got := r.says(t, other, r.key("a"), "Release"); got != "true" {
				t.Errorf("its own release: %s", got)
			}
			r.says(t, other, r.key("b"), "Claim")
			stands("b")
			calls("1")
			r.says(t, other, r.key("b"), "PassAway")
			stands("")
			r.says(t, h, r.key("a"), "Claim")
			if err := h.Delete(t.Context(), r.key("a")); err != nil {
				t.Fatal(err)
			}
			stands("")

			// Of several that claim at once, one has it; the others are told so when they run again.
			var wg sync.WaitGroup
			var mu sync.Mutex
			claimed := 0
			for i := range 6 {
				wg.Go(func() {
					_, err := r.text(t, []*host.Host{h, other}[i%2], r.key(fmt.Sprint(i)), "Claim", "")
					if err == nil {
						mu.Lock()
						claimed++
						mu.Unlock()
					} else if !is[*actor.GuestError](err) {
						t.Errorf("a claim among several: %v", err)
					}
				})
			}
			wg.Wait()
			if claimed != 1 {
				t.Errorf("%d of them stand for it", claimed)
			}
		})
	})
}
