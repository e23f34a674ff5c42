package routing

import (
	"errors"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// attempts is the history of a call that was tried and not taken. It decides when the call is
// tried again, and when it fails.
type attempts struct {
	until     time.Time // when the call fails; zero if it has not waited yet
	pauses    int
	redirects int          // how many other hosts refused it because they do not hold the actor
	refusedBy actor.HostID // the last of these hosts
	sentBack  bool         // it went back to a host that had named refusedBy as the owner
	avoid     actor.HostID // the host that did not take it last
	avoidFor  int          // how many pauses pass before avoid is tried again
	why       string       // why it waits, for people
	byReaders bool         // it may be tried once at a reader
	forgot    bool         // the owner was forgotten once, since the owner itself sent the call
}

const (
	// maxRedirects bounds the hosts that a call is sent to. A call that goes back to a host
	// whose knowledge was old does not count.
	maxRedirects = 2
	// minPause and maxPause bound the growing pauses before a call is tried again without a
	// change of the table.
	minPause = 5 * time.Millisecond
	maxPause = 250 * time.Millisecond
	// pausesForNews is about a second of pauses: only then, or after a change of the table, is
	// a host asked again that does not hold the actor.
	pausesForNews = 8
)

// refused notes that the host by does not hold the actor. owner is the holder that by named;
// empty if it named none.
func (t *attempts) refused(by, owner actor.HostID) {
	t.avoid, t.avoidFor, t.why = by, 1, "it is moving to another host"
	if by == here {
		return
	}
	t.avoidFor = pausesForNews
	if owner != "" && owner == t.refusedBy && !t.sentBack {
		t.sentBack = true // there, by is named, so that it is not sent here again
	} else {
		t.redirects++
	}
	t.refusedBy = by
}

// unreachable notes that a host did not take the call, and why.
func (t *attempts) unreachable(id actor.HostID, why string) { t.avoid, t.avoidFor, t.why = id, 1, why }

// mayTry reports whether a host may be tried now. If not, it counts the pause that comes first.
func (t *attempts) mayTry(id actor.HostID) bool {
	if id != t.avoid || t.avoidFor == 0 {
		return true
	}
	t.avoidFor--
	return false
}

// wait returns how long the call waits before it is tried again, or the error if its time is
// over. If notified is set, a change of the table wakes the call earlier.
func (t *attempts) wait(limit time.Duration, notified bool) (time.Duration, error) {
	now := time.Now()
	if t.until.IsZero() {
		t.until = now.Add(limit)
	}
	remaining := t.until.Sub(now)
	switch {
	case remaining <= 0:
		return 0, t.exhausted()
	case notified:
		return remaining, nil
	}
	pause := maxPause
	if t.pauses < 6 {
		pause = minPause << t.pauses
	}
	t.pauses++
	return min(pause, remaining), nil
}

// exhausted returns the error of a call that is not tried again.
func (t *attempts) exhausted() error {
	if t.why == "" {
		return noOwner("nobody holds it yet")
	}
	return noOwner("%s", t.why)
}

// mayRetry notes the answer of a peer to an operation, and reports whether the operation is tried
// again.
func (t *attempts) mayRetry(p Placement, key actor.Key, id actor.HostID, err error) bool {
	var notOwner *NotOwnerError
	var unsent *unsentError
	switch {
	case errors.As(err, &notOwner):
		p.Learned(key, notOwner.Owner)
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

// here stands for the local host among the IDs of hosts.
const here actor.HostID = "\x00"
