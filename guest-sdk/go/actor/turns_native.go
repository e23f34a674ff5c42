//go:build !wasm

package actor

import "sync/atomic"

// turnCount counts the turns under way, of all kits of the process.
type turnCount struct{ n atomic.Int32 }

func (c *turnCount) begin()        { c.n.Add(1) }
func (c *turnCount) end()          { c.n.Add(-1) }
func (c *turnCount) running() bool { return c.n.Load() > 0 }
