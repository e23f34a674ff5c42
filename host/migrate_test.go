package host_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/hosttest"
)

// migrating is a stage with an actor whose state was written under schema 0, and whose type
// has schema 1 since.
type migrating struct {
	*stage
	runs atomic.Int32 // of the hook
	gate chan struct{}
}

func newMigrating(t *testing.T, placement string, hook hosttest.Func) *migrating {
	t.Helper()
	m := &migrating{stage: newStage(t, host.Config{Limits: host.Limits{StateBytes: 100}}), gate: make(chan struct{})}
	view := func(t *hosttest.Turn) error {
		value, err := t.Get("now")
		if err != nil {
			return err
		}
		return t.Reply(value)
	}
	old := hosttest.Actor{Placement: placement, ReadOnly: map[string]hosttest.Func{"View": view}, Methods: map[string]hosttest.Func{
		"Set":  func(t *hosttest.Turn) error { return t.Set("before", "x") },
		"Hang": func(t *hosttest.Turn) error { <-m.gate; return t.Reply("hung") },
	}}
	m.world.Deploy("app", "T", old)
	if _, err := m.call(t.Context(), "a", "Set"); err != nil {
		t.Fatal(err)
	}
	next := old
	next.StateSchema = 1
	next.Migrate = func(t *hosttest.Turn) error {
		m.runs.Add(1)
		return hook(t)
	}
	m.world.Deploy("app", "T", next)
	return m
}

// migrate is a hook.
func migrate(t *hosttest.Turn) error {
	value, err := t.Get("before")
	if err != nil {
		return err
	}
	return t.Set("now", value+value)
}

func (m *migrating) schema() uint32 { return m.store.row(key("a")).StateSchema }

// read calls View and wants a reply of it, and so many runs of the hook by then.
func (m *migrating) read(t *testing.T, runs int32) {
	t.Helper()
	if reply, err := m.call(t.Context(), "a", "View"); reply != "xx" || err != nil {
		t.Errorf("%q %v", reply, err)
	}
	if n := m.runs.Load(); n != runs {
		t.Errorf("the hook ran %d times, want %d", n, runs)
	}
}

// TestReadsMigrateOnce: the first read of a state of an older schema has it migrated and
// written, once however many read it.
func TestReadsMigrateOnce(t *testing.T) {
	for _, placement := range []string{abi.PlacementRing, abi.PlacementSticky} {
		t.Run(placement, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				gate := make(chan struct{})
				m := newMigrating(t, placement, func(t *hosttest.Turn) error { <-gate; return migrate(t) })
				before := m.store.row(key("a")).Version
				var readers []<-chan answer
				for range 8 {
					readers = append(readers, m.start(t.Context(), "a", "View"))
				}
				synctest.Wait()
				close(gate)
				for _, r := range readers {
					if got := <-r; got.reply != "xx" || got.err != nil {
						t.Errorf("%+v", got)
					}
				}
				m.read(t, 1)
				if row := m.store.row(key("a")); row.StateSchema != 1 || row.Version != before+1 {
					t.Errorf("%+v", row)
				}
			})
		})
	}
}

// TestReadsThatMigrateForThemselves: where a read cannot have the migrated state written,
// or would have to wait, it is answered all the same.
func TestReadsThatMigrateForThemselves(t *testing.T) {
	for name, tc := range map[string]struct {
		placement string
		hook      hosttest.Func
		before    func(t *testing.T, m *migrating)
		runs      [2]int32 // of the hook after the first read and after the second
		schema    uint32
	}{
		"an any type": {placement: abi.PlacementAny, runs: [2]int32{1, 2}},
		"a turn runs": {before: func(t *testing.T, m *migrating) {
			m.start(t.Context(), "b", "Set")
			hung := m.start(t.Context(), "a", "Hang")
			t.Cleanup(func() { close(m.gate); <-hung })
			synctest.Wait()
		}, runs: [2]int32{2, 3}}, // that of the turn among them
		"the state is too large": {hook: func(t *hosttest.Turn) error {
			return errors.Join(migrate(t), t.Set("large", strings.Repeat("x", 200)))
		}, runs: [2]int32{2, 4}},
		"the store does not answer": {before: func(_ *testing.T, m *migrating) { m.store.plan("commit", "unavailable") }, runs: [2]int32{2, 3}, schema: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if tc.hook == nil {
					tc.hook = migrate
				}
				m := newMigrating(t, tc.placement, tc.hook)
				if tc.before != nil {
					tc.before(t, m)
				}
				m.read(t, tc.runs[0])
				m.read(t, tc.runs[1])
				if got := m.schema(); got != tc.schema {
					t.Errorf("schema %d, want %d", got, tc.schema)
				}
			})
		})
	}
}

// TestFailedMigrationOfARead: the error of the hook is the read's, and nothing is written.
func TestFailedMigrationOfARead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMigrating(t, abi.PlacementRing, func(t *hosttest.Turn) error {
			return errors.Join(migrate(t), &actor.GuestError{Status: 9, Code: "odd_state", Message: "no"})
		})
		for runs := range int32(2) {
			_, err := m.call(t.Context(), "a", "View")
			var guest *actor.GuestError
			var turn *actor.TurnError
			if !errors.As(err, &guest) || guest.Code != "odd_state" || !errors.As(err, &turn) || turn.Method != "View" {
				t.Errorf("%v", err)
			}
			if m.runs.Load() != runs+1 || m.schema() != 0 {
				t.Errorf("%d runs, schema %d", m.runs.Load(), m.schema())
			}
		}
	})
}

// TestGivenUpMigrationOfARead: a read whose caller goes away, or whose time is up, leaves
// the migration to the next one.
func TestGivenUpMigrationOfARead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var first atomic.Bool
		m := newMigrating(t, abi.PlacementRing, func(t *hosttest.Turn) error {
			if !first.Swap(true) {
				<-t.Context.Done()
				return t.Context.Err()
			}
			return migrate(t)
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		impatient := m.start(ctx, "a", "View")
		synctest.Wait()
		patient := m.start(t.Context(), "a", "View")
		wantCondition(t, (<-impatient).err, actor.ErrDeadline)
		if got := <-patient; got.reply != "xx" || got.err != nil {
			t.Errorf("%+v", got)
		}
		m.read(t, 2)
		if m.schema() != 1 {
			t.Error("the state was not written")
		}
	})
}

// TestMigrationThatAnotherHostHasDone: the migration for a read is refused when it commits, and finds the
// state migrated when it begins anew: then there is nothing to do.
func TestMigrationThatAnotherHostHasDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m *migrating
		m = newMigrating(t, abi.PlacementRing, func(t *hosttest.Turn) error {
			m.store.write(key("a"), func(row *actor.Row) {
				row.Generation, row.StateSchema, row.State = 2, 1, actor.EncodedState{Format: actor.FormatJSON, Data: []byte(`{"now":7}`)}
			})
			return migrate(t)
		})
		for range 2 {
			if reply, err := m.call(t.Context(), "a", "View"); reply != "7" || err != nil || m.runs.Load() != 1 {
				t.Errorf("%q, %v after %d runs", reply, err, m.runs.Load())
			}
		}
	})
}

// TestReaderMigratesForItself: a host that answers from copies commits nothing.
func TestReaderMigratesForItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newReader(t, host.Config{})
		runs := 0
		next := o.actor(shared)
		next.StateSchema, next.Migrate = 1, func(t *hosttest.Turn) error { runs++; return t.SetNumber("n", 7) }
		o.store.write(key("a"), setTo(5))
		o.world.Deploy("app", "T", next)
		before := o.store.row(key("a")).Version
		o.must(t, "a", "View", "7")
		o.must(t, "a", "View", "7")
		if runs != 2 || o.store.row(key("a")).Version != before {
			t.Errorf("%d runs, %+v", runs, o.store.row(key("a")))
		}
	})
}

// TestMigrationsHaveNoEffects: a migration changes state, and neither publishes nor sends.
func TestMigrationsHaveNoEffects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMigrating(t, abi.PlacementRing, func(t *hosttest.Turn) error {
			sent, err := t.Calls.Send(&abi.Message{Type: "T", ID: "b", Method: "Set"})
			if published := t.Calls.Publish("n", "", nil); err != nil || sent != abi.CodeReadOnly || published != abi.CodeReadOnly {
				return fmt.Errorf("sending has the code %d (%v), publishing %d", sent, err, published)
			}
			return migrate(t)
		})
		if _, err := m.call(t.Context(), "a", "Set"); err != nil {
			t.Error(err)
		}
		m.read(t, 1)
	})
}
