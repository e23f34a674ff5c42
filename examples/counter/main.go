// Command counter is a Greenroom guest with one actor type, Counter: a number
// that survives restarts. It is the smallest whole actor, and a good place to
// start reading.
package main

import "github.com/greenroom-run/greenroom/guest-sdk/go/actor"

// Counter is the state of one counter. It is loaded before each method and saved
// after it; there is nothing else to do to make it durable.
type Counter struct {
	Count int64 `json:"count"`
}

// Add is the input of the method Add.
type Add struct {
	// Amount is what to add; below zero it subtracts.
	Amount int64 `json:"amount"`
}

// Value is what every method answers.
type Value struct {
	Count int64 `json:"count"`
}

// Add adds to the counter. Two calls never interleave, however many callers there
// are, and the caller has its answer only once the sum is on disk.
func (c *Counter) Add(ctx *actor.Context, in Add) (Value, error) {
	sum := c.Count + in.Amount
	if (sum < c.Count) != (in.Amount < 0) {
		// An error undoes the turn and reaches the caller with its code.
		return Value{}, actor.Errorf("overflow", "%d and %d are more than a counter holds", c.Count, in.Amount)
	}
	c.Count = sum
	return Value{c.Count}, nil
}

// Get reads the counter.
func (c *Counter) Get(ctx *actor.Context, _ actor.None) (Value, error) {
	return Value{c.Count}, nil
}

// Reset sets the counter to zero and answers what it was.
func (c *Counter) Reset(ctx *actor.Context, _ actor.None) (Value, error) {
	was := c.Count
	c.Count = 0
	ctx.Log().Info("counter reset", "was", was)
	return Value{was}, nil
}

func init() {
	actor.Register("Counter",
		actor.Method("Add", (*Counter).Add),
		actor.ReadOnly("Get", (*Counter).Get),
		actor.Method("Reset", (*Counter).Reset),
	)
}

func main() {}
