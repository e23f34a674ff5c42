package host_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/hosttest"
)

// door is an owned stage with the type Door, whose calls of Enter wait while it is closed.
func door(t *testing.T) *owned {
	o := newOwned(t, abi.PlacementRing, actor.HeldClean, host.Config{Limits: host.Limits{TurnDeadline: 20 * time.Second, Mailbox: 3, IdleTimeout: time.Second}, SweepEvery: time.Second})
	o.world.Deploy("app", "T", doorActor())
	return o
}

func doorActor() hosttest.Actor {
	become := func(set string) hosttest.Func { return func(t *hosttest.Turn) error { return t.Become(set) } }
	number := func(n int64) hosttest.Func {
		return func(t *hosttest.Turn) error {
			was, err := t.Number("n")
			return errors.Join(err, t.SetNumber("n", 10*was+n), t.ReplyNumber(10*was+n))
		}
	}
	return hosttest.Actor{
		Methods: map[string]hosttest.Func{
			"Enter": number(1), "Pass": number(2), "Knock": number(3), "Open": become("open"), "Close": become("closed"), "Free": become(""),
			"Visit": func(t *hosttest.Turn) error {
				_, err := t.Call("T", "a", "Enter", "")
				return err
			},
		},
		ReadOnly: map[string]hosttest.Func{"Look": view},
		Life:     hosttest.Life{Sets: map[string][]string{"Enter": {"open"}, "Pass": {"open"}, "Close": {"open", "closed"}, "Look": {"open"}}, WaitsOutside: true},
	}
}

// TestCallsOutsideASetWait: they run, in their order and before later ones, once a turn has chosen a set
// that has their method; calls of other methods pass them, and nothing throws the actor out meanwhile.
func TestCallsOutsideASetWait(t *testing.T) {
	for _, fault := range []string{"", "lost"} {
		t.Run(fault, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := door(t)
				o.must(t, "a", "Close", "")
				first := o.start(t.Context(), "a", "Enter")
				synctest.Wait()
				second := o.start(t.Context(), "a", "Pass")
				synctest.Wait()
				o.must(t, "a", "Knock", "3")
				time.Sleep(10 * time.Second) // longer than an actor without work stays
				if fault != "" {
					o.store.plan("commit", fault) // and the turn runs again
				}
				o.must(t, "a", "Open", "")
				if got := <-first; got.reply != "31" || got.err != nil {
					t.Errorf("the first gets %+v", got)
				}
				if got := <-second; got.reply != "312" || got.err != nil {
					t.Errorf("the second gets %+v", got)
				}
				o.must(t, "a", "Enter", "3121")
				o.must(t, "a", "Close", "")
				again := o.start(t.Context(), "a", "Enter")
				synctest.Wait()
				o.must(t, "a", "Free", "") // accepts all
				if got := <-again; got.reply != "31211" || got.err != nil {
					t.Errorf("without a set: %+v", got)
				}
			})
		})
	}
}

// TestCallsOutsideASetEnd: one that waits ends with its time, its caller, the mailbox, the hand-over and
// the host; reads and called turns do not wait.
func TestCallsOutsideASetEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := door(t)
		o.must(t, "a", "Close", "")
		ctx, cancel := context.WithCancel(t.Context())
		began := time.Now()
		canceled, late, more := o.start(ctx, "a", "Enter"), o.start(t.Context(), "a", "Enter"), []<-chan answer{}
		for range 2 {
			more = append(more, o.start(t.Context(), "a", "Enter"))
		}
		synctest.Wait()
		if _, err := o.call(t.Context(), "a", "Enter"); !errors.Is(err, actor.ErrMailboxFull) {
			t.Errorf("one too many: %v", err)
		}
		cancel()
		if got := <-canceled; !errors.Is(got.err, actor.ErrCanceled) {
			t.Errorf("a caller that is gone: %v", got.err)
		}
		for _, method := range []string{"Look", "Visit"} {
			_, err := o.call(t.Context(), map[string]string{"Look": "a", "Visit": "b"}[method], method)
			if fmt.Sprint(err) == "" || err == nil {
				t.Errorf("%s: %v", method, err)
			}
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("something has waited for %s", took)
		}
		for _, c := range append(more, late) {
			if got := <-c; !errors.Is(got.err, actor.ErrNotAccepted) {
				t.Errorf("after its time: %v", got.err)
			}
		}
		if took := time.Since(began); took != 20*time.Second {
			t.Errorf("it waited %s", took)
		}
		moved := o.start(t.Context(), "a", "Enter")
		synctest.Wait()
		o.holdings.Set(nothingHeld)
		if err := o.HandOver(t.Context(), all); err != nil {
			t.Error(err)
		}
		if got := <-moved; !errors.Is(got.err, actor.ErrNotOwner) {
			t.Errorf("of an actor that moves: %v", got.err)
		}
		o.holdings.Set(func(actor.Key) actor.Hold { return actor.HeldClean })
		stopped := o.start(t.Context(), "a", "Enter")
		synctest.Wait()
		if err := o.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		if got := <-stopped; !errors.Is(got.err, actor.ErrStopping) {
			t.Errorf("at a host that stops: %v", got.err)
		}
	})
}

// TestMessageOutsideASetWaits: it uses up no attempt, as what is delivered again because of the server.
func TestMessageOutsideASetWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, rems := remind(t, host.Config{})
		s.world.Deploy("app", "T", doorActor())
		s.mustCall(t, "a", "Close", "")
		m := sent(t, rems, "Enter")
		if err := s.fire(t.Context(), m); !errors.Is(err, actor.ErrNotAcceptedYet) || !actor.AsCondition(err).Retryable() {
			t.Errorf("outside the set: %v", err)
		}
		s.mustCall(t, "a", "Open", "")
		if err := s.fire(t.Context(), m); err != nil {
			t.Error(err)
		}
		s.mustCall(t, "a", "Enter", "11")
	})
}

// TestMessagesThatMayBeAccepted: the host reports the messages that it has refused once the actor has
// another method set, or its life is over, for good: each once, however often it was refused, and not
// those of a turn that fails or is run again.
func TestMessagesThatMayBeAccepted(t *testing.T) {
	for _, fault := range []string{"", "lost"} {
		for _, end := range []string{"Open", "Free", "Die"} {
			synctest.Test(t, func(t *testing.T) {
				s, rems := remind(t, host.Config{})
				door := doorActor()
				door.Methods["Die"] = func(t *hosttest.Turn) error { return t.PassAway() }
				door.Methods["Fail"] = func(t *hosttest.Turn) error { return errors.Join(t.Become("open"), hosttest.Fail("on_purpose")) }
				s.world.Deploy("app", "T", door)
				s.mustCall(t, "a", "Close", "")
				reported := func(want ...actor.ReminderID) {
					t.Helper()
					synctest.Wait()
					rems.mu.Lock()
					defer rems.mu.Unlock()
					if !slices.Equal(rems.accepted, want) {
						t.Errorf("%s, %s: reported %v, want %v", end, fault, rems.accepted, want)
					}
					rems.accepted = nil
				}
				first, second := sent(t, rems, "Enter"), sent(t, rems, "Pass")
				for _, m := range []*actor.Firing{first, second, first} {
					if err := s.fire(t.Context(), m); !errors.Is(err, actor.ErrNotAcceptedYet) {
						t.Errorf("outside the set: %v", err)
					}
				}
				s.mustCall(t, "a", "Knock", "3")
				if _, err := s.call(t.Context(), "a", "Fail"); codeOf(err) != "on_purpose" {
					t.Error(err)
				}
				reported()
				if fault != "" {
					s.store.plan("commit", fault)
				}
				s.mustCall(t, "a", end, "")
				reported(first.Reminder, second.Reminder)
				s.mustCall(t, "a", "Free", "")
				reported()
			})
		}
	}
}

// TestMessagesStayOutsideASet: the host reports nothing while the actor chooses the set anew in which the
// messages wait, as actors do in each turn, also if it had another one meanwhile that it did not keep.
func TestMessagesStayOutsideASet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, rems := remind(t, host.Config{})
		door := doorActor()
		door.Methods["Lock"] = func(t *hosttest.Turn) error { return t.Become("locked") }
		door.Life.Sets["Unlock"] = []string{"locked"}
		door.Methods["Unlock"] = func(t *hosttest.Turn) error { return t.Become("closed") }
		door.Methods["Slam"] = func(t *hosttest.Turn) error { return errors.Join(t.Become("open"), t.Become("closed")) }
		s.world.Deploy("app", "T", door)
		s.mustCall(t, "a", "Close", "")
		refuse := func(m *actor.Firing) {
			t.Helper()
			if err := s.fire(t.Context(), m); !errors.Is(err, actor.ErrNotAcceptedYet) {
				t.Errorf("outside the set: %v", err)
			}
		}
		reported := func(after string, want ...actor.ReminderID) {
			t.Helper()
			synctest.Wait()
			rems.mu.Lock()
			defer rems.mu.Unlock()
			if !slices.Equal(rems.accepted, want) {
				t.Errorf("after %s: reported %v, want %v", after, rems.accepted, want)
			}
			rems.accepted = nil
		}
		first, second := sent(t, rems, "Enter"), sent(t, rems, "Pass")
		refuse(first)
		s.mustCall(t, "a", "Close", "")
		s.mustCall(t, "a", "Slam", "")
		refuse(second)
		s.mustCall(t, "a", "Close", "")
		reported("the same set")
		s.mustCall(t, "a", "Lock", "")
		reported("another set", first.Reminder, second.Reminder)
		refuse(first)
		s.mustCall(t, "a", "Lock", "")
		reported("the same set again")
		s.mustCall(t, "a", "Unlock", "")
		reported("the first set", first.Reminder)
	})
}

// TestMessagesThatMayBeAcceptedAreBounded: of an actor that refuses many, the host reports as many as it
// remembers; others are delivered again after their wait.
func TestMessagesThatMayBeAcceptedAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, rems := remind(t, host.Config{})
		s.world.Deploy("app", "T", doorActor())
		s.mustCall(t, "a", "Close", "")
		for range 100 {
			if err := s.fire(t.Context(), sent(t, rems, "Enter")); !errors.Is(err, actor.ErrNotAcceptedYet) {
				t.Fatal(err)
			}
		}
		s.mustCall(t, "a", "Open", "")
		synctest.Wait()
		if n := len(rems.accepted); n != 64 {
			t.Errorf("%d messages were reported, want 64", n)
		}
	})
}
