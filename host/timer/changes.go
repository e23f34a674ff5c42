package timer

import (
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/turn"
)

// Changes is what a call does in memory alone, from the end of its run until its answer: to the
// timers and watches of its actor, and the volatile messages that it sends. The lock of the schedule guards
// it once it waits there. Nil changes nothing.
type Changes struct {
	effects []turn.TimerEffect
	watches []turn.WatchEffect
	tells   []actor.Tell
	placed  bool
	fate    fate
	waits   bool // in timers.changes
}

// fate is whether changes take effect.
type fate uint8

const (
	undecided fate = iota
	applied
	dropped
)

// NewChanges returns the changes that a run has made, nil if there are none. placed reports
// whether the type has activations that stay: then the actor's timers end with its
// activation.
func NewChanges(of turn.TimerChanges, tells []actor.Tell, placed bool) *Changes {
	effects, watches := of.Effects(), of.Watches()
	if len(effects)+len(watches)+len(tells) == 0 {
		return nil
	}
	return &Changes{effects: effects, watches: watches, tells: tells, placed: placed}
}

// Size is what the timers that are set, and the messages, take while they wait.
func (c *Changes) Size() (n int64) {
	if c == nil {
		return 0
	}
	for _, e := range c.effects {
		if n += cost; e.Set != nil {
			n += e.Set.Size()
		}
	}
	for i := range c.watches {
		n += cost + c.watches[i].Size()
	}
	for i := range c.tells {
		n += cost + c.tells[i].Size()
	}
	return n
}

func (c *Changes) empty() bool {
	return c == nil || len(c.effects)+len(c.watches)+len(c.tells) == 0
}

// endsAll reports whether all timers and watches of the actor end, before others begin.
func (c *Changes) endsAll() bool { return len(c.effects) > 0 && c.effects[0].All }
