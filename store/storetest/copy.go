package storetest

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// RunCopy fills the first store and copies it from one to the next: each must export what
// the first did, and the last must go on where the first was. All are empty.
func RunCopy(t *testing.T, stores ...store.Store) {
	t.Helper()
	movable := func(s store.Store) store.Movable {
		t.Helper()
		m, ok := s.(store.Movable)
		if !ok {
			t.Fatalf("the store %s cannot be copied", s.Name())
		}
		return m
	}
	const many = 1200 // more than a part has
	f := newFixture(t, stores[0], "copied")
	check := fill(f)
	f.insertMany(many)
	want := contents(f, movable(stores[0]))
	for i, s := range stores[1:] {
		last := store.CopyCounts{}
		n, err := store.Copy(f.ctx(), movable(stores[i]), movable(s), func(n store.CopyCounts) { last = n })
		f.ok(err)
		if expect := (store.CopyCounts{
			Actors: 4 + many, Tombstones: 2, Modules: 2, Deployments: 5, Settings: 1, Secrets: 1, Records: 2, Reminders: 4, DeadLetters: 1, Buckets: 3, Events: 2,
		}); n != expect || last != n {
			t.Fatalf("copied %+v, and said %+v at last; want %+v", n, last, expect)
		}
		if diff := cmp.Diff(want, contents(f, movable(s)), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("%s has other contents than the first:\n%s", s.Name(), diff)
		}
		_, err = store.Copy(f.ctx(), movable(stores[i]), movable(s), func(store.CopyCounts) {})
		f.is(err, store.ErrNotEmpty)
	}
	f.s = stores[len(stores)-1]
	check()
}

// contents returns all that a store exports, as one part.
func contents(f *fixture, s store.Movable) store.Contents {
	f.Helper()
	var all store.Contents
	f.ok(s.Export(f.ctx(), func(c *store.Contents) error {
		all.Actors = append(all.Actors, c.Actors...)
		all.Modules = append(all.Modules, c.Modules...)
		all.Deployments = append(all.Deployments, c.Deployments...)
		all.Settings = append(all.Settings, c.Settings...)
		all.Services = append(all.Services, c.Services...)
		all.Records = append(all.Records, c.Records...)
		all.Laps = append(all.Laps, c.Laps...)
		all.Buckets = append(all.Buckets, c.Buckets...)
		all.Reminders = append(all.Reminders, c.Reminders...)
		all.DeadLetters = append(all.DeadLetters, c.DeadLetters...)
		all.Events = append(all.Events, c.Events...)
		return nil
	}))
	return all
}

// fill writes something of each kind, and returns a check that a store has it and goes on
// from there.
func fill(f *fixture) (check func()) {
	f.Helper()
	stale := f.apply(write(f.key("live"), actor.Row{}, `{"n":1}`))
	last := write(f.key("live"), stale, `{"n":2}`)
	last.Events = publish(f.key("live"), stale, "plain", "linked").Events
	link := actor.SpanLink{TraceID: [16]byte{1}, SpanID: [8]byte{2}}
	last.Events[1].Link = link
	live := f.apply(recording(last, record("k", "reply"), brief("expired", "x")))
	tomb := f.apply(remove(f.key("tomb"), f.apply(write(f.key("tomb"), actor.Row{}, `{}`))))
	f.apply(claiming(become(write(f.key("spawned"), f.apply(spawn(f.key("spawned"))), `{}`), "open"), "mailer", "printer"))
	f.apply(passAway(f.key("dead"), f.apply(spawn(f.key("dead")))))
	empty := f.apply(touch(f.key("Empty||{}ü"), actor.Row{}))
	binary := touch(f.key("binary"), actor.Row{})
	binary.Rows[0].State = &actor.EncodedState{Format: actor.FormatEnvelope, Data: []byte{0, 1, 0xff}}
	envelope := f.apply(binary)

	module, wasm := f.put("x")
	unused, _ := f.put("unused")
	gone, _ := f.put("gone")
	first, second := f.deployment("Cart", 1, gone), f.deployment("Cart", 2, module)
	second.Message, second.Placement = "a message", "sticky"
	third := f.deployment("Cart", 3, module)
	third.RolledBackFrom = 1
	over, out := f.deployment("Old", 1, module), actor.Deployment{App: f.app, Type: "Old", Generation: 2}
	for _, d := range []actor.Deployment{first, second, third, over, out} {
		f.deploy(d)
	}
	f.ok(f.s.DeleteModule(f.ctx(), f.app, gone.Digest))
	f.set(actor.SettingConfig, "region", "eu")
	f.set(actor.SettingSecret, "key", "\x00encrypted")

	b := f.bucket()
	closed := f.bucket()
	f.ok(f.s.CloseBucket(f.ctx(), closed))
	_, _, err := f.s.AssignBucket(f.ctx(), b, 1, "owner")
	f.ok(err)
	f.ok(f.s.SaveBuckets(f.ctx(), []store.BucketProgress{{Bucket: b, Used: 7, Epoch: 2, Rate: 3, DeliveredTill: f.far()}}))
	other := newFixture(f.T, f.s, "another")
	prefix := other.bucket().Prefix
	full := f.reminder(b, 1, "live", "full")
	full.Payload = actor.Payload{ContentType: "text/plain", Data: []byte("\x00payload")}
	full.Schedule.Every, full.Schedule.Until = time.Hour, f.far()
	full.Schedule.Times, full.Schedule.Jitter, full.Metadata = 9, time.Second, map[string]string{"a": "b"}
	full.Left, full.Failures, full.LastError, full.Link = 8, 2, "it failed", link
	full = f.place(full)
	paused := f.reminder(b, 2, "live", "paused")
	paused.Paused, paused.Schedule.Cron, paused.Schedule.Zone = true, "0 3 * * *", "Europe/Berlin"
	paused = f.place(paused)
	sent := message(f, b, 4, "ann", "inbox", 7, 1)
	sent.Message.Undelivered, sent.Message.Path, sent.Message.Cookie = "Sorry", []actor.Key{f.key("first")}, 9
	sent.Payload.Data = []byte("x")
	sent = f.place(sent)
	failed := f.place(f.reminder(b, 3, "live", "failed"))
	next := failed.ReminderProgress
	next.FireAt = f.far().Add(-time.Hour)
	step := stepping(actor.CommitOf(), failed, &next)
	step.Reminders.Steps[0].DeadLetter = &actor.DeadFiring{Due: failed.Due, Failures: 4, Reason: "for good"}
	f.ok(f.commit(step))
	stepped := f.loaded(failed.ID)
	dead := f.deadLetters(store.DeadLetterQuery{})

	return func() {
		f.Helper()
		f.same(f.load(f.key("live")), live)
		if said := f.events(f.key("live"), actor.EventPosition{}, "plain", "linked"); said[0].Link != (actor.SpanLink{}) || said[1].Link != link {
			f.Fatalf("the links of events are %v and %v", said[0].Link, said[1].Link)
		}
		f.same(f.load(f.key("tomb")), tomb)
		f.same(f.load(f.key("Empty||{}ü")), empty)
		f.same(f.load(f.key("binary")), envelope)
		f.refuse(write(f.key("live"), stale, `{}`), actor.ErrStale)
		f.refuse(write(f.key("tomb"), actor.Row{}, `{}`), actor.ErrStale)
		f.ok(f.s.Settle(f.ctx(), last))
		f.has(f.key("live"), record("k", "reply"))
		f.refuse(recording(write(f.key("live"), live, `{}`), record("k", "other")), actor.ErrKeyExists)
		f.hasNone(f.key("live"), record("expired", ""))
		f.apply(recording(touch(f.key("live"), live), record("expired", "again")))

		f.hasBytes(module, wasm)
		f.is(f.s.DeleteModule(f.ctx(), f.app, module.Digest), actor.ErrModuleInUse)
		f.ok(f.s.DeleteModule(f.ctx(), f.app, unused.Digest))
		history, err := f.s.DeploymentHistory(f.ctx(), f.app, "Cart", 0, 10)
		f.ok(err)
		f.sameDeployments(history, []actor.Deployment{third, second, first})
		f.serves(third, out)
		f.deploy(f.deployment("Cart", 4, module))
		f.deploy(f.deployment("Old", 3, module))
		f.settings("config region eu", "secret key \x00encrypted")

		inbox(f, "inbox", sent)
		f.is(f.commit(consuming(f, actor.CommitOf(), f.place(message(f, b, 6, "ann", "inbox", 7, 2)))), actor.ErrMessageOrder)
		f.ok(f.commit(consuming(f, actor.CommitOf(), f.loaded(sent.ID), f.loaded(b.Token(6)))))
		f.heads(f.due(b, f.far()), full, stepped)
		for _, want := range []actor.Reminder{full, paused, stepped} {
			if got := f.found("live", want.Name); got.Version != want.Version || !got.CreatedAt.Equal(want.CreatedAt) {
				f.Fatalf("reminder is %+v, want %+v", got, want)
			}
			f.sameReminder(f.loaded(want.ID), want)
		}
		if got := f.deadLetters(store.DeadLetterQuery{}); !cmp.Equal(got, dead, cmpopts.EquateEmpty()) || len(dead) != 1 {
			f.Fatalf("dead letters are %+v, want %+v", got, dead)
		}
		f.ok(f.commit(stepping(actor.CommitOf(), stepped, nil)))
		if row := f.bucketRow(); row.Bucket.Prefix != b.Prefix || row.Bucket.Vector != b.Vector || row.Bucket.Index != closed.Index+1 {
			f.Fatalf("the next bucket is %v behind %v", row.Bucket, closed)
		}
		third := newFixture(f.T, f.s, "third")
		if p := third.bucket().Prefix; p != prefix+1 {
			f.Fatalf("the next app has prefix %v behind %v", p, prefix)
		}
		f.sweepAll()
		f.same(f.load(f.key("tomb")), actor.Row{})
	}
}

// UnfinishedCopy ends a copy into s in its middle.
func UnfinishedCopy(t *testing.T, s store.Store) {
	t.Helper()
	planned := errors.New("planned")
	err := s.(store.Movable).Import(t.Context(), func(add func(*store.Contents) error) error { //nolint:forcetypeassert // a test
		row := actor.Row{Version: actor.FirstVersion(), UpdatedAt: time.Now(), CommitID: actor.NewCommitID()}
		return errors.Join(planned, add(&store.Contents{Actors: []store.ActorRow{{Key: actor.Key{App: "a", Type: "T", ID: "i"}, Row: row}}}))
	})
	if !errors.Is(err, planned) {
		t.Fatal(err)
	}
}
