package embedded

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"

	"github.com/greenroom-run/greenroom/actor"
)

// A reminder is read and written by each firing, so it is not JSON: behind the checksum,
// which is that of a record, there is a byte that no JSON begins with, then its fields in
// order, numbers as varints and strings with their lengths in front. Records that were
// written as JSON are read as well.

// compactReminder is that byte.
const compactReminder = 1

// encodeReminder returns r as it is stored under key.
func encodeReminder(key []byte, r *reminderRecord) []byte {
	e := compact(make([]byte, 4, 160+len(r.Payload)+len(r.ID)+len(r.Name)))
	e = append(e, compactReminder)
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
	binary.BigEndian.PutUint32(e, crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, e[4:]))
	return e
}

// decodeReminder reads what is stored under key.
func decodeReminder(key, value []byte, r *reminderRecord) error {
	if len(value) < 5 || value[4] != compactReminder {
		return decodeRecord(key, value, r)
	}
	if crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, value[4:]) != binary.BigEndian.Uint32(value) {
		return fmt.Errorf("record %q is damaged: its checksum is wrong", key)
	}
	if err := r.decode(value[5:]); err != nil {
		return fmt.Errorf("record %q is damaged: %w", key, err)
	}
	return nil
}

func (r *reminderRecord) decode(data []byte) error {
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
	if d.err == nil && d.at != len(d.data) {
		d.err = fmt.Errorf("it has %d bytes more than its fields", len(d.data)-d.at)
	}
	return d.err
}

// compact is what is being written.
type compact []byte

func (e *compact) uint(list ...uint64) {
	for _, v := range list {
		*e = binary.AppendUvarint(*e, v)
	}
}

func (e *compact) int(list ...int64) {
	for _, v := range list {
		*e = binary.AppendVarint(*e, v)
	}
}

func (e *compact) bool(v bool) {
	n := uint64(0)
	if v {
		n = 1
	}
	e.uint(n)
}

func (e *compact) text(list ...string) {
	for _, s := range list {
		e.uint(uint64(len(s)))
		*e = append(*e, s...)
	}
}

// compactReader reads what compact wrote. After an error it reads zeros.
type compactReader struct {
	data []byte
	at   int
	err  error
}

var errCompact = errors.New("its fields cannot be read")

func (d *compactReader) uint() uint64 {
	v, n := binary.Uvarint(d.data[d.at:])
	if n <= 0 {
		d.fail()
		return 0
	}
	d.at += n
	return v
}

func (d *compactReader) int() int64 {
	v, n := binary.Varint(d.data[d.at:])
	if n <= 0 {
		d.fail()
		return 0
	}
	d.at += n
	return v
}

func (d *compactReader) below(most uint64) uint64 {
	v := d.uint()
	if v > most {
		d.fail()
		return 0
	}
	return v
}

func (d *compactReader) uint32() uint32 { return uint32(d.below(math.MaxUint32)) }
func (d *compactReader) uint8() uint8   { return uint8(d.below(math.MaxUint8)) }

// string returns a copy: who keeps it, as an actor keeps its ID, keeps nothing else.
func (d *compactReader) string() string { return string(d.bytes()) }

// bytes returns a part of the data.
func (d *compactReader) bytes() []byte {
	n := d.below(uint64(len(d.data)))
	if n > uint64(len(d.data)-d.at) {
		d.fail()
		return nil
	}
	from := d.at
	d.at += int(n) //nolint:gosec // a length
	return d.data[from:d.at]
}

func (d *compactReader) fail() {
	d.err = errCompact
	d.at = len(d.data)
}
