// Command goguest is the counter of bench/guest in Go: the same method on the same
// state, for what the language of a guest costs.
package main

import "github.com/greenroom-run/greenroom/guest-sdk/go/actor"

// Counter is a number.
type Counter struct {
	Count int64 `json:"count"`
}

// Add adds to it.
func (c *Counter) Add(_ *actor.Context, amount int64) (int64, error) {
	c.Count += amount
	return c.Count, nil
}

// Fill makes the actor carry that many bytes, which no other method touches.
func (c *Counter) Fill(ctx *actor.Context, bytes int64) (bool, error) {
	return true, ctx.State().SetBytes("ballast", make([]byte, bytes))
}

func init() {
	actor.Register("Counter", actor.Method("Add", (*Counter).Add), actor.Method("Fill", (*Counter).Fill))
}

func main() {}
