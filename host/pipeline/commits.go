package pipeline

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// Committer is what commits need of a store; package store has the contract.
type Committer interface {
	Commit(ctx context.Context, commits []actor.Commit) []error
}

// Work is a commit on its way. It must not change between Submit and Done, but
// in what Commit does.
type Work interface {
	// App is the app of all the commit's actors.
	App() string
	// Size is how many bytes the commit has, roughly. It never blocks.
	Size() int64
	// Commit returns the commit. It is called at most once, when a worker has taken
	// the work, so that what needs encoding is encoded only now.
	Commit() actor.Commit
	// Done gets the store's answer, and when that came, on a goroutine of the
	// pipeline, which has more answers to hand out: it must be quick.
	Done(err error, at time.Time)
}

// Commits groups commits. All methods may be called concurrently.
type Commits struct {
	workers[Work]
	ctx    context.Context
	store  Committer
	groups sync.Pool // of *[]actor.Commit
}

// NewCommits returns a pipeline of commits to a store, all of which get ctx.
func NewCommits(ctx context.Context, cfg Config, store Committer) *Commits {
	c := &Commits{ctx: ctx, store: store}
	c.groups.New = func() any { return new([]actor.Commit) }
	c.init(cfg.WithDefaults(), Work.App, Work.Size, c.commit, c.refuseWork)
	// Whether it was applied is not known: the store may have had it.
	c.abandon = func(w Work) {
		w.Done(fmt.Errorf("%w: the host has failed while it was committed", actor.ErrAmbiguous), time.Now())
	}
	return c
}

// Submit queues work, or refuses it with actor.ErrUnavailable if too much
// waits; Done is not called then. It never blocks.
func (c *Commits) Submit(w Work) error { return c.put(w, false) }

// Bring is [Commits.Submit] for a caller that would only wait for the answer: it
// brings the work to the store itself if a worker is free, and returns after Done
// then. It saves the two changes of goroutine that an idle machine feels most.
func (c *Commits) Bring(w Work) error { return c.put(w, true) }

func (c *Commits) refuseWork(w Work, err error) { w.Done(err, time.Now()) }

// Stalled reports whether the store has answered nothing for Config.StallAfter
// while commits waited.
func (c *Commits) Stalled() bool { return c.stalled.Load() }

// Waiting returns how many commits wait for a worker: for metrics.
func (c *Commits) Waiting() int { return c.waiting() }

// Wait returns when no goroutine of the pipeline is left. Nothing may be
// submitted any more.
func (c *Commits) Wait() { c.working.Wait() }

func (c *Commits) commit(group []Work) func(int) {
	commits := c.groups.Get().(*[]actor.Commit)
	for _, w := range group {
		*commits = append(*commits, w.Commit())
	}
	errs := c.store.Commit(c.ctx, *commits)
	now := time.Now()
	clear(*commits)
	*commits = (*commits)[:0]
	c.groups.Put(commits)
	return func(i int) { group[i].Done(errs[i], now) }
}
