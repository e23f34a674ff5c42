package reminder

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// simMessageKinds are what must happen to messages in all seeds together.
var simMessageKinds = []string{
	"message sent", "message sent from a turn", "message delayed", "message consumed", "message refused for its order", "message failed, to be tried again",
	"message forwarded", "message dead", "message comes back", "message that came back consumed", "message too old",
}

// messageAttempts is how often messages are delivered.
const messageAttempts = 3

// message adds a message of an actor to a commit, as its turn does: the commit writes its row.
func (w *simulation) message(ctx context.Context, p *simProcess, from actor.Key, c *actor.Commit) bool {
	to, onward, now := w.someName().Key, w.someName().Key, w.now()
	to.App, onward.App = from.App, from.App
	spec := actor.ReminderSpec{
		Key: to, Method: "M", Message: &actor.Message{From: from},
		Failure: actor.FailurePolicy{Interval: 200 * time.Millisecond, Attempts: messageAttempts},
	}
	w.noise.mu.Lock()
	rng := w.noise.rng
	if rng.IntN(3) == 0 {
		spec.Method = "Bad"
	}
	if rng.IntN(2) == 0 {
		spec.Message.Undelivered = "Sorry"
	}
	if rng.IntN(3) == 0 {
		spec.Message.Forward = onward
	}
	if rng.IntN(4) == 0 {
		spec.Schedule.Until = now.Add(20 * time.Second)
	}
	if rng.IntN(5) == 0 {
		spec.Schedule.After = time.Duration(rng.Int64N(int64(10 * time.Second)))
	}
	w.noise.mu.Unlock()
	r, err := p.service.Prepare(ctx, spec)
	if err != nil {
		return false
	}
	w.judge.prepared(r.ID)
	w.db.mu.Lock()
	version := w.db.rows[from]
	w.db.mu.Unlock()
	if r.Name == "" {
		r.Name = actor.MessageName(from, version+1, 0)
	} else {
		w.total.add("message delayed", 1)
	}
	c.Rows = []actor.RowWrite{{Key: from, ReadVersion: version, NewVersion: version + 1}}
	c.Reminders.Set = append(c.Reminders.Set, r)
	return true
}

// send sends a message from an actor of nobody's turn, whose notice may be lost.
func (w *simulation) send(p *simProcess) {
	ctx, c := context.Background(), actor.CommitOf()
	if !w.message(ctx, p, w.someName().Key, &c) {
		return
	}
	if err := (&simStore{p}).commit(ctx, &c); err != nil {
		return
	}
	r := &c.Reminders.Set[0]
	w.happened("message sent")
	w.judge.note("%s sent %v from %v to %v", p.name, r.ID, r.Message.From, r.Key)
	if !w.faulty(0.2) {
		p.service.Committed(&c.Reminders)
	}
}

// refusedOrder counts turns of messages that were too early.
func (w *simulation) refusedOrder(err error) {
	if errors.Is(err, actor.ErrMessageOrder) {
		w.happened("message refused for its order")
	}
}

// steppedMessage judges a step of a message that is there, of a commit of a turn or of a service;
// j.mu is held.
func (j *judge) steppedMessage(c *actor.Commit, turn *simTurn, s *actor.ReminderStep, there *actor.Reminder, now time.Time) {
	m := there.Message
	switch {
	case s.Then != nil && turn != nil:
		j.fail("a turn leaves the message %v", s.ID)
		return
	case s.Then != nil:
		if s.Then.Failures != there.Failures+1 || !s.Then.Due.Equal(there.Due) || s.Then.Failures >= messageAttempts {
			j.fail("the message %v is stepped from %+v to %+v", s.ID, there.ReminderProgress, *s.Then)
		}
		j.w.total.add("message failed, to be tried again", 1)
	}
	// Whatever becomes of it, those before it are gone.
	sender, ordered := actor.SenderOfOrdered(there.Name)
	for id, other := range j.known {
		if of, _ := actor.SenderOfOrdered(other.spec.Name); ordered && id != s.ID && other.version != 0 && other.spec.Key == there.Key && of == sender && other.spec.Name < there.Name {
			j.fail("the message %v is stepped on before %v of the same sender", s.ID, id)
		}
	}
	switch {
	case s.Then != nil:
		return
	case turn != nil && m.Failed != "":
		j.w.total.add("message that came back consumed", 1)
		return
	case turn != nil:
		j.w.total.add("message consumed", 1)
		return
	}
	old := !there.Schedule.Until.IsZero() && now.Add(time.Second).After(there.Schedule.Until)
	if there.Failures+1 < messageAttempts && !old {
		j.fail("the message %v ends after %d failures", s.ID, there.Failures)
	}
	if old {
		j.w.total.add("message too old", 1)
	}
	j.messageEnds(c, s, there)
}

// messageEnds judges the commit that ends a message which nobody consumed.
func (j *judge) messageEnds(c *actor.Commit, s *actor.ReminderStep, there *actor.Reminder) {
	m, set := there.Message, c.Reminders.Set
	forwards := m.Forward.ID != "" && m.Forward != there.Key && !slices.Contains(m.Path, m.Forward)
	returns := !forwards && m.Undelivered != "" && m.Failed == ""
	if (s.DeadLetter == nil) != forwards {
		j.fail("the message %v ends with the dead letter %v, and is forwarded: %t", s.ID, s.DeadLetter, forwards)
	}
	if (len(set) == 1) != (forwards || returns) || len(set) > 1 {
		j.fail("the end of the message %v sets %d others", s.ID, len(set))
		return
	}
	switch {
	case forwards:
		if next := set[0].Message; set[0].Key != m.Forward || next.From != m.From || len(next.Path) != len(m.Path)+1 || next.Path[len(m.Path)] != there.Key {
			j.fail("the message %v is forwarded as %+v", s.ID, set[0])
		}
		j.w.total.add("message forwarded", 1)
	case returns:
		if next := set[0].Message; set[0].Key != m.From || set[0].Method != m.Undelivered || next.From != there.Key || next.Failed == "" {
			j.fail("the message %v comes back as %+v", s.ID, set[0])
		}
		j.w.total.add("message comes back", 1)
	}
	if s.DeadLetter != nil {
		j.w.total.add("message dead", 1)
	}
}

// withoutFollowers is what a store makes of a commit that ends a message, if it is not atomic.
func withoutFollowers(c *actor.Commit) {
	if len(c.Reminders.Steps) > 0 && len(c.Reminders.Set) > 0 && c.Reminders.Set[0].Message != nil && len(c.Rows) == 0 {
		c.Reminders.Set = nil
	}
}
