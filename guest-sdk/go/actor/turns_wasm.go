package actor

// turnCount counts the turns under way: one at a time.
type turnCount struct{ n int }

func (c *turnCount) begin()        { c.n++ }
func (c *turnCount) end()          { c.n-- }
func (c *turnCount) running() bool { return c.n > 0 }
