package reminder

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/scheduler/reminder/remindertest"
)

var (
	simFor    = flag.Duration("for", 0, "how long TestSimulation runs seeds, instead of a number of them")
	simSeeds  = flag.String("seeds", "", "the seeds that TestSimulation runs, separated by commas, instead of the first few")
	simRepeat = flag.Int("repeat", 1, "how often TestSimulation runs each seed of -seeds")
	simTrace  = flag.Bool("trace", false, "print what happens in each seed of -seeds, or that fails")
)

const (
	fewSeeds  = 4   // of a run that is told nothing else; half of them with -race
	manySeeds = 200 // so many that everything has happened that may
)

// simKinds are what must happen in all seeds together.
var simKinds = []string{
	"crash", "leader crashed", "freeze", "leader frozen", "cut off from the database", "database down", "left in order", "taken for gone", "leader elected",
	"clock forward", "clock forward by days", "clock forward by years", "clock back", "bucket nearly used up", "bucket assigned", "bucket removed", "hot bucket",
	"database out of reach", "commit fails", "commit lost", "commit applied late", "late commit refused", "answer to commit lost",
	"load fails", "due fails", "recent fails", "buckets fails", "save fails", "assign fails", "answer to assign lost", "answer to allocate lost", "slow load", "slow due",
	"answer to a delivery lost", "looked up before its turn", "turn hangs", "turn fails", "turn refused", "host of a turn gone", "second delivery refused",
	"set", "set from a turn", "set again by its own turn", "canceled", "canceled by its own turn", "paused or resumed", "kept", "overwritten",
	"fired", "failed, to be tried again", "dead letter", "dropped", "collapsed", "skipped", "skipped and fired", "caught up", "more than is caught up with",
}

// simSabotage is what is wrong in a run, to show that it is found.
type simSabotage struct {
	fenceless  bool          // the store applies steps whatever the version
	orderless  bool          // the store applies steps of messages in any order
	lossy      bool          // what a commit sets that ends a message is lost
	blind      bool          // the store finds nothing that there was no notice of
	early      time.Duration // a clock ahead of the database's
	sameBucket bool          // the store gives all the same bucket
	impatient  bool          // a process is taken for gone while its lease still holds
	endless    bool          // a process never takes itself for gone
	forgets    bool          // the host does not look whether a firing was taken
}

// TestSimulation runs processes with a real [Service] each, over a database, hosts and a
// network that are simulated and fail, on a virtual clock. Random seeds say what happens.
// One that fails is run again, since which goroutine comes first is not up to the seed:
//
//	go test -run TestSimulation ./scheduler/reminder -v -seeds 17 -repeat 100 -trace
//
// What is checked, by a model of its own of every reminder's occurrences:
//
//   - Each occurrence is accounted for exactly once, in order: by one committed turn, by
//     one that stands for it under the missed policy, by a dead letter, or by a policy that
//     passes it over.
//   - No turn begins before its reminder is due by database time.
//   - No reminder is delivered while it is under way, unless whoever delivered it was told
//     that nobody knows what became of that.
//   - No token is used twice.
//   - What was removed never fires after that was acknowledged.
//   - Each message is consumed once, or ends once: forwarded, or as a dead letter and, if its
//     sender asked for it, a message to that one. None is stepped on before an earlier one of its
//     sender to its receiver is gone.
//   - Everything that is due has fired soon after the last fault, and from then on in time.
//   - Memory holds what is due within the window, and no more.
func TestSimulation(t *testing.T) {
	var seeds []uint64
	for text := range strings.SplitSeq(*simSeeds, ",") {
		if seed, err := strconv.ParseUint(strings.TrimSpace(text), 10, 64); err == nil {
			for range *simRepeat {
				seeds = append(seeds, seed)
			}
		} else if text != "" {
			t.Fatal(err)
		}
	}
	var total simCounts
	var next, done atomic.Int64
	few := fewSeeds
	if raceEnabled {
		few /= 2
	}
	began := time.Now()
	more := func() (seed uint64, ok bool) {
		n := int(next.Add(1)) - 1
		switch {
		case *simSeeds != "":
			if n < len(seeds) {
				return seeds[n], true
			}
			return 0, false
		case *simFor > 0:
			return rand.Uint64(), time.Since(began) < *simFor
		default:
			return uint64(n) + 1, n < few //nolint:gosec // a small number
		}
	}
	t.Run("seeds", func(t *testing.T) {
		for worker := range runtime.GOMAXPROCS(0) {
			t.Run(strconv.Itoa(worker), func(t *testing.T) {
				t.Parallel()
				for seed, ok := more(); ok && !t.Failed(); seed, ok = more() {
					for _, v := range simulate(t, seed, simSabotage{}, &total) {
						t.Errorf("seed %d: %s", seed, v)
					}
					done.Add(1)
				}
			})
		}
	})
	n, took := done.Load(), time.Since(began)
	t.Logf("%d seeds, %v each on %d processors", n, (took * time.Duration(runtime.GOMAXPROCS(0)) / time.Duration(max(n, 1))).Round(time.Millisecond), runtime.GOMAXPROCS(0))
	for _, kind := range slices.Concat(simKinds, simMessageKinds) {
		t.Logf("%8d %s", total.of(kind), kind)
		if n >= manySeeds && *simSeeds == "" && total.of(kind) == 0 {
			t.Errorf("never happened: %s", kind)
		}
	}
	t.Logf("also: %v", total.others())
}

// TestSimulationFindsSabotage: with one precaution less, the simulation finds what it
// was for.
func TestSimulationFindsSabotage(t *testing.T) {
	skipIfRaced(t) // it needs many seeds
	const patience = 300
	for _, c := range []struct {
		name string
		simSabotage
	}{
		{"steps without a fence", simSabotage{fenceless: true, forgets: true}},
		{"messages without an order", simSabotage{orderless: true}},
		{"undelivered messages are lost", simSabotage{lossy: true}},
		{"lost notices are not made up for", simSabotage{blind: true}},
		{"a clock that is ahead", simSabotage{early: 50 * time.Millisecond}},
		{"one bucket for all", simSabotage{sameBucket: true}},
		{"no patience with who is gone", simSabotage{impatient: true}},
		{"a lease that lasts for ever", simSabotage{endless: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for n := range patience {
				if found := simulate(t, rand.Uint64(), c.simSabotage, new(simCounts)); len(found) > 0 {
					t.Logf("seed %d: %s", n+1, found[0])
					return
				}
			}
			t.Errorf("not noticed in %d seeds", patience)
		})
	}
}

// simulate runs one seed, and returns what it violates.
func simulate(t *testing.T, seed uint64, s simSabotage, total *simCounts) (found []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newSimulation(t, seed, s, total)
		w.run()
		found = w.judge.violations
		if *simTrace && (len(found) > 0 || *simSeeds != "") {
			t.Log("\n" + strings.Join(w.judge.trace, "\n"))
		}
	})
	return found
}

const (
	simProcesses = 3
	simExecution = 20 * time.Second // the timeout of executions
	simWindow    = time.Minute
)

// simulation is one run.
type simulation struct {
	t        *testing.T
	seed     uint64
	sabotage simSabotage
	total    *simCounts
	begun    time.Time
	db       *memory
	judge    *judge
	plan     *rand.Rand // for the goroutine that plans faults
	noise    *simNoise
	faults   context.Context // ends when no fault happens any more
	calm     context.CancelFunc
	running  sync.WaitGroup
	births   atomic.Int64
	assigned atomic.Int64 // when a bucket was last, since begun
	late     atomic.Int64 // the longest delay of a turn's begin since the last fault
	dbDown   atomic.Bool
	// backward is by how much database time went back in all: what was due by then may
	// not be due now. Guarded by db.mu.
	backward time.Duration
	forward  time.Time // when it was set forward last; guarded by judge.mu

	mu        sync.Mutex
	processes []*simProcess              // the latest life of each
	hosts     map[actor.Key]*simProcess  // where actors of the type Serial are
	locks     map[actor.Key]*simTurnLock // of those
}

// simTurnLock makes an actor's turns follow each other; the lock of a host that ends is
// thrown away.
type simTurnLock struct{ free chan struct{} }

func newSimulation(t *testing.T, seed uint64, s simSabotage, total *simCounts) *simulation {
	w := &simulation{
		t: t, seed: seed, sabotage: s, total: total, begun: time.Now(), db: newMemory(), plan: rand.New(rand.NewPCG(seed, 1)),
		noise: &simNoise{rng: rand.New(rand.NewPCG(seed, 2))}, hosts: map[actor.Key]*simProcess{}, locks: map[actor.Key]*simTurnLock{},
	}
	w.faults, w.calm = context.WithCancel(context.Background())
	w.judge = newJudge(w)
	w.db.shared = w.plan.IntN(5) > 0
	w.db.fenceless, w.db.orderless = s.fenceless, s.orderless
	w.db.ahead = time.Duration(w.plan.Int64N(int64(10 * 365 * 24 * time.Hour)))
	w.db.applied = w.judge.applied
	n := simProcesses
	if !w.db.shared {
		n = 1
	}
	w.processes = make([]*simProcess, n)
	return w
}

func (w *simulation) run() {
	for n := range w.processes {
		w.start(n)
	}
	users, stop := context.WithCancel(context.Background())
	var using sync.WaitGroup
	for range 3 {
		using.Go(func() { w.use(users) })
	}
	w.plague()
	w.calm()
	w.settle()
	stop()
	using.Wait()
	w.memoryIsBounded()
	for _, p := range w.alive() {
		p.crash()
	}
	w.running.Wait()
}

func (w *simulation) happened(kind string) {
	w.total.add(kind, 1)
	w.judge.note("%s", kind)
}

// faulty reports whether something goes wrong that does so with some probability.
func (w *simulation) faulty(p float64) bool { return w.faults.Err() == nil && w.noise.chance(p) }

func (w *simulation) down() bool { return w.dbDown.Load() }

// pause waits for a while, or until ctx ends.
func (w *simulation) pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func (w *simulation) now() time.Time {
	w.db.mu.Lock()
	defer w.db.mu.Unlock()
	return w.db.now()
}

// start begins a life of a process.
func (w *simulation) start(n int) {
	born := w.births.Add(1)
	p := &simProcess{w: w, n: n, name: fmt.Sprintf("p%d.%d", n, born)}
	var logger *slog.Logger
	if *simTrace {
		logger = slog.New(slog.NewTextHandler(simNoted{p}, nil))
	}
	cfg := Config{
		Logger: logger,
		Store:  &simStore{p}, Deliverer: remindertest.DeliverFunc(p.deliver), Host: actor.HostID(p.name), Window: simWindow, ExecutionTimeout: simExecution, MaxInMemory: 3 * pageSize,
		MaxOfType: 8, MaxOfActor: 3,
	}
	members := &remindertest.Leased{Rows: &simStore{p}, ID: cfg.Host}
	cfg.Members = members
	if w.sabotage.endless {
		cfg.Members = endless{members}
	}
	if w.sabotage.impatient {
		cfg.Members = impatient{members}
	}
	s, err := New(cfg)
	if err != nil {
		w.t.Error(err)
		return
	}
	p.service, p.admin = s, NewAdmin(s, &simStore{p})
	w.mu.Lock()
	w.processes[n] = p
	w.mu.Unlock()
	w.judge.note("%s starts", p.name)
	for s.Start(context.Background()) != nil {
		if p.gone() {
			return
		}
		w.pause(context.Background(), time.Second)
	}
}

// simNoted notes lines of a process's log.
type simNoted struct{ p *simProcess }

// Write implements [io.Writer].
func (n simNoted) Write(line []byte) (int, error) {
	n.p.w.judge.note("  %s: %s", n.p.name, line)
	return len(line), nil
}

// endless never takes itself for gone.
type endless struct{ *remindertest.Leased }

// Current implements [Members].
func (endless) Current() bool { return true }

// impatient takes a process for gone that may still deliver for some seconds.
type impatient struct{ *remindertest.Leased }

// Live implements [Members].
func (m impatient) Live(ctx context.Context) ([]actor.HostID, bool, error) {
	live, leading, err := m.Leased.Live(ctx)
	if !leading || err != nil {
		return live, leading, err
	}
	hosts, now, err := m.Rows.Hosts(ctx)
	for _, h := range hosts {
		if h.ID != m.ID && h.ExpiresAt.Before(now.Add(6*time.Second)) {
			live = slices.DeleteFunc(live, func(id actor.HostID) bool { return id == h.ID })
		}
	}
	return live, leading, err
}

// crash ends a process without a word.
func (p *simProcess) crash() {
	p.mu.Lock()
	ended := p.ended
	p.ended = true
	if p.frozen != nil {
		close(p.frozen)
		p.frozen = nil
	}
	p.mu.Unlock()
	if ended {
		return
	}
	p.w.evict(p)
	// Nothing of it gets out any more; its goroutines are to end.
	p.w.running.Go(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = p.service.Stop(ctx)
	})
}

// leave ends a process in order.
func (p *simProcess) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = p.service.Stop(ctx)
	p.mu.Lock()
	p.ended = true
	p.mu.Unlock()
	p.w.evict(p)
}

// evict forgets which actors were at a process.
func (w *simulation) evict(p *simProcess) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, host := range w.hosts {
		if host == p {
			delete(w.hosts, key)
			delete(w.locks, key)
		}
	}
}

func (w *simulation) alive() (alive []*simProcess) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.processes {
		if p != nil && !p.gone() {
			alive = append(alive, p)
		}
	}
	return alive
}

func (w *simulation) anyone() *simProcess {
	if alive := w.alive(); len(alive) > 0 {
		return alive[w.noise.int(len(alive))]
	}
	return nil
}

// hostOf returns where an actor is, or is from now on, and what its turns wait for: those of
// the type Any run where they are asked for.
func (w *simulation) hostOf(key actor.Key, asked *simProcess) (*simProcess, *simTurnLock) {
	if key.Type != "Serial" {
		return asked, nil
	}
	p := w.anyone()
	if p == nil {
		return nil, nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.hosts[key] == nil && !p.gone() {
		w.hosts[key], w.locks[key] = p, &simTurnLock{make(chan struct{}, 1)}
		w.locks[key].free <- struct{}{}
	}
	return w.hosts[key], w.locks[key]
}

// deliver delivers by the network, at the host that has the actor.
func (p *simProcess) deliver(ctx context.Context, f actor.Firing) error {
	w := p.w
	w.judge.sent(&f)
	lag := p.behind()
	if err := p.pass(); err != nil {
		return err
	}
	w.pause(ctx, w.noise.delay())
	host, lock := w.hostOf(f.Key, p)
	if host == nil {
		return actor.ErrUnavailable
	}
	deadline, _ := ctx.Deadline()
	t := &simTurn{firing: f, host: host, began: w.now()}
	answer := make(chan error, 1)
	w.running.Go(func() {
		// The host has the deadline of the call, and hears that it ended if the network does.
		turn, cancel := context.WithDeadline(context.Background(), deadline)
		defer cancel()
		if host == p || w.noise.chance(0.5) {
			defer context.AfterFunc(ctx, cancel)()
		}
		t.ctx = turn
		answer <- host.turn(turn, t, lock, func() time.Duration { return max(lag, p.behind()) })
	})
	select {
	case err := <-answer:
		w.pause(ctx, w.noise.delay())
		if gone := p.pass(); gone != nil {
			return gone
		}
		if w.faulty(0.01) {
			w.happened("answer to a delivery lost")
			w.judge.excuse(t)
			return actor.ErrAmbiguous
		}
		if errors.Is(err, errProcessGone) {
			w.happened("host of a turn gone")
			return actor.ErrAmbiguous
		}
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// behind is by how much the process may take database time for later than it is.
func (p *simProcess) behind() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lag
}

// turn runs the turn of a firing, as a host does.
func (p *simProcess) turn(ctx context.Context, t *simTurn, lock *simTurnLock, lag func() time.Duration) error {
	w, f := p.w, &t.firing
	if err := p.pass(); err != nil {
		return err
	}
	if lock != nil {
		select {
		case <-lock.free:
			defer func() { lock.free <- struct{}{} }()
		case <-ctx.Done():
			return actor.ErrOverloaded
		}
	}
	st := &simStore{p}
	found, err := st.FindReminders(ctx, []actor.ReminderName{f.Step.ReminderName})
	changed := err == nil && (found[0].ID != f.Step.ID || found[0].Version != f.Step.Version)
	switch {
	case err != nil:
		return err
	case w.sabotage.forgets:
	case changed && f.Fresh: // a host does not look: the commit is refused
		w.happened("ran for nothing")
	case changed:
		w.happened("second delivery refused")
		return actor.ErrFiringTaken
	}
	if ctx.Err() != nil {
		return actor.ErrDeadline
	}
	if !f.Fresh {
		w.happened("looked up before its turn")
	}
	if w.judge.arrived(f) {
		w.happened("first delivery overtaken")
	}
	if changed && f.Fresh && !w.sabotage.forgets {
		found[0].FireAt = time.Time{} // of another version
	}
	w.judge.begins(t, &found[0], w.now(), lag())
	defer w.judge.ends(t)
	w.judge.note("%s runs %v of %v (%s, version %d)", p.name, f.Due, f.Reminder, f.Key, f.Step.Version)
	if w.faults.Err() != nil && !changed {
		late := w.now().Sub(found[0].FireAt)
		w.judge.note("%v late: %v", late, found[0].ReminderProgress)
		w.judge.mu.Lock()
		late = w.judge.excess(f.Reminder, f.Step.Version, late)
		w.judge.mu.Unlock()
		w.lateness(late)
	}
	switch {
	case w.faulty(0.02):
		w.happened("turn hangs")
		<-ctx.Done()
		return &actor.TurnError{Key: f.Key, Method: f.Method, Err: actor.ErrDeadline}
	case w.faulty(0.03):
		w.happened("turn refused")
		return actor.ErrOverloaded
	case w.faulty(0.1), (f.Name == "bad" || f.Method == "Bad") && w.faulty(0.7):
		w.happened("turn fails")
		return &actor.GuestError{Code: "on_purpose", Message: "this one fails"}
	}
	w.pause(ctx, w.noise.delay())
	if w.faulty(0.02) {
		w.pause(ctx, w.noise.below(simExecution))
	}
	if err := p.pass(); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return actor.ErrDeadline
	}
	c := actor.CommitOf()
	c.Reminders.Steps = []actor.ReminderStep{f.Step}
	w.effects(ctx, p, f, &c.Reminders)
	if len(c.Reminders.Set) == 0 && w.noise.chance(0.05) && w.message(ctx, p, f.Key, &c) {
		w.happened("message sent from a turn")
	}
	w.judge.mu.Lock()
	w.judge.turns[c.ID] = t
	w.judge.mu.Unlock()
	if err := st.commit(ctx, &c); err != nil {
		w.refusedOrder(err)
		return err
	}
	p.service.Committed(&c.Reminders)
	return nil
}

// effects are what a turn does to reminders beside the step.
func (w *simulation) effects(ctx context.Context, p *simProcess, f *actor.Firing, e *actor.ReminderEffects) {
	if w.faults.Err() != nil || f.Message != nil || !w.noise.chance(0.08) {
		return
	}
	name := f.Step.ReminderName
	switch w.noise.int(3) {
	case 0:
		w.happened("canceled by its own turn")
		e.Cancels(name)
	case 1:
		if r, err := w.prepare(ctx, p, name); err == nil {
			w.happened("set again by its own turn")
			e.Sets(&r)
		}
	case 2:
		other := w.someName()
		other.Key.App = name.Key.App
		if other == name {
			return
		}
		if r, err := w.prepare(ctx, p, other); err == nil {
			w.happened("set from a turn")
			e.Sets(&r)
		}
	}
}

// someName draws the name of a reminder.
func (w *simulation) someName() actor.ReminderName {
	names := []string{"a", "b", "c", "d", "bad"}
	return actor.ReminderName{
		Key:  actor.Key{App: fmt.Sprint("app", w.noise.int(3)), Type: []string{"Serial", "Any"}[w.noise.int(2)], ID: fmt.Sprint(w.noise.int(5))},
		Name: names[w.noise.int(len(names))],
	}
}

// specOf draws what is asked for under a name.
func (w *simulation) specOf(n actor.ReminderName) actor.ReminderSpec {
	now := w.now()
	w.noise.mu.Lock()
	defer w.noise.mu.Unlock()
	rng := w.noise.rng
	s := actor.ReminderSpec{Key: n.Key, Name: n.Name, Method: "M", Schedule: simSchedule(rng, now), Keep: rng.IntN(6) == 0}
	switch rng.IntN(4) {
	case 0:
		s.Missed = actor.MissedPolicy{Kind: actor.MissedSkip, After: time.Duration(rng.IntN(2)) * 5 * time.Second}
	case 1:
		s.Missed = actor.MissedPolicy{Kind: actor.MissedCatchUp, Limit: uint32(rng.IntN(8))}
	}
	switch rng.IntN(4) {
	case 0:
		s.Failure.Kind = actor.FailureDrop
	case 1:
		s.Failure = actor.FailurePolicy{Kind: actor.FailureExponential, Attempts: 5}
	case 2:
		s.Failure = actor.FailurePolicy{Interval: 200 * time.Millisecond, Attempts: 1 + uint32(rng.IntN(3))}
	}
	return s
}

func (w *simulation) prepare(ctx context.Context, p *simProcess, n actor.ReminderName) (actor.Reminder, error) {
	r, err := p.service.Prepare(ctx, w.specOf(n))
	if err == nil {
		w.judge.prepared(r.ID)
	}
	return r, err
}

// use sets, removes, pauses and resumes reminders.
func (w *simulation) use(ctx context.Context) {
	for ctx.Err() == nil {
		w.pause(ctx, w.noise.below(2*time.Second))
		p, name := w.anyone(), w.someName()
		if p == nil {
			continue
		}
		switch n := w.noise.int(20); {
		case n < 9:
			w.set(p, name)
		case n < 13:
			ids := w.judge.named(name)
			if p.admin.Cancel(context.Background(), []actor.ReminderName{name}) == nil && p.pass() == nil {
				// Those that were set before it began; an unknown one may come later.
				w.happened("canceled")
				w.judge.deleted(ids)
			}
		case n < 15:
			_, _, _ = p.admin.SetPaused(context.Background(), []actor.ReminderName{name}, true)
		case n < 18:
			for range 1 + w.noise.int(4) {
				w.send(p)
			}
		default:
			_, _, _ = p.admin.SetPaused(context.Background(), []actor.ReminderName{name}, false)
		}
	}
}

// set sets a reminder through the API, whose notice may be lost.
func (w *simulation) set(p *simProcess, name actor.ReminderName) {
	ctx := context.Background()
	r, err := w.prepare(ctx, p, name)
	if err != nil {
		return
	}
	c := actor.CommitOf()
	c.Reminders.Set = []actor.Reminder{r}
	if err := (&simStore{p}).commit(ctx, &c); err == nil {
		w.happened("set")
		w.judge.note("%s set %v of %v %s: %+v", p.name, r.ID, r.Key, r.Name, r.Schedule)
		if !w.faulty(0.2) {
			p.service.Committed(&c.Reminders)
		}
	}
}

// simCounts are how often things happened.
type simCounts struct {
	mu sync.Mutex
	n  map[string]int
}

func (c *simCounts) add(kind string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = map[string]int{}
	}
	c.n[kind] += n
}

func (c *simCounts) of(kind string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n[kind]
}

// others are those that need not happen.
func (c *simCounts) others() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	rest := maps.Clone(c.n)
	maps.DeleteFunc(rest, func(kind string, _ int) bool {
		return slices.Contains(simKinds, kind) || slices.Contains(simMessageKinds, kind)
	})
	return rest
}

// simNoise is a source of random numbers for several goroutines.
type simNoise struct {
	mu  sync.Mutex
	rng *rand.Rand
}

func (n *simNoise) chance(p float64) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.rng.Float64() < p
}

func (n *simNoise) int(below int) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.rng.IntN(below)
}

func (n *simNoise) below(d time.Duration) time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return time.Duration(n.rng.Int64N(int64(d)))
}

// delay is how long something is under way: mostly not long.
func (n *simNoise) delay() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	d := 50*time.Microsecond + time.Duration(n.rng.Int64N(int64(2*time.Millisecond)))
	if n.rng.IntN(200) == 0 {
		d += time.Duration(n.rng.Int64N(int64(300 * time.Millisecond)))
	}
	return d
}
