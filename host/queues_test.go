package host_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/hosttest"
)

// wantCancelled checks what CancelQueued has cancelled.
func wantCancelled(t *testing.T, s *stage, of actor.Key, want host.Cancelled) {
	t.Helper()
	got := host.QueuesOf(s.Host).CancelQueued(of)
	if got.Calls != want.Calls || got.Tells != want.Tells || !slices.Equal(got.Begun, want.Begun) {
		t.Errorf("of %s %q %+v were cancelled, want %+v", of.Type, of.ID, got, want)
	}
}

// TestCancelQueued: calls that wait for an actor, or for all of a type, are refused; turns that run, and
// calls of others, go on, and so do calls that come afterwards.
func TestCancelQueued(t *testing.T) {
	for _, placement := range []string{abi.PlacementRing, abi.PlacementSticky, abi.PlacementAny} {
		t.Run(placement, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t, host.Config{})
				g := newGate()
				of := hosttest.Actor{Placement: placement, Methods: map[string]hosttest.Func{"Gate": g.addAfter, "Add": add}}
				s.world.Deploy("app", "T", of)
				s.world.Deploy("app", "U", hosttest.Actor{Methods: map[string]hosttest.Func{"CallA": func(turn *hosttest.Turn) error {
					_, err := turn.Call("T", "a", "Add", "")
					return err
				}}})
				wait := func(ids ...string) (running, waiting []<-chan answer) {
					for _, id := range ids {
						running = append(running, s.start(t.Context(), id, "Gate"))
						<-g.entered
						for range 3 {
							waiting = append(waiting, s.start(t.Context(), id, "Add"))
						}
					}
					synctest.Wait()
					return running, waiting
				}
				cancelled := func(calls []<-chan answer) {
					t.Helper()
					for _, c := range calls {
						wantCondition(t, (<-c).err, actor.ErrCallCancelled)
					}
				}
				running, waiting := wait("a", "b")
				called := make(chan error, 1)
				go func() {
					_, err := s.Invoke(t.Context(), actor.Invocation{Key: actor.Key{App: "app", Type: "U", ID: "u"}, Method: "CallA"})
					called <- err
				}()
				synctest.Wait()
				wantCancelled(t, s, actor.Key{App: "other", Type: "T"}, host.Cancelled{})
				wantCancelled(t, s, actor.Key{App: "app", Type: "T", ID: "nobody"}, host.Cancelled{})
				wantCancelled(t, s, key("a"), host.Cancelled{Calls: 4})
				cancelled(waiting[:3])
				var guest *actor.GuestError
				if err := <-called; !errors.As(err, &guest) || guest.Code != "call_cancelled" {
					t.Errorf("a turn that called: %v", err)
				}
				synctest.Wait()
				for i, c := range append(slices.Clone(waiting[3:]), running...) {
					if len(c) > 0 {
						t.Errorf("call %d has ended: %v", i, (<-c).err)
					}
				}
				wantCancelled(t, s, key(""), host.Cancelled{Calls: 3})
				cancelled(waiting[3:])
				close(g.leave)
				for _, c := range running {
					if a := <-c; a.err != nil || a.reply != "1" {
						t.Errorf("a turn that ran: %+v", a)
					}
				}
				for _, id := range []string{"a", "b"} {
					if n, err := s.call(t.Context(), id, "Add"); err != nil || n != "2" {
						t.Errorf("a call afterwards: %q, %v", n, err)
					}
				}
				wantCancelled(t, s, key(""), host.Cancelled{})
			})
		})
	}
}

// TestCancelPaused: calls that wait for the end of a pause, or for a place, are cancelled, those of
// read-only methods and of stateless types as well.
func TestCancelPaused(t *testing.T) {
	eachPlacement(t, func(t *testing.T, placement string) {
		book := &rulebook{}
		s := newStage(t, host.Config{Rules: book})
		s.world.Deploy("app", "T", hosttest.Actor{
			Placement: placement, Methods: map[string]hosttest.Func{"Nothing": func(*hosttest.Turn) error { return nil }},
			ReadOnly: map[string]hosttest.Func{"View": func(*hosttest.Turn) error { return nil }},
		})
		book.rule(t, s, paused(false))
		var calls []<-chan answer
		for _, id := range []string{"a", "a", "b"} {
			calls = append(calls, s.start(t.Context(), id, "Nothing"), s.start(t.Context(), id, "View"))
		}
		synctest.Wait()
		began := time.Now()
		wantCancelled(t, s, key(""), host.Cancelled{Calls: 6})
		for _, c := range calls {
			wantCondition(t, (<-c).err, actor.ErrCallCancelled)
		}
		if waited := time.Since(began); waited > 0 {
			t.Errorf("they ended after %v", waited)
		}
		last := s.start(t.Context(), "a", "Nothing")
		synctest.Wait()
		book.rule(t, s, actor.Rules{})
		if a := <-last; a.err != nil {
			t.Errorf("a call that came later: %v", a.err)
		}
	})
}

// TestCancelMessages: volatile messages that wait come back to their senders, durable ones are given
// back to who delivers them, firings of reminders stay, and those that run are named.
func TestCancelMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := remind(t, host.Config{})
		g := newGate()
		var h heard
		s.world.Deploy("app", "T", hosttest.Actor{Methods: map[string]hosttest.Func{
			"Gate": g.wait, "Hear": add, "Back": h.method,
			"Tell": tellsOf(abi.Message{Type: "T", ID: "b", Method: "Hear", Payload: []byte("1"), Undelivered: "Back"}, toB("2")),
		}})
		fire := func(method string, token uint32, m *actor.Message) <-chan error {
			end := make(chan error, 1)
			id := actor.ReminderID{Prefix: 1, Token: token, Vector: actor.Vector{'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'}}
			f := &actor.Firing{Reminder: id, Key: key("b"), Name: "n", Method: method, Message: m, Fresh: true, Step: actor.ReminderStep{ReminderName: actor.ReminderName{Key: key("b"), Name: "n"}, ID: id, Version: 1}}
			go func() {
				_, err := s.Invoke(t.Context(), actor.Invocation{Key: key("b"), Method: method, Firing: f})
				end <- err
			}()
			synctest.Wait()
			return end
		}
		runs := fire("Gate", 1, &actor.Message{})
		<-g.entered
		if _, err := s.call(t.Context(), "a", "Tell"); err != nil {
			t.Fatal(err)
		}
		message, reminder := fire("Hear", 2, &actor.Message{}), fire("Hear", 3, nil)
		begun := actor.ReminderID{Prefix: 1, Token: 1, Vector: actor.Vector{'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'}}
		wantCancelled(t, s, key("b"), host.Cancelled{Tells: 2, Begun: []actor.ReminderID{begun}})
		if err := <-message; !actor.AsCondition(err).Retryable() {
			t.Errorf("a message that waited: %v", err)
		}
		h.want(t, "T/b: 1 by the cause 6 call_cancelled")
		if len(reminder)+len(runs) > 0 {
			t.Error("a reminder's firing, or the turn that runs, was cancelled")
		}
		close(g.leave)
		<-runs
		<-reminder
	})
}
