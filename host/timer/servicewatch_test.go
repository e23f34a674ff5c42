package timer

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/turn"
)

// followed is a [turn.Followers] with one watch, and that watch.
type followed struct {
	heard func(list []byte)
	asked int
	ended bool
}

func (f *followed) CanFollow(string, []string) bool { return true }

func (f *followed) Watch(_, _ string, heard func([]byte)) turn.Following {
	f.heard = heard
	return f
}

func (f *followed) Again() { f.asked++ }

func (f *followed) Stop() { f.ended = true }

// watched is a schedule in which an actor watches a service, and what it tells.
type watched struct {
	followed
	Schedule
	mu   sync.Mutex
	key  actor.Key
	told []actor.Tell
}

func newWatched() *watched {
	w := &watched{key: actor.Key{App: "app", Type: "T", ID: "a"}}
	w.Init(NewClock(1<<20, nil), &w.mu, func(t actor.Tell) { w.told = append(w.told, t) })
	w.mu.Lock()
	defer w.mu.Unlock()
	w.Decide(w.key, &Changes{placed: true, watches: []turn.WatchEffect{{Of: actor.Key{App: "app", ID: "name"}, Method: "M", Services: &w.followed}}}, true, time.Now())
	return w
}

// want checks what was told since the last time, and returns it.
func (w *watched) want(t *testing.T, want ...string) []actor.Tell {
	t.Helper()
	var got []string
	told := w.told
	for _, m := range told {
		got = append(got, m.Message.Failed+string(m.Payload.Data))
	}
	if !slices.Equal(got, want) {
		t.Fatalf("told %q, want %q", got, want)
	}
	w.told = nil
	return told
}

// A list follows the one before when that has ended. One that the actor had no room for is asked for again,
// and what was heard meanwhile is not told at once.
func TestListsFollowEachOther(t *testing.T) {
	w := newWatched()
	w.heard([]byte("1"))
	told := w.want(t, "1")
	w.heard([]byte("2"))
	w.heard([]byte("3"))
	w.want(t)
	told[0].Ended(false)
	told = w.want(t, "3")
	w.heard([]byte("4"))
	told[0].Ended(true)
	w.want(t)
	if w.asked != 1 {
		t.Errorf("asked again %d times", w.asked)
	}
	w.heard([]byte("4"))
	w.want(t, "4")[0].Ended(false)
	w.want(t)
}

// A watch that has ended tells no list, also if one was on its way.
func TestListOfAWatchThatHasEnded(t *testing.T) {
	w := newWatched()
	w.heard([]byte("1"))
	told := w.want(t, "1")
	w.heard([]byte("2"))
	w.mu.Lock()
	w.Moved(w.key)
	w.mu.Unlock()
	w.want(t, abi.WatchMoved+`{"services":[]}`)
	told[0].Ended(false)
	w.heard([]byte("3"))
	w.want(t)
	if n := w.clock.bytes.Used(); n != 0 || !w.ended || len(w.actors) != 0 {
		t.Errorf("%d bytes are left, ended: %v", n, w.ended)
	}
}
