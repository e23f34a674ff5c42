// Command families is a guest whose parents count together with volatile children, and count alone when
// they find them gone.
package main

import (
	"errors"

	"github.com/greenroom-run/greenroom/guest-sdk/go/actor"
)

// Parent counts, and has two children that count with it.
type Parent struct {
	Total int `json:"total"`
	// Children are one with a mailbox of its own, and one that shares its parent's.
	Children [2]struct {
		Ref     actor.Ref `json:"ref"`
		Counted int       `json:"counted"` // by this one
		Gone    int       `json:"gone"`    // those before it that it has found gone
	} `json:"children"`
}

// Order says which child counts, and whether the turn fails then.
type Order struct {
	Child int  `json:"child"`
	Fail  bool `json:"fail"`
}

// Count counts one more, and has a child do so. Where there is none, it makes one.
func (p *Parent) Count(ctx *actor.Context, in Order) (Parent, error) {
	p.Total++
	c := &p.Children[in.Child]
	if c.Ref.ID != "" {
		n, err := actor.Call[int](ctx, c.Ref, "Count", nil)
		var e *actor.Error
		switch {
		case err == nil:
			if c.Counted++; n != c.Counted {
				return *p, actor.Errorf("differs", "the child has counted %d, and its parent %d", n, c.Counted)
			}
			return *p, told(in)
		case !errors.As(err, &e) || e.Code != "passed_away":
			return *p, err
		}
		c.Gone++
	}
	var options []actor.ChildOption
	if in.Child == 1 {
		options = append(options, actor.SharedMailbox())
	}
	made, err := actor.SpawnChild(ctx, "Child", options...)
	if err != nil {
		return *p, err
	}
	c.Ref, c.Counted = made, 0
	return *p, told(in)
}

func told(in Order) error {
	if in.Fail {
		return actor.Errorf("told_to", "as it was told")
	}
	return nil
}

// Child counts.
type Child struct {
	Counted int `json:"counted"`
}

// Count counts one more.
func (c *Child) Count(*actor.Context, actor.None) (int, error) {
	c.Counted++
	return c.Counted, nil
}

func init() {
	actor.Register("Parent", actor.Method("Count", (*Parent).Count))
	actor.Register("Child", actor.Method("Count", (*Child).Count))
}

func main() {}
