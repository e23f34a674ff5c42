package timer

import (
	"context"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/turn"
)

// watch is an actor's watch of a host. The lock of its [Schedule] guards what changes.
type watch struct {
	turn.WatchEffect
	by   actor.Key
	stop func() bool // nil: the host is this one, which ends with all its watches
	gone bool
}

// size is what the watch counts for in the memory of a clock.
func (w *watch) size() int64 { return w.Size() + cost }

// notice is the message that reports the end of the watch.
func (w *watch) notice(why string) actor.Tell {
	return actor.Tell{To: w.by, Method: w.Method, Message: actor.Message{From: w.Of, Disconnected: true, Failed: why}}
}

// Watched returns the actors whose hosts an actor watches, with all changes that wait. The
// caller owns the map.
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

// watch begins a watch of an actor, in the place of an earlier one, or ends that.
func (s *Schedule) watch(key actor.Key, of *timers, effect *turn.WatchEffect) {
	if old := of.watches[effect.Of]; old != nil {
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

// Repeat tells a message once more, after a pause.
func (s *Schedule) Repeat(t actor.Tell) {
	if !s.closed {
		t.Delay = refusedPause
		s.delay(t)
	}
}
