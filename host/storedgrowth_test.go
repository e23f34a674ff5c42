package host_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/hosttest"
)

// TestWhatTurnsStoreIsCounted: what an app stores grows and shrinks by what its turns do, beside what was counted: actors and
// their states, spawned ones, reminders that are set, cancelled and fired, and messages that are sent and consumed.
func TestWhatTurnsStoreIsCounted(t *testing.T) {
	for _, placement := range []string{abi.PlacementRing, abi.PlacementAny} {
		t.Run(placement, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				book := &rulebook{}
				s, rems := remind(t, host.Config{Rules: book, Counter: fullApp{}})
				pad := func(value string) hosttest.Func {
					return func(t *hosttest.Turn) error { return t.Set("pad", value) }
				}
				s.world.Deploy("app", "T", hosttest.Actor{
					Placement: placement,
					Methods: map[string]hosttest.Func{
						"Short": pad("1"), "Other": pad("2"), "Long": pad("123456789"), "Take": add, "Nothing": func(*hosttest.Turn) error { return nil },
						"Fail": func(t *hosttest.Turn) error { return errors.Join(sends("x")(t), hosttest.Fail("no")) },
						"Set":  set("n", "Take"), "Send": sends("1", "2", "3"),
						"Cancel": func(t *hosttest.Turn) error {
							t.Calls.ReminderCancel([]byte("n"))
							return nil
						},
						"Spawn": func(t *hosttest.Turn) error {
							_, err := t.Spawn("T")
							return err
						},
						"PassAway": func(t *hosttest.Turn) error { return errors.Join(t.Set("pad", "123456789"), t.PassAway()) },
					},
				})
				s.world.Deploy("app", "S", hosttest.Actor{Placement: abi.PlacementStateless, Methods: map[string]hosttest.Func{"Send": sends("1", "2")}})
				book.rule(t, s, actor.Rules{Stored: map[actor.Quota]int64{actor.QuotaActors: 1e9, actor.QuotaBytes: 1e12, actor.QuotaReminders: 1e9, actor.QuotaMessages: 1e9}})
				call := func(id, method string) func() error {
					return func() error {
						_, err := s.call(t.Context(), id, method)
						return err
					}
				}
				if err := call("first", "Short")(); err != nil { // which has the app counted
					t.Fatal(err)
				}
				synctest.Wait()
				fire := func(then *actor.ReminderProgress, m bool) func() error {
					return func() error {
						f := rems.place(t, "a", "Nothing")
						if f.Step.Then = then; m {
							f.Message = &actor.Message{}
						}
						return s.fire(t.Context(), f)
					}
				}
				short, long := int64(len(s.store.row(key("first")).State.Data)), int64(len("12345678"))
				for _, c := range []struct {
					what string
					do   func() error
					want actor.Stored
				}{
					{"a new actor", call("a", "Short"), actor.Stored{Actors: 1, Bytes: short}},
					{"a state as large", call("a", "Other"), actor.Stored{}},
					{"a larger state", call("a", "Long"), actor.Stored{Bytes: long}},
					{"a smaller state", call("a", "Short"), actor.Stored{Bytes: -long}},
					{"nothing", call("a", "Nothing"), actor.Stored{}},
					{"a turn that fails", func() error {
						var guest *actor.GuestError
						if err := call("a", "Fail")(); !errors.As(err, &guest) {
							return errors.New("it did not fail")
						}
						return nil
					}, actor.Stored{}},
					{"a reminder that is set", call("a", "Set"), actor.Stored{Reminders: 1}},
					{"a reminder that is cancelled", call("a", "Cancel"), actor.Stored{Reminders: -1}},
					{"messages", call("a", "Send"), actor.Stored{Messages: 3}},
					{"messages of a stateless type", func() error {
						_, err := s.Invoke(t.Context(), actor.Invocation{Key: actor.Key{App: "app", Type: "S", ID: "s"}, Method: "Send"})
						return err
					}, actor.Stored{Messages: 2}},
					{"an actor that is spawned", call("a", "Spawn"), actor.Stored{Actors: 1}},
					{"an actor that passes away at once", call("b", "PassAway"), actor.Stored{}},
					{"the last firing of a reminder", fire(nil, false), actor.Stored{Reminders: -1}},
					{"a firing of a reminder that goes on", fire(&actor.ReminderProgress{Due: time.Now().Add(time.Hour), FireAt: time.Now().Add(time.Hour)}, false), actor.Stored{}},
					{"a message that is consumed", fire(nil, true), actor.Stored{Messages: -1}},
				} {
					before, known := host.QuotasOf(s.Host).Stored("app")
					if err := c.do(); err != nil || !known {
						t.Errorf("%s: %v", c.what, err)
					}
					synctest.Wait()
					got, _ := host.QuotasOf(s.Host).Stored("app")
					if got.Add(before, -1); got != c.want {
						t.Errorf("%s: it grows by %+v, want %+v", c.what, got, c.want)
					}
				}
			})
		})
	}
}
