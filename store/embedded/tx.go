package embedded

import (
	"encoding/binary"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// tx is what a decision sees and does. It is valid during the decision, on the
// writer's goroutine.
type tx struct {
	draft
	rows      rowWrites
	records   recordWrites
	reminders reminderWrites
	services  serviceWrites
}

func newTx(c *core, known *heads, seen *seen) *tx {
	t := &tx{draft: draft{core: c}}
	t.rows = rowWrites{draft: &t.draft, known: known}
	t.records = recordWrites{draft: &t.draft, seen: seen}
	t.services = serviceWrites{draft: &t.draft}
	t.reminders = reminderWrites{draft: &t.draft, order: store.NewOrder()}
	return t
}

// begin makes t a new decision.
func (t *tx) begin(bytes int) {
	t.draft = draft{core: t.core, now: t.clock.read(), batch: t.db.NewBatchWithSize(bytes, retained)}
	r := &t.rows
	clear(r.written)
	clear(r.checked[:cap(r.checked)])
	r.written, r.checked, r.keys = r.written[:0], r.checked[:0], r.keys[:0]
	t.services.changed = nil
	t.records.calls, t.records.expiring, t.reminders.reminders = nil, nil, nil
}

// end releases what the decision has read with.
func (t *tx) end() {
	t.reminders.end()
}

// close ends a decision that was taken: what its parts have in common is written
// once.
func (t *tx) close() {
	t.records.write()
	t.records.indexExpiries()
	t.reminders.write()
	if t.stamped {
		t.set([]byte(clockKey), binary.BigEndian.AppendUint64(nil, uint64(t.now)))
	}
}

// commit checks the fences of c, whose calls were looked up, and writes all of it,
// or says why it is refused. err means that nothing could be decided.
func (t *tx) commit(c *actor.Commit, calls []call) (refusal, err error) {
	for i := range calls {
		if r := calls[i].record; calls[i].until > t.now {
			if calls[i].by == c.ID {
				return nil, nil // c was applied before
			}
			return fmt.Errorf("%s: %w", r.Call(), actor.ErrKeyExists), nil
		}
	}
	ops := store.ReminderOps(c)
	if refusal, err := t.reminders.checkSteps(ops); refusal != nil || err != nil {
		return refusal, err
	}
	if refusal, err := t.services.check(c); refusal != nil || err != nil {
		return refusal, err
	}
	t.rows.keys, t.rows.checked = t.rows.keys[:0], t.rows.checked[:0]
	for i := range c.Rows {
		w := &c.Rows[i]
		keepsState := !w.Delete && w.State == nil
		if refusal, err := t.rows.check(w.Fence(), keepsState, keepsState); refusal != nil || err != nil {
			return refusal, err
		}
	}
	for _, f := range c.Fences {
		if refusal, err := t.rows.check(f, true, false); refusal != nil || err != nil {
			return refusal, err
		}
	}
	// All of it holds.
	for i := range calls {
		calls[i].held = true
	}
	for i := range c.Rows {
		t.rows.change(c.ID, &c.Rows[i], &t.rows.checked[i])
	}
	if err := t.publish(c); err != nil {
		return nil, err
	}
	if err := t.services.write(c); err != nil {
		return nil, err
	}
	return nil, t.reminders.remind(c, ops)
}

// publish writes the events of a commit that held.
func (t *tx) publish(c *actor.Commit) error {
	for _, e := range store.PlacedEvents(c) {
		r := eventRecord{Name: e.Name, Life: e.Life, ContentType: e.Payload.ContentType, Payload: e.Payload.Data, At: t.now, Link: e.Link}
		if err := t.setRecord(eventKey(e.Key, e.EventPosition), r); err != nil {
			return err
		}
	}
	for i := range c.Rows {
		if c.Rows[i].Delete && !c.Rows[i].NewLife { // otherwise they are kept as long as the type says
			prefix := eventsOf(c.Rows[i].Key)
			t.deleteRange(prefix, prefixEnd(prefix))
		}
	}
	return nil
}

// settle applies the table in the documentation of package store. Any row that c
// wrote proves all of it, and its anchor fenced out keeps all of it out.
func (t *tx) settle(c *actor.Commit) (verdict, err error) {
	recorded, err := t.records.recordedBy(c)
	if err != nil {
		return nil, err
	}
	evidence := store.Evidence{Recorded: recorded}
	var anchor storedRow
	find := func(k actor.Key) error {
		found, err := readRow(t, actorKey(k))
		if len(evidence.Rows) == 0 {
			anchor = found
		}
		evidence.Rows = append(evidence.Rows, store.FoundRow{
			Version: found.row.Version, CommitID: found.row.CommitID, Damaged: found.damage != "",
		})
		return err
	}
	for i := range c.Rows {
		if err := find(c.Rows[i].Key); err != nil {
			return nil, err
		}
	}
	for i := range c.Fences {
		if err := find(c.Fences[i].Key); err != nil {
			return nil, err
		}
	}
	key := c.Anchor().Key
	switch evidence.Of(c) {
	case store.VerdictApplied:
		return nil, nil
	case store.VerdictDamaged:
		return &store.DamagedError{Rows: []store.DamagedRow{anchor.damaged(key)}}, nil
	case store.VerdictFence:
		row := anchor.row
		if row.Version == 0 {
			row.Version, row.Deleted, row.CommitID = actor.FirstVersion(), true, store.FenceID(c.ID)
		} else {
			row.Version++
		}
		t.rows.put(key, actorKey(key), &anchor, &row)
		return fmt.Errorf("%s: it was never applied: %w", store.CommitName(c), actor.ErrStale), nil
	case store.VerdictNever:
		return fmt.Errorf("%s: it was never applied: %w", store.CommitName(c), actor.ErrStale), nil
	default:
		return fmt.Errorf("%s: nobody can tell: %w", store.CommitName(c), actor.ErrAmbiguous), nil
	}
}

// retained lets batches of the usual groups keep their memory: to allocate it
// anew costs more than to fill it. What is not used for a while the garbage
// collector takes.
var retained = pebble.WithMaxRetainedSizeBytes(8 << 20)
