package storetest

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// drawMessages adds to a commit of an actor what a turn does to messages: it sends some if the commit
// writes the actor's row, and consumes, postpones or gives up some of those to the actor.
func (m *model) drawMessages(r *rapid.T, id string, c *actor.Commit) {
	if len(c.Rows) > 0 && !c.Rows[0].Bump {
		m.sends++
		for i := range rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(r, "messages") {
			c.Reminders.Set = append(c.Reminders.Set, m.message(actor.MessageName(m.key(id), m.sends, i), id, rapid.SampledFrom(modelIDs).Draw(r, "to")))
		}
	}
	inbox := m.inbox(id)
	for _, n := range rapid.SliceOfNDistinct(rapid.IntRange(0, 4), 0, 2, rapid.ID[int]).Draw(r, "places") {
		var of actor.Reminder
		switch gone := rapid.IntRange(0, 9).Draw(r, "gone") == 0; {
		case gone && len(m.gone[id]) > 0:
			of = m.gone[id][n%len(m.gone[id])]
		case n < len(inbox):
			of = inbox[n]
		default:
			continue
		}
		if of.Version == 0 { // one operation has set and removed it, and nobody has seen its version
			continue
		}
		step := actor.ReminderStep{ReminderName: actor.ReminderName{Key: of.Key, Name: of.Name}, ID: of.ID, Version: of.Version}
		_, step.Ordered = actor.SenderOfOrdered(of.Name)
		if slices.ContainsFunc(c.Reminders.Steps, func(s actor.ReminderStep) bool { return s.ReminderName == step.ReminderName }) {
			continue
		}
		switch rapid.SampledFrom([]string{"consume", "consume", "postpone", "give up"}).Draw(r, "end") {
		case "postpone":
			then := of.ReminderProgress
			then.FireAt, then.Failures, then.LastError = then.FireAt.Add(time.Second), then.Failures+1, "not yet"
			step.Then = &then
		case "give up": // and its sender is told
			step.DeadLetter = &actor.DeadFiring{Due: of.Due, Failures: of.Failures, Reason: "no"}
			back := m.message("", of.Key.ID, of.Message.From.ID)
			back.Name, back.Message.Failed = actor.UnorderedMessageName(back.ID), "no"
			c.Reminders.Set = append(c.Reminders.Set, back)
		}
		c.Reminders.Steps = append(c.Reminders.Steps, step)
	}
	keepable(c, c.Rows)
}

// keepable drops the messages of a commit to actors that the rows delete, which it may not send.
func keepable(c *actor.Commit, rows []actor.RowWrite) {
	c.Reminders.Set = slices.DeleteFunc(slices.Clone(c.Reminders.Set), func(r actor.Reminder) bool {
		return slices.ContainsFunc(rows, func(w actor.RowWrite) bool { return w.Key == r.Key && w.Delete && !w.NewLife })
	})
}

// message returns a new message.
func (m *model) message(name, from, to string) actor.Reminder {
	m.token++
	at := time.Date(2030, 5, 1, 12, 0, 0, 0, time.UTC).Add(time.Duration(m.token) * time.Second)
	return actor.Reminder{
		ID: m.bucket.Token(m.token),
		ReminderSpec: actor.ReminderSpec{
			Key: m.key(to), Name: name, Method: "Take", Payload: actor.Payload{Data: fmt.Append(nil, m.token)}, Message: &actor.Message{From: m.key(from)},
			Schedule: actor.Schedule{At: at},
		},
		ReminderProgress: actor.ReminderProgress{Due: at, FireAt: at, Left: 1},
	}
}

// inbox returns the messages to an actor in the order of their names.
func (m *model) inbox(id string) (list []actor.Reminder) {
	for n, r := range m.messages {
		if n.Key.ID == id {
			list = append(list, r)
		}
	}
	slices.SortFunc(list, func(a, b actor.Reminder) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// misses says what keeps the steps of a commit from being taken.
func (m *model) misses(c *actor.Commit) error {
	for _, s := range c.Reminders.Steps {
		if is := m.messages[s.ReminderName]; is.ID != s.ID || is.Version != s.Version {
			return actor.ErrFiringTaken
		}
	}
	for _, s := range c.Reminders.Steps {
		if slices.ContainsFunc(c.Rows, func(w actor.RowWrite) bool { return w.Key == s.Key && w.Delete && !w.NewLife }) {
			continue // all of its messages go
		}
		sender, _ := actor.SenderOfOrdered(s.Name)
		for _, earlier := range m.inbox(s.Key.ID) {
			removed := slices.ContainsFunc(c.Reminders.Steps, func(o actor.ReminderStep) bool { return o.ID == earlier.ID && o.Then == nil })
			if s.Ordered && earlier.Name < s.Name && strings.HasPrefix(earlier.Name, sender) && !removed {
				return actor.ErrMessageOrder
			}
		}
	}
	return nil
}

// deliver does to the messages what a commit says that holds.
func (m *model) deliver(c *actor.Commit) {
	for _, s := range c.Reminders.Steps {
		m.changed[s.Key.ID] = true
		r := m.messages[s.ReminderName]
		m.gone[s.Key.ID] = append(m.gone[s.Key.ID], r) // as it was
		if s.DeadLetter != nil {
			m.dead[s.ID] = s.DeadLetter.Reason
		}
		if s.Then == nil {
			delete(m.messages, s.ReminderName)
			continue
		}
		r.ReminderProgress, r.Version = *s.Then, 0
		m.messages[s.ReminderName] = r
	}
	for i := range c.Rows {
		for n, r := range m.messages {
			if w := &c.Rows[i]; w.Delete && !w.NewLife && n.Key == w.Key {
				m.changed[n.Key.ID] = true
				delete(m.messages, n)
				m.gone[n.Key.ID] = append(m.gone[n.Key.ID], r)
			}
		}
	}
	for _, r := range c.Reminders.Set {
		m.changed[r.Key.ID] = true
		m.messages[actor.ReminderName{Key: r.Key, Name: r.Name}] = r
	}
}

// inboxes compares all inboxes and dead letters.
func (m *model) inboxes(r *rapid.T) {
	for _, id := range modelIDs {
		m.changed[id] = true
	}
	m.checkMessages(r)
}

// checkMessages compares the inboxes that the last operation has changed, and the dead letters.
func (m *model) checkMessages(r *rapid.T) {
	if len(m.changed) == 0 {
		return
	}
	defer clear(m.changed)
	for id := range m.changed {
		list, _, err := m.s.ListMessages(m.ctx, store.MessageQuery{Key: m.key(id), Limit: store.MaxList})
		if err != nil {
			r.Fatal(err)
		}
		want := m.inbox(id)
		if len(list) != len(want) {
			r.Fatalf("%q has %d messages, want %d", id, len(list), len(want))
		}
		bytes := int64(0)
		for i, got := range list {
			w := want[i]
			bytes += int64(len(w.Payload.Data))
			if got.Name != w.Name || got.ID != w.ID || !reflect.DeepEqual(got.Message, w.Message) || string(got.Payload.Data) != string(w.Payload.Data) ||
				!got.Due.Equal(w.Due) || !got.FireAt.Equal(w.FireAt) || got.Failures != w.Failures || got.LastError != w.LastError || w.Version != 0 && got.Version != w.Version {
				r.Fatalf("message %d to %q is\n  %+v, want\n  %+v", i, id, got, w)
			}
			m.messages[actor.ReminderName{Key: w.Key, Name: w.Name}] = got
		}
		size, err := m.s.Inbox(m.ctx, m.key(id), store.MaxHeads)
		if err != nil || size != (store.InboxSize{Messages: len(want), Bytes: bytes}) {
			r.Fatalf("the inbox of %q holds %+v (%v), want %d messages of %d bytes", id, size, err, len(want), bytes)
		}
	}
	dead := map[actor.ReminderID]string{}
	for q := (store.DeadLetterQuery{App: m.app, Kind: store.OnlyMessages, Limit: store.MaxList}); ; {
		letters, err := m.s.ListDeadLetters(m.ctx, q)
		if err != nil {
			r.Fatal(err)
		}
		for _, l := range letters {
			dead[l.Reminder.ID] = l.Reason
			q.AfterID, q.AfterDue = l.Reminder.ID, l.Reminder.Due
		}
		if len(letters) < q.Limit {
			break
		}
	}
	if !reflect.DeepEqual(dead, m.dead) {
		r.Fatalf("the dead letters are %v, want %v", dead, m.dead)
	}
}
