package pipeline

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/internal/leaktest"
	"go.uber.org/goleak"
)

var rewrite = flag.Bool("rewrite", false, "write what the traces in testdata really give")

func TestMain(m *testing.M) { goleak.VerifyTestMain(leaktest.Patient(m)) }

func key(id string) actor.Key { return actor.Key{App: "app", Type: "T", ID: id} }

// fakeStore answers when it is told to, and remembers the groups.
type fakeStore struct {
	mu     sync.Mutex
	groups []*heldGroup // at the store, oldest first
	lines  []string     // what happened since the last command
}

func (s *fakeStore) say(format string, args ...any) {
	s.lines = append(s.lines, fmt.Sprintf(format, args...))
}

// tell returns what a command led to, sorted: goroutines finish as they like.
func (s *fakeStore) deliver() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.Sort(s.lines)
	text := strings.Join(s.lines, "")
	s.lines = nil
	return text
}

type heldGroup struct {
	names   []string
	release chan error // of every member, unless it is bad
}

func (s *fakeStore) hold(ctx context.Context, kind string, keys []actor.Key) error {
	g := &heldGroup{release: make(chan error, 1)}
	for _, k := range keys {
		g.names = append(g.names, k.ID)
	}
	s.mu.Lock()
	s.groups = append(s.groups, g)
	s.say("  store: %s %s\n", kind, strings.Join(g.names, " "))
	s.mu.Unlock()
	select {
	case err := <-g.release:
		return err
	case <-ctx.Done():
		s.mu.Lock()
		s.say("  store: %s %s is cut short\n", kind, strings.Join(g.names, " "))
		for i := range s.groups {
			if s.groups[i] == g {
				s.groups = append(s.groups[:i], s.groups[i+1:]...)
				break
			}
		}
		s.mu.Unlock()
		return ctx.Err()
	}
}

func (s *fakeStore) Commit(ctx context.Context, commits []actor.Commit) []error {
	keys := make([]actor.Key, len(commits))
	for i := range commits {
		keys[i] = commits[i].Anchor().Key
	}
	err := s.hold(ctx, "commit", keys)
	errs := make([]error, len(commits))
	for i, k := range keys {
		if errs[i] = err; strings.HasPrefix(k.ID, "stale") {
			errs[i] = actor.ErrStale
		}
	}
	return errs
}

type damagedError struct{ keys []actor.Key }

func (e *damagedError) Error() string { return fmt.Sprintf("%d damaged", len(e.keys)) }
func (e *damagedError) Unwrap() error { return actor.ErrStateDamaged }
func (e *damagedError) VersionOf(key actor.Key) (uint64, bool) {
	for _, k := range e.keys {
		if k == key {
			return 1, true
		}
	}
	return 0, false
}

func (s *fakeStore) LoadActors(ctx context.Context, keys []actor.Key, opts actor.LoadOptions) ([]actor.Row, error) {
	kind := "load"
	switch {
	case opts.AllowStale:
		kind = "load stale"
	case opts.BesideLocks:
		kind = "load beside"
	}
	if err := s.hold(ctx, kind, keys); err != nil {
		return nil, err
	}
	rows := make([]actor.Row, len(keys))
	damaged := &damagedError{}
	bytes := int64(0)
	for i, k := range keys {
		switch {
		case opts.MaxBytes > 0 && bytes >= opts.MaxBytes:
			rows[i].Unread = true
		case strings.HasPrefix(k.ID, "large"):
			rows[i] = actor.Row{Version: uint64(len(k.ID)), State: actor.EncodedState{Data: make([]byte, 60)}}
			bytes += 60
		case strings.HasPrefix(k.ID, "damaged"):
			damaged.keys = append(damaged.keys, k)
		case strings.HasPrefix(k.ID, "odd"):
			return nil, errors.New("odd key")
		default:
			rows[i] = actor.Row{Version: uint64(len(k.ID))}
		}
	}
	if len(damaged.keys) > 0 {
		return rows, damaged
	}
	return rows, nil
}

// work is a commit of a script.
type work struct {
	key  actor.Key
	size int64
	done func(error)
}

func (w *work) App() string                 { return w.key.App }
func (w *work) Size() int64                 { return w.size }
func (w *work) Commit() actor.Commit        { return actor.CommitOf(actor.RowWrite{Key: w.key}) }
func (w *work) Done(err error, _ time.Time) { w.done(err) }

// TestTraces runs the scripts of testdata: each command is followed by what
// reached the store and by the answers.
func TestTraces(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no traces: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var got string
			synctest.Test(t, func(t *testing.T) { got = runTrace(t, string(want)) })
			if *rewrite {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if got != string(want) {
				t.Errorf("%s gives (run with -rewrite to accept):\n%s", file, got)
			}
		})
	}
}

func runTrace(t *testing.T, script string) string {
	var out strings.Builder
	s := &fakeStore{}
	ctx, end := context.WithCancel(t.Context())
	cfg := Config{Workers: 2, GroupRows: 3, GroupBytes: 100, QueueRows: 6, QueueBytes: 286} // of which one app may have 250 bytes
	commits, loads := NewCommits(ctx, cfg, s), NewLoads(ctx, cfg, s)
	leave := map[string]context.CancelFunc{}
	answer := func(id string, err error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if err == nil {
			s.say("  %s: ok\n", id)
		} else {
			s.say("  %s: %v\n", id, err)
		}
	}
	for line := range strings.Lines(script) {
		line = strings.TrimRight(line, "\n")
		if !strings.HasPrefix(line, "> ") {
			if strings.HasPrefix(line, "#") || line == "" {
				fmt.Fprintln(&out, line)
			}
			continue
		}
		fmt.Fprintln(&out, line)
		args := strings.Fields(line[2:])
		switch args[0] {
		case "commit": // commit ID[:BYTES]...
			for _, arg := range args[1:] {
				w := &work{size: 10}
				id, bytes, sized := strings.Cut(arg, ":")
				if sized {
					fmt.Sscan(bytes, &w.size)
				}
				w.key, w.done = key(id), func(err error) { answer(id, err) }
				if err := commits.Submit(w); err != nil {
					answer(id, err)
				}
				synctest.Wait()
			}
		case "load", "load-stale": // load ID...
			for _, id := range args[1:] {
				ctx, cancel := context.WithCancel(t.Context())
				leave[id] = cancel
				opts := actor.LoadOptions{AllowStale: args[0] == "load-stale"}
				go func() {
					row, err := loads.Load(ctx, key(id), opts)
					if err == nil && row.Version != uint64(len(id)) {
						err = fmt.Errorf("another's row: %+v", row)
					}
					answer(id, err)
				}()
				synctest.Wait()
			}
		case "leave":
			for _, id := range args[1:] {
				leave[id]()
				synctest.Wait()
			}
		case "answer": // answer [unavailable]: the oldest group at the store
			g := s.groups[0]
			s.groups = s.groups[1:]
			var err error
			if len(args) > 1 {
				err = actor.ErrUnavailable
			}
			g.release <- err
		case "wait": // wait DURATION
			d, err := time.ParseDuration(args[1])
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(d) // in the bubble's time
		case "end":
			end()
		default:
			t.Fatalf("unknown command %q", line)
		}
		synctest.Wait()
		out.WriteString(s.deliver())
	}
	end()
	commits.Wait()
	loads.Wait()
	for _, cancel := range leave {
		cancel()
	}
	synctest.Wait()
	return out.String()
}

// TestEachIsAnsweredOnce lets many submit at once to a store that refuses and
// fails at random.
func TestEachIsAnsweredOnce(t *testing.T) {
	const callers, each = 32, 200
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	var under sync.Map // actors with a commit at the store
	var groups, largest atomic.Int64
	store := storeFunc(func(commits []actor.Commit) []error {
		groups.Add(1)
		for n := int64(len(commits)); ; {
			was := largest.Load()
			if n <= was || largest.CompareAndSwap(was, n) {
				break
			}
		}
		errs := make([]error, len(commits))
		for i := range commits {
			if _, twice := under.LoadOrStore(commits[i].Anchor().Key, true); twice {
				t.Errorf("%s has two commits at the store", commits[i].Anchor().Key)
			}
		}
		for i := range commits {
			if commits[i].Rows[0].ReadVersion%7 == 0 {
				errs[i] = actor.ErrStale
			}
			under.Delete(commits[i].Anchor().Key)
		}
		return errs
	})
	c := NewCommits(t.Context(), Config{Workers: 3, GroupRows: 16, QueueRows: callers / 2}, store)
	var refused atomic.Int64
	var group sync.WaitGroup
	for caller := range callers {
		group.Go(func() {
			for i := range each {
				answers := make(chan error, 2)
				w := &versioned{work{key: key(fmt.Sprint(caller)), size: 10, done: func(err error) { answers <- err }}, uint64(i)}
				if err := c.Submit(w); err != nil {
					if !errors.Is(err, actor.ErrUnavailable) {
						t.Error(err)
					}
					refused.Add(1)
					continue
				}
				if err := <-answers; (err != nil) != (i%7 == 0) {
					t.Errorf("commit %d: %v", i, err)
				}
				if len(answers) > 0 {
					t.Error("answered twice")
				}
			}
		})
	}
	group.Wait()
	c.Wait()
	if n := largest.Load(); n > 16 {
		t.Errorf("a group of %d", n)
	}
	t.Logf("%d groups, the largest of %d; %d refused", groups.Load(), largest.Load(), refused.Load())
}

type storeFunc func([]actor.Commit) []error

func (f storeFunc) Commit(_ context.Context, commits []actor.Commit) []error { return f(commits) }

type versioned struct {
	work
	version uint64
}

func (w *versioned) Commit() actor.Commit {
	return actor.CommitOf(actor.RowWrite{Key: w.key, ReadVersion: w.version})
}

// TestBring: the caller is the worker if one is free, and waits for nothing if
// none is.
func TestBring(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := &fakeStore{}
		c := NewCommits(t.Context(), Config{Workers: 1}, first)
		answered := make(chan string, 3)
		bring := func(id string) {
			w := &work{key: key(id), done: func(err error) { answered <- fmt.Sprint(id, " ", err) }}
			if err := c.Bring(w); err != nil {
				t.Error(err)
			}
		}
		brought := make(chan struct{})
		go func() { bring("a"); close(brought) }()
		synctest.Wait()
		bring("b") // the worker is busy
		bring("c")
		select {
		case <-brought:
			t.Fatal("the one that is the worker did not wait for the store")
		default:
		}
		for _, want := range []string{"  store: commit a\n", "  store: commit b c\n"} {
			if got := first.deliver(); got != want {
				t.Errorf("the store got %q, want %q", got, want)
			}
			first.mu.Lock()
			g := first.groups[0]
			first.groups = first.groups[1:]
			first.mu.Unlock()
			g.release <- nil
			synctest.Wait()
		}
		<-brought
		for _, want := range []string{"a <nil>", "b <nil>", "c <nil>"} {
			if got := <-answered; got != want {
				t.Errorf("answered %q, want %q", got, want)
			}
		}
		c.Wait()
	})
}

// TestAppsHaveTheStoreInTurn has commits of one app wait, as many or as large as may, and counts those
// that go before the next one of another app.
func TestAppsHaveTheStoreInTurn(t *testing.T) {
	const group = 64
	for name, size := range map[string]int64{"rows": 1, "bytes": DefaultGroupBytes / 8} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var order []string
				arrived, answer := make(chan struct{}, 1), make(chan struct{})
				c := NewCommits(t.Context(), Config{Workers: 1, GroupRows: group}, storeFunc(func(commits []actor.Commit) []error {
					for i := range commits {
						order = append(order, commits[i].Anchor().Key.App)
					}
					arrived <- struct{}{}
					<-answer
					return make([]error, len(commits))
				}))
				submit := func(app string, size int64) error {
					return c.Submit(&work{key: actor.Key{App: app, Type: "T", ID: "x"}, size: size, done: func(error) {}})
				}
				if err := submit("loud", size); err != nil {
					t.Fatal(err)
				}
				<-arrived
				for submit("loud", size) == nil {
				}
				for range 3 {
					if err := submit("quiet", 1); err != nil {
						t.Fatalf("beside %d of another app: %v", c.Waiting(), err)
					}
				}
				answer <- struct{}{}
				<-arrived
				if n := len(order) - 1; n > group || !slices.Contains(order, "quiet") {
					t.Errorf("the group after has %d commits of %v", n, order)
				}
				close(answer)
				go func() {
					for range arrived { // the groups after
					}
				}()
				c.Wait()
				close(arrived)
			})
		})
	}
}

// TestAppsHaveTheStoreByWhatTheyWrite: a commit as large as a group goes for as many small ones of
// another app as a group has.
func TestAppsHaveTheStoreByWhatTheyWrite(t *testing.T) {
	cfg := Config{}.WithDefaults()
	ls := newLines[int64](&cfg)
	for range 10 {
		ls.add("loud", DefaultGroupBytes, DefaultGroupBytes, false)
	}
	for range 600 {
		ls.add("quiet", 1, 1, false)
	}
	size := func(n int64) int64 { return n }
	large, small := 0, 0
	for small < 600 {
		for _, n := range ls.take(nil, size, size) {
			if n == 1 {
				small++
			} else {
				large++
			}
		}
	}
	if large > 1+600/DefaultGroupRows {
		t.Errorf("%d large commits went before 600 small ones were through", large)
	}
}

// TestLargeCommitIsNotPassedForever: a commit that does not fit into the group after what other apps
// have in it goes first in the next one, however many the others bring.
func TestLargeCommitIsNotPassedForever(t *testing.T) {
	cfg := Config{}.WithDefaults()
	ls := newLines[int64](&cfg)
	size := func(n int64) int64 { return n }
	const small, large = DefaultGroupBytes/DefaultGroupRows - 1, DefaultGroupBytes*7/8 + 64
	fill := func() {
		for range DefaultGroupRows {
			ls.add("busy", small, small, false)
		}
	}
	fill()
	ls.add("quiet", large, large, false)
	for n := range 10 {
		group := ls.take(nil, size, size)
		if slices.Contains(group, large) {
			if n > 1 {
				t.Errorf("%d groups went before the large commit", n)
			}
			return
		}
		fill()
	}
	t.Error("10 groups went before the large commit, and it waits still")
}

// TestPassedCommitIsRefusedWithTheOthers: what waits to go first in the next group is drained as all
// that waits.
func TestPassedCommitIsRefusedWithTheOthers(t *testing.T) {
	cfg := Config{}.WithDefaults()
	ls := newLines[int64](&cfg)
	size := func(n int64) int64 { return n }
	for _, app := range []string{"a", "b", "c"} {
		ls.add(app, DefaultGroupBytes, DefaultGroupBytes, false)
	}
	if group := ls.take(nil, size, size); len(group) != 1 {
		t.Fatalf("a group of %d commits", len(group))
	}
	if all := ls.drain(); len(all) != 2 || ls.rows != 0 || ls.bytes != 0 {
		t.Errorf("%d of 2 drained; %d rows with %d bytes are left", len(all), ls.rows, ls.bytes)
	}
	ls.add("b", 1, 1, false)
	if group := ls.take(nil, size, size); len(group) != 1 {
		t.Errorf("then a group of %d commits", len(group))
	}
}
