package inbox

import (
	"slices"
	"strings"

	"github.com/greenroom-run/greenroom/actor"
)

// Name names the ordered messages of a commit that is complete: each by the version of its
// sender's row that the commit writes, and by its place among the messages of that sender. A
// message that has a name keeps it. It changes no reminder of the list that c came with, which
// turns look through while the commit is under way.
func Name(c *actor.Commit) {
	if !slices.ContainsFunc(c.Reminders.Set, unnamed) {
		return
	}
	c.Reminders.Set = slices.Clone(c.Reminders.Set)
	var places map[actor.Key]int
	for i := range c.Reminders.Set {
		r := &c.Reminders.Set[i]
		if !unnamed(*r) {
			continue
		}
		sender := senderOf(r.Message)
		version := writes(c, sender)
		if version == 0 { // no row orders it
			r.Name = actor.UnorderedMessageName(r.ID)
			continue
		}
		if places == nil {
			places = make(map[actor.Key]int)
		}
		r.Name = actor.MessageName(sender, version, places[sender])
		places[sender]++
	}
}

func unnamed(r actor.Reminder) bool { return r.Message != nil && r.Name == "" }

// writes returns the version of an actor's row that a commit writes; 0 if it writes none.
func writes(c *actor.Commit, key actor.Key) uint64 {
	for i := range c.Rows {
		if c.Rows[i].Key == key {
			return c.Rows[i].NewVersion
		}
	}
	return 0
}

// senderOf returns the actor whose messages a message is one of, for their order: the one that
// sent it, also on another's behalf.
func senderOf(m *actor.Message) actor.Key {
	if m.By.ID != "" {
		return m.By
	}
	return m.From
}

// Overtaken reports whether steps consume a message that its sender has sent to the same receiver
// after the ordered one of step.
func Overtaken(step *actor.ReminderStep, steps []actor.ReminderStep) bool {
	if !step.Ordered {
		return false
	}
	sender, ok := actor.SenderOfOrdered(step.Name)
	return ok && slices.ContainsFunc(steps, func(s actor.ReminderStep) bool {
		return s.Ordered && s.Key == step.Key && s.Name > step.Name && strings.HasPrefix(s.Name, sender)
	})
}
