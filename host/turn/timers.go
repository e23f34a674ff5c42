package turn

import (
	"fmt"
	"maps"
	"slices"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
)

// Timers is what turns need of the timers that there are. Its methods may be called
// concurrently.
type Timers interface {
	// Held returns the sizes of an actor's timers on this host by their names, with what
	// its turns have done that are not committed. The caller owns the map.
	Held(key actor.Key) map[string]int64
	// Watched returns the actors whose hosts an actor watches, as Held returns timers.
	Watched(key actor.Key) map[actor.Key]struct{}
	// Room reports whether the host has memory for so many more timers of an app, which have
	// so many bytes together.
	Room(app string, timers int, bytes int64) bool
}

// TimerEffect is what a turn does to one timer of its actor.
type TimerEffect struct {
	Name string
	Set  *actor.TimerSpec // nil: it is cancelled
	All  bool             // all timers and watches of the actor end; nothing else is set
}

// TimerRefusal is a change of a timer that is refused, for a reason other than what is
// asked for.
type TimerRefusal struct {
	Code    abi.Code
	Problem string
}

func (e *TimerRefusal) Error() string { return e.Problem }

// TimerChanges gathers what is done to the timers and the watches of an actor in one turn. The
// zero value is ready.
type TimerChanges struct {
	effects []TimerEffect
	held    map[string]int64 // nil: not asked yet
	before  map[string]int64 // held, before the turn
	watches []WatchEffect
	watched map[actor.Key]struct{} // nil: not asked yet
}

// Effects returns what is to be done, at most one thing to each timer.
func (c *TimerChanges) Effects() []TimerEffect { return c.effects }

func (c *TimerChanges) look(by Timers, key actor.Key) {
	if c.held == nil {
		c.held = by.Held(key)
		c.before = maps.Clone(c.held)
	}
}

// Set sets a timer and reports whether it replaces one. Everything about the timer was
// checked except the bounds of its actor and host. The error is a [*TimerRefusal].
func (c *TimerChanges) Set(by Timers, s *actor.TimerSpec) (replaced bool, err error) {
	c.look(by, s.Key)
	size := s.Size()
	old, replaced := c.held[s.Name]
	bytes := size - old
	for _, n := range c.held {
		bytes += n
	}
	switch {
	case !replaced && len(c.held) >= actor.MaxTimers:
		return false, &TimerRefusal{abi.CodeTooMany, fmt.Sprintf("an actor has at most %d timers; cancel one, or use reminders", actor.MaxTimers)}
	case bytes > actor.MaxTimerBytes:
		return false, &TimerRefusal{abi.CodeTooLarge, fmt.Sprintf("the timers of this actor have more than %d bytes together; keep the data in the state, and name it in the timer", actor.MaxTimerBytes)}
	case (!replaced || size > old) && !c.fits(by, s.Key.App, s.Name, size):
		return false, &TimerRefusal{abi.CodeNotReady, "the timers of this app take all the memory of timers that the host gives it; try again later, or use a reminder"}
	}
	c.held[s.Name] = size
	c.drop(s.Name)
	c.effects = append(c.effects, TimerEffect{Name: s.Name, Set: s})
	return replaced, nil
}

// fits reports whether the host has memory for what a turn of an app adds with another timer of that
// name and size, together with what it has added before.
func (c *TimerChanges) fits(by Timers, app, name string, size int64) bool {
	timers, bytes := 1, size
	if old, was := c.before[name]; was {
		timers, bytes = 0, size-old
	}
	for other, n := range c.held {
		if other == name {
			continue
		}
		if old, was := c.before[other]; was {
			bytes += n - old
		} else {
			timers, bytes = timers+1, bytes+n
		}
	}
	return by.Room(app, timers, bytes)
}

// Cancel cancels a timer, and reports whether it was there.
func (c *TimerChanges) Cancel(by Timers, key actor.Key, name string) bool {
	c.look(by, key)
	if _, existed := c.held[name]; !existed {
		return false
	}
	delete(c.held, name)
	c.drop(name)
	if _, was := c.before[name]; was { // otherwise the turn has set it, and nothing is to be done
		c.effects = append(c.effects, TimerEffect{Name: name})
	}
	return true
}

func (c *TimerChanges) clone() TimerChanges {
	return TimerChanges{
		effects: slices.Clone(c.effects), held: maps.Clone(c.held), before: maps.Clone(c.before),
		watches: slices.Clone(c.watches), watched: maps.Clone(c.watched),
	}
}

// drop forgets what the turn has done to a timer.
func (c *TimerChanges) drop(name string) {
	c.effects = slices.DeleteFunc(c.effects, func(e TimerEffect) bool { return e.Name == name })
}

// beyondTimer says what a frame has that timers have not, for people; empty for nothing.
func beyondTimer(r *abi.Reminder) string {
	if r.Cron == "" && r.Zone == "" && r.Count == 0 && r.UntilNano == 0 && r.JitterNano == 0 && len(r.Metadata) == 0 && r.Flags == 0 &&
		r.Missed == 0 && r.MissedLimit == 0 && r.MissedAfter == 0 &&
		r.Attempts == 0 && r.Failure == 0 && r.IntervalNano == 0 && r.LongestNano == 0 {
		return ""
	}
	return "a timer has a name, a method, an input, a due time or a delay, and a period; for a cron expression, a count, an end, attempts and metadata set a reminder"
}

// watch gathers what is done to one watch of an actor, and reports whether there was one. refused
// says why it may not be.
func (c *TimerChanges) watch(by Timers, key actor.Key, w WatchEffect) (replaced bool, refused *TimerRefusal) {
	_, replaced = c.watchedBy(by, key)[w.Of]
	switch {
	case w.Method == "" && !replaced:
		return false, nil
	case w.Method == "":
		delete(c.watched, w.Of)
	case !replaced && len(c.watched) >= actor.MaxWatches:
		return false, &TimerRefusal{abi.CodeTooMany, fmt.Sprintf("an actor watches at most %d hosts and services; end a watch, or have another actor watch", actor.MaxWatches)}
	case !by.Room(key.App, 1+len(c.watches), w.Size()):
		return false, &TimerRefusal{abi.CodeNotReady, "the timers and watches of this app take all the memory that the host gives them; try again later"}
	default:
		c.watched[w.Of] = struct{}{}
	}
	c.watches = append(c.watches, w)
	return replaced, nil
}

// watchedBy returns what an actor watches, with what the turn has done.
func (c *TimerChanges) watchedBy(by Timers, key actor.Key) map[actor.Key]struct{} {
	if c.watched == nil {
		c.watched = by.Watched(key)
	}
	return c.watched
}

// Watches returns what is to be done to watches, in this order.
func (c *TimerChanges) Watches() []WatchEffect { return c.watches }
