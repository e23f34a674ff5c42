package faultstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// actors is the part of a store that turns use, with faults. Here and in the other parts the
// store beneath is a field, not embedded: a method that the contract gains must be thought
// about here before it compiles.
type actors struct {
	inner store.Actors
	plan  *plan
	holds *holds
}

func (s *actors) LoadActors(ctx context.Context, keys []actor.Key, opts actor.LoadOptions) ([]actor.Row, error) {
	if err := s.holds.pass(ctx, BeforeLoad); err != nil {
		return nil, err
	}
	if s.plan.fires(LoadFails) {
		return nil, LoadFails.unavailable()
	}
	return s.inner.LoadActors(ctx, keys, opts)
}

func (s *actors) Versions(ctx context.Context, keys []actor.Key) ([]actor.RowVersion, error) {
	if err := s.holds.pass(ctx, BeforeVersions); err != nil {
		return nil, err
	}
	if s.plan.fires(VersionsFail) {
		return nil, VersionsFail.unavailable()
	}
	return s.inner.Versions(ctx, keys)
}

func (s *actors) Commit(ctx context.Context, commits []actor.Commit) []error {
	if err := s.holds.pass(ctx, BeforeCommit); err != nil {
		return all(commits, err)
	}
	if len(commits) == 0 {
		return nil // nothing for a fault to happen to
	}
	faults := []Fault{CommitFails, CommitLost, CommitPartlyFails}
	if slices.ContainsFunc(store.ValidateGroup(commits), func(err error) bool { return err != nil }) {
		// What is refused may be so because of others of the group: without one of them it
		// would not be.
		faults = faults[:2]
	}
	switch f := s.plan.first(faults...); f {
	case CommitFails:
		return all(commits, f.unavailable())
	case CommitLost:
		return all(commits, f.ambiguous())
	case CommitPartlyFails:
		return s.commitWithout(ctx, commits, s.plan.pick(len(commits)))
	}
	return s.commitAndAnswer(ctx, commits)
}

// commitWithout fails one commit of a group and sends the others.
func (s *actors) commitWithout(ctx context.Context, commits []actor.Commit, out int) []error {
	rest := make([]actor.Commit, 0, len(commits))
	rest = append(append(rest, commits[:out]...), commits[out+1:]...)
	errs := s.commitAndAnswer(ctx, rest)
	return append(append(append([]error(nil), errs[:out]...), CommitPartlyFails.unavailable()), errs[out:]...)
}

func (s *actors) commitAndAnswer(ctx context.Context, commits []actor.Commit) []error {
	errs := s.inner.Commit(ctx, commits)
	if err := s.holds.pass(ctx, AfterCommit); err != nil {
		return all(commits, fmt.Errorf("%w while the answer was on its way: %w", err, actor.ErrAmbiguous))
	}
	if s.plan.fires(CommitReplyLost) {
		return all(commits, CommitReplyLost.ambiguous())
	}
	return errs
}

func all(commits []actor.Commit, err error) []error {
	errs := make([]error, len(commits))
	for i := range errs {
		errs[i] = err
	}
	return errs
}

func (s *actors) LockedTurn(ctx context.Context, key actor.Key, fn func(ctx context.Context, row actor.Row) (*actor.Commit, error)) (*actor.Commit, error) {
	for {
		var (
			fault Fault
			taken *actor.Commit
		)
		c, err := s.inner.LockedTurn(ctx, key, func(ctx context.Context, row actor.Row) (*actor.Commit, error) {
			fault = ""
			c, err := fn(ctx, row)
			if err != nil || c == nil {
				return c, err
			}
			if err := s.holds.pass(ctx, BeforeTurnCommit); err != nil {
				return nil, err
			}
			if fault = s.plan.first(TurnRetried, TurnFails, TurnLost); fault != "" {
				taken = c
				return nil, errTaken
			}
			return c, nil
		})
		if fault != "" && errors.Is(err, errTaken) {
			switch fault {
			case TurnRetried:
				continue
			case TurnLost:
				return taken, fault.ambiguous()
			default:
				return nil, fault.unavailable()
			}
		}
		if err == nil && c != nil && s.plan.fires(TurnReplyLost) {
			return c, TurnReplyLost.ambiguous()
		}
		return c, err
	}
}

// errTaken ends the inner transaction of a locked turn whose commit a fault took.
var errTaken = errors.New("a planned fault took the commit")

func (s *actors) Settle(ctx context.Context, c actor.Commit) error {
	if err := s.holds.pass(ctx, BeforeSettle); err != nil {
		return err
	}
	if s.plan.fires(SettleFails) {
		return SettleFails.unavailable()
	}
	err := s.inner.Settle(ctx, c)
	if s.plan.fires(SettleReplyLost) {
		return SettleReplyLost.unavailable()
	}
	return err
}

func (s *actors) ListActors(ctx context.Context, q store.ActorQuery) ([]store.ActorInfo, string, error) {
	return s.inner.ListActors(ctx, q)
}

func (s *actors) ScanActors(ctx context.Context, q store.ActorScan, visit func(*store.ScannedActor) bool) (int, string, error) {
	return s.inner.ScanActors(ctx, q, visit)
}

func (s *actors) LoadIdempotency(ctx context.Context, calls []actor.KeyedCall) ([]actor.Recorded, error) {
	if s.plan.fires(RecordLoadFails) {
		return nil, RecordLoadFails.unavailable()
	}
	return s.inner.LoadIdempotency(ctx, calls)
}

func (s *actors) SweepIdempotency(ctx context.Context, limit int) (int, error) {
	return s.inner.SweepIdempotency(ctx, limit)
}

func (s *actors) SweepTombstones(ctx context.Context, before time.Time, limit int) (int, error) {
	return s.inner.SweepTombstones(ctx, before, limit)
}
