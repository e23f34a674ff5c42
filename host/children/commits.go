package children

import (
	"errors"

	"github.com/greenroom-run/greenroom/actor"
)

func isAmbiguous(err error) bool { return errors.Is(err, actor.ErrAmbiguous) }

func isStale(err error) bool { return errors.Is(err, actor.ErrStale) }

// hasChildren reports whether one of the commits names a child.
func hasChildren(commits []actor.Commit) bool {
	for i := range commits {
		c := &commits[i]
		for j := range c.Rows {
			if c.Rows[j].Key.IsAnonymous() {
				return true
			}
		}
		for j := range c.Fences {
			if c.Fences[j].Key.IsAnonymous() {
				return true
			}
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

// writes reports whether a commit changes the store, and does not only fence.
func writes(c *actor.Commit) bool {
	return len(c.Rows)+len(c.Records)+len(c.Events)+len(c.Services) > 0 || !c.Reminders.Empty()
}
