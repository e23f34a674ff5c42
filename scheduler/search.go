package scheduler

import (
	"github.com/greenroom-run/greenroom/scheduler/clock"
	"github.com/greenroom-run/greenroom/scheduler/leader"
)

// search is what a host knows of its search for a session with a leader. It is pure state.
type search struct {
	epoch  uint64        // of the leader that it looks for
	since  clock.Instant // from when on it has had no session with it
	last   clock.Instant // until when it looked last
	anewIn uint64        // the epoch in which it gave up its row
}

// failed notes that there was no session with the leader of an epoch at now, and reports
// whether that has been so for long, for the first time in that epoch. A time in which the
// store did not say who leads does not count.
func (w *search) failed(now, lease clock.Instant, epoch uint64) (long bool) {
	if w.epoch != epoch || now-w.last > lease {
		w.epoch, w.since = epoch, now
	}
	w.last = now
	return w.anewIn != epoch && now-w.since >= leader.Patience*lease
}

// ended notes that a session of the present epoch has ended.
func (w *search) ended(now clock.Instant) { w.since, w.last = now, now }
