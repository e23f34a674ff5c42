package reminder

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// Store is what the service needs of a store.
type Store interface {
	AllocateBucket(ctx context.Context, app string, creator actor.HostID, fresh actor.Vector) (actor.BucketRow, error)
	AssignBucket(ctx context.Context, b actor.Bucket, epoch uint64, owner actor.HostID) (actor.BucketRow, bool, error)
	CloseBucket(ctx context.Context, b actor.Bucket) error
	SaveBuckets(ctx context.Context, progress []store.BucketProgress) error
	RemoveBucket(ctx context.Context, b actor.Bucket, closedBefore time.Time) (bool, error)
	Buckets(ctx context.Context, after actor.Bucket, limit int) ([]actor.BucketRow, error)
	DueReminders(ctx context.Context, q store.DueQuery) ([]store.ReminderHead, error)
	RecentReminders(ctx context.Context, b actor.Bucket, ranges []store.TokenRange, limit int) ([]store.ReminderHead, error)
	LoadReminders(ctx context.Context, ids []actor.ReminderID) ([]actor.Reminder, error)

	RegisterHost(ctx context.Context, h actor.Host, length time.Duration) (actor.Host, error)
	RenewHost(ctx context.Context, id actor.HostID, length time.Duration, sticky int) (now time.Time, err error)
	RemoveHost(ctx context.Context, id actor.HostID) error
	ClearHost(ctx context.Context, id actor.HostID, lease string, epoch uint64) (gone bool, err error)
	Hosts(ctx context.Context) (hosts []actor.Host, now time.Time, err error)
	AcquireLease(ctx context.Context, name string, holder actor.HostID, length time.Duration) (actor.Lease, bool, error)
	RenewLease(ctx context.Context, l actor.Lease, length time.Duration) (bool, error)
	ReleaseLease(ctx context.Context, l actor.Lease) error

	Commit(ctx context.Context, commits []actor.Commit) []error
	Now(ctx context.Context) (time.Time, error)
	Shared() bool
}

// Deliverer has the turns of firings run, wherever their actors are.
type Deliverer interface {
	// Deliver begins the delivery of a firing, and calls ended once, on any goroutine and
	// perhaps before it returns, when its turn has ended: with nil once it is committed, with
	// the firing's step among its effects; with [actor.ErrFiringTaken] if the step was taken
	// before; otherwise with why it was not committed.
	//
	// It may take the time of the turn, but need not wait for it. When ctx ends, which has a
	// deadline, giveUp is called as well: then ended is to be called soon, if it was not.
	Deliver(ctx context.Context, f actor.Firing, ended func(error)) (giveUp func())
}

// Config is what a [Service] is made from. Zero values mean the defaults.
type Config struct {
	Store     Store
	Deliverer Deliverer
	// Host is this incarnation of the process; never that of another. Required, unless
	// Members says it.
	Host actor.HostID
	// Cluster is the cluster's name, for a store that is shared. Defaults to "greenroom".
	Cluster string
	// Peers reaches the other instances, for reminders whose subscribers are here. Defaults to
	// none: reminders are executed where their buckets are.
	Peers Peers
	// Members says who is there. Defaults to this process alone, or, if the store is
	// shared, to the processes that have rows for this in it.
	Members Members
	// Window is how far ahead reminders are read. Defaults to 2 minutes.
	Window time.Duration
	// MaxInMemory is how many reminders are in memory at most, about: the window shrinks
	// then. Defaults to 4,000,000, which take some 160 MB.
	MaxInMemory int
	// MaxRunning is how many deliveries are under way at most; of one app, one type and
	// one actor those that follow. They default to 4,096, 2,048, 1,024 and 4.
	MaxRunning, MaxOfApp, MaxOfType, MaxOfActor int
	// ExecutionTimeout ends a delivery, and is how long a subscriber has. Defaults to 60 s.
	ExecutionTimeout time.Duration
	// Events are called when something happens. Defaults to no callbacks.
	Events Events
	// Logger defaults to one that discards.
	Logger *slog.Logger
}

// Events are called when something happens, on any goroutine: they must not block. Those
// that are nil are left out.
type Events struct {
	// Set: reminders of an app were set, so many, by a commit that this process was told
	// of.
	Set func(app string, n int)
	// Delivered: a delivery has ended.
	Delivered func(DeliveryEnd)
	// Missed: occurrences were passed over, or stood for by another one's firing, so many,
	// under this policy.
	Missed func(kind actor.MissedKind, n uint32)
}

// DeliveryEnd is how a delivery ended.
type DeliveryEnd struct {
	Key     actor.Key
	Outcome DeliveryOutcome
	// Late is how long after its time the delivery began.
	Late time.Duration
}

// DeliveryOutcome is how a delivery ended.
type DeliveryOutcome uint8

const (
	// DeliveryFired says that its turn was committed.
	DeliveryFired DeliveryOutcome = iota
	// DeliveryTaken says that another had been committed, or the reminder was changed or removed.
	DeliveryTaken
	// DeliveryRetried says that it is delivered again, for reasons that are not the actor's.
	DeliveryRetried
	// DeliveryUnserved says that nothing serves its type or has its method, and that it is
	// delivered again.
	DeliveryUnserved
	// DeliveryFailed says that the turn failed.
	DeliveryFailed
	// DeliveryDead says that the turn failed for the last time, and there is a dead letter.
	DeliveryDead
)

// String returns the outcome's name.
func (o DeliveryOutcome) String() string {
	return [...]string{"fired", "taken", "retried", "unserved", "failed", "dead_letter"}[o]
}

// WithDefaults returns c with its zero values filled in.
func (c Config) WithDefaults() Config {
	set := func(v *int, n int) {
		if *v == 0 {
			*v = n
		}
	}
	set(&c.MaxInMemory, 4_000_000)
	set(&c.MaxRunning, 4096)
	set(&c.MaxOfApp, 2048)
	set(&c.MaxOfType, 1024)
	set(&c.MaxOfActor, 4)
	if c.Cluster == "" {
		c.Cluster = "greenroom"
	}
	if c.Window == 0 {
		c.Window = 2 * time.Minute
	}
	if c.ExecutionTimeout == 0 {
		c.ExecutionTimeout = time.Minute
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func (c *Config) validate() error {
	bad := func(field, problem string) error {
		return &actor.ArgumentError{Field: "reminder service: " + field, Problem: problem}
	}
	switch {
	case c.Store == nil:
		return bad("Store", "is missing")
	case c.Deliverer == nil:
		return bad("Deliverer", "is missing")
	case c.Host == "" && c.Members == nil:
		return bad("Host", "is missing; give this incarnation of the process a random ID")
	case c.Window < 4*pollEvery:
		return bad("Window", fmt.Sprintf("is %v; give at least %v", c.Window, 4*pollEvery))
	case c.MaxInMemory < 2*pageSize:
		return bad("MaxInMemory", fmt.Sprintf("is %d; give at least %d", c.MaxInMemory, 2*pageSize))
	case c.MaxRunning < 1 || c.MaxOfApp < 1 || c.MaxOfType < 1 || c.MaxOfActor < 1:
		return bad("limits", "are below 1; give at least 1 each")
	case c.ExecutionTimeout < time.Millisecond:
		return bad("ExecutionTimeout", "is below 1 ms")
	}
	return nil
}

const (
	pollEvery  = 2 * time.Second  // buckets, recent tokens, progress
	recentFor  = time.Minute      // for how long a token that was handed out may still be committed
	sweepEvery = 30 * time.Second // a look at what is due in the store
	// So often, and first of all, such looks begin to go through all that is due, which then
	// is done within the hour.
	sweepAllEvery = 40 * time.Minute
	startMargin   = 2 * time.Minute // reading begins so much before what was delivered
	loadGroup     = 256             // reminders read, and steps committed, at once
	pageSize      = 5000            // heads read at once

	// After what is not the actor's failure: the first wait, which doubles each time, and
	// the longest, of what goes by itself and of what somebody has to deploy.
	firstWait           = time.Second
	longestWait         = 8 * time.Second
	longestWaitUnserved = time.Minute
)

// Service is one process's part in reminders: it creates from its buckets and delivers
// those that it owns. All methods may be called concurrently.
type Service struct {
	cfg     Config
	planner *Planner
	members Members
	steps   chan step // to be committed alone

	wake chan struct{} // something is due earlier than the loop expects
	stop context.CancelFunc
	wg   sync.WaitGroup

	clock dbClock

	// What a leader has seen, and since when by the local clock; for the goroutine that
	// looks at the store.
	gone   map[actor.HostID]time.Time // owners that are not live
	closed map[actor.Bucket]time.Time
	// shed is the bucket that is being given up for its rate, if there is one; for the same
	// goroutine.
	shed actor.Bucket

	mu       sync.Mutex
	self     actor.HostID // as it was when the store was read last
	creator  *creator     // of self
	wheel    *Wheel
	owned    map[actor.Bucket]*ownedBucket
	looks    uint64                        // how often the store was looked at
	lapsed   bool                          // this process may have been taken for gone since its buckets were read
	lapses   uint64                        // how often it was found that it may have been
	running  map[actor.ReminderID]bool     // loaded and not yet done with; true: borrowed
	under    map[actor.Bucket]int          // how many of those there are of a bucket
	loading  int                           // taken from the wheel and not loaded yet
	retried  map[actor.ReminderID]struct{} // in the wheel, or parked, to be read again after their time
	tries    map[actor.ReminderID]uint32   // how often one was postponed in a row
	parked   parked
	queue    *dispatch
	subs     subscriptions
	table    bucketTable
	live     []actor.HostID // as of the last look
	stats    Stats
	stopping bool
}

// Stats counts what a service has done since it started.
type Stats struct {
	Fired, Failed, Retried, Unserved, Missed, Dead, Taken uint64
	// TakenOver counts reminders that came from other instances, for subscribers here;
	// WaitingForSubscribers are in memory, and nobody executes them.
	TakenOver                           uint64
	WaitingForSubscribers               int
	InMemory, Running, Waiting, Buckets int
}

// ownedBucket is a bucket that this instance delivers.
type ownedBucket struct {
	bucket actor.Bucket
	row    actor.BucketRow
	seen   *bitmap // tokens that were read, or that there was notice of; nil once none comes any more
	high   int64   // the highest of them, from 0; -1: none
	// Everything before this position of the window was read.
	at         time.Time
	afterToken *uint32
	// reading says that a page is being read, of what is due before readTo; noted are the
	// tokens that there was notice of meanwhile, which the page may have or not, with the time
	// of those that were taken into memory. passed are those while a sweep is reading.
	reading bool
	readTo  time.Time
	noted   map[uint32]time.Time
	passed  map[uint32]struct{}
	highest []sample // high over the last minute, by the local clock
	// deliveredTill is a time before which nothing is left to deliver, as the last sweep
	// has found; nor is anything that is due then, up to leftToken.
	deliveredTill time.Time
	leftToken     *uint32
	sweeps        sweeps
	saved         time.Time // deliveredTill as it was saved
	adopted       uint64    // in which look at the store, or after it
	leaving       bool
	// rate is how many deliveries began a second, as of measured, by the local clock; since
	// then there were begun.
	rate      float64
	measured  time.Time
	begun     int
	savedRate uint32
	// What is for subscribers and was due by then, subscribers of a lost owner may be at until
	// held, by the local clock.
	dueBy, held time.Time
	// deliveredBefore is a time up to which others may have delivered what is in it, or this
	// process did as its owner at another time; zero: nobody has.
	deliveredBefore time.Time
}

// sample is what high was at a time.
type sample struct {
	at   time.Time
	high int64
}

// saw notes that a token is there.
func (b *ownedBucket) saw(id actor.ReminderID) {
	n := id.Token - b.bucket.First()
	if b.seen != nil {
		b.seen.add(n)
	}
	b.high = max(b.high, int64(n))
}

type bitmap [(actor.BucketSize + 63) / 64]uint64

func (b *bitmap) has(n uint32) bool { return b[n/64]&(1<<(n%64)) != 0 }
func (b *bitmap) add(n uint32)      { b[n/64] |= 1 << (n % 64) }

// dbClock is database time, counted on by the local monotonic clock: never ahead of it
// by more than the two clocks drift apart in two seconds.
type dbClock struct {
	mu     sync.Mutex
	base   time.Time // database time, not after
	at     time.Time // local, with its monotonic reading
	synced bool
}

func (c *dbClock) set(db time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.base, c.at, c.synced = db, time.Now(), true
}

func (c *dbClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.synced {
		return time.Time{}
	}
	return c.base.Add(time.Since(c.at))
}

// New returns a service that has not started.
func New(cfg Config) (*Service, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	s := &Service{
		cfg: cfg, planner: NewPlanner(), members: cfg.Members,
		steps: make(chan step, 4*loadGroup), wake: make(chan struct{}, 1),
		owned: map[actor.Bucket]*ownedBucket{}, gone: map[actor.HostID]time.Time{}, closed: map[actor.Bucket]time.Time{},
		running: map[actor.ReminderID]bool{}, under: map[actor.Bucket]int{},
		retried: map[actor.ReminderID]struct{}{}, tries: map[actor.ReminderID]uint32{}, parked: newParked(),
	}
	s.queue, s.subs, s.table = newDispatch(&s.cfg, s.begin, s.rouse), newSubscriptions(), newBucketTable()
	if s.members == nil {
		s.members = alone{cfg.Host}
		if cfg.Store.Shared() {
			s.members = &leased{store: cfg.Store, self: actor.Host{ID: cfg.Host, Cluster: cfg.Cluster, Roles: []string{memberRole}}}
		}
	}
	s.self, s.creator = s.members.Self(), newCreator(s.allocate)
	return s, nil
}

// Start begins to deliver, in the background.
func (s *Service) Start(ctx context.Context) error {
	now, err := s.cfg.Store.Now(ctx)
	if err != nil {
		return fmt.Errorf("start reminders: %w", err)
	}
	s.mu.Lock() // callers are served already
	s.wheel = NewWheel(now)
	s.mu.Unlock()
	s.clock.set(now)
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = cancel
	s.wg.Go(func() { s.poll(run) })
	s.wg.Go(func() { s.deliverDue(run) })
	s.wg.Go(func() { s.commitSteps(run) })
	if s.cfg.Store.Shared() {
		s.wg.Go(func() { s.watchLease(run) })
	}
	if s.cfg.Peers != nil {
		s.wg.Go(func() { s.takeOvers(run) })
	}
	return nil
}

// Ready returns nil once reminders can be set.
func (s *Service) Ready() error {
	if s.clock.now().IsZero() {
		return errNotStarted()
	}
	return nil
}

// Stop ends it: no delivery begins any more, those under way are awaited until ctx ends,
// and the buckets are given up. It may be called twice, and before Start.
func (s *Service) Stop(ctx context.Context) error {
	s.mu.Lock()
	s.stopping = true
	stop := s.stop
	s.stop = nil
	s.mu.Unlock()
	if stop == nil {
		return nil
	}
	s.queue.close()
	idle := make(chan struct{})
	go func() {
		s.queue.wait()
		s.awaitExecutions()
		close(idle)
	}()
	select {
	case <-idle:
	case <-ctx.Done():
	}
	s.queue.cancel()
	s.endSubscribers()
	<-idle
	stop()
	s.wg.Wait()
	return s.giveUp(context.WithoutCancel(ctx))
}

// giveUp frees the buckets of this process, closes those that it created from, and leaves.
// This process keeps a bucket while subscribers of a lost owner may still execute its
// reminders: then this process counts as lost, and the next owner of the bucket waits for
// those subscribers.
func (s *Service) giveUp(ctx context.Context) error {
	s.mu.Lock()
	var rows []actor.BucketRow
	for _, b := range s.owned {
		if !b.holds() {
			rows = append(rows, b.row)
		}
	}
	s.owned = map[actor.Bucket]*ownedBucket{}
	s.mu.Unlock()
	var errs []error
	for b := range s.createsFrom().used() {
		errs = append(errs, s.cfg.Store.CloseBucket(ctx, b))
	}
	for _, r := range rows {
		_, _, err := s.cfg.Store.AssignBucket(ctx, r.Bucket, r.Epoch, "")
		errs = append(errs, err)
	}
	return errors.Join(append(errs, s.members.Leave(ctx))...)
}

// Prepare returns the reminder that a spec asks for, with a token of this process: what a
// commit sets. It waits for the store only if the app has no bucket here yet. Errors are
// [*actor.ArgumentError] and those of the store.
func (s *Service) Prepare(ctx context.Context, spec actor.ReminderSpec) (actor.Reminder, error) {
	now := s.clock.now()
	if now.IsZero() {
		return actor.Reminder{}, errNotStarted()
	}
	r, err := s.planner.check(spec, now)
	if err != nil {
		return actor.Reminder{}, err
	}
	id, err := s.token(ctx, spec.Key.App)
	if err != nil {
		return actor.Reminder{}, err
	}
	identify(&r, id, now)
	return r, nil
}

// token returns an ID of this process's own bucket that was never given out before.
func (s *Service) token(ctx context.Context, app string) (actor.ReminderID, error) {
	id, spent, err := s.createsFrom().take(ctx, app, s.background)
	if err != nil {
		return id, err
	}
	if spent != nil {
		s.background(func() {
			if err := s.cfg.Store.CloseBucket(context.WithoutCancel(ctx), *spent); err != nil {
				s.cfg.Logger.Warn("a bucket of reminders that is used up was not closed", "bucket", spent.String(), "error", err)
			}
		})
	}
	return id, nil
}

// retire has this process create from another bucket than from one that is hot: closed, it
// can be another instance's, and what is set from now on need not be where it is.
func (s *Service) retire(ctx context.Context, r actor.BucketRow) {
	c := s.createsFrom()
	s.background(func() {
		ctx := context.WithoutCancel(ctx)
		_, err := c.replace(ctx, r.App, r.Bucket)
		if _, uses := c.used()[r.Bucket]; !uses { // it may have been left before, and not closed
			err = s.cfg.Store.CloseBucket(ctx, r.Bucket)
		}
		if err != nil {
			s.cfg.Logger.Warn("a hot bucket of reminders was not closed", "bucket", r.Bucket.String(), "error", err)
		}
	})
}

// createsFrom returns the creator of now. Its methods may wait for the store, which may
// wait for s.mu.
func (s *Service) createsFrom() *creator {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.creator
}

func errNotStarted() error { return fmt.Errorf("reminders have not started: %w", actor.ErrNoTokens) }

func (s *Service) background(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.stopping {
		s.wg.Go(do)
	}
}

// allocate gets a bucket for this process, and owns it, if nobody was quicker.
func (s *Service) allocate(ctx context.Context, app string) (actor.BucketRow, error) {
	self := s.members.Self()
	row, err := s.cfg.Store.AllocateBucket(ctx, app, self, randomVector())
	if err != nil {
		return row, err
	}
	if mine, done, err := s.cfg.Store.AssignBucket(ctx, row.Bucket, row.Epoch, self); err == nil && done {
		s.mu.Lock()
		if s.self == self && !s.stopping {
			s.adopt(mine)
			// There is nothing in it, and all that comes is noticed here.
			s.owned[mine.Bucket].at = s.clock.now().Add(s.cfg.Window)
		}
		s.mu.Unlock()
	}
	return row, nil
}

// Committed tells of the reminders of a commit that was applied, so that those which are
// due soon are not found by the next look at the store only.
func (s *Service) Committed(e *actor.ReminderEffects) {
	if len(e.Set) == 0 && len(e.Steps) == 0 {
		return
	}
	if set := s.cfg.Events.Set; set != nil && len(e.Set) > 0 {
		set(e.Set[0].Key.App, len(e.Set)) // a commit is of one app
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range e.Set {
		if r := &e.Set[i]; !r.Paused {
			s.note(r.ID, r.FireAt)
		}
	}
	for i := range e.Steps {
		st := &e.Steps[i]
		if _, mine := s.running[st.ID]; !mine && st.Then != nil && !st.Then.Paused {
			s.note(st.ID, st.Then.FireAt) // resumed, or delivered by another
		}
	}
}

// note takes a reminder into memory if it is one of this instance's and due within what
// was read already; s.mu is held.
func (s *Service) note(id actor.ReminderID, at time.Time) {
	b := s.owned[id.Bucket()]
	if b == nil {
		return
	}
	b.saw(id)
	in := at.Before(b.at) || b.reading && at.Before(b.readTo)
	if b.reading {
		if b.noted[id.Token] = (time.Time{}); in {
			b.noted[id.Token] = at
		}
	} else {
		delete(b.noted, id.Token) // the next page may have it elsewhere
	}
	if b.passed != nil {
		b.passed[id.Token] = struct{}{}
	}
	if in {
		s.wheel.Insert(id, at)
		s.rouse()
	}
}

// forgetNoted keeps of what was noted while the last page was read what the next one may
// have, and is in memory already; s.mu is held.
func (b *ownedBucket) forgetNoted() {
	maps.DeleteFunc(b.noted, func(_ uint32, at time.Time) bool { return at.IsZero() || at.Before(b.at) })
	if b.noted == nil {
		b.noted = map[uint32]time.Time{}
	}
}

func (s *Service) rouse() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// inMemory returns how many reminders there are that wait for their time, to be loaded, or for
// room for their delivery; s.mu is held.
func (s *Service) inMemory() int { return s.wheel.Len() + s.loading + s.parked.count }

// Stats returns what was done so far.
func (s *Service) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.stats
	if s.wheel != nil {
		st.InMemory = s.inMemory()
	}
	st.Running, st.Waiting = s.queue.counts()
	st.Buckets = len(s.owned)
	st.WaitingForSubscribers = len(s.subs.waiting)
	return st
}
