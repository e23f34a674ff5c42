package timer

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/turn"
)

// refusedPause is the time after which a firing that the host had no room for is tried again.
const refusedPause = time.Second

// Schedule has the timers of the actors that share a lock, which the caller of each method
// has.
type Schedule struct {
	clock  *Clock
	lock   sync.Locker
	tell   func(actor.Tell)
	closed bool
	actors map[actor.Key]*timers // nil: there were none yet
	// delayed are the messages that wait for their time.
	delayed map[*Timer]struct{}
}

// timers are those of one actor, and its watches.
type timers struct {
	byName map[string]*Timer
	// watches are by the actors whose hosts are watched; nil: there were none yet.
	watches map[actor.Key]*watch
	// placed means that the timers end with the actor's activation.
	placed bool
	// changes are those of turns that are not answered yet, in the order of the turns.
	changes []*Changes
}

// Init readies a schedule whose timers wait in a clock. tell takes messages that are to be
// delivered, in their order, with the lock held.
func (s *Schedule) Init(c *Clock, lock sync.Locker, tell func(actor.Tell)) {
	s.clock, s.lock, s.tell = c, lock, tell
}

// Close lets no timer be set and none fire any more; watches end unsaid.
func (s *Schedule) Close() { s.closed = true }

// Get returns a timer of an actor, as the changes that took effect have left it.
func (s *Schedule) Get(key actor.Key, name string) (t actor.Timer, ok bool) {
	if of := s.actors[key]; of != nil && of.byName[name] != nil {
		return of.byName[name].timer(), true
	}
	return actor.Timer{}, false
}

// All returns the timers of an actor in order of their names, without their payloads.
func (s *Schedule) All(key actor.Key) (all []actor.Timer) {
	of := s.actors[key]
	if of == nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(of.byName)) {
		t := of.byName[name].timer()
		t.Payload = actor.Payload{}
		all = append(all, t)
	}
	return all
}

// Held returns the sizes of an actor's timers by their names, with all changes that wait.
// The caller owns the map.
func (s *Schedule) Held(key actor.Key) map[string]int64 {
	held := map[string]int64{}
	of := s.actors[key]
	if of == nil {
		return held
	}
	for name, t := range of.byName {
		held[name] = t.spec.Size()
	}
	for _, c := range of.changes {
		if c.fate == dropped {
			continue
		}
		for _, e := range c.effects {
			if e.All {
				clear(held)
			} else if e.Set == nil {
				delete(held, e.Name)
			} else {
				held[e.Name] = e.Set.Size()
			}
		}
	}
	return held
}

// Wait puts the changes of a call behind those of earlier calls, until Settle.
func (s *Schedule) Wait(key actor.Key, c *Changes) {
	if c.empty() || c.waits {
		return
	}
	of := s.actors[key]
	if of == nil {
		of = &timers{byName: map[string]*Timer{}}
		if s.actors == nil {
			s.actors = map[actor.Key]*timers{}
		}
		s.actors[key] = of
	}
	c.waits = true
	of.changes = append(of.changes, c)
}

// Decide decides about the changes of a call: they take effect, once all earlier ones are
// decided, or are dropped.
func (s *Schedule) Decide(key actor.Key, c *Changes, apply bool, now time.Time) {
	if c.empty() {
		return
	}
	s.Wait(key, c)
	if c.fate = dropped; apply {
		c.fate = applied
	}
	of := s.actors[key]
	for len(of.changes) > 0 && of.changes[0].fate != undecided {
		next := of.changes[0]
		of.changes = of.changes[1:]
		if next.fate == applied {
			s.apply(key, of, next, now)
		}
		next.effects, next.watches, next.tells, next.waits = nil, nil, nil, false
	}
	s.tidy(key, of)
}

func (s *Schedule) apply(key actor.Key, of *timers, c *Changes, now time.Time) {
	of.placed = c.placed
	for _, e := range c.effects {
		if e.All {
			s.unwatchAll(of, false)
			for _, t := range of.byName {
				s.remove(of, t)
			}
			continue
		}
		if old := of.byName[e.Name]; old != nil {
			s.remove(of, old)
		}
		if e.Set == nil || s.closed {
			continue
		}
		if t := newTimer(e.Set, now); t != nil {
			of.byName[e.Name] = t
			s.clock.start(t, t.due.Sub(now))
		}
	}
	for i := range c.watches {
		s.watch(key, of, &c.watches[i])
	}
	for _, t := range c.tells {
		switch {
		case s.closed:
		case t.Delay > 0:
			s.delay(key, t)
		default:
			s.tell(t)
		}
	}
}

// delay has a message wait for its time, for an actor of the schedule: its sender, which may be
// another one than the one on whose behalf it is sent, or the receiver of a notice.
func (s *Schedule) delay(of actor.Key, t actor.Tell) {
	waits := &Timer{spec: &actor.TimerSpec{Key: of, Payload: t.Payload}, tell: &t}
	if s.delayed == nil {
		s.delayed = map[*Timer]struct{}{}
	}
	s.delayed[waits] = struct{}{}
	s.clock.start(waits, t.Delay)
}

// Tell delivers the message that a timer stands for, and reports whether it stands for one.
func (s *Schedule) Tell(t *Timer) bool {
	if t.tell == nil {
		return false
	}
	if !t.gone {
		s.endDelayed(t)
		if !s.closed {
			s.tell(*t.tell)
		}
	}
	return true
}

// endDelayed ends that a message waits.
func (s *Schedule) endDelayed(t *Timer) {
	t.gone = true
	delete(s.delayed, t)
	s.clock.stop(t)
}

// DropDelayed drops the messages that wait for their time.
func (s *Schedule) DropDelayed() {
	for t := range s.delayed {
		s.endDelayed(t)
	}
}

// tidy forgets an actor that has neither timers nor watches.
func (s *Schedule) tidy(key actor.Key, of *timers) {
	if len(of.byName)+len(of.watches)+len(of.changes) == 0 {
		delete(s.actors, key)
	}
}

// remove ends a timer of an actor.
func (s *Schedule) remove(of *timers, t *Timer) {
	if t.gone {
		return
	}
	t.gone = true
	s.clock.stop(t)
	delete(of.byName, t.spec.Name)
}

// end ends a timer, and forgets its actor if that was the last one.
func (s *Schedule) end(t *Timer) {
	if of := s.actors[t.spec.Key]; of != nil {
		s.remove(of, t)
		s.tidy(t.spec.Key, of)
	}
}

// Leave ends the timers of an actor that end with its activation. Its watches stay: to learn of
// their end would bring it back into memory.
func (s *Schedule) Leave(key actor.Key) {
	if of := s.actors[key]; of != nil && of.placed {
		s.endTimers(key, of)
	}
}

// Moved ends the timers and the watches of an actor that has gone to another host.
func (s *Schedule) Moved(key actor.Key) {
	if of := s.actors[key]; of != nil && of.placed {
		s.unwatchAll(of, true)
		s.endTimers(key, of)
	}
}

// Delete ends the timers and the watches of an actor that was deleted.
func (s *Schedule) Delete(key actor.Key) {
	if of := s.actors[key]; of != nil {
		s.unwatchAll(of, false)
		s.endTimers(key, of)
	}
}

// MovedFunc ends the timers and the watches of all actors for which moved returns true; placed
// reports whether they end with the actor's activation.
func (s *Schedule) MovedFunc(moved func(key actor.Key, placed bool) bool) {
	for key, of := range s.actors {
		if moved(key, of.placed) {
			s.unwatchAll(of, true)
			s.endTimers(key, of)
		}
	}
}

func (s *Schedule) endTimers(key actor.Key, of *timers) {
	for _, t := range of.byName {
		s.remove(of, t)
	}
	s.tidy(key, of)
}

// Fires reports whether a timer that is due asks for its turn.
func (s *Schedule) Fires(t *Timer) bool { return !t.gone && !s.closed }

// Touched reports whether changes that wait set anew or cancel a timer whose own turn has
// not begun.
func (s *Schedule) Touched(t *Timer) bool {
	of := s.actors[t.spec.Key]
	if of == nil || t.begun {
		return false
	}
	for _, c := range of.changes {
		if c.fate == dropped {
			continue
		}
		for _, e := range c.effects {
			if e.All || e.Name == t.spec.Name {
				return true
			}
		}
	}
	return false
}

// Begin begins the turn of a firing, and reports whether it may: a timer that was cancelled
// before does not fire.
func (s *Schedule) Begin(t *Timer, now time.Time) bool {
	switch {
	case t.begun: // it runs again
		return true
	case t.gone:
		return false
	}
	t.begun, t.late = true, now.Sub(t.due)
	if t.once() {
		s.end(t)
	}
	return true
}

// Ended records that the turn of a firing has ended with err. active reports whether the
// actor has an activation. ok reports whether there is anything to say about the firing.
func (s *Schedule) Ended(t *Timer, err error, active bool, now time.Time) (f Fired, ok bool) {
	begun, unserved := t.begun, Unserved(err)
	f = Fired{Key: t.spec.Key, Name: t.spec.Name, Method: t.spec.Method, Late: t.late, Err: err}
	again := now.Add(t.spec.Schedule.Every) // from the end of the turn
	switch {
	case t.gone || s.closed:
	case errors.Is(err, actor.ErrNotOwner) && !active && s.actors[t.spec.Key].placed:
		s.Moved(t.spec.Key) // otherwise the lease is only late
	case unserved:
		s.end(t)
	case !begun: // of the timer itself nothing is known
		s.clock.restart(t, refusedPause)
	case again.After(t.end()):
		s.end(t)
	default:
		t.begun = false
		t.left -= min(t.left, 1)
		t.due = again
		s.clock.restart(t, t.spec.Schedule.Every)
	}
	return f, begun || unserved
}

// watch is an actor's watch of a host or of services. The lock of its [Schedule] guards what
// changes.
type watch struct {
	turn.WatchEffect
	by   actor.Key
	stop func() bool // nil: the host is this one, which ends with all its watches
	gone bool

	following turn.Following // of services; nil: a host
	busy      bool           // a notice with a list is on its way
	next      []byte         // the list to follow it; nil: none
	told      []byte         // the list of the latest notice; nil: that was none, or was dropped
}

// size is what the watch counts for in the memory of a clock.
func (w *watch) size() int64 { return w.Size() + cost }

// notice is the message that reports the end of the watch.
func (w *watch) notice(why string) actor.Tell {
	if w.following != nil {
		t := w.message([]byte(`{"services":[]}`))
		t.Message.Disconnected, t.Message.Failed = true, why
		return t
	}
	return actor.Tell{To: w.by, Method: w.Method, Message: actor.Message{From: w.Of, Disconnected: true, Failed: why}}
}

// message is the one that reports who stands for the services.
func (w *watch) message(list []byte) actor.Tell {
	return actor.Tell{To: w.by, Method: w.Method, Payload: actor.Payload{Data: list}, Message: actor.Message{Service: w.Of.ID}}
}

// heard has the actor learn who stands for the services now, once it has learned what was reported
// before: it gets one list at a time, and the newest next.
func (w *watch) heard(s *Schedule, list []byte) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if w.next = list; !w.busy {
		w.report(s)
	}
}

// report tells the list that is next, if there is one, and it is not the one that was told before: a change
// may be undone while that waits.
func (w *watch) report(s *Schedule) {
	list := w.next
	w.busy, w.next = list != nil && !bytes.Equal(list, w.told) && !w.gone && !s.closed, nil
	if !w.busy {
		return
	}
	w.told = list
	t := w.message(list)
	t.Ended = func(again bool) {
		s.lock.Lock()
		defer s.lock.Unlock()
		if again {
			w.next, w.told = nil, nil // the list of the next second is as new
			w.following.Again()
		}
		w.report(s)
	}
	s.tell(t)
}

// Watched returns the actors whose hosts an actor watches, and its services as keys without a
// type, with all changes that wait. The caller owns the map.
func (s *Schedule) Watched(key actor.Key) map[actor.Key]struct{} {
	watched := map[actor.Key]struct{}{}
	of := s.actors[key]
	if of == nil {
		return watched
	}
	for other := range of.watches {
		watched[other] = struct{}{}
	}
	for _, c := range of.changes {
		if c.fate == dropped {
			continue
		}
		if c.endsAll() {
			clear(watched)
		}
		for i := range c.watches {
			if w := &c.watches[i]; w.Method == "" {
				delete(watched, w.Of)
			} else {
				watched[w.Of] = struct{}{}
			}
		}
	}
	return watched
}

// watch begins a watch of an actor, in the place of an earlier one, or ends that. An earlier watch of
// services goes on with another method: if it began anew, with the present list, an actor that watches
// in the method which gets the list would get it for ever.
func (s *Schedule) watch(key actor.Key, of *timers, effect *turn.WatchEffect) {
	if old := of.watches[effect.Of]; old != nil {
		if old.following != nil && effect.Method != "" {
			s.clock.bytes.Give(key.App, old.size())
			old.Method = effect.Method
			s.clock.bytes.Add(key.App, old.size())
			return
		}
		s.unwatch(of, old)
	}
	if effect.Method == "" || s.closed {
		return
	}
	w := &watch{WatchEffect: *effect, by: key}
	if of.watches == nil {
		of.watches = map[actor.Key]*watch{}
	}
	of.watches[w.Of] = w
	s.clock.bytes.Add(key.App, w.size())
	if w.Services != nil {
		w.following = w.Services.Watch(key.App, w.Of.ID, func(list []byte) { w.heard(s, list) })
	}
	if w.Session == nil {
		return
	}
	s.clock.running.Add(1)
	w.stop = context.AfterFunc(w.Session, func() {
		defer s.clock.running.Done()
		s.lock.Lock()
		defer s.lock.Unlock()
		if w.gone {
			return
		}
		s.unwatch(of, w)
		s.tidy(key, of)
		if !s.closed {
			s.tell(w.notice(abi.WatchDisconnected))
		}
	})
}

// unwatch ends a watch of an actor.
func (s *Schedule) unwatch(of *timers, w *watch) {
	w.gone = true
	delete(of.watches, w.Of)
	s.clock.bytes.Give(w.by.App, w.size())
	if w.stop != nil && w.stop() {
		s.clock.running.Done()
	}
	if w.following != nil {
		w.following.Stop()
	}
}

// unwatchAll ends the watches of an actor. With moved the actor has gone to another host, and
// learns it there.
func (s *Schedule) unwatchAll(of *timers, moved bool) {
	for _, w := range of.watches {
		s.unwatch(of, w)
		if moved && !s.closed {
			s.tell(w.notice(abi.WatchMoved))
		}
	}
}

// Repeat tells a notice once more, after a pause.
func (s *Schedule) Repeat(t actor.Tell) {
	if !s.closed {
		t.Delay = refusedPause
		s.delay(t.To, t)
	}
}
