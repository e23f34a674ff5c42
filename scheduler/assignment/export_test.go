package assignment

import (
	"github.com/greenroom-run/greenroom/scheduler/placement"
	"github.com/greenroom-run/greenroom/scheduler/protocol"
)

// serving returns the hosts that a type's table is computed from, in order, and the policy
// by which they run it.
func (t *Tables) serving(name protocol.TypeName) (hosts []placement.HostID, policy string) {
	r := t.roleOf(name)
	return t.set(r.reports).serving, r.policy
}
