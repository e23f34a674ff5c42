package guarantees

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/hosttest"
	"github.com/greenroom-run/greenroom/host/pipeline"
	"github.com/greenroom-run/greenroom/internal/pgtest"
	"github.com/greenroom-run/greenroom/store"
	"github.com/greenroom-run/greenroom/store/embedded"
	"github.com/greenroom-run/greenroom/store/faultstore"
	"github.com/greenroom-run/greenroom/store/sqlstore"
)

// patience is far more than a turn or a statement takes on the busiest machine.
const patience = 5 * time.Minute

// onEveryStore runs f with a fresh store of each kind.
func onEveryStore(t *testing.T, f func(t *testing.T, s store.Store)) {
	t.Run("embedded", func(t *testing.T) {
		f(t, openEmbedded(t, vfs.NewMem()))
	})
	t.Run("postgresql", func(t *testing.T) {
		f(t, openSQL(t, pgtest.URL(t)))
	})
	t.Run("cockroachdb", func(t *testing.T) {
		url, ok := pgtest.CockroachURL(t)
		if !ok {
			t.Skipf("%s is not set", pgtest.CockroachVariable)
		}
		f(t, openSQL(t, url))
	})
}

func openEmbedded(t *testing.T, fs vfs.FS) store.Store {
	t.Helper()
	s, err := embedded.Open(t.Context(), embedded.Config{Dir: "data", FS: fs, MinFreeBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	return closing(t, s)
}

func openSQL(t testing.TB, url string) store.Store {
	t.Helper()
	s, err := sqlstore.Open(t.Context(), sqlstore.Config{
		URL: url, Logger: slog.New(slog.DiscardHandler),
		// No statement is late, and no lock held too long, because the machine is busy.
		StatementTimeout: patience, TurnTimeout: patience, LockWait: patience,
	})
	if err != nil {
		t.Fatal(err)
	}
	return closing(t, s)
}

func closing(t testing.TB, s store.Store) store.Store {
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// inEveryLane runs f for each placement whose actors have state.
func inEveryLane(t *testing.T, f func(t *testing.T, placement string)) {
	for _, placement := range []string{abi.PlacementRing, abi.PlacementSticky, abi.PlacementAny} {
		t.Run(placement, func(t *testing.T) { f(t, placement) })
	}
}

// shared is a store that says that other processes write to it.
type shared struct{ store.Store }

func (shared) Shared() bool { return true }

// rig is a store with faults and hosts on it. The app is the test's name, so
// that tests of one store do not meet.
type rig struct {
	store *faultstore.Store
	world *hosttest.World
	app   string
	// folded counts the turns that were committed together with an earlier one.
	folded atomic.Int64
	// egress sends the requests of actors; nil: none are.
	egress host.Egress
	// reminders are of the hosts that start next; nil: they have none.
	reminders host.Reminders
	// peers are of the host that starts next; nil: it has none.
	peers host.Peers
	hosts atomic.Int64
	// turnEnd, if not nil, is called for each turn of the hosts that start next.
	turnEnd func(host.TurnEnd)
}

func newRig(t testing.TB, s store.Store, app string, cfg faultstore.Config) *rig {
	return &rig{store: faultstore.New(shared{s}, cfg), world: hosttest.New(), app: app}
}

// host starts one more host on the rig's store. Its turns have time, unless the
// limits say otherwise.
func (r *rig) host(t testing.TB, limits host.Limits) *host.Host {
	t.Helper()
	return r.hostOn(t, r.store, limits)
}

// hostOn starts one on a store of its own.
func (r *rig) hostOn(t testing.TB, committer host.Committer, limits host.Limits) *host.Host {
	t.Helper()
	return r.hostOf(t, committer, limits, nil)
}

// hostOf starts one that has its actors to itself.
func (r *rig) hostOf(t testing.TB, committer host.Committer, limits host.Limits, owner host.Ownership) *host.Host {
	t.Helper()
	if limits.TurnDeadline == 0 {
		limits.TurnDeadline = patience
	}
	h, err := host.New(host.Config{
		Committer: committer, Modules: r.world, Engine: r.world, Limits: limits, Egress: r.egress, Ownership: owner, Reminders: r.reminders, Peers: r.peers, Services: r.store,
		// Every other host as on the embedded store, every other as on a database.
		Pipeline:  pipeline.Config{CallersCommit: r.hosts.Add(1)%2 == 1},
		Observers: []host.Events{{Commit: func(e host.CommitEnd) { r.folded.Add(int64(e.GroupSize - 1)) }, TurnEnd: r.turnEnd}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return h
}

func (r *rig) key(id string) actor.Key { return actor.Key{App: r.app, Type: "Counter", ID: id} }

// call invokes a method and returns the number that it replies.
func (r *rig) call(t *testing.T, h *host.Host, id, method string) (int64, error) {
	reply, err := h.Invoke(t.Context(), actor.Invocation{Key: r.key(id), Method: method})
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(string(reply.Payload.Data), 10, 64)
}

// must is call for turns that have to succeed.
func (r *rig) must(t *testing.T, h *host.Host, id, method string) int64 {
	t.Helper()
	n, err := r.call(t, h, id, method)
	if err != nil {
		t.Fatalf("%s.%s: %v", id, method, err)
	}
	return n
}

// lockedOut reports whether a default read of an `any` type was answered that its row
// cannot be read for now: on a CockroachDB that does not read beside the locks of
// turns, and whose tables are too young for a read of the past.
func lockedOut(t *testing.T, placement string, err error) bool {
	return placement == abi.PlacementAny && errors.Is(err, actor.ErrUnavailable) && strings.Contains(t.Name(), "/cockroachdb/")
}

// strong reads the newest state.
func (r *rig) strong(t *testing.T, h *host.Host, id string) int64 {
	t.Helper()
	reply, err := h.Invoke(t.Context(), actor.Invocation{
		Key: r.key(id), Method: "Get", ReadOnly: true, Consistency: actor.ConsistencyStrong,
	})
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.ParseInt(string(reply.Payload.Data), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// seeded returns the seed of a test, which it logs: GREENROOM_TEST_SEED, or another one each time if
// that is not set.
func seeded(t *testing.T) uint64 {
	t.Helper()
	seed := rand.Uint64()
	if text := os.Getenv("GREENROOM_TEST_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("GREENROOM_TEST_SEED: %v", err)
		}
	}
	t.Logf("GREENROOM_TEST_SEED=%d", seed)
	return seed
}

// allFired fails the test if a planned fault never happened.
func (r *rig) allFired(t *testing.T) {
	t.Helper()
	if pending := r.store.Pending(); len(pending) > 0 {
		t.Errorf("these faults were planned and never happened: %v", pending)
	}
}

// counter is an actor that counts in two keys, which must always be the same.
func counter(placement string) hosttest.Actor {
	add := func(t *hosttest.Turn) error {
		n, err := t.Add("left", 1)
		if err != nil {
			return err
		}
		return errors.Join(t.SetNumber("right", n), t.ReplyNumber(n))
	}
	return hosttest.Actor{
		Placement: placement,
		Methods: map[string]hosttest.Func{
			"Add": add,
			// Touch changes nothing, but is not declared read-only.
			"Touch": func(t *hosttest.Turn) error {
				n, err := t.Number("left")
				if err != nil || n == 0 {
					return errors.Join(err, t.ReplyNumber(n))
				}
				return errors.Join(t.SetNumber("left", n+1), t.SetNumber("left", n), t.ReplyNumber(n))
			},
			"AddThenFail": func(t *hosttest.Turn) error {
				t.Add("left", 1)
				return hosttest.Fail("on_purpose")
			},
			"AddThenTrap": func(t *hosttest.Turn) error {
				t.Add("left", 1)
				panic("on purpose")
			},
			"AddThenHang": func(t *hosttest.Turn) error {
				t.Add("left", 1)
				<-t.Context.Done()
				return nil
			},
			"AddThenGrow": func(t *hosttest.Turn) error {
				add(t)
				return t.Set("big", string(make([]byte, 2<<20)))
			},
		},
		ReadOnly: map[string]hosttest.Func{
			"Get": func(t *hosttest.Turn) error {
				left, err := t.Number("left")
				if err != nil {
					return err
				}
				right, err := t.Number("right")
				if err != nil {
					return err
				}
				if left != right {
					panic(fmt.Sprintf("half of a turn is there: %d and %d", left, right))
				}
				return t.ReplyNumber(left)
			},
		},
	}
}
