package inbox

import (
	"testing"

	"github.com/greenroom-run/greenroom/actor"
)

// TestName: messages are named by the versions that the commit writes, each sender's in their
// order, those on another's behalf with their sender's own; one whose sender the commit does not
// write has no order, and one that has a name keeps it.
func TestName(t *testing.T) {
	message := func(token uint32, from, by string) actor.Reminder {
		m := &actor.Message{From: to(from)}
		if by != "" {
			m.By = to(by)
		}
		return actor.Reminder{ID: actor.ReminderID{Prefix: 1, Token: token, Vector: actor.Vector{'a', 'a', 'a', 'a', 'a', 'a', 'a', 'a'}}, ReminderSpec: actor.ReminderSpec{Key: to("r"), Message: m}}
	}
	named := message(5, "a", "")
	named.Name = actor.UnorderedMessageName(named.ID)
	c := actor.CommitOf(actor.RowWrite{Key: to("a"), ReadVersion: 6, NewVersion: 7}, actor.RowWrite{Key: to("b"), NewVersion: 99})
	c.Reminders.Set = []actor.Reminder{
		message(1, "a", ""), message(2, "b", ""), message(3, "z", "a"), message(4, "elsewhere", ""), named,
		{ReminderSpec: actor.ReminderSpec{Key: to("a"), Name: "a reminder"}}, message(6, "a", ""),
	}
	before := c.Reminders.Set
	Name(&c)
	if before[0].Name != "" {
		t.Error("it has named a message of the list that turns look at")
	}
	want := []string{
		actor.MessageName(to("a"), 7, 0), actor.MessageName(to("b"), 99, 0), actor.MessageName(to("a"), 7, 1),
		actor.UnorderedMessageName(c.Reminders.Set[3].ID), named.Name, "a reminder", actor.MessageName(to("a"), 7, 2),
	}
	for i, r := range c.Reminders.Set {
		if r.Name != want[i] {
			t.Errorf("%d is %q, want %q", i, r.Name, want[i])
		}
	}
}

func TestOvertaken(t *testing.T) {
	step := func(from string, version uint64) actor.ReminderStep {
		return actor.ReminderStep{ReminderName: actor.ReminderName{Key: to("r"), Name: actor.MessageName(to(from), version, 0)}, Ordered: true}
	}
	first, unordered, elsewhere := step("a", 1), step("a", 1), step("a", 2)
	unordered.Ordered, elsewhere.Key = false, to("other")
	for _, c := range []struct {
		what  string
		step  actor.ReminderStep
		steps []actor.ReminderStep
		want  bool
	}{
		{"a later one of its sender", first, []actor.ReminderStep{step("b", 1), step("a", 2)}, true},
		{"an earlier one", step("a", 2), []actor.ReminderStep{first}, false},
		{"one of another sender", first, []actor.ReminderStep{step("b", 2)}, false},
		{"one to another receiver", first, []actor.ReminderStep{elsewhere}, false},
		{"a message without an order", unordered, []actor.ReminderStep{step("a", 2)}, false},
	} {
		if got := Overtaken(&c.step, c.steps); got != c.want {
			t.Errorf("%s: %t", c.what, got)
		}
	}
}
