package reminder

import (
	"context"

	"github.com/greenroom-run/greenroom/actor"
)

// alone is the one process of a store that nobody shares.
type alone struct{ self actor.HostID }

func (a alone) Self() actor.HostID { return a.self }
func (a alone) Live(context.Context) ([]actor.HostID, bool, error) {
	return []actor.HostID{a.self}, true, nil
}
func (a alone) Connected(live []actor.HostID) []actor.HostID { return live }
func (a alone) Current() bool                                { return true }
func (a alone) Leave(context.Context) error                  { return nil }
