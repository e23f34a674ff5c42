package embedded

import (
	"context"
	"encoding/binary"
	"fmt"
	"runtime/debug"

	"github.com/cockroachdb/pebble/v2"
	"github.com/greenroom-run/greenroom/actor"
)

// task is one write on its way to the writer.
type task struct {
	opts   writeOptions
	decide func(*tx) error
	// decided is closed when decide has returned, or is not going to be called.
	decided chan struct{}
	// answer gets exactly one value, unless the store fails meanwhile.
	answer chan answer
}

// answer is what the writer did with a task.
type answer struct {
	err error // of decide: nothing was applied
	// flight is the task's own flight if it wrote, otherwise the latest one:
	// when it has landed, all that decide read is durable.
	flight *flight
	batch  *pebble.Batch // the task's own; nil if it wrote nothing
}

type writeOptions struct {
	// noSync leaves durability to a later write.
	noSync bool
	// bytes is about how much will be written, so that its batch need not grow.
	bytes int
	// frees marks a write that makes space, so that it may use what is kept free.
	frees bool
}

// tx is what a decision sees and does. It is valid during the decision, on the
// writer's goroutine.
type tx struct {
	s *Store
	// now is database time in microseconds since 1970.
	now   int64
	batch *pebble.Batch
	rows  marks // actor rows and records written
	// heads are the actor rows written, for Store.heads once they are applied.
	heads   []writtenHead
	stamped bool // the time is to be written
	// checked are the rows of the commit that is being decided, and keys their keys.
	checked []checkedRow
	keys    []byte
	// calls are those that the decision is about, in the order of their keys.
	calls []*call
	// expiring are the IDs of the records written, by when they expire.
	expiring map[int64][]byte
	// reminders are those that the decision has looked at, by key.
	reminders map[string]*knownReminder
	finder    *finder // of reminders; nil: none was looked for
}

// writtenHead is what a row has become. known is what was remembered of it; if
// that is nil, key says which one it is.
type writtenHead struct {
	known *head
	key   string
	head  head
}

// get returns a copy of a stored value, nil if there is none. It does not see
// what the decision itself has written.
func (t *tx) get(key []byte) ([]byte, error) { return get(t.s.db, key) }

func (t *tx) set(key, value []byte) { t.must(t.batch.Set(key, value, nil)) }
func (t *tx) delete(key []byte)     { t.must(t.batch.Delete(key, nil)) }

func (t *tx) deleteRange(from, to []byte) { t.must(t.batch.DeleteRange(from, to, nil)) }

// stamp has the time written, so that it never goes back, not even after a
// restart.
func (t *tx) stamp() { t.stamped = true }

// wrote notes that a row or a record was written or removed.
func (t *tx) wrote(key []byte) { t.rows.add(t.s.flights.hash(key)) }

// close ends a decision that was taken: what its parts have in common is written
// once.
func (t *tx) close() {
	t.record()
	t.indexExpiries()
	t.writeReminders()
	if t.stamped {
		t.set([]byte(clockKey), binary.BigEndian.AppendUint64(nil, uint64(t.now)))
	}
}

// must is for errors that only a misused batch gives.
func (t *tx) must(err error) {
	if err != nil {
		panic(err)
	}
}

// write hands a decision to the writer and waits until all that it wrote and
// read is durable. If decide returns an error, nothing is applied and the error
// is returned as it is. When it returns, decide is not running.
// The caller is between enter and leave.
func (s *Store) write(ctx context.Context, opts writeOptions, decide func(*tx) error) error {
	t := &task{opts: opts, decide: decide, decided: make(chan struct{}), answer: make(chan answer, 1)}
	select {
	case s.tasks <- t:
	case <-ctx.Done():
		return ctx.Err()
	case <-s.failed:
		return s.unavailable()
	}
	var a answer
	select {
	case a = <-t.answer:
	case <-s.failed:
		// The writer may hang in applying the task, but what the caller owns it
		// does not touch after deciding.
		<-t.decided
		return fmt.Errorf("the embedded store failed during the write (%w): %w", s.failure, actor.ErrAmbiguous)
	}
	switch {
	case a.err != nil:
		return a.err
	case a.batch == nil:
		return s.await(ctx, a.flight)
	case opts.noSync:
		return a.batch.Close()
	}
	if err := a.batch.SyncWait(); err != nil {
		s.fail(fmt.Errorf("sync the log: %w", err))
		return fmt.Errorf("the log could not be synced (%w): %w", err, actor.ErrAmbiguous)
	}
	s.flights.land(a.flight)
	_ = a.batch.Close() // it is durable, whatever happens to its memory
	return nil
}

// await waits until what a flight shows is durable; nil stands for what is
// durable already.
func (s *Store) await(ctx context.Context, f *flight) error {
	if f == nil {
		return nil
	}
	select {
	case <-f.done:
		return nil
	case <-s.failed:
		return s.unavailable()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// runWriter takes tasks until the store is closed or fails.
func (s *Store) runWriter() {
	for {
		select {
		case t := <-s.tasks:
			if !s.perform(t) {
				return
			}
		case <-s.quit:
			return
		}
	}
}

// perform decides and applies one task, and reports whether the writer can go
// on. Pebble panics when its log is broken, holding its locks, so that a panic in
// applying is the end; one in deciding is not.
func (s *Store) perform(t *task) (ok bool) {
	defer func() {
		if r := recover(); r != nil {
			s.fail(fmt.Errorf("write: %v\n%s", r, debug.Stack()))
			ok = false
		}
	}()
	tx, err := s.decideSafely(t)
	if err != nil {
		t.answer <- answer{err: err}
		return true
	}
	if tx.batch.Empty() {
		tx.must(tx.batch.Close())
		t.answer <- answer{flight: s.flights.latest.Load()}
		return true
	}
	s.space.written.Add(int64(tx.batch.Len()))
	if t.opts.noSync {
		tx.must(s.db.Apply(tx.batch, pebble.NoSync))
		t.answer <- answer{batch: tx.batch}
		return true
	}
	// Before the batch can be read, everybody must be able to find its flight.
	f := s.flights.takeOff(&tx.rows)
	tx.must(s.db.ApplyNoSyncWait(tx.batch, pebble.Sync))
	for i := range tx.heads {
		if w := &tx.heads[i]; w.known != nil {
			*w.known = w.head
		} else {
			s.heads.set(w.key, w.head)
		}
	}
	t.answer <- answer{flight: f, batch: tx.batch}
	return true
}

// retained lets batches of the usual groups keep their memory: to allocate it
// anew costs more than to fill it. What is not used for a while the garbage
// collector takes.
var retained = pebble.WithMaxRetainedSizeBytes(8 << 20)

// decideSafely is decide, for which a panic of a decision is an error of that one
// task: nothing of it was applied, and what it has told the filters of records only
// makes the writer search.
func (s *Store) decideSafely(t *task) (tx *tx, err error) {
	defer func() {
		if r := recover(); r != nil {
			tx, err = nil, fmt.Errorf("decide a write: panic: %v\n%s", r, debug.Stack())
			s.log.Error("a write was not decided; this is a fault of the store", "panic", r, "stack", string(debug.Stack()))
		}
	}()
	return s.decide(t)
}

// decide runs the decision of a task. The result is good until the next one.
func (s *Store) decide(t *task) (*tx, error) {
	defer close(t.decided)
	if err := s.writable(t.opts); err != nil {
		return nil, err
	}
	d := &s.tx
	clear(d.heads)
	clear(d.checked[:cap(d.checked)])
	*d = tx{s: s, now: s.clock.read(), batch: s.db.NewBatchWithSize(t.opts.bytes, retained), heads: d.heads[:0], checked: d.checked[:0], keys: d.keys[:0]}
	defer func() {
		if d.finder != nil {
			d.finder.close()
		}
	}()
	if err := t.decide(d); err != nil {
		d.must(d.batch.Close())
		return nil, err
	}
	d.close()
	return d, nil
}

// writable says why a write cannot be taken now.
func (s *Store) writable(opts writeOptions) error {
	select {
	case <-s.failed:
		return s.unavailable()
	default:
	}
	if err := s.flush.check(); err != nil {
		return fmt.Errorf("the last flush failed (%w): %w", err, actor.ErrUnavailable)
	}
	if opts.frees {
		return nil
	}
	if err := s.space.check(); err != nil {
		return fmt.Errorf("%w: %w", err, actor.ErrUnavailable)
	}
	return nil
}
