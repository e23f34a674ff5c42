package follow

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// source is a [Source] of one service, whose reads can be held.
type source struct {
	mu     sync.Mutex
	holder string
	hold   chan struct{} // if not nil, received from before a read ends
	reads  int
}

func (s *source) FindService(ctx context.Context, app, name string) (actor.Service, error) {
	s.mu.Lock()
	s.reads++
	found := actor.Service{Name: name, Actor: actor.Key{App: app, Type: "T", ID: s.holder}}
	s.mu.Unlock()
	if s.hold == nil {
		return found, nil
	}
	select {
	case <-s.hold:
		return found, nil
	case <-ctx.Done():
		return actor.Service{}, ctx.Err()
	}
}

func (s *source) ListServices(context.Context, actor.ServiceQuery) ([]actor.Service, error) {
	return nil, nil
}

// stands has another actor stand for the service.
func (s *source) stands(holder string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holder = holder
}

func (s *source) wantReads(t *testing.T, want int) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reads != want {
		t.Errorf("%d reads, want %d", s.reads, want)
	}
}

func list(holder string) string {
	return fmt.Sprintf(`{"services":[{"name":"name","type":"T","id":%q}]}`, holder)
}

// heard has the lists of a watch.
type heard struct {
	mu    sync.Mutex
	lists []string
}

func (h *heard) add(list []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lists = append(h.lists, string(list))
}

func (h *heard) want(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	if fmt.Sprint(h.lists) != fmt.Sprint(want) {
		t.Errorf("heard %q, want %q", h.lists, want)
	}
	h.lists = nil
}

func newServices(s *source) *Services { return New(s, slog.New(slog.DiscardHandler)) }

// The first list of a watch was read after the watch began, and not by a read that was under way.
func TestFirstListIsReadAfterTheWatchBegan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &source{holder: "ann", hold: make(chan struct{})}
		s, first, second := newServices(src), new(heard), new(heard)
		w := s.Watch("app", "name", first.add)
		synctest.Wait()
		src.stands("bob")
		v := s.Watch("app", "name", second.add)
		src.hold <- struct{}{}
		first.want(t, list("ann"))
		second.want(t)
		src.hold <- struct{}{}
		first.want(t, list("bob"))
		second.want(t, list("bob"))
		w.Stop()
		v.Stop()
		s.Wait()
	})
}

// A watch that asks for it gets the newest list once more, and one that has ended none.
func TestAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &source{holder: "ann"}
		s, h, other := newServices(src), new(heard), new(heard)
		w, v := s.Watch("app", "name", h.add), s.Watch("app", "name", other.add)
		h.want(t, list("ann"))
		w.Again()
		h.want(t)
		time.Sleep(every)
		h.want(t, list("ann"))
		time.Sleep(10 * every)
		h.want(t)
		w.Again()
		w.Stop()
		w.Stop()
		w.Again()
		src.stands("bob")
		time.Sleep(every)
		h.want(t)
		other.want(t, list("ann"), list("bob"))
		v.Stop()
		s.Wait()
	})
}

// A read that gets no answer ends, and the next one follows it; the end of the last watch ends one as well.
func TestReadWithoutAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &source{holder: "ann", hold: make(chan struct{})}
		s, h := newServices(src), new(heard)
		w := s.Watch("app", "name", h.add)
		time.Sleep(readLimit + every)
		h.want(t)
		src.wantReads(t, 2)
		src.stands("bob")
		src.hold <- struct{}{}
		src.hold <- struct{}{}
		h.want(t, list("ann"), list("bob"))
		synctest.Wait()
		w.Stop()
		s.Wait()
	})
}

// An app that watches as many names as it can leaves some to others. A name counts until its last watch ends.
func TestNamesAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServices(&source{})
		var stops []func()
		watch := func(app string) (n int) {
			for ; n <= maxNames && s.CanFollow(app, []string{fmt.Sprint(n)}); n++ {
				stops = append(stops, s.Watch(app, fmt.Sprint(n), func([]byte) {}).Stop)
			}
			return n
		}
		if loud, quiet := watch("loud"), watch("quiet"); loud < 100 || loud == maxNames || quiet < alwaysNames || loud+quiet > maxNames {
			t.Errorf("one app watched %d names, and then another %d", loud, quiet)
		}
		if !s.CanFollow("loud", []string{"7", "8"}) || s.CanFollow("loud", []string{"7", "new"}) || s.CanFollow("other", make([]string, maxNames)) {
			t.Error("what is followed, or what is not")
		}
		for _, stop := range stops {
			stop()
		}
		if n := s.names.Used(); n != 0 || len(s.followed) != 0 {
			t.Errorf("%d names are left", n)
		}
		s.Wait()
	})
}

// A name that is watched no more is not read, although a read was asked for.
func TestNoReadAfterTheEnd(t *testing.T) {
	src := &source{}
	s := newServices(src)
	ctx, end := context.WithCancel(t.Context())
	end()
	for range 50 {
		f := &followed{wake: make(chan struct{}, 1)}
		f.wake <- struct{}{}
		s.follow(ctx, f)
	}
	src.wantReads(t, 0)
}

// Watches that begin one after the other share the memory of a list.
func TestListIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServices(&source{holder: "ann"})
		var first, second []byte
		w := s.Watch("app", "name", func(list []byte) { first = list })
		synctest.Wait()
		v := s.Watch("app", "name", func(list []byte) { second = list })
		synctest.Wait()
		if string(first) != list("ann") || &first[0] != &second[0] {
			t.Errorf("%s at %p and %s at %p", first, first, second, second)
		}
		w.Stop()
		v.Stop()
		s.Wait()
	})
}
