package reminder

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/scheduler/clock"
)

// mayDeliverEvery is how often a process asks whether it may still deliver, or may again.
const mayDeliverEvery = 250 * time.Millisecond

// ownerTimeout is how long an owner is gone when its buckets go to others. Its own count of
// its lease ended before the lease did, and within mayDeliverEvery from then on it has ended
// its deliveries: this is for turns to stop. The leader counts from one poll to another, so
// that it takes at least one poll.
const ownerTimeout = time.Second

// tenure is whether the buckets that this process has read are its own. It lapses when another
// process may have taken this one for gone, until the rows have been read again. Its methods
// may be called concurrently.
type tenure struct {
	members   Members
	interrupt func() // ends the deliveries under way
	logger    *slog.Logger

	mu     sync.Mutex
	self   actor.HostID // as it was when the store was read last
	lapsed bool         // this process may have been taken for gone since its buckets were read
	lapses uint64       // how often it was found that it may have been
}

// host returns this process as it was when the store was read last.
func (t *tenure) host() actor.HostID {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.self
}

// valid reports whether no other process can have the buckets that this one has read, and ends
// the deliveries otherwise.
func (t *tenure) valid() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.check()
}

func (t *tenure) check() bool {
	if t.members.Self() != t.self || !t.members.Current() {
		t.lapse()
	}
	return !t.lapsed
}

// lapse ends all deliveries, until it is known anew whose the buckets are; t.mu is held. It is
// called again as long as the reason lasts: a poll that had begun before does not end the lapse.
func (t *tenure) lapse() {
	t.lapsed = true
	t.lapses++
	t.interrupt()
}

// state is valid, with how often the tenure has lapsed.
func (t *tenure) state() (valid bool, lapses uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.check(), t.lapses
}

// resume ends the lapse that the first lapses were for: the rows have been read since.
func (t *tenure) resume(lapses uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lapses == lapses {
		t.lapsed = false
	}
}

// become takes over which member this process is, and reports whether it is another one. What
// was read as the one before is not valid any more.
func (t *tenure) become(self actor.HostID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if self == t.self {
		return false
	}
	t.logger.Warn("this host was taken for gone: it delivers and creates reminders anew", "host", t.self, "as", self)
	t.lapse()
	t.self = self
	return true
}

// watch ends what is under way soon after this process may be taken for gone. A process
// that stood still may have had its lease renewed before this is asked again.
func (t *tenure) watch(ctx context.Context) {
	for {
		began := time.Now()
		if !clock.Pause(ctx, mayDeliverEvery) {
			return
		}
		t.mu.Lock()
		t.check()
		if time.Since(began) > ownerTimeout {
			t.lapse()
		}
		t.mu.Unlock()
	}
}
