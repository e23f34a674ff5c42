package storetest

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// Damage is a store whose data a test can damage. A nil function is a damage
// that the engine itself excludes; its tests are skipped.
type Damage struct {
	Open func(t *testing.T) store.Store
	// State damages the stored state of an actor, but not its version.
	State func(t *testing.T, s store.Store, k actor.Key)
	// Row damages the version of an actor, too.
	Row func(t *testing.T, s store.Store, k actor.Key)
	// Record damages a recorded call.
	Record func(t *testing.T, s store.Store, c actor.KeyedCall)
	// Module damages a byte of a stored module.
	Module func(t *testing.T, s store.Store, app string, d actor.Digest)
}

// RunDamage checks that damage is reported, is contained, and is never overwritten by a
// writer that does not know of it.
func RunDamage(t *testing.T, d Damage) {
	t.Helper()
	rows := func(name string, hurt func(t *testing.T, s store.Store, k actor.Key), versionKept bool) {
		t.Run(name, func(t *testing.T) {
			if hurt == nil {
				t.Skip("not possible with this engine")
			}
			damagedRow(t, d.Open(t), hurt, versionKept)
		})
	}
	rows("a damaged state", d.State, true)
	rows("a damaged row", d.Row, false)
	t.Run("a damaged record", func(t *testing.T) {
		if d.Record == nil {
			t.Skip("not possible with this engine")
		}
		f := newFixture(t, d.Open(t), "damage")
		row := f.apply(recording(write(f.key("a"), actor.Row{}, `{}`), record("k", "x"), record("l", "y")))
		call := func(key string) actor.KeyedCall { return actor.KeyedCall{Actor: f.key("a"), Method: "Add", Key: key} }
		d.Record(t, f.s, call("k"))
		found, err := f.s.LoadIdempotency(f.ctx(), []actor.KeyedCall{call("k"), call("l"), call("m")})
		f.ok(err)
		f.is(found[0].Err, actor.ErrStateDamaged)
		if found[0].Found || found[1].Err != nil || string(found[1].Record.Reply.Data) != "y" || found[2].Found || found[2].Err != nil {
			f.Fatalf("beside a damaged record: %+v", found)
		}
		f.refuse(recording(write(f.key("a"), row, `{}`), record("k", "z")), actor.ErrKeyExists)
	})
	t.Run("a damaged module", func(t *testing.T) {
		if d.Module == nil {
			t.Skip("not possible with this engine")
		}
		f := newFixture(t, d.Open(t), "damage")
		m, wasm := f.put("x")
		other, otherWasm := f.put("y")
		d.Module(t, f.s, f.app, m.Digest)
		_, err := f.s.ModuleBytes(f.ctx(), f.app, m.Digest)
		f.is(err, actor.ErrModuleDamaged)
		f.hasBytes(other, otherWasm)
		f.ok(f.s.PutModule(f.ctx(), m, bytes.NewReader(wasm), 0))
		f.hasBytes(m, wasm)
	})
	t.Run("a damaged module that serves is put right at the bound", func(t *testing.T) {
		if d.Module == nil {
			t.Skip("not possible with this engine")
		}
		f := newFixture(t, d.Open(t), "damagebound")
		m, wasm := f.putSized("serves", 60<<10)
		other, _ := f.putSized("serves too", 60<<10)
		f.deploy(f.deployment("Cart", 1, m), f.deployment("Order", 1, other))
		d.Module(t, f.s, f.app, m.Digest)
		f.ok(f.s.PutModule(f.ctx(), m, bytes.NewReader(wasm), 100<<10))
		f.hasBytes(m, wasm)
	})
}

func damagedRow(t *testing.T, s store.Store, hurt func(t *testing.T, s store.Store, k actor.Key), versionKept bool) {
	t.Helper()
	f := newFixture(t, s, "damage")
	k, neighbour := f.key("b"), f.key("c")
	first := f.apply(write(k, actor.Row{}, `{"n":1}`))
	sound := f.apply(write(k, first, `{"n":2}`))
	next := f.apply(write(neighbour, actor.Row{}, `{"n":3}`))
	hurt(t, s, k)

	damage := f.damaged(k)
	if versionKept && damage.Version != sound.Version {
		f.Fatalf("the damaged row has version %d, want %d", damage.Version, sound.Version)
	}
	if damage.Version == 0 {
		f.Fatal("the damaged row cannot be addressed")
	}
	rows, err := s.LoadActors(f.ctx(), []actor.Key{neighbour, k, f.key("nobody")}, actor.LoadOptions{})
	f.is(err, actor.ErrStateDamaged)
	if len(rows) != 3 {
		f.Fatalf("%d rows beside the damaged one", len(rows))
	}
	f.same(rows[0], next)
	f.same(rows[1], actor.Row{})
	infos, _, err := s.ListActors(f.ctx(), store.ActorQuery{App: f.app, Type: "Cart", Limit: 10})
	f.ok(err)
	if len(infos) != 2 || infos[0] != (store.ActorInfo{Key: k, Version: damage.Version, Damaged: true}) || infos[1].Damaged {
		f.Fatalf("the list is %+v", infos)
	}
	scanned, _, _ := f.scanned(store.ActorScan{States: true})
	if len(scanned) != 2 || scanned[0].ActorInfo != infos[0] || scanned[0].State.Data != nil || scanned[1].Damaged {
		f.Fatalf("the scan has %+v", scanned)
	}

	// Nobody overwrites it unknowingly.
	refusals := []actor.Commit{
		write(k, actor.Row{}, `{}`), remove(k, actor.Row{}),
		write(k, first, `{}`), remove(k, first), write(k, actor.Row{Version: damage.Version + 1}, `{}`),
		touch(k, actor.Row{Version: damage.Version}),
	}
	if !versionKept {
		refusals = append(refusals, write(k, sound, `{}`), remove(k, sound))
	}
	for _, c := range refusals {
		if err := f.commit(c); err == nil {
			f.Fatalf("a commit at version %d overwrote the damaged row", c.Rows[0].ReadVersion)
		} else if !isAny(err, actor.ErrStateDamaged, actor.ErrStale) {
			f.Fatal(err)
		}
		if again := f.damaged(k); again != damage {
			f.Fatalf("the damage was %+v and is %+v", damage, again)
		}
	}
	_, err = s.LockedTurn(f.ctx(), k, func(context.Context, actor.Row) (*actor.Commit, error) {
		f.Error("a turn ran on a damaged row")
		return nil, nil
	})
	f.is(err, actor.ErrStateDamaged)
	unknown := write(k, actor.Row{Version: damage.Version}, `{}`)
	f.is(s.Settle(f.ctx(), unknown), actor.ErrStateDamaged)

	// Who names it may delete it, among others, and the actor starts anew.
	deletion := remove(k, actor.Row{Version: damage.Version})
	errs := s.Commit(f.ctx(), []actor.Commit{deletion, write(neighbour, next, `{"n":4}`)})
	f.ok(errors.Join(errs...))
	tomb := f.load(k)
	if !tomb.Deleted || tomb.Version != deletion.Rows[0].NewVersion {
		f.Fatalf("the damaged row became %s", describe(tomb))
	}
	f.refuse(write(k, sound, `{}`), actor.ErrStale)
	again := write(k, tomb, `{"n":5}`)
	f.wrote(f.apply(again), again, `{"n":5}`)

	// Or replace it, as an owner does that still has the state in memory.
	hurt(t, s, k)
	again = write(k, actor.Row{Version: f.damaged(k).Version}, `{"n":6}`)
	f.wrote(f.apply(again), again, `{"n":6}`)
}
