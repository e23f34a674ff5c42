package children

import (
	"context"
	"errors"
	"fmt"

	"github.com/greenroom-run/greenroom/actor"
)

func isAmbiguous(err error) bool { return errors.Is(err, actor.ErrAmbiguous) }

func isStale(err error) bool { return errors.Is(err, actor.ErrStale) }

// hasChildren reports whether a commit names a child.
func hasChildren(c actor.Commit) bool {
	for i := range c.Rows {
		if c.Rows[i].Key.IsAnonymous() {
			return true
		}
	}
	for i := range c.Fences {
		if c.Fences[i].Key.IsAnonymous() {
			return true
		}
	}
	return false
}

// parts returns what a commit does to children, and the rest of it.
func parts(c *actor.Commit) (own, rest actor.Commit) {
	own.ID, rest = c.ID, *c
	rest.Rows, rest.Fences = nil, nil
	for i := range c.Rows {
		to := &rest
		if c.Rows[i].Key.IsAnonymous() {
			to = &own
		}
		to.Rows = append(to.Rows, c.Rows[i])
	}
	for _, f := range c.Fences {
		to := &rest
		if f.Key.IsAnonymous() {
			to = &own
		}
		to.Fences = append(to.Fences, f)
	}
	return own, rest
}

// writes reports whether a commit does more than to fence.
func writes(c *actor.Commit) bool {
	return len(c.Rows)+len(c.Records)+len(c.Events)+len(c.Services) > 0 || !c.Reminders.Empty()
}

// mayEnd reports whether commits delete an actor while there are families: it may be a parent.
func (s *Store) mayEnd(commits []actor.Commit) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.parent) == 0 {
		return false
	}
	for i := range commits {
		for j := range commits[i].Rows {
			if commits[i].Rows[j].Delete {
				return true
			}
		}
	}
	return false
}

// check reports whether the children of a commit are as it has read them.
func (s *Store) check(own *actor.Commit) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range own.Rows {
		if !s.holds(own.Rows[i].Fence()) {
			return false
		}
	}
	for _, f := range own.Fences {
		if !s.holds(f) {
			return false
		}
	}
	return true
}

// apply does to children what a commit asks for whose rest has been applied. A parent that is deleted
// or passes away leaves no children.
func (s *Store) apply(own, rest *actor.Commit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range own.Rows {
		s.write(own.ID, &own.Rows[i])
	}
	for i := range rest.Rows {
		if rest.Rows[i].Delete {
			s.end(rest.Rows[i].Key)
		}
	}
}

// fence confirms that actors are as a commit has read them that does nothing to the store.
func (s *Store) fence(ctx context.Context, read []actor.RowFence) error {
	if len(read) == 0 || !s.behind.Shared() { // this host alone writes, and its turns are in order
		return nil
	}
	keys := make([]actor.Key, len(read))
	for i := range read {
		keys[i] = read[i].Key
	}
	now, err := s.behind.Versions(ctx, keys)
	if err != nil {
		return fmt.Errorf("confirm version: %w", err)
	}
	for i := range read {
		if now[i].Version != read[i].Version {
			return fmt.Errorf("%s has version %d, and version %d was read: %w", read[i].Key, now[i].Version, read[i].Version, actor.ErrStale)
		}
	}
	return nil
}
