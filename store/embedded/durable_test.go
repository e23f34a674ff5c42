package embedded_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
	"github.com/greenroom-run/greenroom/store/embedded"
)

// TestReadsAwaitTheSync holds the sync of a commit, and looks: what could still be
// lost is shown by no read, and by each once it is durable.
func TestReadsAwaitTheSync(t *testing.T) {
	fs := vfs.NewMem()
	syncs := onLog(errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo)
	var (
		mu   sync.Mutex
		held chan struct{} // not nil: syncs of the log wait until it is closed
	)
	disk := errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
		mu.Lock()
		until := held
		mu.Unlock()
		if until != nil && syncs(op) {
			<-until
		}
		return nil
	}))
	s := open(t, embedded.Config{Dir: "data", FS: disk})
	c := recording("a", "k", time.Hour)
	call := []actor.KeyedCall{{Actor: c.Anchor().Key, Method: "Add", Key: "k"}}
	release := make(chan struct{})
	mu.Lock()
	held = release
	mu.Unlock()
	committed := make(chan error, 1)
	go func() { committed <- s.Commit(context.WithoutCancel(t.Context()), []actor.Commit{c})[0] }()

	reads := map[string]func(context.Context) (shows bool, err error){
		"LoadActors": func(ctx context.Context) (bool, error) {
			rows, err := s.LoadActors(ctx, []actor.Key{c.Anchor().Key}, actor.LoadOptions{})
			return err == nil && rows[0].Version != 0, err
		},
		"Versions": func(ctx context.Context) (bool, error) {
			versions, err := s.Versions(ctx, []actor.Key{c.Anchor().Key})
			return err == nil && versions[0].Version != 0, err
		},
		"ListActors": func(ctx context.Context) (bool, error) {
			infos, _, err := s.ListActors(ctx, store.ActorQuery{App: c.Anchor().Key.App, Type: c.Anchor().Key.Type, Limit: 10})
			return err == nil && len(infos) > 0, err
		},
		"ScanActors": func(ctx context.Context) (bool, error) {
			examined, _, err := s.ScanActors(ctx, store.ActorScan{App: c.Anchor().Key.App, Type: c.Anchor().Key.Type, Limit: 10},
				func(*store.ScannedActor) bool { return true })
			return err == nil && examined > 0, err
		},
		"LoadIdempotency": func(ctx context.Context) (bool, error) {
			found, err := s.LoadIdempotency(ctx, call)
			return err == nil && found[0].Found, err
		},
	}
	for name, read := range reads {
		// Until it has met the commit, and waits for it longer than it may.
		for {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			shows, err := read(ctx)
			cancel()
			if shows {
				t.Errorf("%s shows what is not durable yet", name)
				break
			}
			if errors.Is(err, context.DeadlineExceeded) {
				break
			}
			must(t, err)
		}
	}
	mu.Lock()
	held = nil
	mu.Unlock()
	close(release)
	must(t, <-committed)
	for name, read := range reads {
		if shows, err := read(t.Context()); !shows || err != nil {
			t.Errorf("%s of a durable commit: %t, %v", name, shows, err)
		}
	}
}
