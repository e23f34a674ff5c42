package nested

import (
	"github.com/greenroom-run/greenroom/host/call"
	"github.com/greenroom-run/greenroom/host/lane"
	"github.com/greenroom-run/greenroom/host/serving"
)

// ofChild completes a call of a child by a turn that has the child's place in its parent's mailbox.
func ofChild(t *lane.Run, c *call.Call) {
	if t.Of.Op == call.OpAll && c.Inv.Key.IsAnonymous() {
		c.Inv.Message = t.Of.Inv.Message
	}
}

// unkept reports whether a call is of a child whose type is placed so by now that no host keeps its
// actors in memory. s is nil if the chain has read the child.
func unkept(c *call.Call, s *serving.Type) bool {
	return c.Inv.Key.IsAnonymous() && s != nil && s.Lane != serving.LaneWarm
}
