package guarantees

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/feed"
	"github.com/greenroom-run/greenroom/host/hosttest"
	"github.com/greenroom-run/greenroom/scheduler/reminder"
	"github.com/greenroom-run/greenroom/scheduler/reminder/remindertest"
	"github.com/greenroom-run/greenroom/store"
	"github.com/greenroom-run/greenroom/store/faultstore"
)

// TestGuarantee6FiringOnce: reminders that turns set fire on two hosts of one store, each
// firing on both of them at once, under every fault that can meet it: each occurrence is
// counted once, none before it is due by the store's clock; a turn that changes nothing
// takes its firing as well; what is lost on its way is delivered again; and a firing that
// was taken is found so before its guest runs. The lanes are types of one app, whose
// reminders fire at the same time: most of it is the wait for a next delivery.
func TestGuarantee6FiringOnce(t *testing.T) { onEveryStore(t, firings) }

// reminders is what a host has of a service, over a store.
type reminders struct {
	*reminder.Service
	store.Store
}

func (r *reminders) ReminderNames(ctx context.Context, key actor.Key, prefix string, limit int) ([]string, error) {
	return r.Store.ReminderNames(ctx, store.ReminderNameQuery{Key: key, Prefix: prefix, Limit: min(limit, store.MaxList)})
}

func (r *reminders) ThinReminders(ctx context.Context, row actor.RowFence, damaged bool) error {
	return store.ThinReminders(ctx, r.Store, row, damaged)
}

func (r *reminders) EarlierMessage(ctx context.Context, n actor.ReminderName) (bool, error) {
	return store.EarlierMessage(ctx, r.Store, n)
}

func (r *reminders) Inbox(ctx context.Context, key actor.Key) (messages int, bytes int64, err error) {
	return r.Service.Inbox(ctx, key)
}

func (r *reminders) Start(ctx context.Context) error { return r.Service.Start(ctx) }

// onBoth has each firing run on two hosts at once.
type onBoth struct {
	t     *testing.T
	store store.Store // without faults
	feed  *feed.Feed  // of events, with faults
	hosts []*host.Host

	mu        sync.Mutex
	count     int                                 // of deliveries
	delivered map[actor.ReminderStep]actor.Firing // those that any host was asked for
	committed map[actor.ReminderStep]int          // how often one was answered to be
}

// fence is what a firing takes, without what follows.
func fence(f *actor.Firing) actor.ReminderStep {
	return actor.ReminderStep{ReminderName: f.Step.ReminderName, ID: f.Step.ID, Version: f.Step.Version}
}

func (d *onBoth) deliver(ctx context.Context, f actor.Firing) error {
	if f.Pull != nil {
		var found bool
		var err error
		if f, found, err = d.feed.Pull(ctx, f); err != nil {
			return err
		} else if !found {
			return reminder.ErrNoEvent
		}
	}
	now, err := d.store.Now(ctx)
	if err != nil {
		return err
	}
	if now.Before(f.Due) {
		d.t.Errorf("%s of %s is delivered at %s, and due at %s", f.Name, f.Key, now, f.Due)
	}
	d.mu.Lock()
	d.count++
	count := d.count
	d.mu.Unlock()
	if count%lossEvery == 0 {
		return fmt.Errorf("the delivery is lost: %w", actor.ErrUnavailable)
	}
	errs := make([]error, len(d.hosts))
	var group sync.WaitGroup
	for i, h := range d.hosts {
		group.Go(func() { errs[i] = fire(ctx, h, f) })
	}
	group.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.delivered[fence(&f)] = f
	outcome := errs[0]
	for _, err := range errs {
		switch {
		case err == nil:
			outcome = nil
			d.committed[fence(&f)]++
		case errors.Is(err, actor.ErrFiringTaken) && outcome != nil:
			outcome = err
		}
	}
	if count%lossEvery == lossEvery/2 {
		return fmt.Errorf("the answer is lost: %w", actor.ErrAmbiguous)
	}
	return outcome
}

// lossEvery is of how many deliveries one is lost, and the answer of another one.
const lossEvery = 12

func fire(ctx context.Context, h *host.Host, f actor.Firing) error {
	_, err := h.Invoke(ctx, actor.Invocation{Key: f.Key, Method: f.Method, Payload: f.Payload, Firing: &f})
	return err
}

// alarms is a counter that is told to set reminders, by what it is called.
type alarms struct{ runs atomic.Int64 } // of turns of firings

// What each actor sets in its turn of Arm.
var armed = map[string][]abi.Reminder{
	"collapse": {{Name: "r", Method: "Ring", PeriodNano: int64(15 * time.Millisecond), Count: 12}},
	"catch up": {{Name: "r", Method: "Ring", PeriodNano: int64(20 * time.Millisecond), Count: 4, Missed: abi.MissedCatchUp}},
	"several": {
		{Name: "1", Method: "Ring", DelayNano: int64(time.Millisecond)}, {Name: "2", Method: "Ring", DelayNano: int64(30 * time.Millisecond)},
		{Name: "3", Method: "Ring", DelayNano: int64(30 * time.Millisecond)},
	},
	"fails first": {{Name: "r", Method: "RingAgain", PeriodNano: int64(50 * time.Millisecond), Count: 2, IntervalNano: int64(time.Millisecond)}},
	"idle":        {{Name: "r", Method: "Idle", PeriodNano: int64(20 * time.Millisecond), Count: 3}},
}

// rung is what they count to in a wave.
var rung = map[string]int64{"collapse": 12, "catch up": 4, "several": 3, "fails first": 2, "idle": 0}

// notNow is how a guest fails that cannot set its reminders.
const notNow = "not_now"

func (a *alarms) actor(placement string) hosttest.Actor {
	c := counter(placement)
	ring := func(t *hosttest.Turn) error {
		a.runs.Add(1)
		n, err := t.Add("left", 1+int64(t.Frame.Missed))
		return errors.Join(err, t.SetNumber("right", n))
	}
	c.Methods["Ring"] = ring
	c.Methods["RingAgain"] = func(t *hosttest.Turn) error {
		if err := ring(t); err != nil || t.Frame.Attempt > 1 {
			return err
		}
		return hosttest.Fail("on_purpose")
	}
	c.Methods["Idle"] = func(*hosttest.Turn) error {
		a.runs.Add(1)
		return nil
	}
	c.Methods["Arm"] = func(t *hosttest.Turn) error {
		for _, r := range armed[t.Frame.ID] {
			r.Attempts = 1000
			if code := t.Calls.ReminderSet(&r); code != 0 {
				return hosttest.Fail(notNow) // its host got no bucket
			}
		}
		return t.ReplyNumber(0)
	}
	return c
}

// lanes are the placements of the types, which have their names.
var lanes = []string{abi.PlacementRing, abi.PlacementSticky, abi.PlacementAny}

func firings(t *testing.T, s store.Store) {
	t.Parallel()
	seed := seeded(t)
	faults := map[faultstore.Fault]float64{}
	for _, placement := range lanes {
		maps.Copy(faults, rates(placement))
	}
	r := newRig(t, s, "firings", faultstore.Config{Seed: seed, Rates: faults})
	guests := &alarms{}
	for _, placement := range lanes {
		r.world.Deploy(r.app, placement, guests.actor(placement))
	}

	to, services, ended := startBoth(t, r, s)

	// How many operations the turns come to is a matter of timing: they go on until they
	// have met what is planned.
	const most = 20
	waves := int64(0)
	for ; waves == 0 || waves < most && len(r.store.Pending()) > 0; waves++ {
		for _, f := range r.store.Pending() {
			r.store.Arm(f, 1)
		}
		// These cost a look at the store each, which are 2 s apart.
		r.store.Arm(faultstore.BucketFails, 1)
		r.store.Arm(faultstore.BucketReplyLost, 1)
		r.store.Arm(faultstore.ReminderReadFails, 1)
		var group sync.WaitGroup
		for _, placement := range lanes {
			for id := range armed {
				h := to.hosts[rand.IntN(len(to.hosts))]
				group.Go(func() { arm(t, h, actor.Key{App: r.app, Type: placement, ID: id}, fmt.Sprint("wave ", waves)) })
			}
		}
		group.Wait()
		r.store.Arm(faultstore.ReminderReadFails, 4) // of those that firings need
		for left := 1; left > 0; {
			list, _, err := s.ListReminders(t.Context(), store.ReminderQuery{App: r.app, Limit: 100})
			if err != nil {
				t.Fatal(err)
			}
			if left = len(list); left > 0 {
				select {
				case <-ended:
				case <-t.Context().Done():
					t.Fatalf("%d reminders are left", left)
				}
			}
		}
	}
	r.allFired(t)
	stop(t, r, services)

	retried := uint64(0)
	for _, svc := range services {
		retried += svc.Stats().Retried
	}
	runs := guests.runs.Load()
	t.Logf("%d waves: %d firings in %d deliveries and %d runs; %d were retried", waves, len(to.delivered), to.count, runs, retried)
	if to.count < lossEvery || retried == 0 {
		t.Errorf("%d deliveries, %d retried: none was lost", to.count, retried)
	}
	for _, placement := range lanes {
		for id, n := range rung {
			if got := counted(t, to.hosts[0], actor.Key{App: r.app, Type: placement, ID: id}); got != n*waves {
				t.Errorf("%s: %q counts %d occurrences of %d", placement, id, got, n*waves)
			}
		}
	}
	letters, err := s.ListDeadLetters(t.Context(), store.DeadLetterQuery{App: r.app, Limit: 100})
	if len(letters) > 0 || err != nil {
		t.Errorf("dead letters: %v, %v", letters, err)
	}
	to.checkTaken(t)
	if again := guests.runs.Load() - runs; again != 0 {
		t.Errorf("guests ran %d times for firings that were taken", again)
	}
}

// arm has an actor set its reminders once, however often that has to be tried.
func arm(t *testing.T, h *host.Host, key actor.Key, idem string) { tell(t, h, key, "Arm", idem) }

// tell has an actor run a method once, however often that has to be tried.
func tell(t *testing.T, h *host.Host, key actor.Key, method, idem string) {
	for {
		_, err := h.Invoke(t.Context(), actor.Invocation{Key: key, Method: method, IdempotencyKey: idem})
		if err == nil {
			return
		}
		var failed *actor.GuestError
		refused := errors.As(err, &failed) && failed.Code == notNow
		if actor.AsCondition(err) == nil && !refused || t.Context().Err() != nil {
			t.Error(err)
			return
		}
	}
}

func counted(t *testing.T, h *host.Host, key actor.Key) int64 {
	t.Helper()
	reply, err := h.Invoke(t.Context(), actor.Invocation{Key: key, Method: "Get", ReadOnly: true, Consistency: actor.ConsistencyStrong})
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.ParseInt(string(reply.Payload.Data), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// startBoth starts two hosts on the store s, each with its reminders. ended has a value after a delivery.
func startBoth(t *testing.T, r *rig, s store.Store) (to *onBoth, services []*reminder.Service, ended chan struct{}) {
	to = &onBoth{t: t, store: s, feed: feed.New(feed.Config{Store: r.store, Logger: slog.New(slog.DiscardHandler)}), delivered: map[actor.ReminderStep]actor.Firing{}, committed: map[actor.ReminderStep]int{}}
	ended = make(chan struct{}, 1)
	for i := range 2 {
		cfg := reminder.Config{
			Store: r.store, Deliverer: remindertest.DeliverFunc(to.deliver), Host: actor.HostID(fmt.Sprint("h", i)),
			Events: reminder.Events{Delivered: func(reminder.DeliveryEnd) {
				select {
				case ended <- struct{}{}:
				default:
				}
			}},
		}
		if s.Shared() {
			cfg.Members = &remindertest.Leased{Rows: r.store, ID: cfg.Host}
		}
		svc, err := reminder.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		r.reminders = &reminders{svc, r.store}
		to.hosts = append(to.hosts, r.host(t, host.Limits{}))
		services = append(services, svc)
	}
	for _, svc := range services { // they stop before their hosts
		if err := svc.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { stop(t, r, services) })
	return to, services, ended
}

// stop ends the deliveries: a host may still run what it had read before the other host's turn
// was committed.
func stop(t *testing.T, r *rig, services []*reminder.Service) {
	r.store.Calm()
	for _, svc := range services {
		if err := svc.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

// checkTaken says that no firing was committed twice, and that each is taken. The services have stopped.
func (d *onBoth) checkTaken(t *testing.T) {
	t.Helper()
	for step, n := range d.committed {
		if n > 1 {
			t.Errorf("version %d of %v was answered %d times to be committed", step.Version, step.ReminderName, n)
		}
	}
	for _, f := range d.delivered {
		f.Fresh = false // as of each delivery but the first
		for i, h := range d.hosts {
			if err := fire(t.Context(), h, f); !errors.Is(err, actor.ErrFiringTaken) {
				t.Errorf("host %d: %v, delivered again: %v", i, f.Step.ReminderName, err)
			}
		}
	}
}
