package storetest

import (
	"bytes"
	"context"
	"strings"
	"sync"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

var events = suite{"Events", []testCase{
	{"they come with their commits, in order, and from any position on", func(f *fixture) {
		k := f.key("a")
		row := f.apply(publish(k, actor.Row{}, "1", "2"))
		row = f.apply(publish(k, row))
		row = f.apply(publish(k, row, "3"))
		f.apply(publish(f.key("b"), actor.Row{}, "other"))
		list := f.events(k, actor.EventPosition{}, "1", "2", "3")
		f.events(k, list[0].Position, "2", "3")
		f.events(k, list[2].Position)
		newest, err := f.s.NewestEvent(f.ctx(), k)
		f.ok(err)
		if newest != list[2].Position {
			f.Fatalf("the newest is at %v, want %v", newest, list[2].Position)
		}
		if none, err := f.s.NewestEvent(f.ctx(), f.key("none")); err != nil || none != (actor.EventPosition{}) {
			f.Fatalf("the newest of none is at %v, %v", none, err)
		}
		if list[2].Position.Version != row.Version || list[2].Position.Index != 0 || list[1].Position.Index != 1 {
			f.Fatalf("positions %+v", list)
		}
	}},
	{"the link of an event is read as it was published, and others have none", func(f *fixture) {
		k := f.key("a")
		c := publish(k, actor.Row{}, "1", "2", "3")
		link := actor.SpanLink{TraceID: [16]byte{1}, SpanID: [8]byte{2}}
		c.Events[1].Link = link
		f.apply(c)
		for i, e := range f.events(k, actor.EventPosition{}, "1", "2", "3") {
			if want := map[int]actor.SpanLink{1: link}[i]; e.Link != want {
				f.Fatalf("event %d has the link %v, want %v", i, e.Link, want)
			}
		}
	}},
	{"a refused commit publishes nothing, beside one that does", func(f *fixture) {
		a, b := f.key("a"), f.key("b")
		row := f.apply(publish(a, actor.Row{}, "1"))
		stale := publish(a, row, "2")
		f.apply(publish(a, row, "3"))
		errs := f.s.Commit(f.ctx(), []actor.Commit{stale, publish(b, actor.Row{}, "4")})
		f.is(errs[0], actor.ErrStale)
		f.ok(errs[1])
		f.events(a, actor.EventPosition{}, "1", "3")
		f.events(b, actor.EventPosition{}, "4")
	}},
	{"a commit of several actors publishes those of each", func(f *fixture) {
		c := publish(f.key("a"), actor.Row{}, "1", "2")
		other := publish(f.key("b"), actor.Row{}, "3")
		c.Rows, c.Events = append(c.Rows, other.Rows...), append(c.Events, other.Events...)
		c.Events = append(c.Events, publish(f.key("a"), actor.Row{}, "4").Events...)
		f.apply(c)
		f.events(f.key("a"), actor.EventPosition{}, "1", "2", "4")
		f.events(f.key("b"), actor.EventPosition{}, "3")
	}},
	{"beside a record and reminders", func(f *fixture) {
		k := f.key("a")
		c := publish(k, actor.Row{}, "1")
		c.Records = []actor.IdempotencyRecord{of(k, record("key", "reply"))}
		f.apply(c)
		f.events(k, actor.EventPosition{}, "1")
		again := publish(k, f.load(k), "2")
		again.Records = c.Records
		f.is(f.commit(again), actor.ErrKeyExists)
		f.events(k, actor.EventPosition{}, "1")
	}},
	{"a locked turn publishes", func(f *fixture) {
		k := f.key("a")
		for _, text := range []string{"1", "2"} {
			_, err := f.s.LockedTurn(f.ctx(), k, func(_ context.Context, row actor.Row) (*actor.Commit, error) {
				c := publish(k, row, text)
				return &c, nil
			})
			f.ok(err)
		}
		f.events(k, actor.EventPosition{}, "1", "2")
	}},
	{"deleting the actor removes them, if it holds", func(f *fixture) {
		k := f.key("a")
		row := f.apply(publish(k, actor.Row{}, "1"))
		stale := remove(k, row)
		row = f.apply(publish(k, row, "2"))
		f.is(f.commit(stale), actor.ErrStale)
		f.events(k, actor.EventPosition{}, "1", "2")
		row = f.apply(remove(k, row))
		f.events(k, actor.EventPosition{})
		f.apply(publish(k, row, "3"))
		f.events(k, actor.EventPosition{}, "3")
	}},
	{"an actor that passes away keeps them, and publishes its last ones", func(f *fixture) {
		k := f.key("a")
		row := f.apply(publish(k, actor.Row{}, "1"))
		last := remove(k, row)
		last.Rows[0].NewLife, last.Events = true, publish(k, row, "2").Events
		row = f.apply(last)
		f.apply(publish(k, row, "3"))
		f.events(k, actor.EventPosition{}, "1", "2", "3")
	}},
	{"pages are bounded in number and bytes", func(f *fixture) {
		k := f.key("a")
		f.apply(publish(k, actor.Row{}, numbered(1, 5)...))
		if page := f.read(k, actor.EventPosition{}, 2, 0); len(page.Events) != 2 {
			f.Fatalf("%d events, want 2", len(page.Events))
		}
		if page := f.read(k, actor.EventPosition{}, 5, 2*len("said1")); len(page.Events) != 2 {
			f.Fatalf("%d events in so many bytes, want 2", len(page.Events))
		}
		if page := f.read(k, actor.EventPosition{}, 5, 1); len(page.Events) != 1 {
			f.Fatalf("%d events, want the first whatever its size", len(page.Events))
		}
	}},
	{"trimming goes by number, bytes and age, and leaves its position", func(f *fixture) {
		k := f.key("a")
		row := f.apply(publish(k, actor.Row{}, numbered(1, 5)...))
		row = f.apply(publish(k, row, numbered(6, 9)...))
		f.apply(publish(f.key("b"), actor.Row{}, "other"))
		all := f.events(k, actor.EventPosition{}, numbered(1, 9)...)
		f.trim(k, keepAll())
		keep := keepAll()
		keep.Count = 7
		f.trim(k, keep)
		f.events(k, actor.EventPosition{}, numbered(3, 9)...)
		if page := f.read(k, actor.EventPosition{}, 1, 0); len(page.Events) != 1 || page.Events[0].Position != all[2].Position {
			f.Fatalf("the first event that is kept is %+v, want that at %v", page.Events, all[2].Position)
		}
		if page := f.read(k, all[4].Position, 1, 0); page.Trimmed != all[1].Position {
			f.Fatalf("trimmed till %v, want %v", page.Trimmed, all[1].Position)
		}
		f.trim(k, keep)
		keep = keepAll()
		keep.Bytes = int64(4 * len("said1"))
		f.trim(k, keep)
		f.events(k, actor.EventPosition{}, numbered(6, 9)...)
		keep = keepAll()
		keep.Before = f.later()
		f.trim(k, keep)
		f.events(k, actor.EventPosition{})
		if page := f.read(k, actor.EventPosition{}, 1, 0); page.Trimmed != all[8].Position {
			f.Fatalf("trimmed till %v, want %v", page.Trimmed, all[8].Position)
		}
		f.apply(publish(k, row, "10"))
		f.events(k, all[8].Position, "10")
		f.events(f.key("b"), actor.EventPosition{}, "other")
		f.trim(f.key("none"), keep)
	}},
	{"writers and trimmers at once lose nothing and keep the order", func(f *fixture) {
		k := f.key("a")
		row := f.apply(publish(k, actor.Row{}, "0"))
		var trimming sync.WaitGroup
		trimming.Go(func() {
			for range 20 {
				keep := keepAll()
				keep.Count = 10
				if err := f.s.TrimEvents(f.ctx(), k, keep); err != nil {
					f.Error(err)
				}
			}
		})
		for _, text := range numbered(1, 30) {
			row = f.apply(publish(k, row, text))
		}
		trimming.Wait()
		last := f.read(k, actor.EventPosition{}, store.MaxList, 0).Events
		for i, e := range last {
			if want := numbered(31-len(last), 30)[i]; string(e.Payload.Data) != want {
				f.Fatalf("event %d is %q, want %q", i, e.Payload.Data, want)
			}
		}
		if len(last) < 10 {
			f.Fatalf("only %d events are left", len(last))
		}
	}},
	{"what breaks a bound is refused", func(f *fixture) {
		k := f.key("a")
		for field, change := range map[string]func(*actor.Commit){
			"name":    func(c *actor.Commit) { c.Events[0].Name = "" },
			"control": func(c *actor.Commit) { c.Events[0].Name = "a\nb" },
			"long":    func(c *actor.Commit) { c.Events[0].Name = strings.Repeat("x", actor.MaxEventName+1) },
			"payload": func(c *actor.Commit) {
				c.Events[0].Payload.Data = bytes.Repeat([]byte("x"), actor.MaxEventPayload+1)
			},
			"actor":  func(c *actor.Commit) { c.Events[0].Key = f.key("b") },
			"delete": func(c *actor.Commit) { c.Rows[0].Delete, c.Rows[0].State = true, nil },
		} {
			c := publish(k, actor.Row{}, "1")
			change(&c)
			f.Log(field)
			f.argument(f.commit(c))
		}
		_, err := f.s.ReadEvents(f.ctx(), actor.EventQuery{Key: k})
		f.argument(err)
		f.argument(f.s.TrimEvents(f.ctx(), k, actor.EventsKept{}))
	}},
}}
