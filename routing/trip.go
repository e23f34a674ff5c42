package routing

import (
	"errors"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// trip is what a call has met on its way. It decides when the call is tried again, and
// when no more.
type trip struct {
	until     time.Time // when it has waited for too long; zero: it has not waited
	pauses    int
	redirects int          // how many other hosts it was sent to that did not hold the actor
	refusedBy actor.HostID // the last one of them
	wentBack  bool         // to one that had sent it to another that did not hold the actor
	avoid     actor.HostID // where it was not taken
	avoidFor  int          // for so many pauses, unless there is another one to try
	why       string       // what keeps it, for people
}

const (
	// maxRedirects: a call is passed on once more at most, not counting that it goes
	// back to a host whose knowledge was old.
	maxRedirects = 2
	// minPause and maxPause bound the growing pauses before a call is tried again that
	// nothing tells when to.
	minPause = 5 * time.Millisecond
	maxPause = 250 * time.Millisecond
	// pausesForNews come to about a second: a host that does not hold an actor is
	// not asked again before, unless what is known has changed.
	pausesForNews = 8
)

// refused notes that the host by does not hold the actor. owner is the holder that by knows
// of; empty if it knows none.
func (t *trip) refused(by, owner actor.HostID) {
	t.avoid, t.avoidFor, t.why = by, 1, "it is moving to another host"
	if by == here {
		return
	}
	t.avoidFor = pausesForNews
	if owner != "" && owner == t.refusedBy && !t.wentBack {
		t.wentBack = true // there, by is named, so that it is not sent here again
	} else {
		t.redirects++
	}
	t.refusedBy = by
}

// unreachable notes that a host did not take the call, for what reason.
func (t *trip) unreachable(id actor.HostID, why string) { t.avoid, t.avoidFor, t.why = id, 1, why }

// mayTry reports whether a host is to be tried now; otherwise there is a pause first.
func (t *trip) mayTry(id actor.HostID) bool {
	if id != t.avoid || t.avoidFor == 0 {
		return true
	}
	t.avoidFor--
	return false
}

// wait returns for how long the call waits before it is tried again, or why it does
// not. told says that it is woken when there is news.
func (t *trip) wait(limit time.Duration, told bool) (time.Duration, error) {
	now := time.Now()
	if t.until.IsZero() {
		t.until = now.Add(limit)
	}
	left := t.until.Sub(now)
	switch {
	case left <= 0:
		return 0, t.gaveUp()
	case told:
		return left, nil
	}
	pause := maxPause
	if t.pauses < 6 {
		pause = minPause << t.pauses
	}
	t.pauses++
	return min(pause, left), nil
}

// gaveUp is the error of a call that is not tried any more.
func (t *trip) gaveUp() error {
	if t.why == "" {
		return noOwner("nobody holds it yet")
	}
	return noOwner("%s", t.why)
}

// goesOn notes what a peer answered an operation, and reports whether it is tried
// again.
func (t *trip) goesOn(r *Router, key actor.Key, id actor.HostID, err error) bool {
	var notOwner *NotOwnerError
	var unsent *unsentError
	switch {
	case errors.As(err, &notOwner):
		r.cfg.Placement.Learned(key, notOwner.Owner)
		t.refused(id, notOwner.Owner)
	case errors.As(err, &unsent):
		t.unreachable(id, unsent.Error())
	case errors.Is(err, actor.ErrStopping):
		t.unreachable(id, "its host is stopping")
	default:
		return false
	}
	return true
}
