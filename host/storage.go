package host

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/pipeline"
	"github.com/greenroom-run/greenroom/host/residency"
	"github.com/greenroom-run/greenroom/host/serving"
)

// storage is what the host asks of its store: in groups with others, and under a
// context of its own, so that what has to be carried through does not end with a
// caller.
type storage struct {
	committer Committer
	grace     time.Duration // Config.SettleGrace
	events    *Events
	// ctx ends with a forced stop.
	ctx      context.Context
	end      context.CancelFunc
	commits  *pipeline.Commits
	loads    *pipeline.Loads
	versions *pipeline.Asks[actor.Key, actor.RowVersion]
	records  *pipeline.Asks[actor.KeyedCall, actor.Recorded]
	// reminders is nil where there are none.
	reminders *pipeline.Asks[actor.ReminderName, actor.Reminder]
}

func newStorage(cfg *Config, events *Events) *storage {
	st := &storage{committer: cfg.Committer, grace: cfg.SettleGrace, events: events}
	st.ctx, st.end = context.WithCancel(context.Background())
	st.commits = pipeline.NewCommits(st.ctx, cfg.Pipeline, cfg.Committer)
	st.loads = pipeline.NewLoads(st.ctx, cfg.Pipeline, cfg.Committer)
	st.versions = pipeline.NewAsks(st.ctx, cfg.Pipeline, cfg.Committer.Versions, func(k actor.Key) string { return k.App }, func(actor.RowVersion) int64 { return 0 })
	st.records = pipeline.NewAsks(st.ctx, cfg.Pipeline, cfg.Committer.LoadIdempotency,
		func(c actor.KeyedCall) string { return c.Actor.App }, func(r actor.Recorded) int64 { return int64(len(r.Record.Reply.Data)) })
	if cfg.Reminders != nil {
		st.reminders = pipeline.NewAsks(st.ctx, cfg.Pipeline, cfg.Reminders.FindReminders,
			func(n actor.ReminderName) string { return n.Key.App }, func(r actor.Reminder) int64 { return int64(r.Size()) })
	}
	return st
}

// wait waits for what was asked, after which nothing more may be.
func (st *storage) wait() {
	st.commits.Wait()
	st.loads.Wait()
	st.versions.Wait()
	st.records.Wait()
	if st.reminders != nil {
		st.reminders.Wait()
	}
}

// soleCommit is a commit that one goroutine waits for.
type soleCommit struct {
	commit actor.Commit
	answer chan error
}

func (c *soleCommit) Size() int64 {
	n := 0
	for i := range c.commit.Rows {
		if state := c.commit.Rows[i].State; state != nil {
			n += len(state.Data)
		}
	}
	return int64(n)
}

func (c *soleCommit) App() string { return c.commit.Anchor().Key.App }

func (c *soleCommit) Commit() actor.Commit { return c.commit }

func (c *soleCommit) Done(err error, _ time.Time) { c.answer <- err }

// commit makes a commit durable, in a group with others. The error is nil when
// it applied; actor.ErrStale when it never did and never will;
// actor.ErrAmbiguous when nobody can tell; anything else means not applied.
func (st *storage) commit(c actor.Commit, lane serving.Lane) error {
	began := time.Now()
	// Not under the caller's context: a sealed turn is carried through.
	w := &soleCommit{commit: c, answer: make(chan error, 1)}
	err := st.commits.Submit(w)
	if err == nil {
		err = <-w.answer
	}
	if errors.Is(err, actor.ErrAmbiguous) {
		err = st.settle(c, err)
	}
	if err != nil {
		err = fmt.Errorf("commit turn: %w", err)
	}
	st.events.Commit(CommitEnd{Key: c.Anchor().Key, Lane: lane, Duration: time.Since(began), GroupSize: 1, Err: err})
	return err
}

// settle decides an ambiguous commit, trying for as long as Config.SettleGrace.
func (st *storage) settle(c actor.Commit, cause error) error {
	ctx, cancel := context.WithTimeout(st.ctx, st.grace)
	defer cancel()
	const shortest, longest = 5 * time.Millisecond, time.Second
	for wait := shortest; ; wait = min(2*wait, longest) {
		err := st.committer.Settle(ctx, c)
		switch {
		case err == nil, errors.Is(err, actor.ErrStale):
			return err
		case errors.Is(err, actor.ErrAmbiguous):
			return err
		}
		if !sleep(ctx, wait/2+rand.N(wait/2)) {
			// The causes as text: whatever they match, the outcome is unknown.
			return fmt.Errorf("%w: not settled in %s: %v, after: %v", actor.ErrAmbiguous, st.grace, err, cause)
		}
	}
}

// load reads one row, together with others. A damaged one is a result, since it
// can still be deleted.
func (st *storage) load(ctx context.Context, key actor.Key, opts actor.LoadOptions) (*residency.Row, error) {
	row, err := st.loads.Load(ctx, key, opts)
	return residency.ReadRow(key, row, err)
}

// version asks the store for an actor's version.
func (st *storage) version(ctx context.Context, key actor.Key) (version uint64, asked time.Time, err error) {
	asked = time.Now()
	v, err := st.versions.Get(ctx, key)
	if err != nil {
		err = fmt.Errorf("confirm version: %w", err)
	}
	return v.Version, asked, err
}

// sleep waits for d and reports false when ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
