package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/server/metrics"
	"github.com/greenroom-run/greenroom/store/faultstore"
)

const (
	app       = "sim"
	processes = 3
	callers   = 3
	// fewLeases and manyLeases are between which times faults happen.
	fewLeases  = 3
	manyLeases = 9
)

// world is one run.
type world struct {
	t        *testing.T
	seed     uint64
	sabotage sabotage
	types    []*actorType // of counters, and of ledgers
	counters []*actorType
	ledgers  *ledgers // nil: there are none
	maxOwned int
	ranges   int  // of a type
	direct   bool // streams are carried without HTTP/2
	total    *counts
	db       *database
	metrics  *metrics.Metrics // of all processes: nobody reads them
	net      *network
	begun    time.Time
	faults   context.Context // ends when no fault happens any more
	calm     context.CancelFunc
	plan     *rand.Rand // for the goroutine that plans faults
	noise    *noise     // for what has none of its own
	running  sync.WaitGroup
	late     sync.WaitGroup // commits

	mu        sync.Mutex
	processes [processes]*process // the latest life of each
	lives     [processes][]*process

	judge      sync.Mutex // of what follows
	runner     map[actor.Key]*process
	known      map[actor.Key]*knowledge
	chains     map[int64]*chain
	runs       int64 // of chains, so far
	violations []string
	trace      []string
}

func newWorld(t *testing.T, seed uint64, s sabotage, total *counts) *world {
	t.Helper()
	plan := rand.New(rand.NewPCG(seed, 1))
	w := &world{
		t: t, seed: seed, sabotage: s, total: total, maxOwned: []int{1, 2, 1000}[plan.IntN(3)], ranges: []int{4, 8, 16, 100}[plan.IntN(4)], direct: plan.IntN(8) != 0,
		begun: time.Now(), plan: plan,
		runner: map[actor.Key]*process{}, known: map[actor.Key]*knowledge{},
		chains: map[int64]*chain{},
	}
	w.noise = w.noiseOf("others")
	w.faults, w.calm = context.WithCancel(context.Background())
	w.net, w.metrics = newNetwork(w), metrics.New()
	w.db = newDatabase(0.99+plan.Float64()*0.02, time.Duration(plan.Int64N(int64(time.Hour))), s.fence)
	w.counters = newTypes(plan)
	w.types = w.counters
	if others := rand.New(rand.NewPCG(seed, 2)); others.IntN(3) == 0 || s.chains() || *ledgered {
		w.ledgers = newLedgers(others)
		w.types = append(slices.Clone(w.types), w.ledgers.types...)
		total.add("seed with ledgers", 1)
	}
	for _, typ := range w.counters {
		total.add("type: "+kindOfPolicy(typ.policies[0]), 1)
		for n := range typ.actors {
			w.known[keyOf(typ.name, n)] = newKnowledge()
		}
	}
	return w
}

func keyOf(typ string, n int) actor.Key {
	return actor.Key{App: app, Type: typ, ID: fmt.Sprint(n)}
}

// run is one seed.
func (w *world) run() {
	for n := range processes {
		w.start(n)
	}
	var clients sync.WaitGroup
	for n := range callers {
		clients.Go(func() { w.client(n) })
	}
	watching, stop := context.WithCancel(context.Background())
	var watcher sync.WaitGroup
	watcher.Go(func() { // one holder, all the time
		pauses := w.noiseOf("watcher")
		for until(watching, pauses.below(lease/25)) {
			for key := range w.known {
				if w.typeOf(key).held() {
					w.oneHolder(key)
				}
			}
			for _, key := range w.ledgers.all() {
				w.oneHolder(key)
			}
		}
	})
	if w.ledgers != nil {
		watcher.Go(func() { w.deliver(func(d time.Duration) bool { return until(watching, d) }) })
	}
	w.plague()
	w.calm()
	for _, s := range w.stores() {
		s.Calm()
	}
	clients.Wait()
	w.settles()
	if w.ledgers != nil {
		w.ledgersSettle(10 * lease)
	}
	w.late.Wait()
	w.countsAddUp()
	w.booksAreInOrder()
	stop()
	watcher.Wait()
	for _, p := range w.alive() {
		p.crash(false)
	}
	w.running.Wait()
	for fault := range storeFaults {
		for _, s := range w.stores() {
			w.total.add(string(fault), s.Fired(fault))
		}
	}
	<-time.After(10 * lease) // the clock stops with this goroutine: whoever waits for it must be done
}

// noiseOf is the source of random numbers of something that happens, or is.
func (w *world) noiseOf(what string) *noise {
	h := fnv.New64a()
	_, _ = h.Write([]byte(what))
	return &noise{rng: rand.New(rand.NewPCG(w.seed, h.Sum64()))}
}

func (w *world) happened(kind string) {
	w.total.add(kind, 1)
	w.note("%s", kind)
}

// note remembers what happened, for people.
func (w *world) note(format string, args ...any) {
	if !*traced {
		return
	}
	line := fmt.Sprintf("%10.4f ", time.Since(w.begun).Seconds()) + fmt.Sprintf(format, args...)
	w.judge.Lock()
	defer w.judge.Unlock()
	w.trace = append(w.trace, line)
}

// logger is that of a process.
func (w *world) logger(p *process) *slog.Logger {
	if !*traced {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(noted{w, p}, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	}))
}

// noted notes lines of a process's log.
type noted struct {
	w *world
	p *process
}

// Write implements [io.Writer].
func (n noted) Write(line []byte) (int, error) {
	n.w.note("  %s: %s", n.p.name, bytes.TrimSpace(line))
	return len(line), nil
}

// fail notes a violation. The caller has judge.
func (w *world) fail(format string, args ...any) {
	if len(w.violations) < 8 {
		w.violations = append(w.violations, fmt.Sprintf("after %v: ", time.Since(w.begun))+fmt.Sprintf(format, args...))
	}
}

// faulty reports whether something goes wrong that does so with some probability.
func (w *world) faulty(n *noise, p float64) bool { return w.faults.Err() == nil && n.chance(p) }

// stores are the database as all processes have found it, those that have ended too.
func (w *world) stores() (all []*faultstore.Store) {
	w.mu.Lock()
	lives := slices.Concat(w.lives[:]...)
	w.mu.Unlock()
	for _, p := range lives {
		p.listening.Lock()
		all = slices.AppendSeq(all, maps.Values(p.stores))
		p.listening.Unlock()
	}
	return all
}

// alive returns the processes that are not gone.
func (w *world) alive() []*process {
	w.mu.Lock()
	defer w.mu.Unlock()
	alive := make([]*process, 0, processes)
	for _, p := range w.processes {
		if p != nil && p.alive() {
			alive = append(alive, p)
		}
	}
	return alive
}

// holders returns which processes may run an actor now.
func (w *world) holders(key actor.Key) []*process {
	may := make([]*process, 0, processes)
	for _, p := range w.alive() {
		self := p.service.Self()
		if p.service.Holds(key, p.policy(key.Type)) != actor.NotHeld && p.service.Current(time.Now()) && p.service.Self() == self {
			may = append(may, p)
		}
	}
	return may
}

// oneHolder checks that at most one process may run an actor now.
func (w *world) oneHolder(key actor.Key) {
	if may := w.holders(key); len(may) > 1 {
		w.judge.Lock()
		defer w.judge.Unlock()
		w.fail("%s and %s may both run %v", may[0].name, may[1].name, key)
	}
}

// begins notes that a process begins a turn that may write: no other one may run the
// actor at this moment.
func (w *world) begins(p *process, key actor.Key) {
	if !w.typeOf(key).held() {
		return
	}
	may := w.holders(key)
	w.judge.Lock()
	defer w.judge.Unlock()
	for _, other := range may {
		if other != p && p.alive() {
			w.fail("%s begins a turn of %v, which %s holds", p.name, key, other.name)
		}
	}
	w.runner[key] = p
}

// commit applies commits of a process. That of an owner of a sticky actor, after
// another's first turn, must be refused.
func (w *world) commit(p *process, commits []actor.Commit, late bool) []error {
	w.judge.Lock()
	defer w.judge.Unlock()
	errs := p.storeOf("Commit").Commit(context.Background(), w.sabotage.commits(commits))
	for i := range commits {
		for _, row := range commits[i].Rows {
			applied := w.db.appliedBy(row.Key, commits[i].ID)
			switch other := w.runner[row.Key]; {
			case !w.typeOf(row.Key).sticky(), row.Bump, row.Delete, // what may be a new owner's first act
				other == nil || other == p:
			case applied:
				w.fail("%s commits a turn of %v after one at %s has begun", p.name, row.Key, other.name)
			default:
				w.total.add("overtaken commit refused", 1)
			}
			if late && applied {
				w.total.add("commit applied late", 1)
			} else if late {
				w.total.add("late commit refused", 1)
			}
		}
	}
	return errs
}

// ask calls an actor through a process, as a client of its API does.
func (w *world) ask(p *process, inv actor.Invocation, limit time.Duration) (actor.Reply, error) {
	var reply actor.Reply
	err := w.through(p, w.noiseOf(inv.ID+" "+inv.Key.String()+" "+p.life), limit, func(ctx context.Context) (err error) {
		reply, err = p.router.Invoke(ctx, inv)
		return err
	})
	if errors.Is(err, errLost) || errors.Is(err, errUnsent) {
		return actor.Reply{}, err
	}
	return reply, err
}

// through does something at a process, as a client of its API has it done.
func (w *world) through(p *process, n *noise, limit time.Duration, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if !until(ctx, n.delay()) || !p.pass() {
		return errUnsent
	}
	err := do(ctx)
	if !p.pass() {
		return errLost
	}
	<-time.After(n.delay())
	return err
}

// errLost is what became of a call: nobody knows. errUnsent: it has not begun.
var (
	errLost   = errors.New("the answer was lost")
	errUnsent = errors.New("the call was not sent")
)

// kindOf names an error.
func kindOf(err error) string {
	var c *actor.Condition
	if errors.As(err, &c) {
		return string(c.Kind())
	}
	return err.Error()
}

// settles checks that every actor answers through every process, soon after the last
// fault.
func (w *world) settles() {
	const within = 10 * lease
	healed := time.Now()
	for key, k := range w.known {
		for _, p := range w.alive() {
			for {
				began := time.Now()
				reply, err := w.ask(p, actor.Invocation{Key: key, ID: "last", Method: "Read", ReadOnly: true, Consistency: actor.ConsistencyStrong}, lease)
				if n, ok := valueOf(reply, err); ok || err == nil && w.typeOf(key).stateless() {
					w.judge.Lock()
					if least := k.before(began); n < least && (n != 0 || !k.mayBeGone(began, time.Now())) {
						w.fail("in the end %v has %d, and %d was answered", key, n, least)
					}
					w.judge.Unlock()
					break
				}
				if time.Since(healed) > within {
					w.judge.Lock()
					defer w.judge.Unlock()
					if *traced {
						stacks := make([]byte, 4<<20)
						w.trace = append(w.trace, string(stacks[:runtime.Stack(stacks, true)]))
					}
					w.fail("%v does not answer through %s: %v\n%s", key, p.name, err, w.standing(key))
					return
				}
				<-time.After(lease / 20)
			}
		}
	}
	w.note("settled after %v", time.Since(healed))
}

// standing says how the processes stand to an actor.
func (w *world) standing(key actor.Key) string {
	var text string
	for _, q := range w.alive() {
		text += fmt.Sprintf("  %s is %.4s: finds %+v, holds %d, current %t, leadership %+v, draining %t, owns %d\n",
			q.name, q.service.Self(), q.service.Find(key, q.policy(key.Type)), q.service.Holds(key, q.policy(key.Type)),
			q.service.Current(time.Now()), q.service.Leadership(), q.service.Draining(), q.service.Owned())
	}
	return text
}

// countsAddUp checks that what was acknowledged is stored, and nothing that nobody asked
// for.
func (w *world) countsAddUp() {
	w.judge.Lock()
	defer w.judge.Unlock()
	for key, k := range w.known {
		n, least := w.db.number(key), int64(len(k.answered))
		switch t := w.typeOf(key); {
		case t.stateless():
			continue
		case t.deletes:
			if now := time.Now(); n == 0 && k.before(now) != 0 && !k.mayBeGone(now, now) || n != 0 && n < k.before(now) {
				w.fail("%v counts %d, and %d was answered", key, n, k.before(now))
			}
			life := n - n%lifetime
			least = 0
			for m := range k.answered {
				if m-m%lifetime == life {
					least++
				}
			}
			n %= lifetime
		}
		if n < least || n > least+k.unknown {
			w.fail("%v counts %d: %d were acknowledged, and nobody knows of %d", key, n, least, k.unknown)
		}
	}
}

// counts are how often things happened.
type counts struct {
	mu sync.Mutex
	n  map[string]int
}

func (c *counts) add(kind string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = map[string]int{}
	}
	c.n[kind] += n
}

func (c *counts) of(kind string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n[kind]
}

// others are those that need not happen.
func (c *counts) others() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	rest := maps.Clone(c.n)
	maps.DeleteFunc(rest, func(kind string, _ int) bool { return slices.Contains(kinds, kind) })
	return rest
}
