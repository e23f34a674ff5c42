package reminder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// memory is a store of reminders in memory, whose time is that of the test's bubble, or
// ahead of it.
// What storetest holds the drivers to holds of it as far as the service uses it.
type memory struct {
	shared bool
	// fail, if it is there, is asked before each operation, and may fail it; lose, after a
	// commit was applied, may lose the answer.
	failing sync.Mutex // of fail
	fail    func(op string) error
	lose    func() error
	// applied, if it is there, is told of what a commit does, when it does it.
	applied func(c *actor.Commit, ops []store.ReminderOp)

	mu        sync.Mutex
	reminders map[actor.ReminderName]actor.Reminder
	// inBucket has the names of each bucket, and of some that are no longer there.
	inBucket  map[actor.Bucket]map[actor.ReminderName]struct{}
	dead      []actor.DeadLetter
	buckets   map[actor.Bucket]actor.BucketRow
	prefixes  map[string]actor.Prefix
	next      map[string]uint32
	vector    actor.Vector
	hosts     map[actor.HostID]actor.Host
	lease     actor.Lease
	records   map[actor.KeyedCall]actor.IdempotencyRecord
	rows      map[actor.Key]uint64 // the versions of actors
	ahead     time.Duration
	fenceless bool // steps apply whatever the version
	orderless bool // and messages in whatever order
	loaded    int  // reminders that were asked for whole
}

func (m *memory) loads() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.loaded
}

func newMemory() *memory {
	return &memory{
		reminders: map[actor.ReminderName]actor.Reminder{}, inBucket: map[actor.Bucket]map[actor.ReminderName]struct{}{}, buckets: map[actor.Bucket]actor.BucketRow{},
		prefixes: map[string]actor.Prefix{}, next: map[string]uint32{}, hosts: map[actor.HostID]actor.Host{}, records: map[actor.KeyedCall]actor.IdempotencyRecord{}, rows: map[actor.Key]uint64{},
	}
}

func (m *memory) enter(op string) error {
	m.failing.Lock()
	fail := m.fail
	m.failing.Unlock()
	if fail != nil {
		return fail(op)
	}
	return nil
}

// bucket returns the row of one.
func (m *memory) bucket(b actor.Bucket) actor.BucketRow {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.buckets[b]
}

// fails sets what fails while the store is in use.
func (m *memory) fails(fail func(op string) error) {
	m.failing.Lock()
	defer m.failing.Unlock()
	m.fail = fail
}

// left is how many reminders there are.
func (m *memory) left() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.reminders)
}

// now is database time; m.mu is held, or nobody changes it.
func (m *memory) now() time.Time { return time.Now().Add(m.ahead) }

func (m *memory) Now(context.Context) (time.Time, error) {
	if err := m.enter("now"); err != nil {
		return time.Time{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now(), nil
}

func (m *memory) Shared() bool { return m.shared }

func (m *memory) Commit(_ context.Context, commits []actor.Commit) []error {
	errs := make([]error, len(commits))
	for i := range commits {
		errs[i] = m.commit(&commits[i])
	}
	return errs
}

func (m *memory) commit(c *actor.Commit) error { return m.commitThen(c, func() {}) }

// commitThen is commit, and calls then if it was applied, whatever becomes of the answer.
func (m *memory) commitThen(c *actor.Commit, then func()) error {
	if err := m.apply(c); err != nil {
		return err
	}
	then()
	m.mu.Lock()
	lose := m.lose
	m.mu.Unlock()
	if lose != nil {
		return lose()
	}
	return nil
}

func (m *memory) apply(c *actor.Commit) error {
	if err := m.enter("commit"); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range c.Records {
		if _, there := m.records[c.Records[i].Call()]; there {
			return actor.ErrKeyExists
		}
	}
	ops := store.ReminderOps(c)
	for _, op := range ops {
		if there := m.reminders[op.ReminderName]; op.Step != nil && !m.fenceless && (there.ID != op.Step.ID || there.Version != op.Step.Version) {
			return actor.ErrFiringTaken
		}
	}
	for _, r := range store.NewOrder().OrderRanges(ops) {
		for n := range m.reminders {
			if n.Key == r.Key && r.From <= n.Name && n.Name < r.To && !m.orderless {
				return actor.ErrMessageOrder
			}
		}
	}
	for i := range c.Rows {
		if r := &c.Rows[i]; m.rows[r.Key] != r.ReadVersion {
			return actor.ErrStale
		}
	}
	for i := range c.Rows {
		m.rows[c.Rows[i].Key] = c.Rows[i].NewVersion
	}
	for i := range c.Records {
		m.records[c.Records[i].Call()] = c.Records[i]
	}
	if m.applied != nil {
		m.applied(c, ops)
	}
	for _, op := range ops {
		there, found := m.reminders[op.ReminderName]
		if op.Step != nil && op.Step.DeadLetter != nil {
			d, r := op.Step.DeadLetter, there
			r.Due, r.Failures = d.Due, d.Failures
			m.dead = append(m.dead, actor.DeadLetter{Reminder: r, Reason: d.Reason, FailedAt: m.now()})
		}
		switch {
		case op.IfAbsent && found:
		case op.Set != nil:
			r := *op.Set
			r.Version, r.CreatedAt = 1, m.now()
			delete(m.inBucket[there.ID.Bucket()], op.ReminderName)
			m.reminders[op.ReminderName] = r
			if b := r.ID.Bucket(); m.inBucket[b] == nil {
				m.inBucket[b] = map[actor.ReminderName]struct{}{op.ReminderName: {}}
			} else {
				m.inBucket[b][op.ReminderName] = struct{}{}
			}
		case op.Then != nil:
			there.Version++
			there.ReminderProgress = *op.Then
			m.reminders[op.ReminderName] = there
		default:
			delete(m.inBucket[there.ID.Bucket()], op.ReminderName)
			delete(m.reminders, op.ReminderName)
		}
	}
	return nil
}

func (m *memory) Inbox(_ context.Context, key actor.Key, limit int) (size store.InboxSize, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for n, r := range m.reminders {
		if n.Key == key && r.Message != nil && size.Messages < limit {
			size.Messages++
			size.Bytes += int64(len(r.Payload.Data))
		}
	}
	return size, nil
}

func (m *memory) AllocateBucket(_ context.Context, app string, creator actor.HostID, fresh actor.Vector) (actor.BucketRow, error) {
	if err := m.enter("allocate"); err != nil {
		return actor.BucketRow{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.prefixes[app] == 0 {
		m.prefixes[app], m.vector = actor.Prefix(len(m.prefixes)+1), fresh
	}
	b := actor.Bucket{Prefix: m.prefixes[app], Vector: m.vector, Index: m.next[app]}
	m.next[app]++
	m.buckets[b] = actor.BucketRow{Bucket: b, App: app, Creator: creator, Epoch: 1, CreatedAt: m.now()}
	return m.buckets[b], nil
}

func (m *memory) AssignBucket(_ context.Context, b actor.Bucket, epoch uint64, owner actor.HostID) (actor.BucketRow, bool, error) {
	if err := m.enter("assign"); err != nil {
		return actor.BucketRow{}, false, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.buckets[b]
	if !ok || r.Epoch != epoch {
		return actor.BucketRow{}, false, nil
	}
	r.Owner, r.Epoch = owner, epoch+1
	m.buckets[b] = r
	return r, true, nil
}

func (m *memory) CloseBucket(_ context.Context, b actor.Bucket) error {
	if err := m.enter("close"); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if r, ok := m.buckets[b]; ok && !r.Closed {
		r.Closed, r.ClosedAt = true, m.now()
		m.buckets[b] = r
	}
	return nil
}

func (m *memory) SaveBuckets(_ context.Context, progress []store.BucketProgress) error {
	if err := m.enter("save"); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range progress {
		if r, ok := m.buckets[p.Bucket]; ok {
			r.Used = max(r.Used, p.Used)
			if p.Epoch == r.Epoch && p.DeliveredTill.After(r.DeliveredTill) {
				r.DeliveredTill = p.DeliveredTill
			}
			if p.Epoch == r.Epoch {
				r.Rate = p.Rate
			}
			m.buckets[p.Bucket] = r
		}
	}
	return nil
}

func (m *memory) RemoveBucket(_ context.Context, b actor.Bucket, closedBefore time.Time) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.buckets[b]
	for range m.of(b) {
		ok = false
	}
	if ok && r.Closed && r.ClosedAt.Before(closedBefore) {
		delete(m.buckets, b)
		return true, nil
	}
	return false, nil
}

func (m *memory) Buckets(_ context.Context, after actor.Bucket, limit int) ([]actor.BucketRow, error) {
	if err := m.enter("buckets"); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	order := func(a, b actor.Bucket) int {
		return cmp.Or(cmp.Compare(a.Prefix, b.Prefix), slices.Compare(a.Vector[:], b.Vector[:]), cmp.Compare(a.Index, b.Index))
	}
	var rows []actor.BucketRow
	for _, b := range slices.SortedFunc(maps.Keys(m.buckets), order) {
		if order(b, after) > 0 && len(rows) < limit {
			rows = append(rows, m.buckets[b])
		}
	}
	return rows, nil
}

// of iterates over the reminders of a bucket; m.mu is held.
func (m *memory) of(b actor.Bucket) iter.Seq[*actor.Reminder] {
	return func(yield func(*actor.Reminder) bool) {
		for n := range m.inBucket[b] {
			if r := m.reminders[n]; r.ID.Bucket() == b && !yield(&r) {
				return
			}
		}
	}
}

func (m *memory) DueReminders(_ context.Context, q store.DueQuery) ([]store.ReminderHead, error) {
	if err := m.enter("due"); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var heads []store.ReminderHead
	for r := range m.of(q.Bucket) {
		past := r.FireAt.Before(q.AfterTime) || q.AfterToken != nil && r.FireAt.Equal(q.AfterTime) && r.ID.Token <= *q.AfterToken
		if !r.Paused && !past && r.FireAt.Before(q.Before) {
			heads = append(heads, store.ReminderHead{ID: r.ID, FireAt: r.FireAt})
		}
	}
	slices.SortFunc(heads, func(a, b store.ReminderHead) int {
		return cmp.Or(a.FireAt.Compare(b.FireAt), cmp.Compare(a.ID.Token, b.ID.Token))
	})
	return heads[:min(len(heads), q.Limit)], nil
}

func (m *memory) RecentReminders(_ context.Context, b actor.Bucket, ranges []store.TokenRange, limit int) ([]store.ReminderHead, error) {
	if err := m.enter("recent"); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var heads []store.ReminderHead
	for r := range m.of(b) {
		if len(heads) == limit {
			break
		}
		if r.Paused {
			continue
		}
		for _, t := range ranges {
			if t.From <= r.ID.Token && r.ID.Token <= t.To && len(heads) < limit {
				heads = append(heads, store.ReminderHead{ID: r.ID, FireAt: r.FireAt})
			}
		}
	}
	return heads, nil
}

func (m *memory) LoadReminders(_ context.Context, ids []actor.ReminderID) ([]actor.Reminder, error) {
	err := m.enter("load")
	if err != nil && !errors.Is(err, actor.ErrStateDamaged) {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.loaded += len(ids)
	byID := map[actor.ReminderID]actor.Reminder{}
	for _, r := range m.reminders {
		byID[r.ID] = r
	}
	found := make([]actor.Reminder, len(ids))
	for i, id := range ids {
		found[i] = byID[id]
	}
	var damaged *store.DamagedReminders
	if errors.As(err, &damaged) {
		for _, d := range damaged.Reminders {
			for i, id := range ids {
				if id == d.ID {
					found[i] = actor.Reminder{}
				}
			}
		}
	}
	return found, err
}

func (m *memory) RegisterHost(_ context.Context, h actor.Host, length time.Duration) (actor.Host, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	h.ExpiresAt = m.now().Add(length)
	m.hosts[h.ID] = h
	return h, nil
}

func (m *memory) RenewHost(_ context.Context, id actor.HostID, length time.Duration, _ int) (time.Time, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	h, ok := m.hosts[id]
	if !ok {
		return time.Time{}, fmt.Errorf("host %s: %w", id, actor.ErrHostGone)
	}
	h.ExpiresAt = m.now().Add(length)
	m.hosts[id] = h
	return m.now(), nil
}

func (m *memory) RemoveHost(_ context.Context, id actor.HostID) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.hosts, id)
	return nil
}

func (m *memory) ClearHost(_ context.Context, id actor.HostID, _ string, epoch uint64) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if h, ok := m.hosts[id]; ok && !h.ExpiresAt.After(m.now()) && m.lease.Epoch == epoch {
		delete(m.hosts, id)
	}
	_, there := m.hosts[id]
	return !there, nil
}

func (m *memory) Hosts(context.Context) ([]actor.Host, time.Time, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var hosts []actor.Host
	for _, id := range slices.Sorted(maps.Keys(m.hosts)) {
		hosts = append(hosts, m.hosts[id])
	}
	return hosts, m.now(), nil
}

func (m *memory) AcquireLease(_ context.Context, name string, holder actor.HostID, length time.Duration) (actor.Lease, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.lease.ExpiresAt.After(m.now()) && m.lease.Holder != holder {
		return actor.Lease{}, false, nil
	}
	m.lease = actor.Lease{Name: name, Holder: holder, Epoch: m.lease.Epoch + 1, ExpiresAt: m.now().Add(length)}
	return m.lease, true, nil
}

func (m *memory) RenewLease(_ context.Context, l actor.Lease, length time.Duration) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.lease.Holder != l.Holder || m.lease.Epoch != l.Epoch {
		return false, nil
	}
	m.lease.ExpiresAt = m.now().Add(length)
	return true, nil
}

func (m *memory) ReleaseLease(_ context.Context, l actor.Lease) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.lease.Holder == l.Holder {
		m.lease.ExpiresAt = m.now()
	}
	return nil
}

// host runs the turns of firings: it commits their steps, as a host does with the rest of
// a turn, and writes down what was committed.
type host struct {
	store *memory
	// turn, if it is there, is what the actor does; an error is its failure.
	turn func(f actor.Firing) error

	mu        sync.Mutex
	committed []committed
	running   map[actor.ReminderID]int
	overlaps  int
}

type committed struct {
	name    string
	due, at time.Time
	missed  uint32
	attempt uint32
}

// Deliver implements [Deliverer].
func (h *host) Deliver(ctx context.Context, f actor.Firing, ended func(error)) (giveUp func()) {
	go func() { ended(h.deliver(ctx, f)) }()
	return func() {}
}

func (h *host) deliver(ctx context.Context, f actor.Firing) error {
	h.mu.Lock()
	if h.running == nil {
		h.running = map[actor.ReminderID]int{}
	}
	if h.running[f.Reminder]++; h.running[f.Reminder] > 1 {
		h.overlaps++
	}
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		h.running[f.Reminder]--
		h.mu.Unlock()
	}()
	began := time.Now()
	if h.turn != nil {
		if err := h.turn(f); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return actor.ErrDeadline
	}
	c := actor.CommitOf()
	c.Reminders.Steps = []actor.ReminderStep{f.Step}
	return h.store.commitThen(&c, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.committed = append(h.committed, committed{f.Name, f.Due, began, f.Missed, f.Attempt})
	})
}

func (h *host) list() []committed {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.committed)
}

// skipIfRaced skips a test of so many reminders, or so many seeds, that the race detector makes it
// ten times as long. Smaller ones take the same paths with it, among them
// [TestNoticesFillNoMoreThanTheShareOfTheirApp] where memory is full. .ci/run runs the package
// without it as well.
func skipIfRaced(t *testing.T) {
	t.Helper()
	if raceEnabled {
		t.Skip("it is too long under the race detector: run it without -race, as .ci/run does")
	}
}
