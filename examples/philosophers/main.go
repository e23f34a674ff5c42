// Command philosophers is a guest with two actor types: philosophers who sit around a table
// and share forks, one between each two of them. To eat, a philosopher needs both.
package main

import (
	"strconv"

	"github.com/greenroom-run/greenroom/guest-sdk/go/actor"
)

// Fork is the state of a fork.
type Fork struct {
	Used int `json:"used"`
	// By is who used it last.
	By string `json:"by,omitempty"`
}

// Use is a meal. From here on the fork is the transaction's, until all of it is committed:
// calls of others wait.
func (f *Fork) Use(ctx *actor.Context, _ actor.None) (int, error) {
	f.Used++
	f.By = ctx.Cause().From.ID
	return f.Used, nil
}

// View reads the fork.
func (f *Fork) View(*actor.Context, actor.None) (Fork, error) { return *f, nil }

// Philosopher is the state of a philosopher, whose ID is the number of the seat, from 0 on.
type Philosopher struct {
	Meals int `json:"meals"`
}

// Table is where a philosopher sits.
type Table struct {
	Seats int `json:"seats"`
}

var use = actor.Remote[actor.None, int]{Type: "Fork", Method: "Use"}

// Eat takes the left fork, then the right one. If all do that at once, each waits for its
// neighbour: a circle. The server sees it when it closes: one of them puts its fork back, as
// if nothing had been, and begins again when the others have eaten.
func (p *Philosopher) Eat(ctx *actor.Context, in Table) (int, error) {
	left, right, err := seat(ctx, in)
	if err != nil {
		return 0, err
	}
	return p.eat(ctx, left, right)
}

// EatInOrder takes the fork of the smaller number first. There is no circle then: who has
// the last fork waits for nobody.
func (p *Philosopher) EatInOrder(ctx *actor.Context, in Table) (int, error) {
	left, right, err := seat(ctx, in)
	if err != nil {
		return 0, err
	}
	return p.eat(ctx, min(left, right), max(left, right))
}

func seat(ctx *actor.Context, in Table) (left, right int, err error) {
	left, err = strconv.Atoi(ctx.ID())
	if err != nil || in.Seats < 2 || left < 0 || left >= in.Seats {
		return 0, 0, actor.Errorf("no_seat", "the table has no seat %q; give two or more seats, and a number below that as ID", ctx.ID())
	}
	return left, (left + 1) % in.Seats, nil
}

func (p *Philosopher) eat(ctx *actor.Context, first, second int) (int, error) {
	for _, fork := range []int{first, second} {
		if _, err := use.Call(ctx, strconv.Itoa(fork), actor.None{}); err != nil {
			return 0, err
		}
	}
	p.Meals++
	return p.Meals, nil
}

// View reads the philosopher.
func (p *Philosopher) View(*actor.Context, actor.None) (Philosopher, error) { return *p, nil }

func init() {
	actor.Register("Fork", actor.Method("Use", (*Fork).Use, actor.Private()), actor.ReadOnly("View", (*Fork).View))
	actor.Register("Philosopher",
		actor.Method("Eat", (*Philosopher).Eat),
		actor.Method("EatInOrder", (*Philosopher).EatInOrder),
		actor.ReadOnly("View", (*Philosopher).View),
	)
}

func main() {}
