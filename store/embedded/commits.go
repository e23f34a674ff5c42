package embedded

import (
	"context"
	"errors"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// commits writes commits, and settles those whose answers were lost.
type commits struct{ *writer }

// Commit implements [store.Actors]. The whole group is one batch.
func (s *commits) Commit(ctx context.Context, commits []actor.Commit) []error {
	invalid := store.ValidateGroup(commits)
	calls := callsOf(commits)
	var refused []error
	err := s.enter(ctx)
	if err == nil {
		defer s.leave()
		err = s.write(ctx, writeOptions{bytes: groupBytes(commits)}, func(tx *tx) error {
			if err := tx.records.lookUp(calls); err != nil {
				return unavailable(err)
			}
			rest := calls
			for i := range commits {
				n := len(commits[i].Records)
				own := rest[:n]
				rest = rest[n:]
				if invalid[i] != nil {
					continue
				}
				refusal, err := tx.commit(&commits[i], own)
				if err != nil {
					return unavailable(err)
				}
				if refusal == nil {
					continue
				}
				if refused == nil {
					refused = make([]error, len(commits))
				}
				refused[i] = refusal
			}
			return nil
		})
	}
	errs := make([]error, len(commits))
	for i := range errs {
		switch {
		case invalid[i] != nil:
			errs[i] = invalid[i]
		case refused != nil && refused[i] != nil:
			errs[i] = refused[i] // certain, whatever happened to the others
		default:
			if errs[i] = err; err == nil {
				s.tx.reminders.order.Applied(&commits[i])
			}
		}
	}
	return errs
}

// rowOverhead is about what a row takes beside its state: key, header, lengths. A reminder
// takes as much, and so do the keys of its indexes.
const rowOverhead = 160

// groupBytes is about what a group writes.
func groupBytes(commits []actor.Commit) int {
	n := rowOverhead
	for i := range commits {
		c := &commits[i]
		for j := range c.Rows {
			n += rowOverhead
			if state := c.Rows[j].State; state != nil {
				n += len(state.Data)
			}
		}
		for j := range c.Records {
			n += rowOverhead + store.RecordSize(&c.Records[j])
		}
		for j := range c.Reminders.Set {
			n += 3*rowOverhead + len(c.Reminders.Set[j].Payload.Data)
		}
		for j := range c.Events {
			n += rowOverhead + 2*c.Events[j].Size()
		}
	}
	return n
}

func (s *commits) Settle(ctx context.Context, c actor.Commit) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	if err := errors.Join(store.ValidateGroup([]actor.Commit{c})...); err != nil {
		return err
	}
	var verdict error
	err := s.write(ctx, writeOptions{}, func(tx *tx) (err error) {
		verdict, err = tx.settle(&c)
		return err
	})
	if err != nil {
		return unavailable(err) // settling may always go again
	}
	return verdict
}
