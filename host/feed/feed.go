package feed

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/internal/fair"
)

// Feed has the subscriptions of a process. All methods may be called concurrently.
type Feed struct {
	cfg     Config
	reads   *fair.Places
	trimmer trimmer

	mu     sync.Mutex
	topics map[actor.Key]*topic
}

// New returns a feed.
func New(cfg Config) *Feed {
	if cfg.PollEvery == 0 {
		cfg.PollEvery = 250 * time.Millisecond
	}
	if cfg.MaxReads == 0 {
		cfg.MaxReads = 16
	}
	f := &Feed{cfg: cfg, reads: fair.NewPlaces(cfg.MaxReads), topics: map[actor.Key]*topic{}}
	f.trimmer.init(&f.cfg)
	return f
}

// Published has the subscribers of an actor read: so many events of it were committed. It does
// not block.
func (f *Feed) Published(key actor.Key, events int) {
	f.trimmer.published(key, events)
	f.mu.Lock()
	defer f.mu.Unlock()
	if t := f.topics[key]; t != nil {
		t.wake()
	}
}

// Removed forgets the events of an actor that was deleted here. Elsewhere, what its subscribers have
// read stays in memory with them.
func (f *Feed) Removed(key actor.Key) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if t := f.topics[key]; t != nil {
		t.forget()
	}
}

// Stop waits for trims that are under way. Nothing is published any more.
func (f *Feed) Stop() { f.trimmer.work.Wait() }

// Newest is the position after which a subscription gets what is published from now on.
func (f *Feed) Newest(ctx context.Context, key actor.Key) (actor.EventPosition, error) {
	return f.cfg.Store.NewestEvent(ctx, key)
}

// Subscribe calls deliver with the events of an actor after a position (the zero value: those
// that are kept), some at a time and in their order, until ctx ends, deliver returns an error, or events
// were trimmed that are next: [actor.ErrPositionGone]. If none came for the time idle, it calls deliver
// without events, also where the store does not answer. deliver must not keep or change the events.
func (f *Feed) Subscribe(ctx context.Context, key actor.Key, after actor.EventPosition, idle time.Duration, deliver func([]actor.Event) error) error {
	t := f.enter(key)
	defer f.leave(t)
	quiet, due := time.NewTimer(idle), time.Now().Add(idle) // due is when quiet fires
	defer quiet.Stop()
	hand := func(events []actor.Event) error {
		err := deliver(events)
		quiet.Reset(idle)
		due = time.Now().Add(idle)
		return err
	}
	for ctx.Err() == nil {
		events, news, err := f.next(ctx, t, after, time.Until(due))
		switch {
		case errors.Is(err, errNoAnswer):
			err = hand(nil)
		case len(events) > 0:
			after = events[len(events)-1].Position
			err = hand(events)
		case err == nil:
			select {
			case <-news:
			case <-quiet.C:
				err = hand(nil)
			case <-ctx.Done():
			}
		}
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

// enter returns the topic of an actor for one more subscriber.
func (f *Feed) enter(key actor.Key) *topic {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.topics[key]
	if t == nil {
		t = newTopic(key)
		f.topics[key] = t
		if f.cfg.Shared {
			t.poll(f.cfg.PollEvery)
		}
	}
	t.subscribers++
	return t
}

func (f *Feed) leave(t *topic) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if t.subscribers--; t.subscribers == 0 {
		t.stop()
		delete(f.topics, t.key)
	}
}

// pageEvents and pageBytes bound one read.
const (
	pageEvents = 256
	pageBytes  = 256 << 10
)

// errNoAnswer says that the store has not answered in time.
var errNoAnswer = errors.New("the store has not answered")

// next returns events after a position. If there are none, news is closed when it is worth
// asking again. It asks the store for as long as patience, and returns errNoAnswer then.
func (f *Feed) next(ctx context.Context, t *topic, after actor.EventPosition, patience time.Duration) (events []actor.Event, news <-chan struct{}, err error) {
	events, reads, from, news := t.look(after)
	if reads == nobody {
		return events, news, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errNoAnswer)
	defer cancel()
	var page actor.EventPage
	if reads == all {
		page, err = f.readForAll(ctx, t, from)
	} else {
		page, err = f.read(ctx, t.key, after, pageEvents)
	}
	if err != nil && errors.Is(context.Cause(ctx), errNoAnswer) {
		err = errNoAnswer
	}
	if events, err = kept(page, after, err); err != nil {
		return nil, nil, err
	}
	switch {
	case from != after: // the topic has read towards the position, and wakes all
		events = nil
	case reads == alone && len(events) == 0:
		t.endsAt(after, page.Trimmed)
	}
	return events, news, nil
}

// readForAll reads for all that wait for the next events of a topic. If the read panics, which ends one
// subscription, another subscriber reads next.
func (f *Feed) readForAll(ctx context.Context, t *topic, after actor.EventPosition) (page actor.EventPage, err error) {
	err = errors.New("the read has panicked") // unless it returns
	defer func() { t.done(after, page, err) }()
	return f.read(ctx, t.key, after, pageEvents)
}

// kept returns the events of a page that was read after a position, unless some of those that are
// next were trimmed.
func kept(page actor.EventPage, after actor.EventPosition, err error) ([]actor.Event, error) {
	if err != nil {
		return nil, fmt.Errorf("read events: %w", err)
	}
	if after != (actor.EventPosition{}) && after.Before(page.Trimmed) {
		return nil, &actor.ReasonError{Condition: actor.ErrPositionGone, Reason: fmt.Sprintf(
			"events up to %s were trimmed; subscribe after that position, from the start, or from now on", page.Trimmed)}
	}
	return page.Events, nil
}

// Read returns the events of an actor after a position (the zero value: those that are kept), some
// at a time; none if nothing was published after it. It returns [actor.ErrPositionGone] if events
// were trimmed that are next.
func (f *Feed) Read(ctx context.Context, key actor.Key, after actor.EventPosition) ([]actor.Event, error) {
	page, err := f.read(ctx, key, after, pageEvents)
	return kept(page, after, err)
}

// Pull returns the firing of a cursor with the event behind that, or, if events behind it are not kept
// any more, with the position up to which they are gone; ok is false if there is no event yet. A
// publisher that was deleted has lost all its events: the event of the cursor itself is missing then,
// and the position is where what is kept of its new events begins.
func (f *Feed) Pull(ctx context.Context, firing actor.Firing) (pulled actor.Firing, ok bool, err error) {
	pull := *firing.Pull
	newest, err := f.newest(ctx, pull.Publisher)
	if err != nil || newest == pull.After { // which most polls find, and is cheap
		return firing, false, err
	}
	// The event of the cursor is read once more, to see that it is there.
	page, err := f.read(ctx, pull.Publisher, pull.After.Previous(), 2)
	if err != nil {
		return firing, false, fmt.Errorf("read the event behind a cursor: %w", err)
	}
	none := actor.EventPosition{}
	known := pull.After == none || pull.After == page.Trimmed
	if len(page.Events) > 0 && page.Events[0].Position == pull.After {
		known, page.Events = true, page.Events[1:]
	}
	switch {
	case !known, pull.After.Before(page.Trimmed):
		pull.Gone, pull.Event.Position = true, page.Trimmed
	case len(page.Events) == 0:
		return firing, false, nil
	default:
		pull.Event = page.Events[0]
		firing.Payload = pull.Event.Payload
	}
	firing.Pull = &pull
	return firing, true, nil
}

// newest reads the position of the last event of an actor, in the turn of its app.
func (f *Feed) newest(ctx context.Context, key actor.Key) (actor.EventPosition, error) {
	leave, err := f.reads.Enter(ctx, key.App, key.Type)
	if err != nil {
		return actor.EventPosition{}, errors.Join(ctx.Err(), err)
	}
	defer leave()
	at, err := f.cfg.Store.NewestEvent(ctx, key)
	if err != nil {
		return at, fmt.Errorf("read the newest event: %w", err)
	}
	return at, nil
}

// read reads for subscribers. A busy app waits for its own reads.
func (f *Feed) read(ctx context.Context, key actor.Key, after actor.EventPosition, limit int) (actor.EventPage, error) {
	leave, err := f.reads.Enter(ctx, key.App, key.Type)
	if err != nil {
		return actor.EventPage{}, errors.Join(ctx.Err(), err)
	}
	defer leave()
	return f.cfg.Store.ReadEvents(ctx, actor.EventQuery{Key: key, After: after, Limit: limit, MaxBytes: pageBytes})
}
