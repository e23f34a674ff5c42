package host_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/hosttest"
	"github.com/greenroom-run/greenroom/store"
)

// applyReminders does what a commit does to reminders. The caller has the lock.
func (s *fakeStore) applyReminders(c *actor.Commit) {
	for i := range c.Rows {
		for n := range s.reminders {
			if c.Rows[i].Delete && n.Key == c.Rows[i].Key && (!c.Rows[i].NewLife || !actor.IsMessageName(n.Name)) {
				delete(s.reminders, n)
			}
		}
	}
	for _, op := range store.ReminderOps(c) {
		there, found := s.reminders[op.ReminderName]
		switch {
		case op.IfAbsent && found:
		case op.Set != nil:
			r := *op.Set
			r.Version = 1
			s.setReminder(r)
		case op.Then != nil && found:
			there.Version++
			there.ReminderProgress = *op.Then
			s.setReminder(there)
		default:
			delete(s.reminders, op.ReminderName)
		}
	}
}

func (s *fakeStore) setReminder(r actor.Reminder) {
	if s.reminders == nil {
		s.reminders = map[actor.ReminderName]actor.Reminder{}
	}
	s.reminders[actor.ReminderName{Key: r.Key, Name: r.Name}] = r
}

// fakeReminders is [host.Reminders] over a fake store.
type fakeReminders struct {
	*fakeStore
	few       int // so many reminders of an actor go with the commit that deletes it
	tokens    atomic.Uint32
	committed chan actor.ReminderEffects
	unused    atomic.Int64       // tokens that were given back
	counts    int                // of inboxes
	more      int                // messages in each inbox beside those that are there
	accepted  []actor.ReminderID // that the host has reported to be so, perhaps
	// eventsFail is the error with which events cannot be read; nil: they can.
	eventsFail error
}

// someVector is that of all reminders.
var someVector = actor.Vector([]byte("vectored"))

func newReminders(s *fakeStore) *fakeReminders {
	return &fakeReminders{fakeStore: s, few: 1000, committed: make(chan actor.ReminderEffects, 100)}
}

func (f *fakeReminders) Prepare(_ context.Context, spec actor.ReminderSpec) (actor.Reminder, error) {
	if err := spec.Validate(); err != nil {
		return actor.Reminder{}, err
	}
	due := time.Now().Add(spec.Schedule.After)
	return actor.Reminder{
		ID: actor.ReminderID{Prefix: 1, Token: f.tokens.Add(1), Vector: someVector}, Version: 1, ReminderSpec: spec,
		ReminderProgress: actor.ReminderProgress{Due: due, FireAt: due, Left: 1},
	}, nil
}

func (f *fakeReminders) Unused(_ string, tokens []actor.ReminderID) { f.unused.Add(int64(len(tokens))) }

func (f *fakeReminders) Accepted(messages []actor.ReminderID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.accepted = append(f.accepted, messages...)
}

func (f *fakeReminders) Committed(e *actor.ReminderEffects) { f.committed <- *e }

// FindReminders is [host.Reminders]' and [store.Reminders]' own.
func (s *fakeStore) FindReminders(_ context.Context, names []actor.ReminderName) ([]actor.Reminder, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []actor.Reminder
	for _, n := range names {
		s.looks++
		found = append(found, s.reminders[n])
	}
	return found, nil
}

func (f *fakeReminders) ReminderNames(_ context.Context, key actor.Key, prefix string, limit int) ([]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var names []string
	for n, r := range f.reminders {
		if n.Key == key && r.Message == nil && strings.HasPrefix(n.Name, prefix) {
			names = append(names, n.Name)
		}
	}
	slices.Sort(names)
	return names[:min(len(names), limit)], nil
}

// ThinReminders removes all but few, one at a time.
func (f *fakeReminders) ThinReminders(ctx context.Context, row actor.RowFence, damaged bool) error {
	for {
		names, err := f.ReminderNames(ctx, row.Key, "", f.few+1)
		if err != nil || len(names) <= f.few {
			return err
		}
		c := actor.CommitOf()
		if !damaged {
			c.Fences = []actor.RowFence{row}
		}
		c.Reminders.Cancel = []actor.ReminderName{{Key: row.Key, Name: names[0]}}
		if err := f.Commit(ctx, []actor.Commit{c})[0]; err != nil {
			return err
		}
	}
}

func (f *fakeReminders) EarlierMessage(_ context.Context, n actor.ReminderName) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.outOfOrder(&actor.ReminderStep{ReminderName: n, Ordered: true}, nil), nil
}

// Inbox counts the messages of an actor.
func (f *fakeReminders) Inbox(_ context.Context, key actor.Key) (messages int, bytes int64, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts++
	for n, r := range f.reminders {
		if n.Key == key && r.Message != nil {
			messages, bytes = messages+1, bytes+int64(len(r.Payload.Data))
		}
	}
	return messages + f.more, bytes, nil
}

// change is another commit that steps a reminder on.
func (f *fakeReminders) change(n actor.ReminderName) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.reminders[n]
	r.Version++
	f.setReminder(r)
}

// place puts a reminder into the store, and returns its firing, which is the last.
func (f *fakeReminders) place(t *testing.T, id, method string) *actor.Firing {
	t.Helper()
	r, err := f.Prepare(t.Context(), actor.ReminderSpec{Key: key(id), Name: "n", Method: method})
	if err != nil {
		t.Fatal(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.setReminder(r)
	n := actor.ReminderName{Key: r.Key, Name: r.Name}
	return &actor.Firing{Reminder: r.ID, Key: r.Key, Name: r.Name, Method: method, Due: r.Due, Attempt: 1,
		Step: actor.ReminderStep{ReminderName: n, ID: r.ID, Version: r.Version}}
}

func (s *stage) fire(ctx context.Context, f *actor.Firing) error {
	_, err := s.Invoke(ctx, actor.Invocation{Key: f.Key, Method: f.Method, Payload: f.Payload, Firing: f})
	return err
}

// remind is a stage with reminders.
func remind(t *testing.T, cfg host.Config) (*stage, *fakeReminders) {
	t.Helper()
	fake := newFakeStore()
	rems := newReminders(fake)
	cfg.Committer, cfg.Reminders = fake, rems
	s := newStage(t, cfg)
	s.store = fake
	return s, rems
}

func set(name, method string) hosttest.Func {
	return func(t *hosttest.Turn) error {
		if code := t.Calls.ReminderSet(&abi.Reminder{Name: name, Method: method, DelayNano: int64(time.Hour)}); code != 0 {
			return errors.New(t.Calls.Problem())
		}
		return nil
	}
}

// A firing is committed once, of a method that changes its actor and of one that changes
// nothing, in every lane; what comes again is found taken before its guest runs.
func TestFiringIsTakenOnce(t *testing.T) {
	for _, placement := range []string{abi.PlacementRing, abi.PlacementAny, abi.PlacementStateless, abi.PlacementSticky} {
		for _, method := range []string{"Add", "Idle", "View"} {
			if placement == abi.PlacementStateless && method == "Add" {
				continue
			}
			t.Run(placement+method, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s, rems := remind(t, host.Config{})
					runs := 0
					counted := func(f hosttest.Func) hosttest.Func {
						return func(t *hosttest.Turn) error {
							runs++
							if c := t.Frame; c.Cause != abi.CauseReminder || c.CauseName != "n" || c.Attempt != 1 {
								return errors.New("the turn does not know that it is a firing")
							}
							return f(t)
						}
					}
					idle := func(*hosttest.Turn) error { return nil }
					s.world.Deploy("app", "T", hosttest.Actor{Placement: placement, Methods: map[string]hosttest.Func{"Add": counted(add), "Idle": counted(idle)},
						ReadOnly: map[string]hosttest.Func{"View": counted(idle)}})
					f := rems.place(t, "a", method)
					if err := s.fire(t.Context(), f); err != nil {
						t.Fatal(err)
					}
					if e := <-rems.committed; len(e.Steps) != 1 {
						t.Errorf("told of %+v", e)
					}
					if len(rems.reminders) != 0 {
						t.Error("the firing was not taken")
					}
					wantCondition(t, s.fire(t.Context(), f), actor.ErrFiringTaken)
					if runs != 1 {
						t.Errorf("the guest ran %d times", runs)
					}
				})
			})
		}
	}
}

// A reminder that changes while its guest runs refuses the commit; the calls that share it
// are answered all the same, and nothing of the firing is left.
func TestRefusedFiring(t *testing.T) {
	for _, placement := range []string{abi.PlacementRing, abi.PlacementAny} {
		synctest.Test(t, func(t *testing.T) {
			s, rems := remind(t, host.Config{})
			g := newGate()
			s.world.Deploy("app", "T", hosttest.Actor{Placement: placement, Methods: map[string]hosttest.Func{"Add": add, "Slow": g.addAfter}})
			f := rems.place(t, "a", "Slow")
			fired := make(chan error, 1)
			go func() { fired <- s.fire(t.Context(), f) }()
			<-g.entered
			other := s.start(t.Context(), "a", "Add")
			rems.change(f.Step.ReminderName)
			close(g.leave)
			wantCondition(t, <-fired, actor.ErrFiringTaken)
			if a := <-other; a.err != nil || a.reply != "1" {
				t.Errorf("%s: the other call got %s, %v", placement, a.reply, a.err)
			}
		})
	}
}

// A firing that is refused in a commit with others costs those another run, no more.
func TestRefusedFiringAmongOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, rems := remind(t, host.Config{})
		s.world.Deploy("app", "T", hosttest.Actor{Methods: map[string]hosttest.Func{"Add": add}})
		f := rems.place(t, "a", "Add")
		hold := make(chan struct{})
		s.store.setHold(hold)
		first := s.start(t.Context(), "a", "Add")
		synctest.Wait() // its commit is under way, and what comes now shares the next one
		fired := make(chan error, 1)
		go func() { fired <- s.fire(t.Context(), f) }()
		synctest.Wait()
		last := s.start(t.Context(), "a", "Add")
		synctest.Wait()
		rems.change(f.Step.ReminderName)
		close(hold)
		wantCondition(t, <-fired, actor.ErrFiringTaken)
		for i, c := range []<-chan answer{first, last} {
			if a := <-c; a.err != nil || a.reply != []string{"1", "2"}[i] {
				t.Errorf("call %d: %s, %v", i, a.reply, a.err)
			}
		}
	})
}

// A firing of a reminder that an earlier turn is about to replace waits for that one's
// commit, and is taken then.
func TestFiringWaitsForWhatTouchesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, rems := remind(t, host.Config{})
		runs := 0
		s.world.Deploy("app", "T", hosttest.Actor{Methods: map[string]hosttest.Func{
			"Replace": set("n", "Fire"), "Fire": func(t *hosttest.Turn) error { runs++; return add(t) },
		}})
		f := rems.place(t, "a", "Fire")
		hold := make(chan struct{})
		s.store.setHold(hold)
		replaced := s.start(t.Context(), "a", "Replace")
		synctest.Wait() // its commit is under way
		fired := make(chan error, 1)
		go func() { fired <- s.fire(t.Context(), f) }()
		synctest.Wait()
		if runs != 0 {
			t.Error("the guest of a firing ran that is about to be replaced")
		}
		close(hold)
		if a := <-replaced; a.err != nil {
			t.Error(a.err)
		}
		wantCondition(t, <-fired, actor.ErrFiringTaken)
		if runs != 0 {
			t.Error("the guest of a firing ran that was replaced")
		}
	})
}

// What a turn does to reminders goes with its commit: not with one that fails, and of turns
// that share a commit in their order.
func TestRemindersGoWithTheCommit(t *testing.T) {
	both(t, func(t *testing.T, placement string) {
		s, rems := remind(t, host.Config{})
		cancel := func(t *hosttest.Turn) error {
			t.Calls.ReminderCancel([]byte("n"))
			return nil
		}
		fails := func(t *hosttest.Turn) error {
			if err := set("n", "Add")(t); err != nil {
				return err
			}
			return hosttest.Fail("no")
		}
		names := func(t *hosttest.Turn) error {
			list, _, err := t.Calls.ReminderNames(nil)
			if err != nil {
				return err
			}
			keys, err := abi.DecodeKeyList(list)
			if err != nil {
				return err
			}
			return t.Reply(strings.Join(keys, " "))
		}
		s.world.Deploy("app", "T", hosttest.Actor{Placement: placement, Methods: map[string]hosttest.Func{
			"Add": add, "Set": set("n", "Add"), "Other": set("m", "Add"), "Cancel": cancel, "Fail": fails, "Names": names, "Bad": set("n", "Names2"),
		}})
		call := func(method, want string) {
			t.Helper()
			if got, err := s.call(t.Context(), "a", method); err != nil || got != want {
				t.Fatalf("%s: %q, %v, want %q", method, got, err, want)
			}
		}
		if _, err := s.call(t.Context(), "a", "Fail"); err == nil {
			t.Error("Fail did not fail")
		}
		if _, err := s.call(t.Context(), "a", "Bad"); err == nil || !strings.Contains(err.Error(), "has no method") {
			t.Errorf("a reminder of no method: %v", err)
		}
		s.store.plan("commit", "unavailable")
		if _, err := s.call(t.Context(), "a", "Set"); !errors.Is(err, actor.ErrUnavailable) {
			t.Errorf("%v", err)
		}
		call("Names", "")
		if v := s.store.row(key("a")).Version; v != 0 {
			t.Errorf("the actor has the version %d", v)
		}
		call("Set", "")
		call("Other", "")
		call("Names", "m n")
		if v := s.store.row(key("a")).Version; v == 0 {
			t.Error("an actor with reminders has no row")
		}
		call("Cancel", "")
		call("Names", "m")
		// Turns that come while a commit is under way share the next one.
		hold := make(chan struct{})
		s.store.setHold(hold)
		var calls []<-chan answer
		for _, method := range []string{"Add", "Set", "Cancel", "Set", "Add", "Names"} {
			calls = append(calls, s.start(t.Context(), "a", method))
			synctest.Wait()
		}
		close(hold)
		for i, c := range calls {
			if a := <-c; a.err != nil || i == 5 && a.reply != "m n" {
				t.Errorf("call %d: %q, %v", i, a.reply, a.err)
			}
		}
		if err := s.Delete(t.Context(), key("a")); err != nil {
			t.Error(err)
		}
		if len(rems.reminders) != 0 {
			t.Errorf("%d reminders are left of an actor that was deleted", len(rems.reminders))
		}
		// One that has reminders alone can be deleted as well.
		rems.place(t, "b", "Add")
		if err := s.Delete(t.Context(), key("b")); err != nil || len(rems.reminders) != 0 {
			t.Errorf("%v, and %d reminders are left", err, len(rems.reminders))
		}
		wantCondition(t, s.Delete(t.Context(), key("c")), actor.ErrActorNotFound)
	})
}

// An actor with very many reminders is deleted in several commits. If one of them fails the
// actor stays, without some of its reminders, and the deletion, repeated, ends what it began.
func TestDeleteOfManyReminders(t *testing.T) {
	both(t, func(t *testing.T, placement string) {
		s, rems := remind(t, host.Config{})
		rems.few = 1
		s.world.Deploy("app", "T", hosttest.Actor{Placement: placement, Methods: map[string]hosttest.Func{"Add": add}})
		if _, err := s.call(t.Context(), "a", "Add"); err != nil {
			t.Fatal(err)
		}
		stays := rems.place(t, "b", "Add").Step.ReminderName
		const n = 5
		for i := range n {
			rems.place(t, "a", "Add")
			of := actor.ReminderName{Key: key("a"), Name: "n"}
			r := rems.reminders[of]
			delete(rems.reminders, of)
			r.Name = fmt.Sprint(i)
			rems.setReminder(r)
		}
		row := s.store.row(key("a"))
		s.store.plan("commit", "", "", "lost")
		wantCondition(t, s.Delete(t.Context(), key("a")), actor.ErrUnavailable)
		if now := s.store.row(key("a")); now.Deleted || now.Version != row.Version || len(rems.reminders) != 1+n-2 {
			t.Fatalf("the row is %+v, was %+v; %d reminders are left", now, row, len(rems.reminders))
		}
		if err := s.Delete(t.Context(), key("a")); err != nil {
			t.Fatal(err)
		}
		if _, ok := rems.reminders[stays]; !ok || len(rems.reminders) != 1 || !s.store.row(key("a")).Deleted {
			t.Errorf("left: %v, and the row %+v", rems.reminders, s.store.row(key("a")))
		}
	})
}

// A firing sends nothing to the outside if it was taken since its guest began.
func TestTakenFiringSendsNothing(t *testing.T) {
	both(t, func(t *testing.T, placement string) {
		out := &asked{}
		s, rems := remind(t, host.Config{Egress: out})
		var f *actor.Firing
		s.world.Deploy("app", "T", hosttest.Actor{Placement: placement, Methods: map[string]hosttest.Func{"Send": func(t *hosttest.Turn) error {
			rems.change(f.Step.ReminderName)
			t.HTTP(abi.HTTPRequest{URL: "https://example.com"})
			return add(t)
		}}})
		f = rems.place(t, "a", "Send")
		wantCondition(t, s.fire(t.Context(), f), actor.ErrFiringTaken)
		if len(out.bodies) != 0 {
			t.Errorf("%d requests were sent", len(out.bodies))
		}
	})
}

// A firing that waits for its actor until its time is up has not begun: that is none of its
// actor's failures. One that begins and takes too long is.
func TestFiringThatCouldNotBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, rems := remind(t, host.Config{})
		g := newGate()
		s.world.Deploy("app", "T", hosttest.Actor{Methods: map[string]hosttest.Func{
			"Add": add, "Slow": g.addAfter, "Stuck": func(t *hosttest.Turn) error { <-t.Context.Done(); return t.Context.Err() },
		}})
		slow := s.start(t.Context(), "a", "Slow")
		<-g.entered
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		f := rems.place(t, "a", "Add")
		err := s.fire(ctx, f)
		wantCondition(t, err, actor.ErrOverloaded)
		close(g.leave)
		if a := <-slow; a.err != nil || a.reply != "1" {
			t.Errorf("the call before it: %s, %v", a.reply, a.err)
		}
		if err := s.fire(t.Context(), f); err != nil {
			t.Errorf("delivered again: %v", err)
		}
		wantCondition(t, s.fire(t.Context(), rems.place(t, "a", "Stuck")), actor.ErrDeadline)
	})
}

// A firing that nobody delivered before is not looked up: the commit decides. One whose
// reminder has changed runs for nothing, is found taken, and leaves nothing.
func TestFreshFiring(t *testing.T) {
	for _, placement := range []string{abi.PlacementRing, abi.PlacementAny, abi.PlacementStateless} {
		synctest.Test(t, func(t *testing.T) {
			s, rems := remind(t, host.Config{})
			runs := 0
			s.world.Deploy("app", "T", hosttest.Actor{Placement: placement, Methods: map[string]hosttest.Func{
				"Run": func(*hosttest.Turn) error { runs++; return nil },
			}})
			f := rems.place(t, "a", "Run")
			f.Fresh = true
			if err := s.fire(t.Context(), f); err != nil || rems.looks != 0 || runs != 1 {
				t.Errorf("%s: %v, looked up %d times, ran %d times", placement, err, rems.looks, runs)
			}
			wantCondition(t, s.fire(t.Context(), f), actor.ErrFiringTaken)
			f = rems.place(t, "a", "Run")
			f.Fresh = true
			rems.change(f.Step.ReminderName)
			before := s.store.row(key("a")).Version
			runs = 0
			wantCondition(t, s.fire(t.Context(), f), actor.ErrFiringTaken)
			if after := s.store.row(key("a")).Version; runs != 1 || after != before {
				t.Errorf("%s: ran %d times, and the actor is at version %d, was at %d", placement, runs, after, before)
			}
		})
	}
}

// The turn of a firing that was not looked up sees its reminder as it goes on; if it has
// changed, the guest ends, since the turn cannot be committed.
func TestFreshFiringSeesItsReminder(t *testing.T) {
	both(t, func(t *testing.T, placement string) {
		s, rems := remind(t, host.Config{})
		g := newGate()
		var next actor.ReminderProgress
		s.world.Deploy("app", "T", hosttest.Actor{Placement: placement, Methods: map[string]hosttest.Func{
			"Look": func(t *hosttest.Turn) error {
				if t.Frame.Attempt > 1 {
					g.entered <- struct{}{}
					<-g.leave
				}
				for range 2 {
					r, code, err := t.Calls.ReminderGet([]byte("n"))
					if err != nil {
						t.End(err)
					}
					if code != 0 || r.DueUnixNano != next.Due.UnixNano() {
						return fmt.Errorf("code %d, %+v", code, r)
					}
				}
				return nil
			},
		}})
		place := func() *actor.Firing {
			f := rems.place(t, "a", "Look")
			next = rems.reminders[f.Step.ReminderName].ReminderProgress
			next.Due = next.Due.Add(time.Hour)
			f.Step.Then, f.Fresh = &next, true
			return f
		}
		if err := s.fire(t.Context(), place()); err != nil || rems.looks != 1 {
			t.Errorf("%v, looked up %d times", err, rems.looks)
		}
		f := place()
		f.Attempt = 2
		fired := make(chan error, 1)
		go func() { fired <- s.fire(t.Context(), f) }()
		<-g.entered
		rems.change(f.Step.ReminderName)
		close(g.leave)
		wantCondition(t, <-fired, actor.ErrFiringTaken)
	})
}

// A turn that sets reminders and fails gives their tokens back, also those that were set again
// under one name; one that is committed gives none back.
func TestFailedTurnGivesItsTokensBack(t *testing.T) {
	for _, placement := range []string{abi.PlacementRing, abi.PlacementAny} {
		synctest.Test(t, func(t *testing.T) {
			s, rems := remind(t, host.Config{})
			s.world.Deploy("app", "T", hosttest.Actor{Placement: placement, Methods: map[string]hosttest.Func{
				"Add": add, "Set": set("n", "Add"), "Fail": func(t *hosttest.Turn) error {
					for _, name := range []string{"a", "b", "a"} {
						if err := set(name, "Add")(t); err != nil {
							return err
						}
					}
					return errors.New("on purpose")
				},
			}})
			key := actor.Key{App: "app", Type: "T", ID: "a"}
			if _, err := s.Invoke(t.Context(), actor.Invocation{Key: key, Method: "Set"}); err != nil {
				t.Fatal(err)
			}
			if n := rems.unused.Load(); n != 0 {
				t.Errorf("%d tokens of a turn that was committed were given back", n)
			}
			if _, err := s.Invoke(t.Context(), actor.Invocation{Key: key, Method: "Fail"}); err == nil {
				t.Fatal("it did not fail")
			}
			synctest.Wait()
			if n := rems.unused.Load(); n != 3 || len(rems.reminders) != 1 {
				t.Errorf("%d tokens of 3 were given back; %d reminders are set", n, len(rems.reminders))
			}
		})
	}
}

// The tokens of a turn whose state is too large are given back, since nothing of it is committed.
func TestRefusedStateGivesItsTokensBack(t *testing.T) {
	for _, placement := range []string{abi.PlacementRing, abi.PlacementAny} {
		synctest.Test(t, func(t *testing.T) {
			s, rems := remind(t, host.Config{Limits: host.Limits{StateBytes: 1 << 10}})
			s.world.Deploy("app", "T", hosttest.Actor{Placement: placement, Methods: map[string]hosttest.Func{"Large": func(t *hosttest.Turn) error {
				if err := set("n", "Large")(t); err != nil {
					return err
				}
				return t.Set("k", string(make([]byte, 2<<10)))
			}}})
			_, err := s.Invoke(t.Context(), actor.Invocation{Key: actor.Key{App: "app", Type: "T", ID: "a"}, Method: "Large"})
			var large *actor.StateTooLargeError
			if !errors.As(err, &large) {
				t.Fatalf("got %v", err)
			}
			synctest.Wait()
			if set, unused := rems.tokens.Load(), rems.unused.Load(); unused != int64(set) || set == 0 {
				t.Errorf("%s: of %d tokens %d were given back", placement, set, unused)
			}
		})
	}
}

// Whatever becomes of a commit, the tokens of a run that is known not to be committed are given
// back, and only those: of a run that the store had run again, of a commit that was lost and
// settled, of one that was refused. Of a commit that nobody knows the outcome of none are.
func TestTokensOfCommitsThatDidNotHappenAreGivenBack(t *testing.T) {
	for name, tc := range map[string]struct {
		placement string
		op        string
		faults    []string
		set       int64
		unused    int64
		fails     bool
	}{
		"locked, run again":         {abi.PlacementAny, "locked", []string{"serialization"}, 2, 1, false},
		"locked, refused":           {abi.PlacementAny, "commit", []string{"unavailable"}, 1, 1, true},
		"locked, lost and settled":  {abi.PlacementAny, "commit", []string{"lost"}, 2, 1, false},
		"warm, lost and settled":    {abi.PlacementRing, "commit", []string{"lost"}, 2, 1, false},
		"locked, applied unnoticed": {abi.PlacementAny, "commit", []string{"applied"}, 1, 0, false},
		"warm, applied unnoticed":   {abi.PlacementRing, "commit", []string{"applied"}, 1, 0, false},
		"locked, never known":       {abi.PlacementAny, "commit", []string{"overtaken"}, 1, 0, true},
		"warm, never known":         {abi.PlacementRing, "commit", []string{"overtaken"}, 1, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, rems := remind(t, host.Config{})
				s.world.Deploy("app", "T", hosttest.Actor{Placement: tc.placement, Methods: map[string]hosttest.Func{"Add": add, "Set": set("n", "Add")}})
				s.store.plan(tc.op, tc.faults...)
				_, err := s.Invoke(t.Context(), actor.Invocation{Key: actor.Key{App: "app", Type: "T", ID: "a"}, Method: "Set"})
				if (err != nil) != tc.fails {
					t.Fatalf("got %v", err)
				}
				synctest.Wait()
				if set, unused := int64(rems.tokens.Load()), rems.unused.Load(); set != tc.set || unused != tc.unused {
					t.Errorf("of %d tokens %d were given back, want %d of %d", set, unused, tc.unused, tc.set)
				}
			})
		})
	}
}

// A commit that another writer came before is refused, and the turn runs again: the tokens of the
// first run are given back, those of the second are not.
func TestRefusedCommitGivesItsTokensBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, rems := remind(t, host.Config{})
		s.world.Deploy("app", "T", hosttest.Actor{Methods: map[string]hosttest.Func{"Add": add, "Set": set("n", "Add")}})
		key := actor.Key{App: "app", Type: "T", ID: "a"}
		if _, err := s.Invoke(t.Context(), actor.Invocation{Key: key, Method: "Add"}); err != nil {
			t.Fatal(err)
		}
		s.store.write(key, func(*actor.Row) {})
		if _, err := s.Invoke(t.Context(), actor.Invocation{Key: key, Method: "Set"}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if set, unused := rems.tokens.Load(), rems.unused.Load(); set != 2 || unused != 1 {
			t.Errorf("of %d tokens %d were given back, want 1 of 2", set, unused)
		}
	})
}

// NewestEvent returns the position of the last event that a commit has published.
func (f *fakeReminders) NewestEvent(_ context.Context, key actor.Key) (actor.EventPosition, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.newest[key], f.eventsFail
}
