// Package storage sends a host's requests to its store: in groups (package pipeline), and under a
// context of its own, so that a commit that has to be carried through does not end with its caller.
// It settles commits whose outcome is unknown.
package storage

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

// Store is a host's store. All methods may be called concurrently.
type Store struct {
	Committer Committer
	Committed func(CommitEnd) // that of the Config
	grace     time.Duration
	// Context ends with a forced stop, by End.
	Context  context.Context
	End      context.CancelFunc
	Commits  *pipeline.Commits
	loads    *pipeline.Loads
	Versions *pipeline.Asks[actor.Key, actor.RowVersion]
	Records  *pipeline.Asks[actor.KeyedCall, actor.Recorded]
	// Reminders is nil where there are none.
	Reminders *pipeline.Asks[actor.ReminderName, actor.Reminder]
}

// Config is what a [Store] is made of.
type Config struct {
	Committer Committer
	Pipeline  pipeline.Config
	// FindReminders reads reminders by name; nil where there are none.
	FindReminders func(ctx context.Context, names []actor.ReminderName) ([]actor.Reminder, error)
	// Grace is for how long an ambiguous commit is settled.
	Grace time.Duration
	// Committed is called once for every attempt to commit, when its outcome is known or
	// given up.
	Committed func(CommitEnd)
}

// New returns a store that can be asked.
func New(cfg Config) *Store {
	st := &Store{Committer: cfg.Committer, grace: cfg.Grace, Committed: cfg.Committed}
	st.Context, st.End = context.WithCancel(context.Background())
	st.Commits = pipeline.NewCommits(st.Context, cfg.Pipeline, cfg.Committer)
	st.loads = pipeline.NewLoads(st.Context, cfg.Pipeline, cfg.Committer)
	st.Versions = pipeline.NewAsks(st.Context, cfg.Pipeline, cfg.Committer.Versions, func(k actor.Key) string { return k.App }, func(actor.RowVersion) int64 { return 0 })
	st.Records = pipeline.NewAsks(st.Context, cfg.Pipeline, st.LoadIdempotency,
		func(c actor.KeyedCall) string { return c.Actor.App }, func(r actor.Recorded) int64 { return int64(len(r.Record.Reply.Data)) })
	if cfg.FindReminders != nil {
		st.Reminders = pipeline.NewAsks(st.Context, cfg.Pipeline, cfg.FindReminders,
			func(n actor.ReminderName) string { return n.Key.App }, func(r actor.Reminder) int64 { return int64(r.Size()) })
	}
	return st
}

// Wait waits for what was asked, after which nothing more may be.
func (st *Store) Wait() {
	st.Commits.Wait()
	st.loads.Wait()
	st.Versions.Wait()
	st.Records.Wait()
	if st.Reminders != nil {
		st.Reminders.Wait()
	}
}

// LoadIdempotency returns what is recorded of calls, of each its reply if there is one, and otherwise its mark.
func (st *Store) LoadIdempotency(ctx context.Context, calls []actor.KeyedCall) ([]actor.Recorded, error) {
	found, err := st.Committer.LoadIdempotency(ctx, calls)
	if err != nil {
		return nil, err
	}
	var marked []int
	var done []actor.KeyedCall
	for i := range found {
		if found[i].Found && found[i].Record.Mark != nil {
			marked, done = append(marked, i), append(done, calls[i].Done())
		}
	}
	if len(marked) == 0 {
		return found, nil
	}
	replies, err := st.Committer.LoadIdempotency(ctx, done)
	if err != nil {
		return nil, err
	}
	for n, i := range marked {
		if replies[n].Found || replies[n].Err != nil {
			found[i] = replies[n]
		}
	}
	return found, nil
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

// Commit makes a commit durable, in a group with others. The error is nil when
// it applied; actor.ErrStale when it never did and never will;
// actor.ErrAmbiguous when nobody can tell; anything else means not applied.
func (st *Store) Commit(c actor.Commit, lane serving.Lane) error {
	began := time.Now()
	// Not under the caller's context: a sealed turn is carried through.
	w := &soleCommit{commit: c, answer: make(chan error, 1)}
	err := st.Commits.Submit(w)
	if err == nil {
		err = <-w.answer
	}
	if errors.Is(err, actor.ErrAmbiguous) {
		err = st.Settle(c, err)
	}
	if err != nil {
		err = fmt.Errorf("commit turn: %w", err)
	}
	st.Committed(CommitEnd{Key: c.Anchor().Key, Lane: lane, Duration: time.Since(began), GroupSize: 1, Err: err})
	return err
}

// Settle decides an ambiguous commit, trying for as long as the grace.
func (st *Store) Settle(c actor.Commit, cause error) error {
	ctx, cancel := context.WithTimeout(st.Context, st.grace)
	defer cancel()
	const shortest, longest = 5 * time.Millisecond, time.Second
	for wait := shortest; ; wait = min(2*wait, longest) {
		err := st.Committer.Settle(ctx, c)
		switch {
		case err == nil, errors.Is(err, actor.ErrStale):
			return err
		case errors.Is(err, actor.ErrAmbiguous):
			return err
		}
		select {
		case <-time.After(wait/2 + rand.N(wait/2)):
		case <-ctx.Done():
			// The causes as text: whatever they match, the outcome is unknown.
			return fmt.Errorf("%w: not settled in %s: %v, after: %v", actor.ErrAmbiguous, st.grace, err, cause)
		}
	}
}

// Load reads one row, together with others. A damaged one is a result, since it
// can still be deleted.
func (st *Store) Load(ctx context.Context, key actor.Key, opts actor.LoadOptions) (*residency.Row, error) {
	row, err := st.loads.Load(ctx, key, opts)
	return residency.ReadRow(key, row, err)
}

// Version asks the store for an actor's version.
func (st *Store) Version(ctx context.Context, key actor.Key) (version uint64, asked time.Time, err error) {
	asked = time.Now()
	v, err := st.Versions.Get(ctx, key)
	if err != nil {
		err = fmt.Errorf("confirm version: %w", err)
	}
	return v.Version, asked, err
}

// Committer is what the host needs of a store; package store documents the
// contract of each method.
type Committer interface {
	LoadActors(ctx context.Context, keys []actor.Key, opts actor.LoadOptions) ([]actor.Row, error)
	Commit(ctx context.Context, commits []actor.Commit) []error
	LockedTurn(ctx context.Context, key actor.Key, fn func(ctx context.Context, row actor.Row) (*actor.Commit, error)) (*actor.Commit, error)
	Settle(ctx context.Context, c actor.Commit) error
	Versions(ctx context.Context, keys []actor.Key) ([]actor.RowVersion, error)
	LoadIdempotency(ctx context.Context, calls []actor.KeyedCall) ([]actor.Recorded, error)
	// Shared reports whether other processes may write to the store.
	Shared() bool
}

// CommitEnd is one finished attempt to commit.
type CommitEnd struct {
	Key      actor.Key
	Lane     serving.Lane
	Duration time.Duration // settling included
	// GroupSize is how many turns the commit carried.
	GroupSize int
	// Err is nil for a commit that is known to have been applied.
	Err error
}
