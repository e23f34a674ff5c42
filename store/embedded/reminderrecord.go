package embedded

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// reminderRecord is a reminder as it is stored. Times are microseconds since 1970.
type reminderRecord struct {
	store.SpecRecord
	App         string       `json:"app"`
	Type        string       `json:"type"`
	ID          string       `json:"id"`
	Name        string       `json:"name"`
	Prefix      actor.Prefix `json:"prefix"`
	Vector      string       `json:"vector"`
	Token       uint32       `json:"token"`
	Version     uint64       `json:"version"`
	ContentType string       `json:"content_type,omitempty"`
	Payload     []byte       `json:"payload,omitempty"`
	Due         int64        `json:"due"`
	FireAt      int64        `json:"fire_at"`
	Left        uint32       `json:"left,omitempty"`
	Failures    uint32       `json:"failures,omitempty"`
	Paused      bool         `json:"paused,omitempty"`
	LastError   string       `json:"last_error,omitempty"`
	CreatedAt   int64        `json:"created_at"`
	UpdatedAt   int64        `json:"updated_at"`
}

func (r *reminderRecord) id() actor.ReminderID {
	id := actor.ReminderID{Prefix: r.Prefix, Token: r.Token}
	copy(id.Vector[:], r.Vector)
	return id
}

func (r *reminderRecord) name() actor.ReminderName {
	return actor.ReminderName{Key: actor.Key{App: r.App, Type: r.Type, ID: r.ID}, Name: r.Name}
}

func (r *reminderRecord) dueKey() []byte { return dueKey(r.id().Bucket(), r.FireAt, r.Token) }

func (r *reminderRecord) proceed(p *actor.ReminderProgress) {
	r.Due, r.FireAt = p.Due.UnixMicro(), p.FireAt.UnixMicro()
	r.Left, r.Failures, r.Paused, r.LastError = p.Left, p.Failures, p.Paused, p.LastError
}

func (r *reminderRecord) reminder() actor.Reminder {
	n := r.name()
	at := func(micros int64) time.Time { return time.UnixMicro(micros).UTC() }
	return actor.Reminder{
		ID: r.id(), Version: r.Version,
		ReminderSpec: r.Spec(n.Key, n.Name, actor.Payload{ContentType: r.ContentType, Data: r.Payload}),
		ReminderProgress: actor.ReminderProgress{
			Due: at(r.Due), FireAt: at(r.FireAt), Left: r.Left, Failures: r.Failures, Paused: r.Paused, LastError: r.LastError,
		},
		CreatedAt: at(r.CreatedAt), UpdatedAt: at(r.UpdatedAt),
	}
}

func newReminderRecord(r *actor.Reminder, now int64) *reminderRecord {
	rec := &reminderRecord{
		SpecRecord: store.SpecRecordOf(&r.ReminderSpec),
		App:        r.Key.App, Type: r.Key.Type, ID: r.Key.ID, Name: r.Name,
		Prefix: r.ID.Prefix, Vector: r.ID.Vector.String(), Token: r.ID.Token, Version: 1,
		ContentType: r.Payload.ContentType, Payload: r.Payload.Data, CreatedAt: now,
	}
	rec.proceed(&r.ReminderProgress)
	return rec
}

// foundReminder is what is stored under a key: a record, damage or nothing.
type foundReminder struct {
	record *reminderRecord
	damage string
}

func readReminder(from reader, key []byte) (foundReminder, error) {
	value, err := from.get(key)
	switch {
	case pebble.IsCorruptionError(err):
		return foundReminder{damage: "its block of the data file is damaged: " + err.Error()}, nil
	case err != nil:
		return foundReminder{}, unavailable(err)
	case value == nil:
		return foundReminder{}, nil
	}
	var r reminderRecord
	if err := decodeReminder(key, value, &r); err != nil {
		return foundReminder{damage: err.Error()}, nil //nolint:nilerr // damage is an answer
	}
	return foundReminder{record: &r}, nil
}

// A reminder is read and written by each firing, so it is not JSON: behind the checksum,
// which is that of a record, there is a byte that no JSON begins with, then its fields in
// order, numbers as varints and strings with their lengths in front. Records that were
// written as JSON are read as well. A record with a link, which those of sampled turns have, is
// written as JSON: earlier versions read that too and pass over the link, whereas they take a compact
// record with one more field for a damaged one.

// Those bytes: of a reminder, and of a message and a cursor, whose own fields follow those of the
// reminder that they are.
const (
	compactReminder = 1
	compactMessage  = 2
	compactCursor   = 3
)

// encodeReminder returns r as it is stored under key.
func encodeReminder(key []byte, r *reminderRecord) []byte {
	if r.Link != (actor.SpanLink{}) {
		value, err := encodeRecord(key, r)
		if err != nil {
			panic(err) // there is nothing in it that JSON has no place for
		}
		return value
	}
	e := compact(make([]byte, 4, 160+len(r.Payload)+len(r.ID)+len(r.Name)))
	switch {
	case r.Message != nil:
		e = append(e, compactMessage)
	case r.Cursor != nil:
		e = append(e, compactCursor)
	default:
		e = append(e, compactReminder)
	}
	e.text(r.App, r.Type, r.ID, r.Name)
	e.uint(uint64(r.Prefix))
	e.text(r.Vector)
	e.uint(uint64(r.Token), r.Version)
	e.int(r.Due, r.FireAt)
	e.uint(uint64(r.Left), uint64(r.Failures))
	e.bool(r.Paused)
	e.text(r.LastError)
	e.int(r.CreatedAt, r.UpdatedAt)
	e.text(r.ContentType)
	e.uint(uint64(len(r.Payload)))
	e = append(e, r.Payload...)

	e.text(r.Method)
	e.int(r.At, r.Every)
	e.text(r.Cron, r.Zone)
	e.uint(uint64(r.Times))
	if e.bool(r.Until != nil); r.Until != nil {
		e.int(*r.Until)
	}
	e.int(r.Jitter)
	e.uint(uint64(r.Missed), uint64(r.Limit))
	e.int(r.SpecRecord.After)
	e.uint(uint64(r.Failure), uint64(r.Attempts))
	e.int(r.Interval, r.Max)
	e.uint(uint64(len(r.Metadata)))
	for k, v := range r.Metadata {
		e.text(k, v)
	}
	if m := r.Message; m != nil {
		e.text(m.From.Type, m.From.ID, m.By.Type, m.By.ID, m.Undelivered, m.Forward.Type, m.Forward.ID, m.Failed)
		e.uint(m.Cookie, uint64(len(m.Path)))
		for _, a := range m.Path {
			e.text(a.Type, a.ID)
		}
	}
	if c := r.Cursor; c != nil {
		e.text(c.Publisher.Type, c.Publisher.ID)
		e.uint(c.Version, uint64(c.Index))
	}
	binary.BigEndian.PutUint32(e, crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, e[4:]))
	return e
}

// decodeReminder reads what is stored under key.
func decodeReminder(key, value []byte, r *reminderRecord) error {
	if len(value) < 5 || value[4] < compactReminder || value[4] > compactCursor {
		return decodeRecord(key, value, r)
	}
	if crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, value[4:]) != binary.BigEndian.Uint32(value) {
		return fmt.Errorf("record %q is damaged: its checksum is wrong", key)
	}
	if err := r.decode(value[5:], value[4]); err != nil {
		return fmt.Errorf("record %q is damaged: %w", key, err)
	}
	return nil
}

func (r *reminderRecord) decode(data []byte, kind byte) error {
	d := compactReader{data: data} // which is the store's: each field is a copy of its own
	r.App, r.Type, r.ID, r.Name = d.string(), d.string(), d.string(), d.string()
	r.Prefix = actor.Prefix(d.uint32())
	r.Vector = d.string()
	r.Token, r.Version = d.uint32(), d.uint()
	r.Due, r.FireAt = d.int(), d.int()
	r.Left, r.Failures = d.uint32(), d.uint32()
	r.Paused = d.uint() != 0
	r.LastError = d.string()
	r.CreatedAt, r.UpdatedAt = d.int(), d.int()
	r.ContentType = d.string()
	if payload := d.bytes(); len(payload) > 0 {
		r.Payload = bytes.Clone(payload)
	}

	r.Method = d.string()
	r.At, r.Every = d.int(), d.int()
	r.Cron, r.Zone = d.string(), d.string()
	r.Times = d.uint32()
	if d.uint() != 0 {
		until := d.int()
		r.Until = &until
	}
	r.Jitter = d.int()
	r.Missed, r.Limit = d.uint8(), d.uint32()
	r.SpecRecord.After = d.int()
	r.Failure, r.Attempts = d.uint8(), d.uint32()
	r.Interval, r.Max = d.int(), d.int()
	for n := d.uint(); n > 0 && d.err == nil; n-- {
		if r.Metadata == nil {
			r.Metadata = make(map[string]string)
		}
		k := d.string()
		r.Metadata[k] = d.string()
	}
	switch kind {
	case compactMessage:
		r.Message = readMessage(&d)
	case compactCursor:
		r.Cursor = &store.CursorRecord{Publisher: store.ActorRecord{Type: d.string(), ID: d.string()}, Version: d.uint(), Index: d.uint32()}
	}
	if d.err == nil && d.at != len(d.data) {
		d.err = fmt.Errorf("it has %d bytes more than its fields", len(d.data)-d.at)
	}
	return d.err
}

// readMessage reads the fields of a message.
func readMessage(d *compactReader) *store.MessageRecord {
	name := func() store.ActorRecord { return store.ActorRecord{Type: d.string(), ID: d.string()} }
	m := &store.MessageRecord{From: name(), By: name(), Undelivered: d.string(), Forward: name(), Failed: d.string(), Cookie: d.uint()}
	for n := d.uint(); n > 0 && d.err == nil; n-- {
		m.Path = append(m.Path, name())
	}
	return m
}
