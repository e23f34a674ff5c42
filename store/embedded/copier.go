package embedded

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// copier reads and writes a store as a whole.
type copier struct {
	*writer
	modules *modules
}

func (s *copier) Export(ctx context.Context, visit func(*store.Contents) error) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	snap := s.db.NewSnapshot()
	defer func() { _ = snap.Close() }()
	if err := s.await(ctx, s.syncs.latest.Load()); err != nil {
		return err
	}
	parts := &store.Parts{Visit: visit}
	for _, space := range []struct {
		name   string
		export func(parts *store.Parts, key, value []byte) error
	}{
		{moduleSpace, func(parts *store.Parts, key, value []byte) error {
			return s.exportModule(ctx, parts, key, value)
		}},
		{deploySpace, exportDeployment},
		{settingSpace, exportSetting},
		{serviceSpace, exportService},
		{actorSpace, exportActor},
		{recordSpace, exportRecord},
		{lapSpace, exportLap},
		{bucketSpace, exportBucket},
		{reminderSpace, exportReminder},
		{deadSpace, exportDeadLetter},
		{eventSpace, exportEvent},
	} {
		from := []byte(space.name)
		it, err := snap.NewIterWithContext(ctx, &pebble.IterOptions{LowerBound: from, UpperBound: prefixEnd(from)})
		if err != nil {
			return unavailable(err)
		}
		if err := visitAll(ctx, it, func(key, value []byte) (bool, error) {
			return true, space.export(parts, key, value)
		}); err != nil {
			return err
		}
	}
	return parts.End()
}

// splitKey returns the parts of a key behind its keyspace.
func splitKey(key []byte, space string, parts int) ([]string, error) {
	split := bytes.SplitN(key[len(space):], []byte{0}, parts)
	if len(split) != parts {
		return nil, fmt.Errorf("key %q: %w", key, errShortKey)
	}
	list := make([]string, parts)
	for i, p := range split {
		list[i] = string(p)
	}
	return list, nil
}

func (s *copier) exportModule(ctx context.Context, parts *store.Parts, key, value []byte) error {
	name, err := splitKey(key, moduleSpace, 2)
	if err != nil {
		return err
	}
	var r moduleRecord
	if err := decodeRecord(key, value, &r); err != nil {
		return err
	}
	m := r.module(name[0], actor.Digest(name[1]))
	var wasm bytes.Buffer
	if err := s.modules.read(ctx, m.App, m.Digest, &wasm); err != nil {
		return err
	}
	return parts.Add(wasm.Len(), func(c *store.Contents) {
		c.Modules = append(c.Modules, store.ModuleBytes{Module: m, Wasm: wasm.Bytes()})
	})
}

func exportDeployment(parts *store.Parts, key, value []byte) error {
	name, err := splitKey(key, deploySpace, 3)
	if err != nil {
		return err
	}
	if len(name[2]) != 8 {
		return fmt.Errorf("key %q: %w", key, errShortKey)
	}
	d, err := decodeDeployment(key, value, name[0], name[1], binary.BigEndian.Uint64([]byte(name[2])))
	if err != nil {
		return err
	}
	return parts.Add(len(value), func(c *store.Contents) { c.Deployments = append(c.Deployments, d) })
}

func exportService(parts *store.Parts, key, value []byte) error {
	name, err := splitKey(key, serviceSpace, 2)
	if err != nil {
		return err
	}
	var r serviceRecord
	if err := decodeRecord(key, value, &r); err != nil {
		return err
	}
	return parts.Add(len(value), func(c *store.Contents) { c.Services = append(c.Services, r.service(name[0], name[1])) })
}

func exportSetting(parts *store.Parts, key, value []byte) error {
	name, err := splitKey(key, settingSpace, 3)
	if err != nil {
		return err
	}
	var r settingRecord
	if err := decodeRecord(key, value, &r); err != nil {
		return err
	}
	return parts.Add(len(value), func(c *store.Contents) {
		c.Settings = append(c.Settings, actor.Setting{
			App: name[0], Kind: actor.SettingKind(name[1]), Name: name[2], Value: r.Value, UpdatedAt: time.UnixMicro(r.UpdatedAt).UTC(),
		})
	})
}

func exportActor(parts *store.Parts, key, value []byte) error {
	k, err := actor.ParseKey(string(key[len(actorSpace):]))
	if err != nil {
		return fmt.Errorf("key %q: %w", key, err)
	}
	stored := decodeRow(key, bytes.Clone(value))
	if stored.damage != "" {
		return &store.DamagedError{Rows: []store.DamagedRow{stored.damaged(k)}}
	}
	return parts.Add(len(value), func(c *store.Contents) { c.Actors = append(c.Actors, store.ActorRow{Key: k, Row: stored.row}) })
}

func exportRecord(parts *store.Parts, key, value []byte) error {
	r := decodeStoredRecord(key, bytes.Clone(value))
	id := key[len(recordSpace):]
	if r.damage != "" || len(id) != len(store.RecordID{}) {
		return fmt.Errorf("the idempotency record %x is damaged (%s); it expires", id, r.damage)
	}
	record := store.StoredRecord{ID: store.RecordID(id), Commit: r.commitID, ExpiresAt: time.UnixMicro(r.expires).UTC(), Value: r.value}
	return parts.Add(len(value), func(c *store.Contents) { c.Records = append(c.Records, record) })
}

func exportLap(parts *store.Parts, key, value []byte) error {
	var r lapRecord
	if err := decodeRecord(key, value, &r); err != nil {
		return err
	}
	l := store.Lap{App: string(key[len(lapSpace):]), Prefix: r.Prefix, Next: r.Next}
	copy(l.Vector[:], r.Vector)
	return parts.Add(len(value), func(c *store.Contents) { c.Laps = append(c.Laps, l) })
}

func exportBucket(parts *store.Parts, key, value []byte) error {
	var r bucketRecord
	if err := decodeRecord(key, value, &r); err != nil {
		return err
	}
	return parts.Add(len(value), func(c *store.Contents) { c.Buckets = append(c.Buckets, r.row()) })
}

func exportReminder(parts *store.Parts, key, value []byte) error {
	var r reminderRecord
	if err := decodeReminder(key, value, &r); err != nil {
		return err
	}
	return parts.Add(len(value), func(c *store.Contents) { c.Reminders = append(c.Reminders, r.reminder()) })
}

func exportDeadLetter(parts *store.Parts, key, value []byte) error {
	var r deadRecord
	if err := decodeRecord(key, value, &r); err != nil {
		return err
	}
	return parts.Add(len(value), func(c *store.Contents) {
		c.DeadLetters = append(c.DeadLetters, actor.DeadLetter{Reminder: r.Reminder.reminder(), Reason: r.Reason, FailedAt: time.UnixMicro(r.FailedAt).UTC()})
	})
}

func exportEvent(parts *store.Parts, key, value []byte) error {
	name, err := splitKey(key, eventSpace, 4)
	if err != nil {
		return err
	}
	k := actor.Key{App: name[0], Type: name[1], ID: name[2]}
	at, r, err := decodeEvent(eventsOf(k), key, value)
	if err != nil {
		return err
	}
	return parts.Add(len(value), func(c *store.Contents) { c.Events = append(c.Events, store.ActorEvent{Key: k, Event: r.event(at)}) })
}

func (s *copier) Import(ctx context.Context, fill func(add func(*store.Contents) error) error) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	if err := s.write(ctx, writeOptions{}, func(tx *tx) error {
		if err := s.empty(ctx); err != nil {
			return err
		}
		tx.set([]byte(formatKey), []byte(unfinishedLayout))
		return nil
	}); err != nil {
		return err
	}
	if err := fill(func(c *store.Contents) error { return s.add(ctx, c) }); err != nil {
		return err
	}
	// Its sync covers all that was written before it.
	return s.write(ctx, writeOptions{}, func(tx *tx) error {
		tx.set([]byte(formatKey), []byte(layoutVersion))
		tx.stamp()
		return nil
	})
}

// empty returns an error if there is anything but what Open writes.
func (s *copier) empty(ctx context.Context) error {
	it, err := s.db.NewIterWithContext(ctx, nil)
	if err != nil {
		return unavailable(err)
	}
	return visitAll(ctx, it, func(key, _ []byte) (bool, error) {
		if k := string(key); k != formatKey && k != clockKey {
			return false, store.ErrNotEmpty
		}
		return true, nil
	})
}

func (s *copier) add(ctx context.Context, c *store.Contents) error {
	for _, m := range c.Modules {
		if err := s.modules.PutModule(ctx, m.Module, bytes.NewReader(m.Wasm), 0); err != nil {
			return err
		}
	}
	return s.write(ctx, writeOptions{noSync: true}, func(tx *tx) error { return addContents(tx, c) })
}

// addContents writes each thing as its own writer does, at the times that it has.
func addContents(t *tx, c *store.Contents) error {
	for _, m := range c.Modules {
		m := m.Module
		r := moduleRecord{Size: m.Size, Manifest: m.Manifest, CreatedAt: m.CreatedAt.UnixMicro()}
		if err := t.setRecord(moduleKey(m.App, m.Digest), r); err != nil {
			return err
		}
	}
	for _, d := range c.Deployments {
		r := deploymentRecord{
			Digest: d.Digest, StateSchema: d.StateSchema, RolledBackFrom: d.RolledBackFrom, Message: d.Message, Placement: d.Placement, CreatedAt: d.CreatedAt.UnixMicro(),
		}
		if err := t.setRecord(deployKey(d.App, d.Type, d.Generation), r); err != nil {
			return err
		}
		t.set(currentKey(d.App, d.Type), binary.BigEndian.AppendUint64(nil, d.Generation))
	}
	for _, v := range c.Settings {
		r := settingRecord{Value: v.Value, UpdatedAt: v.UpdatedAt.UnixMicro()}
		if err := t.setRecord(settingKey(v.App, v.Kind, v.Name), r); err != nil {
			return err
		}
	}
	for _, v := range c.Services {
		r := serviceRecord{Type: v.Actor.Type, ID: v.Actor.ID, ClaimedAt: v.ClaimedAt.UnixMicro()}
		if err := t.setRecord(serviceKey(v.Actor.App, v.Name), r); err != nil {
			return err
		}
		t.set(standsKey(v.Actor, v.Name), nil)
	}
	for i := range c.Actors {
		a := &c.Actors[i]
		key := actorKey(a.Key)
		t.set(key, appendRow(nil, key, &a.Row))
		if a.Row.Deleted {
			t.set(tombKey(sweptFrom(&a.Row), a.Key), nil)
		}
		t.wrote(key)
	}
	for _, r := range c.Records {
		t.records.add(r)
	}
	for _, l := range c.Laps {
		if err := t.setRecord(lapKey(l.App), lapRecord{Prefix: l.Prefix, Vector: l.Vector.String(), Next: l.Next}); err != nil {
			return err
		}
	}
	for i := range c.Buckets {
		if err := t.setRecord(bucketKey(c.Buckets[i].Bucket), bucketRecordOf(&c.Buckets[i])); err != nil {
			return err
		}
	}
	for i := range c.Reminders {
		r := &c.Reminders[i]
		k, err := t.reminders.reminder(actor.ReminderName{Key: r.Key, Name: r.Name})
		if err != nil {
			return err
		}
		k.now = reminderRecordOf(r)
	}
	for i := range c.DeadLetters {
		d := &c.DeadLetters[i]
		r := reminderRecordOf(&d.Reminder)
		if err := t.setRecord(deadKey(r.id(), r.Due), deadRecord{*r, d.Reason, d.FailedAt.UnixMicro()}); err != nil {
			return err
		}
	}
	for i := range c.Events {
		e := &c.Events[i]
		r := eventRecord{Name: e.Name, Life: e.Life, ContentType: e.Payload.ContentType, Payload: e.Payload.Data, At: e.At.UnixMicro(), Link: e.Link}
		if err := t.setRecord(eventKey(e.Key, e.Position), r); err != nil {
			return err
		}
	}
	return nil
}

// reminderRecordOf returns how a reminder that was stored before is stored again.
func reminderRecordOf(r *actor.Reminder) *reminderRecord {
	record := newReminderRecord(r, r.CreatedAt.UnixMicro())
	record.Version, record.UpdatedAt = r.Version, r.UpdatedAt.UnixMicro()
	return record
}
