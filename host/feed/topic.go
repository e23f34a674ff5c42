package feed

import (
	"sort"
	"sync"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// topic is an actor that has subscribers here. Those that wait for its next events share one read
// of the store, and what it brought.
type topic struct {
	key         actor.Key
	subscribers int // Feed.mu guards it
	ticker      *time.Ticker
	ended       chan struct{}

	mu   sync.Mutex
	news chan struct{} // closed when it is worth looking again
	// recent are the events after from, up to where the last shared read ended; bytes are their
	// payloads'. Before the first one, started is false.
	started bool
	from    actor.EventPosition
	recent  []actor.Event
	bytes   int
	// trimmed is the position up to which events were trimmed before recent was read: from the zero
	// position on recent is what is kept, but some are missing that come after others before trimmed.
	trimmed actor.EventPosition
	// reading means that a subscriber reads from the end of recent on. fresh means that nothing was
	// published since the last such read began, and outdated that all was to be forgotten since then.
	reading, fresh, outdated bool
}

// maxRecent and maxRecentBytes bound what a topic remembers.
const (
	maxRecent      = 256
	maxRecentBytes = 512 << 10
)

func newTopic(key actor.Key) *topic {
	return &topic{key: key, news: make(chan struct{}), ended: make(chan struct{})}
}

// end is the position up to which the topic has read.
func (t *topic) end() actor.EventPosition {
	if n := len(t.recent); n > 0 {
		return t.recent[n-1].Position
	}
	return t.from
}

// wake has the subscribers read.
func (t *topic) wake() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fresh = false
	t.announce()
}

// forget forgets what was read, and has the subscribers read.
func (t *topic) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.started, t.outdated = false, true
	t.announce()
}

// announce wakes whoever waits; t.mu is held.
func (t *topic) announce() {
	close(t.news)
	t.news = make(chan struct{})
}

// poll wakes the subscribers at an interval, until stop.
func (t *topic) poll(every time.Duration) {
	t.ticker = time.NewTicker(every)
	ticks := t.ticker.C
	go func() {
		for {
			select {
			case <-ticks:
				t.wake()
			case <-t.ended:
				return
			}
		}
	}()
}

func (t *topic) stop() {
	close(t.ended)
	if t.ticker != nil {
		t.ticker.Stop()
	}
}

// share is who reads events for whom.
type share uint8

const (
	nobody share = iota // there is nothing new, or another subscriber reads it
	all                 // the caller reads for all that wait, and calls done
	alone               // the caller reads for itself: it is behind what the topic remembers
)

// look returns the events after a position that the topic remembers. If there are none, it
// returns who is to read them, from where, and what is closed when it is worth looking again. A topic
// that is behind a position reads up to it, since the position may be one that no event has.
func (t *topic) look(after actor.EventPosition) (events []actor.Event, reads share, from actor.EventPosition, news <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.started {
		t.started, t.fresh = true, false
		t.begin(after, actor.EventPosition{})
	}
	switch {
	case after.Before(t.from), after.Before(t.trimmed) && after != actor.EventPosition{}:
		return nil, alone, after, t.news
	case after.Before(t.end()):
		i := sort.Search(len(t.recent), func(i int) bool { return after.Before(t.recent[i].Position) })
		return t.recent[i:len(t.recent):len(t.recent)], nobody, after, nil
	case t.fresh, t.reading:
		return nil, nobody, after, t.news
	}
	t.reading, t.fresh, t.outdated = true, true, false
	return nil, all, t.end(), t.news
}

// begin forgets what was read, and has what is read next begin behind a position; t.mu is held.
func (t *topic) begin(after, trimmed actor.EventPosition) {
	t.from, t.trimmed, t.recent, t.bytes = after, trimmed, nil, 0
}

// endsAt notes that nothing is published after a position, at which a subscriber read alone. A topic that
// began behind that, at a position which no event has, goes back.
func (t *topic) endsAt(after, trimmed actor.EventPosition) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if after.Before(t.from) && len(t.recent) == 0 {
		t.fresh = false
		t.begin(after, trimmed)
	}
}

// done takes what was read for all after a position, and wakes those that wait for it.
func (t *topic) done(after actor.EventPosition, page actor.EventPage, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reading = false
	switch {
	case err != nil, t.outdated:
		t.fresh = false
	case after == t.end(): // otherwise the topic has begun anew at another position
		if after.Before(page.Trimmed) { // what it remembers does not lead to what was read
			t.begin(after, page.Trimmed)
		}
		t.remember(page.Events)
		t.fresh = t.fresh && len(page.Events) == 0 // there may be more
	}
	t.announce()
}

// remember adds events behind those that are remembered, and forgets the oldest; t.mu is held.
func (t *topic) remember(events []actor.Event) {
	t.recent = append(t.recent, events...)
	for i := range events {
		t.bytes += len(events[i].Payload.Data)
	}
	drop := 0
	for len(t.recent)-drop > maxRecent || t.bytes > maxRecentBytes && len(t.recent)-drop > 1 {
		t.bytes -= len(t.recent[drop].Payload.Data)
		t.from = t.recent[drop].Position
		drop++
	}
	if drop > 0 {
		t.recent = append([]actor.Event(nil), t.recent[drop:]...) // subscribers have the old ones
	}
}
