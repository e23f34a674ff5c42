// Package follow reads, again and again, who stands for the services that actors of a host watch,
// and hands it to the watches that have not seen it.
//
// A name that ends in a slash is a group: all services whose names begin with it. Another name is
// one service. All watches of a name share its reads: one a second, and one at once when a watch
// begins.
//
//	          Watch              read, once a second               read
//	(absent) ───────▶ to be read ──────────────────▶ to be handed ──────▶ has the newest list
//	                      ▲                                                 │ the list is another one,
//	                      └─────────────────────────────────────────────────┘ or Again
//
// Invariants: the first list of a watch was read after the watch began, and the lists of a watch
// follow each other in the order in which they were read. What changes between two reads, and back,
// is not seen. While the store does not answer, a watch gets nothing, and later the newest list: no
// change is lost for longer than a second beyond that.
package follow

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/turn"
	"github.com/greenroom-run/greenroom/internal/fair"
)

const (
	// every is how often a name is read: as long as a host may know who stands for a service.
	every = time.Second
	// readLimit bounds a read.
	readLimit = 5 * every
	// maxNames is how many names a host follows, and alwaysNames how many of them each app may have
	// whatever others have.
	maxNames    = 256
	alwaysNames = 8
	// maxListed is how many services a list has. Those of a group that come later are not seen.
	maxListed = 256
)

// Source says who stands for services. Its methods may be called concurrently.
type Source interface {
	turn.ServiceSource
	// ListServices returns services of an app in byte order of their names.
	ListServices(ctx context.Context, q actor.ServiceQuery) ([]actor.Service, error)
}

// Services follows services for watches. It is a [turn.Followers]; its methods may be called
// concurrently.
type Services struct {
	source Source
	logger *slog.Logger
	names  *fair.Account
	work   sync.WaitGroup // one of each followed

	mu       sync.Mutex
	followed map[name]*followed
}

type name struct{ app, name string }

// followed is a name that at least one watch follows. Services.mu guards what changes.
type followed struct {
	name
	watches map[*watch]state
	list    []byte        // the newest; nil: none was read yet
	wake    chan struct{} // asks for a read at once
	end     context.CancelFunc
}

// state is what a watch waits for.
type state uint8

const (
	current state = iota // another list than the newest
	asked                // the newest list
	began                // a list whose read has not begun
)

// watch is a [turn.Following].
type watch struct {
	by    *Services
	of    *followed
	heard func(list []byte)
}

// New returns Services that ask a source.
func New(source Source, logger *slog.Logger) *Services {
	return &Services{
		source: source, logger: logger, followed: map[name]*followed{},
		names: fair.NewAccount(fair.Bounds{Name: "names of services that actors watch", Total: maxNames, Always: alwaysNames, Most: maxNames}),
	}
}

// CanFollow implements [turn.Followers].
func (s *Services) CanFollow(app string, names []string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	more := int64(0)
	for _, service := range names {
		if s.followed[name{app, service}] == nil {
			more++
		}
	}
	return s.names.Check(app, more) == nil
}

// Watch implements [turn.Followers].
func (s *Services) Watch(app, service string, heard func(list []byte)) turn.Following {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := name{app, service}
	f := s.followed[of]
	if f == nil {
		ctx, end := context.WithCancel(context.Background())
		f = &followed{name: of, watches: map[*watch]state{}, wake: make(chan struct{}, 1), end: end}
		s.followed[of] = f
		s.names.Add(app, 1)
		s.work.Go(func() { s.follow(ctx, f) })
	}
	w := &watch{by: s, of: f, heard: heard}
	f.watches[w] = began
	select {
	case f.wake <- struct{}{}:
	default:
	}
	return w
}

// Wait waits until nothing is read any more. Nothing watches.
func (s *Services) Wait() { s.work.Wait() }

// Again implements [turn.Following].
func (w *watch) Again() {
	w.by.mu.Lock()
	defer w.by.mu.Unlock()
	if _, watches := w.of.watches[w]; watches {
		w.of.watches[w] = max(asked, w.of.watches[w])
	}
}

// Stop implements [turn.Following].
func (w *watch) Stop() {
	w.by.mu.Lock()
	defer w.by.mu.Unlock()
	f := w.of
	if delete(f.watches, w); len(f.watches) == 0 && w.by.followed[f.name] == f {
		delete(w.by.followed, f.name)
		w.by.names.Give(f.app, 1)
		f.end()
	}
}

// follow reads until ctx ends.
func (s *Services) follow(ctx context.Context, f *followed) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	failing := false
	for {
		select {
		case <-f.wake:
		case <-tick.C:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			return
		}
		s.asks(f)
		list, err := s.read(ctx, f.name)
		switch {
		case err == nil:
			failing = false
			to, list := s.changed(f, list)
			for _, w := range to {
				w.heard(list)
			}
		case !failing && ctx.Err() == nil:
			failing = true
			s.logger.Warn("services that actors watch are not read", "app", f.app, "service", f.name.name, "error", err)
		}
	}
}

// asks notes that a read begins.
func (s *Services) asks(f *followed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w, st := range f.watches {
		f.watches[w] = min(st, asked)
	}
}

// changed keeps what was read, and returns the watches that are to have it. Those that get the same list
// at different times share its memory.
func (s *Services) changed(f *followed, list []byte) (to []*watch, newest []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	same := bytes.Equal(list, f.list)
	if !same {
		f.list = list
	}
	for w, st := range f.watches {
		if st == asked || st == current && !same {
			f.watches[w] = current
			to = append(to, w)
		}
	}
	return to, f.list
}

// read returns the list of a name: abi/SPEC.md has its form.
func (s *Services) read(ctx context.Context, of name) ([]byte, error) {
	ctx, end := context.WithTimeout(ctx, readLimit)
	defer end()
	type entry struct {
		Name string `json:"name"`
		Type string `json:"type"`
		ID   string `json:"id"`
	}
	var list struct {
		Services []entry `json:"services"`
		More     bool    `json:"more,omitempty"`
	}
	var found []actor.Service
	var err error
	if strings.HasSuffix(of.name, "/") {
		found, err = s.source.ListServices(ctx, actor.ServiceQuery{App: of.app, Prefix: of.name, Limit: maxListed + 1})
	} else {
		found = make([]actor.Service, 1)
		if found[0], err = s.source.FindService(ctx, of.app, of.name); found[0].Name == "" {
			found = nil
		}
	}
	if err != nil {
		return nil, err
	}
	if list.More = len(found) > maxListed; list.More {
		found = found[:maxListed]
	}
	list.Services = make([]entry, len(found))
	for i, v := range found {
		list.Services[i] = entry{v.Name, v.Actor.Type, v.Actor.ID}
	}
	return json.Marshal(list)
}
