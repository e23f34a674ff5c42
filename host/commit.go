package host

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// soleCommit is a commit that one goroutine waits for.
type soleCommit struct {
	commit actor.Commit
	answer chan error
}

func (c *soleCommit) Size() int64 {
	if c.commit.Effects.State == nil {
		return 0
	}
	return int64(len(c.commit.Effects.State.Data))
}

func (c *soleCommit) Commit() actor.Commit { return c.commit }

func (c *soleCommit) Done(err error, _ time.Time) { c.answer <- err }

// commit makes a commit durable, in a group with others. The error is nil when
// it applied; actor.ErrStale when it never did and never will;
// actor.ErrAmbiguous when nobody can tell; anything else means not applied.
func (h *Host) commit(c actor.Commit, lane Lane) error {
	began := time.Now()
	// Not under the caller's context: a sealed turn is carried through.
	w := &soleCommit{commit: c, answer: make(chan error, 1)}
	err := h.commits.Submit(w)
	if err == nil {
		err = <-w.answer
	}
	if errors.Is(err, actor.ErrAmbiguous) {
		err = h.settle(c, err)
	}
	if err != nil {
		err = fmt.Errorf("commit turn: %w", err)
	}
	h.events.Commit(CommitEnd{Key: c.Key, Lane: lane, Duration: time.Since(began), GroupSize: 1, Err: err})
	return err
}

// settle decides an ambiguous commit, trying for as long as Config.SettleGrace.
func (h *Host) settle(c actor.Commit, cause error) error {
	ctx, cancel := context.WithTimeout(h.store, h.cfg.SettleGrace)
	defer cancel()
	const shortest, longest = 5 * time.Millisecond, time.Second
	for wait := shortest; ; wait = min(2*wait, longest) {
		err := h.cfg.Committer.Settle(ctx, c)
		switch {
		case err == nil, errors.Is(err, actor.ErrStale):
			return err
		case errors.Is(err, actor.ErrAmbiguous):
			return err
		}
		if !sleep(ctx, wait/2+rand.N(wait/2)) {
			// The causes as text: whatever they match, the outcome is unknown.
			return fmt.Errorf("%w: not settled in %s: %v, after: %v", actor.ErrAmbiguous, h.cfg.SettleGrace, err, cause)
		}
	}
}
