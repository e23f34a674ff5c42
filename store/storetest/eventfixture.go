package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// eventFixture tests events.
type eventFixture struct{ *base }

// publish returns a commit on top of row that publishes events with these payloads.
func publish(k actor.Key, row actor.Row, payloads ...string) actor.Commit {
	c := write(k, row, `{}`)
	for _, p := range payloads {
		c.Events = append(c.Events, actor.EventWrite{Key: k, Life: 3, Name: "said", Payload: actor.Payload{ContentType: "text/plain", Data: []byte(p)}})
	}
	return c
}

func (f *eventFixture) read(k actor.Key, after actor.EventPosition, limit, bytes int) actor.EventPage {
	f.Helper()
	page, err := f.s.ReadEvents(f.ctx(), actor.EventQuery{Key: k, After: after, Limit: limit, MaxBytes: bytes})
	f.ok(err)
	return page
}

// events checks the payloads of an actor's events after a position, and returns the events.
func (f *eventFixture) events(k actor.Key, after actor.EventPosition, want ...string) []actor.Event {
	f.Helper()
	list := f.read(k, after, store.MaxList, 0).Events
	var got []string
	for i, e := range list {
		got = append(got, string(e.Payload.Data))
		if i > 0 && !list[i-1].Position.Before(e.Position) {
			f.Fatalf("%v comes before %v", list[i-1].Position, e.Position)
		}
		if e.Name != "said" || e.Life != 3 || e.Payload.ContentType != "text/plain" || e.At.IsZero() {
			f.Fatalf("incomplete event %+v", e)
		}
	}
	if !slices.Equal(got, want) {
		f.Fatalf("events after %v are %q, want %q", after, got, want)
	}
	return list
}

func (f *eventFixture) trim(k actor.Key, keep actor.EventsKept) {
	f.Helper()
	f.ok(f.s.TrimEvents(f.ctx(), k, keep))
}

// keepAll keeps what an actor has.
func keepAll() actor.EventsKept { return actor.EventsKept{Count: store.MaxKeptEvents, Bytes: 1 << 40} }

// later is a time after all that was written.
func (f *eventFixture) later() time.Time { return f.now().Add(time.Second) }

func numbered(from, to int) []string {
	var list []string
	for i := from; i <= to; i++ {
		list = append(list, fmt.Sprint(i))
	}
	return list
}
