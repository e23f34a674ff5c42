package storetest

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

var messages = suite{"Messages", []testCase{
	{"a message is found by name, by ID, by time and in its inbox, with all that it has", func(f *fixture) {
		b := f.bucket()
		want := message(f, b, 3, "ann", "bob", 7, 0)
		want.Payload = actor.Payload{ContentType: "text/plain", Data: []byte("x\x00y")}
		want.Message = &actor.Message{
			From: f.key("ann"), By: f.key("clerk"), Undelivered: "Failed", Forward: f.key("carol"),
			Path: []actor.Key{f.key("dave"), f.key("erin ü")}, Cookie: 1<<63 + 5,
		}
		back := unordered(f, b, 4, "bob")
		back.Message.From, back.Message.Failed = f.key("ann"), "guest_trap"
		outside := unordered(f, b, 5, "bob")
		outside.Message = &actor.Message{}
		for _, r := range []actor.Reminder{want, back, outside} {
			f.ok(f.commit(setting(actor.CommitOf(), r)))
			f.sameReminder(f.loaded(r.ID), r)
			f.sameReminder(f.found("bob", r.Name), r)
		}
		f.heads(f.due(b, f.far()), want, back, outside)
		f.heads(f.recent(b, 0, 10), want, back, outside)
		inbox(f, "bob", want, back, outside)
		if size := inboxSize(f, "bob", 100); size != (store.InboxSize{Messages: 3, Bytes: 3}) {
			f.Fatalf("the inbox holds %+v", size)
		}
		then := back.ReminderProgress
		then.Failures, then.LastError = 1, "it failed"
		f.ok(f.commit(stepping(actor.CommitOf(), f.loaded(back.ID), &then)))
		back.ReminderProgress = then
		f.sameReminder(f.loaded(back.ID), back)
	}},
	{"lists of reminders have no messages, and lists of messages no reminders", func(f *fixture) {
		b := f.bucket()
		token := uint32(0)
		next := func() uint32 { token++; return token }
		var want []string
		for i := range 3 {
			id := fmt.Sprint("a", i)
			for n := range 4 {
				f.place(message(f, b, next(), "sender", id, 9, n))
				f.place(unordered(f, b, next(), id))
			}
			f.place(f.reminder(b, next(), id, "!"))
			f.place(f.reminder(b, next(), id, "pay"))
			want = append(want, id+"/!", id+"/pay")
		}
		f.place(message(f, b, next(), "sender", "none but messages", 9, 0))
		f.names(f.listReminders(store.ReminderQuery{}), want...)
		f.names(f.listReminders(store.ReminderQuery{DueFrom: time.Unix(0, 0)}), want...)
		f.names(f.listReminders(store.ReminderQuery{Type: f.key("").Type, ID: "a1"}), want[2:4]...)
		f.names(f.listReminders(store.ReminderQuery{Type: f.key("").Type, ID: "a1", Prefix: "p"}), want[3])
		f.names(f.listReminders(store.ReminderQuery{Type: f.key("").Type, ID: "none but messages"}))
		for id, want := range map[string][]int{"": {8, 8, 8, 1}, "a1": {8}, "none but messages": {1}, "nobody": nil} {
			q := store.ReminderQuery{App: f.app, Type: f.key("").Type, ID: id, Messages: true, Limit: 3}
			var got []int
			last := ""
			for more := true; more; {
				page, after, err := f.s.ListReminders(f.ctx(), q)
				f.ok(err)
				for _, r := range page {
					if r.Message == nil {
						f.Fatalf("%q is no message", r.Name)
					}
					if r.Key.ID != last {
						got, last = append(got, 0), r.Key.ID
					}
					got[len(got)-1]++
				}
				q.After, more = after, after.Name != ""
			}
			if !slices.Equal(got, want) {
				f.Fatalf("messages to %q: %v, want %v", id, got, want)
			}
		}
		_, _, err := f.s.ListReminders(f.ctx(), store.ReminderQuery{App: f.app, Type: f.key("").Type, ID: "a1", Prefix: "p", Messages: true, Limit: 1})
		f.argument(err)
		var paged []actor.Reminder
		q := store.ReminderQuery{App: f.app, Limit: 1}
		for more := true; more; {
			page, after, err := f.s.ListReminders(f.ctx(), q)
			f.ok(err)
			paged = append(paged, page...)
			q.After, more = after, after.Name != ""
		}
		f.names(paged, want...)

		names := func(q store.ReminderNameQuery) []string {
			f.Helper()
			q.Key, q.Limit = f.key("a1"), 100
			got, err := f.s.ReminderNames(f.ctx(), q)
			f.ok(err)
			return got
		}
		if got := names(store.ReminderNameQuery{}); !slices.Equal(got, []string{"!", "pay"}) {
			f.Fatalf("the names are %q", got)
		}
		all := names(store.ReminderNameQuery{Messages: true})
		if len(all) != 10 || !slices.IsSorted(all) || all[8] != "!" || !actor.IsMessageName(all[7]) {
			f.Fatalf("with messages the names are %q", all)
		}
		if got := names(store.ReminderNameQuery{Messages: true, After: all[2]}); !slices.Equal(got, all[3:]) {
			f.Fatalf("after %q the names are %q", all[2], got)
		}

		list, after, err := f.s.ListMessages(f.ctx(), store.MessageQuery{Key: f.key("a1"), Limit: 5})
		f.ok(err)
		rest, last, err := f.s.ListMessages(f.ctx(), store.MessageQuery{Key: f.key("a1"), After: after, Limit: 5})
		f.ok(err)
		if len(list) != 5 || len(rest) != 3 || after != list[4].Name || last != "" {
			f.Fatalf("pages of %d and %d messages, after %q and %q", len(list), len(rest), after, last)
		}
		var listed []string
		for _, r := range append(list, rest...) {
			listed = append(listed, r.Name)
		}
		if !slices.Equal(listed, all[:8]) {
			f.Fatalf("listed %q, want %q", listed, all[:8])
		}
		for _, limit := range []int{1, 7, store.MaxExamined} {
			var all store.ReminderCount
			var after actor.ReminderName
			for more := true; more; {
				count, next, err := f.s.CountReminders(f.ctx(), f.app, after, limit)
				f.ok(err)
				if count.Reminders+count.Messages > limit {
					f.Fatalf("%+v are more than %d", count, limit)
				}
				all.Reminders, all.Messages = all.Reminders+count.Reminders, all.Messages+count.Messages
				after, more = next, next.Name != ""
			}
			if all != (store.ReminderCount{Reminders: 6, Messages: 25}) {
				f.Fatalf("counted %+v, %d at a time", all, limit)
			}
		}
		_, _, err = f.s.CountReminders(f.ctx(), f.app, actor.ReminderName{}, 0)
		f.argument(err)
		if size := inboxSize(f, "a1", 5); size.Messages != 5 {
			f.Fatalf("of 8 messages at most 5 are counted: %+v", size)
		}
		if size := inboxSize(f, "nobody", 5); size != (store.InboxSize{}) {
			f.Fatalf("an inbox that nothing was sent to holds %+v", size)
		}
	}},
	{"what a commit sends to an actor whose life it ends is for the next one", func(f *fixture) {
		b, bob := f.bucket(), f.key("bob")
		before := f.place(message(f, b, 0, "ann", "bob", 1, 0))
		with := message(f, b, 1, "ann", "bob", 2, 0)
		f.ok(f.commit(setting(passAway(bob, f.apply(write(bob, actor.Row{}, `{}`))), with)))
		with, after := f.loaded(with.ID), f.place(message(f, b, 2, "ann", "bob", 3, 0))
		if born := f.load(bob).Born; !before.CreatedAt.Before(born) || with.CreatedAt.Before(born) || after.CreatedAt.Before(born) {
			f.Fatalf("a life ended at %v, and messages were sent before at %v, with that at %v, and after at %v", born, before.CreatedAt, with.CreatedAt, after.CreatedAt)
		}
	}},
	{"an ordered step is refused while an earlier message of its sender is there", func(f *fixture) {
		b := f.bucket()
		first, second, third := message(f, b, 0, "ann", "bob", 9, 999_999), message(f, b, 1, "ann", "bob", 10, 0), message(f, b, 2, "ann", "bob", 1<<40, 0)
		f.ok(f.commit(setting(actor.CommitOf(), first, second, third)))
		f.place(message(f, b, 3, "zoe", "bob", 1, 0))
		f.place(message(f, b, 4, "ann", "carol", 1, 0))
		f.place(unordered(f, b, 5, "bob"))
		f.place(f.reminder(b, 6, "bob", "!"))
		row := f.apply(write(f.key("bob"), actor.Row{}, `{"n":1}`))

		f.is(f.commit(consuming(f, actor.CommitOf(), second)), actor.ErrMessageOrder)
		f.is(f.commit(consuming(f, actor.CommitOf(), third)), actor.ErrMessageOrder)
		f.refuse(consuming(f, write(f.key("bob"), row, `{"n":2}`), second), actor.ErrMessageOrder)
		f.same(f.load(f.key("bob")), row)

		then := first.ReminderProgress // which is the next attempt
		then.FireAt, then.Failures = f.far(), 1
		f.ok(f.commit(ordered(stepping(actor.CommitOf(), f.loaded(first.ID), &then))))
		f.is(f.commit(consuming(f, actor.CommitOf(), second)), actor.ErrMessageOrder)

		row = f.apply(consuming(f, write(f.key("bob"), row, `{"n":2}`), first))
		f.is(f.commit(consuming(f, actor.CommitOf(), third)), actor.ErrMessageOrder)
		row = f.apply(consuming(f, write(f.key("bob"), row, `{"n":3}`), second))
		f.ok(f.commit(consuming(f, actor.CommitOf(), third)))
		f.same(f.load(f.key("bob")), row)
		if size := inboxSize(f, "bob", 10); size.Messages != 2 {
			f.Fatalf("messages of others are left: %+v", size)
		}
	}},
	{"a step that is not ordered, or of an unordered message, waits for none", func(f *fixture) {
		b := f.bucket()
		f.place(message(f, b, 0, "ann", "bob", 1, 0))
		second := f.place(message(f, b, 1, "ann", "bob", 2, 0))
		late := f.place(unordered(f, b, 2, "bob"))
		f.ok(f.commit(stepping(actor.CommitOf(), second, nil)))
		f.ok(f.commit(stepping(actor.CommitOf(), late, nil)))
		f.argument(f.commit(ordered(stepping(actor.CommitOf(), f.place(unordered(f, b, 3, "bob")), nil))))
		f.argument(f.commit(ordered(stepping(actor.CommitOf(), f.place(f.reminder(b, 4, "bob", "n")), nil))))
	}},
	{"messages that the same commit removes are in the way of none", func(f *fixture) {
		b := f.bucket()
		var rs []actor.Reminder
		for i := range 5 {
			rs = append(rs, f.place(message(f, b, uint32(i), "ann", "bob", 5, i)))
		}
		f.is(f.commit(consuming(f, actor.CommitOf(), rs[0], rs[1], rs[3])), actor.ErrMessageOrder)
		f.is(f.commit(consuming(f, actor.CommitOf(), rs[1], rs[2])), actor.ErrMessageOrder)
		f.ok(f.commit(consuming(f, actor.CommitOf(), rs[1], rs[0])))
		f.ok(f.commit(canceling(consuming(f, actor.CommitOf(), rs[3]), actor.ReminderName{Key: rs[2].Key, Name: rs[2].Name})))
		then := rs[4].ReminderProgress
		then.Failures = 1
		last := f.place(message(f, b, 9, "ann", "bob", 5, 9))
		both := ordered(stepping(stepping(actor.CommitOf(), rs[4], &then), last, nil))
		f.is(f.commit(both), actor.ErrMessageOrder) // the earlier one is only postponed
		f.ok(f.commit(consuming(f, actor.CommitOf(), rs[4], last)))
		inbox(f, "bob")
	}},
	{"a firing that was taken is told before its order, and the order before a version", func(f *fixture) {
		b := f.bucket()
		f.place(message(f, b, 0, "ann", "bob", 1, 0))
		second := f.place(message(f, b, 1, "ann", "bob", 1, 1))
		row := f.apply(write(f.key("bob"), actor.Row{}, `{"n":1}`))
		moved := f.apply(touch(f.key("bob"), row))
		f.refuse(consuming(f, write(f.key("bob"), row, `{}`), second), actor.ErrMessageOrder)
		stale := second
		stale.Version++
		f.refuse(ordered(stepping(write(f.key("bob"), moved, `{}`), stale, nil)), actor.ErrFiringTaken)
		f.refuse(recording(consuming(f, write(f.key("bob"), moved, `{}`), second), record("k", "x")), actor.ErrMessageOrder)
		f.apply(recording(touch(f.key("bob"), moved), record("k", "x")))
		f.refuse(recording(consuming(f, write(f.key("bob"), f.load(f.key("bob")), `{}`), second), record("k", "x")), actor.ErrKeyExists)
	}},
	{"a refusal for the order harms no other commit of the group", func(f *fixture) {
		b := f.bucket()
		f.place(message(f, b, 0, "ann", "a", 1, 0))
		blocked := f.place(message(f, b, 1, "ann", "a", 1, 1))
		free := f.place(message(f, b, 2, "ann", "b", 1, 0))
		rows := f.insertMany(3)
		commits := []actor.Commit{
			counted(f.key(manyID(0)), rows[0], 1), consuming(f, counted(f.key(manyID(1)), rows[1], 1), blocked),
			consuming(f, counted(f.key(manyID(2)), rows[2], 1), free), consuming(f, actor.CommitOf(), f.place(message(f, b, 3, "ann", "c", 1, 0))),
		}
		errs := f.s.Commit(f.ctx(), commits)
		for i, err := range errs {
			if i == 1 {
				f.is(err, actor.ErrMessageOrder)
			} else if !errors.Is(err, actor.ErrAmbiguous) && !errors.Is(err, actor.ErrUnavailable) { // of a store with faults
				f.ok(err)
			}
		}
		if got := f.load(f.key(manyID(1))); got.Version != rows[1].Version {
			f.Fatalf("the row of the refused commit is at %d", got.Version)
		}
		f.sameReminder(f.loaded(blocked.ID), blocked)
	}},
	{"an actor is deleted with its messages, whatever their order", func(f *fixture) {
		b := f.bucket()
		row := f.apply(write(f.key("bob"), actor.Row{}, `{}`))
		f.place(message(f, b, 0, "ann", "bob", 1, 0))
		second := f.place(message(f, b, 1, "ann", "bob", 1, 1))
		f.place(unordered(f, b, 2, "bob"))
		stays := f.place(message(f, b, 3, "ann", "carol", 1, 0))
		f.ok(f.commit(consuming(f, remove(f.key("bob"), row), second)))
		inbox(f, "bob")
		inbox(f, "carol", stays)
		f.heads(f.due(b, f.far()), stays)
	}},
	{"an actor with very many messages is deleted in bounded steps", func(f *fixture) {
		b, key := f.bucket(), f.key("many")
		row := f.apply(write(key, actor.Row{}, `{}`))
		f.place(f.reminder(b, 0, "many", "n"))
		n := store.MaxList + 10
		for token := 1; token <= n; {
			c := actor.CommitOf()
			for range min(500, n+1-token) {
				c.Reminders.Set = append(c.Reminders.Set, message(f, b, uint32(token), "ann", "many", 1, token))
				token++
			}
			f.ok(f.commit(c))
		}
		if size := inboxSize(f, "many", store.MaxHeads); size.Messages != n {
			f.Fatalf("the inbox holds %+v, want %d", size, n)
		}
		for {
			err := store.ThinReminders(f.ctx(), f.s, actor.RowFence{Key: key, Version: row.Version}, false)
			if !errors.Is(err, actor.ErrStale) {
				f.ok(err)
				break
			}
			row = f.load(key) // a part was lost, and fenced out when it was settled
		}
		if size := inboxSize(f, "many", store.MaxHeads); size.Messages >= store.MaxList {
			f.Fatalf("%d messages are left to the commit that deletes", size.Messages)
		}
		f.ok(f.commit(remove(key, f.load(key))))
		if size := inboxSize(f, "many", store.MaxHeads); size != (store.InboxSize{}) {
			f.Fatalf("after the deletion the inbox holds %+v", size)
		}
		f.heads(f.due(b, f.far()))
	}},
	{"messages that many take at once are consumed in the order of their names", func(f *fixture) {
		b := f.bucket()
		const pairs, each = 3, 12
		var all []actor.Reminder
		c := actor.CommitOf()
		for i := range pairs * each {
			c.Reminders.Set = append(c.Reminders.Set, message(f, b, uint32(i), fmt.Sprint("from", i%pairs), "bob", 1+uint64(i/5), i))
		}
		f.ok(f.commit(c))
		for _, r := range c.Reminders.Set {
			all = append(all, f.loaded(r.ID))
		}
		var mu sync.Mutex
		consumed := map[string][]string{}
		f.inParallel(4, func(worker int) error {
			for left := slices.Clone(all); len(left) > 0; {
				worker++
				i := worker % len(left)
				r := left[i]
				mu.Lock() // so that the order in which they were consumed is known
				err := f.commit(ordered(stepping(actor.CommitOf(), r, nil)))
				if err == nil {
					consumed[r.Message.From.ID] = append(consumed[r.Message.From.ID], r.Name)
				}
				mu.Unlock()
				switch {
				case err == nil, errors.Is(err, actor.ErrFiringTaken):
					left = slices.Delete(left, i, i+1)
				case !errors.Is(err, actor.ErrMessageOrder):
					return err
				}
			}
			return nil
		})
		for from, names := range consumed {
			if len(names) != each || !slices.IsSorted(names) {
				f.Errorf("of %s %d messages were consumed, in the order %q", from, len(names), names)
			}
		}
	}},
	{"of rivals that take messages without waiting for each other none is out of order", func(f *fixture) {
		b := f.bucket()
		const each = 10
		c := actor.CommitOf()
		for i := range each {
			c.Reminders.Set = append(c.Reminders.Set, message(f, b, uint32(i), "ann", "bob", 1, i))
		}
		f.ok(f.commit(c))
		first := f.loaded(c.Reminders.Set[0].ID).Version
		counts := make([]int, each)
		var mu sync.Mutex
		take := func(at int) error {
			r := c.Reminders.Set[at]
			r.Version = first
			err := f.commit(ordered(stepping(actor.CommitOf(), r, nil)))
			if err == nil {
				mu.Lock()
				defer mu.Unlock()
				counts[at]++
			}
			return err
		}
		f.inParallel(5, func(worker int) error {
			for i := 0; i < each; {
				for _, at := range []int{(i + worker) % each, i} { // the first may be too early
					if err := take(at); err != nil && !errors.Is(err, actor.ErrFiringTaken) && !errors.Is(err, actor.ErrMessageOrder) {
						return err
					}
				}
				i++ // whoever has taken it, it is consumed: all before it are
			}
			return nil
		})
		for i, n := range counts {
			if n != 1 {
				f.Errorf("message %d was consumed %d times", i, n)
			}
		}
		inbox(f, "bob")
	}},
	{"a sender that begins anew at a lower version is in order, too", func(f *fixture) {
		b := f.bucket()
		f.ok(f.commit(consuming(f, actor.CommitOf(), f.place(message(f, b, 0, "ann", "bob", 1000, 0)))))
		first, second := f.place(message(f, b, 1, "ann", "bob", 5, 0)), f.place(message(f, b, 2, "ann", "bob", 6, 0))
		f.is(f.commit(consuming(f, actor.CommitOf(), second)), actor.ErrMessageOrder)
		f.ok(f.commit(consuming(f, actor.CommitOf(), first)))
		f.ok(f.commit(consuming(f, actor.CommitOf(), second)))
	}},
	{"a message ends in one commit: a dead letter and another message", func(f *fixture) {
		b := f.bucket()
		r := f.place(message(f, b, 0, "ann", "bob", 1, 0))
		later := f.place(message(f, b, 1, "ann", "bob", 1, 1))
		back := unordered(f, b, 2, "ann")
		back.Message = &actor.Message{From: f.key("bob"), Failed: "out_of_stock"}
		end := setting(consuming(f, actor.CommitOf(), r), back)
		end.Reminders.Steps[0].DeadLetter = &actor.DeadFiring{Due: r.Due, Failures: 24, Reason: "no"}
		f.ok(f.commit(end))
		f.is(f.commit(end), actor.ErrFiringTaken)
		inbox(f, "ann", back)
		inbox(f, "bob", later)
		f.ok(f.commit(consuming(f, actor.CommitOf(), later))) // a dead letter is in nobody's way

		failed := f.place(f.reminder(b, 3, "bob", "n"))
		dead := stepping(actor.CommitOf(), failed, nil)
		dead.Reminders.Steps[0].DeadLetter = &actor.DeadFiring{Due: failed.Due, Reason: "no"}
		f.ok(f.commit(dead))
		for kind, want := range map[store.ReminderKind][]actor.ReminderID{
			store.AnyKind: {r.ID, failed.ID}, store.OnlyMessages: {r.ID}, store.OnlyReminders: {failed.ID},
		} {
			var got []actor.ReminderID
			for _, d := range f.deadLetters(store.DeadLetterQuery{Kind: kind}) {
				got = append(got, d.Reminder.ID)
				if d.Reminder.ID == r.ID && !reflect.DeepEqual(d.Reminder.Message, r.Message) {
					f.Fatalf("the dead letter's message is %+v", d.Reminder.Message)
				}
			}
			if !slices.Equal(got, want) {
				f.Fatalf("dead letters of kind %d are %v, want %v", kind, got, want)
			}
		}
	}},
	{"what is no message has no message's name, and the other way round", func(f *fixture) {
		b := f.bucket()
		named := f.reminder(b, 0, "a", actor.MessageName(f.key("ann"), 1, 0))
		f.argument(f.commit(setting(actor.CommitOf(), named)))
		plain := message(f, b, 0, "ann", "a", 1, 0)
		plain.Name = "n"
		f.argument(f.commit(setting(actor.CommitOf(), plain)))
		plain.Name = ""
		f.argument(f.commit(setting(actor.CommitOf(), plain)))
		_, err := f.s.Inbox(f.ctx(), f.key("a"), store.MaxHeads+1)
		f.argument(err)
		_, err = f.s.Inbox(f.ctx(), f.key(""), 1)
		f.argument(err)
		_, _, err = f.s.ListMessages(f.ctx(), store.MessageQuery{Key: f.key("a")})
		f.argument(err)
		_, _, err = f.s.ListMessages(f.ctx(), store.MessageQuery{Key: f.key("a"), After: "n", Limit: 1})
		f.argument(err)
	}},
}}

// message is one of an ordered name, as a commit that writes its sender's row at a version
// sets it.
func message(f *fixture, b actor.Bucket, token uint32, from, to string, version uint64, index int) actor.Reminder {
	r := f.reminder(b, token, to, actor.MessageName(f.key(from), version, index))
	r.Message = &actor.Message{From: f.key(from)}
	return r
}

// unordered is a message of its token's name, from "ann".
func unordered(f *fixture, b actor.Bucket, token uint32, to string) actor.Reminder {
	r := f.reminder(b, token, to, actor.UnorderedMessageName(b.Token(token)))
	r.Message = &actor.Message{From: f.key("ann")}
	return r
}

// consuming adds the ordered steps that remove messages, as they are stored.
func consuming(f *fixture, c actor.Commit, rs ...actor.Reminder) actor.Commit {
	f.Helper()
	for _, r := range rs {
		if r.Version == 0 {
			r = f.loaded(r.ID)
		}
		c = ordered(stepping(c, r, nil))
	}
	return c
}

// ordered makes the last step of a commit an ordered one.
func ordered(c actor.Commit) actor.Commit {
	c.Reminders.Steps[len(c.Reminders.Steps)-1].Ordered = true
	return c
}

// inbox checks which messages to an actor are there.
func inbox(f *fixture, id string, want ...actor.Reminder) {
	f.Helper()
	list, next, err := f.s.ListMessages(f.ctx(), store.MessageQuery{Key: f.key(id), Limit: 100})
	f.ok(err)
	slices.SortFunc(want, func(a, b actor.Reminder) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	if len(list) != len(want) || next != "" {
		f.Fatalf("%d messages to %s, then %q; want %d", len(list), id, next, len(want))
	}
	for i := range want {
		f.sameReminder(list[i], want[i])
	}
}

func inboxSize(f *fixture, id string, limit int) store.InboxSize {
	f.Helper()
	size, err := f.s.Inbox(f.ctx(), f.key(id), limit)
	f.ok(err)
	return size
}
