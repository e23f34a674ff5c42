package embedded

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// writer performs every write of a store, in turn, on one goroutine.
type writer struct {
	*core
	space spaceGuard
	flush flushHealth

	tasks chan *task    // unbuffered: a task taken is a task decided
	quit  chan struct{} // closed when no call is left
	done  sync.WaitGroup

	// The goroutine's own.
	heads heads
	seen  seen
	tx    *tx // of its latest decision
}

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
	// sync is that of the task's own batch if it wrote, otherwise the latest one:
	// when it has ended, all that decide read is durable.
	sync  *pendingSync
	batch *pebble.Batch // the task's own; nil if it wrote nothing
}

type writeOptions struct {
	// noSync leaves durability to a later write.
	noSync bool
	// bytes is about how much will be written, so that its batch need not grow.
	bytes int
	// frees marks a write that makes space, so that it may use what is kept free.
	frees bool
}

// update is write for a caller that is not between enter and leave.
func (w *writer) update(ctx context.Context, opts writeOptions, decide func(*tx) error) error {
	if err := w.enter(ctx); err != nil {
		return err
	}
	defer w.leave()
	return w.write(ctx, opts, decide)
}

// sweep has a decision remove at most limit things, and returns how many it removed.
func (w *writer) sweep(ctx context.Context, limit int, decide func(*tx) (int, error)) (swept int, err error) {
	if err := store.ValidateLimit(limit); err != nil {
		return 0, err
	}
	err = w.update(ctx, writeOptions{frees: true}, func(tx *tx) (err error) {
		swept, err = decide(tx)
		return err
	})
	if err != nil {
		return 0, unavailable(err) // sweeping may always go again
	}
	return swept, nil
}

// write hands a decision to the writer and waits until all that it wrote and
// read is durable. If decide returns an error, nothing is applied and the error
// is returned as it is. When it returns, decide is not running.
// The caller is between enter and leave.
func (w *writer) write(ctx context.Context, opts writeOptions, decide func(*tx) error) error {
	t := &task{opts: opts, decide: decide, decided: make(chan struct{}), answer: make(chan answer, 1)}
	select {
	case w.tasks <- t:
	case <-ctx.Done():
		return ctx.Err()
	case <-w.failed:
		return w.unavailable()
	}
	var a answer
	select {
	case a = <-t.answer:
	case <-w.failed:
		// The writer may hang in applying the task, but what the caller owns it
		// does not touch after deciding.
		<-t.decided
		return fmt.Errorf("the embedded store failed during the write (%w): %w", w.failure, actor.ErrAmbiguous)
	}
	switch {
	case a.err != nil:
		return a.err
	case a.batch == nil:
		return w.await(ctx, a.sync)
	case opts.noSync:
		return a.batch.Close()
	}
	if err := a.batch.SyncWait(); err != nil {
		w.fail(fmt.Errorf("sync the log: %w", err))
		return fmt.Errorf("the log could not be synced (%w): %w", err, actor.ErrAmbiguous)
	}
	w.syncs.end(a.sync)
	_ = a.batch.Close() // it is durable, whatever happens to its memory
	return nil
}

// start runs the writer until quit is closed.
func (w *writer) start() {
	w.done.Go(w.run)
	if w.seen.unread > 0 {
		w.done.Go(w.learn)
	}
}

// run takes tasks until the store is closed or fails.
func (w *writer) run() {
	for {
		select {
		case t := <-w.tasks:
			if !w.perform(t) {
				return
			}
		case <-w.quit:
			return
		}
	}
}

// perform decides and applies one task, and reports whether the writer can go
// on. Pebble panics when its log is broken, holding its locks, so that a panic in
// applying is the end; one in deciding is not.
func (w *writer) perform(t *task) (ok bool) {
	defer func() {
		if r := recover(); r != nil {
			w.fail(fmt.Errorf("write: %v\n%s", r, debug.Stack()))
			ok = false
		}
	}()
	tx, err := w.decideSafely(t)
	if err != nil {
		t.answer <- answer{err: err}
		return true
	}
	if tx.batch.Empty() {
		tx.must(tx.batch.Close())
		t.answer <- answer{sync: w.syncs.latest.Load()}
		return true
	}
	w.space.written.Add(int64(tx.batch.Len()))
	if t.opts.noSync {
		tx.must(w.db.Apply(tx.batch, pebble.NoSync))
		t.answer <- answer{batch: tx.batch}
		return true
	}
	// Before the batch can be read, everybody must be able to find its sync.
	f := w.syncs.add(&tx.marks)
	tx.must(w.db.ApplyNoSyncWait(tx.batch, pebble.Sync))
	tx.rows.applied()
	t.answer <- answer{sync: f, batch: tx.batch}
	return true
}

// decideSafely is decide, for which a panic of a decision is an error of that one
// task: nothing of it was applied, and what it has told the filters of records only
// makes the writer search.
func (w *writer) decideSafely(t *task) (tx *tx, err error) {
	defer func() {
		if r := recover(); r != nil {
			tx, err = nil, fmt.Errorf("decide a write: panic: %v\n%s", r, debug.Stack())
			w.log.Error("a write was not decided; this is a fault of the store", "panic", r, "stack", string(debug.Stack()))
		}
	}()
	return w.decide(t)
}

// decide runs the decision of a task. The result is good until the next one.
func (w *writer) decide(t *task) (*tx, error) {
	defer close(t.decided)
	if err := w.writable(t.opts); err != nil {
		return nil, err
	}
	d := w.tx
	d.begin(t.opts.bytes)
	defer d.end()
	if err := t.decide(d); err != nil {
		d.must(d.batch.Close())
		return nil, err
	}
	d.close()
	return d, nil
}

// writable says why a write cannot be taken now.
func (w *writer) writable(opts writeOptions) error {
	select {
	case <-w.failed:
		return w.unavailable()
	default:
	}
	if err := w.flush.check(); err != nil {
		return fmt.Errorf("the last flush failed (%w): %w", err, actor.ErrUnavailable)
	}
	if opts.frees {
		return nil
	}
	if err := w.space.check(); err != nil {
		return fmt.Errorf("%w: %w", err, actor.ErrUnavailable)
	}
	return nil
}

// learn reads from the index of expiries what was recorded before the folder was
// opened, the last to expire first, until there is no room for more. Where that
// fails, something being damaged, the writer goes on without.
func (w *writer) learn() {
	it, err := w.db.NewIter(&pebble.IterOptions{
		LowerBound: expiryUpperBound(w.clock.read()), UpperBound: prefixEnd([]byte(expirySpace)),
	})
	if err != nil {
		return
	}
	var read seen
	ok := read.load(it, w.quit)
	if it.Close() != nil || !ok || w.enter(context.Background()) != nil {
		return
	}
	defer w.leave()
	_ = w.write(context.Background(), writeOptions{frees: true}, func(*tx) error {
		w.seen.join(&read)
		return nil
	})
}

// listener notices what concerns operators and the health of writes. Pebble's
// default ends the process on corruption; here a damaged file harms those alone
// whose rows are in it.
func (w *writer) listener() *pebble.EventListener {
	return &pebble.EventListener{
		BackgroundError: func(err error) {
			if w.flush.confirm(err) {
				w.log.Error("flush or compaction failed", "error", err)
			}
		},
		FlushEnd: func(info pebble.FlushInfo) { w.flush.ended(info.Err) },
		DataCorruption: func(info pebble.DataCorruptionInfo) {
			w.log.Error("data file is damaged; rows in it cannot be read", "file", info.Path, "error", info.Details)
		},
		DiskSlow: func(info pebble.DiskSlowInfo) {
			select {
			case <-w.failed: // it has been stopped: see logFS
				return
			default:
			}
			w.log.Warn("disk is slow", "file", info.Path, "duration", info.Duration)
		},
		WriteStallBegin: func(info pebble.WriteStallBeginInfo) {
			w.log.Warn("writes wait for the disk", "reason", info.Reason)
		},
	}
}
