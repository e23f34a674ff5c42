package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// database is what hosts and schedulers need of a store, in memory. Its clock runs at a
// rate of its own.
type database struct {
	began  time.Time
	rate   float64
	ahead  time.Duration // of the processes' clocks, as it began
	fences bool

	mu     sync.Mutex
	rows   map[actor.Key]actor.Row
	calls  map[actor.KeyedCall]recorded
	hosts  map[actor.HostID]actor.Host
	leases map[string]actor.Lease

	reminders map[actor.ReminderName]actor.Reminder
	books     *books
}

type recorded struct {
	actor.IdempotencyRecord
	by actor.CommitID
}

func newDatabase(rate float64, ahead time.Duration, unfenced bool) *database {
	return &database{
		began: time.Now(), rate: rate, ahead: ahead, fences: !unfenced, rows: map[actor.Key]actor.Row{}, calls: map[actor.KeyedCall]recorded{},
		hosts: map[actor.HostID]actor.Host{}, leases: map[string]actor.Lease{},
		reminders: map[actor.ReminderName]actor.Reminder{}, books: newBooks(),
	}
}

// whole is a database where a whole store is asked for: nothing here uses the rest.
type whole struct {
	*database
	rest
}

type rest struct{ store.Store }

// now is database time.
func (d *database) now() time.Time {
	return d.began.Add(d.ahead + time.Duration(float64(time.Since(d.began))*d.rate))
}

func (d *database) Shared() bool { return true }

func (d *database) LoadActors(ctx context.Context, keys []actor.Key, _ actor.LoadOptions) ([]actor.Row, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	rows := make([]actor.Row, len(keys))
	for i, k := range keys {
		rows[i] = d.rows[k]
	}
	return rows, ctx.Err()
}

func (d *database) Versions(ctx context.Context, keys []actor.Key) ([]actor.RowVersion, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	versions := make([]actor.RowVersion, len(keys))
	for i, k := range keys {
		r := d.rows[k]
		versions[i] = actor.RowVersion{Version: r.Version, Life: r.Life, Deleted: r.Deleted}
	}
	return versions, ctx.Err()
}

func (d *database) LoadIdempotency(ctx context.Context, calls []actor.KeyedCall) ([]actor.Recorded, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	found := make([]actor.Recorded, len(calls))
	for i, c := range calls {
		r, ok := d.calls[c]
		found[i] = actor.Recorded{Found: ok, Record: r.IdempotencyRecord}
	}
	return found, ctx.Err()
}

func (d *database) Commit(_ context.Context, commits []actor.Commit) []error {
	d.mu.Lock()
	defer d.mu.Unlock()
	errs := make([]error, len(commits))
	for i := range commits {
		errs[i] = d.apply(&commits[i])
	}
	return errs
}

func callOf(r *actor.IdempotencyRecord) actor.KeyedCall {
	return actor.KeyedCall{Actor: r.Actor, Method: r.Method, Key: r.Key}
}

func (d *database) apply(c *actor.Commit) error {
	for i := range c.Records {
		if _, ok := d.calls[callOf(&c.Records[i])]; ok {
			return actor.ErrKeyExists
		}
	}
	fences := slices.Clone(c.Fences)
	for i := range c.Rows {
		fences = append(fences, c.Rows[i].Fence())
	}
	for _, f := range fences {
		if d.fences && d.rows[f.Key].Version != f.Version {
			return actor.ErrStale
		}
	}
	if !d.applyReminders(&c.Reminders) {
		return actor.ErrFiringTaken
	}
	for i := range c.Records {
		d.calls[callOf(&c.Records[i])] = recorded{c.Records[i], c.ID}
	}
	for i := range c.Rows {
		w := &c.Rows[i]
		row := d.rows[w.Key]
		if w.Bump {
			row.Deleted = row.Deleted || row.Version == 0
		} else {
			if w.Delete && row.Version != 0 && !row.Deleted {
				row.Life++
			}
			row.Deleted, row.Generation, row.StateSchema = w.Delete, w.Generation, w.StateSchema
			if w.Delete {
				row.State = actor.EncodedState{}
			}
			if w.State != nil {
				row.State = actor.EncodedState{Format: w.State.Format, Data: slices.Clone(w.State.Data)}
			}
		}
		row.Version, row.CommitID = w.NewVersion, c.ID
		d.rows[w.Key] = row
	}
	d.books.check(d, c)
	return nil
}

func (d *database) Settle(ctx context.Context, c actor.Commit) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	for i := range c.Rows {
		if d.rows[c.Rows[i].Key].CommitID == c.ID {
			return nil
		}
	}
	for i := range c.Records {
		if d.calls[callOf(&c.Records[i])].by == c.ID {
			return nil
		}
	}
	anchor := c.Anchor()
	row := d.rows[anchor.Key]
	switch {
	case row.Version == anchor.Version:
		row.Deleted = row.Deleted || row.Version == 0
		row.Version++
		row.CommitID = actor.NewCommitID()
		d.rows[anchor.Key] = row
		return actor.ErrStale
	case len(c.Rows) == 0, anchor.Version < row.Version && row.Version <= c.Rows[0].NewVersion:
		return actor.ErrStale
	default:
		return actor.ErrAmbiguous
	}
}

// LockedTurn locks nothing: who comes second begins again.
func (d *database) LockedTurn(ctx context.Context, key actor.Key, fn func(context.Context, actor.Row) (*actor.Commit, error)) (*actor.Commit, error) {
	for range 4 {
		d.mu.Lock()
		row := d.rows[key]
		d.mu.Unlock()
		commit, err := fn(ctx, row)
		if err != nil || commit == nil {
			return nil, err
		}
		d.mu.Lock()
		if err = ctx.Err(); err == nil {
			err = d.apply(commit)
		}
		d.mu.Unlock()
		if !errors.Is(err, actor.ErrStale) {
			if err != nil {
				commit = nil
			}
			return commit, err
		}
	}
	return nil, actor.ErrStale
}

func (d *database) RegisterHost(ctx context.Context, h actor.Host, length time.Duration) (actor.Host, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if there, ok := d.hosts[h.ID]; ok {
		h = there
	} else {
		h.StartedAt = d.now()
	}
	h.ExpiresAt = d.now().Add(length)
	d.hosts[h.ID] = h
	return h, ctx.Err()
}

func (d *database) RenewHost(ctx context.Context, id actor.HostID, length time.Duration, sticky int) (time.Time, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	h, ok := d.hosts[id]
	if !ok {
		return time.Time{}, fmt.Errorf("host %s: %w", id, actor.ErrHostGone)
	}
	h.ExpiresAt, h.Sticky = d.now().Add(length), sticky
	d.hosts[id] = h
	return d.now(), ctx.Err()
}

func (d *database) RemoveHost(ctx context.Context, id actor.HostID) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.hosts, id)
	return ctx.Err()
}

func (d *database) ClearHost(ctx context.Context, id actor.HostID, lease string, epoch uint64) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	h, there := d.hosts[id]
	if l := d.leases[lease]; there && !h.ExpiresAt.After(d.now()) && l.Epoch == epoch && l.ExpiresAt.After(d.now()) {
		delete(d.hosts, id)
		there = false
	}
	return !there, ctx.Err()
}

func (d *database) Hosts(ctx context.Context) ([]actor.Host, time.Time, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.SortedFunc(maps.Values(d.hosts), func(a, b actor.Host) int { return cmp.Compare(a.ID, b.ID) }), d.now(), ctx.Err()
}

func (d *database) AcquireLease(ctx context.Context, name string, holder actor.HostID, length time.Duration) (actor.Lease, bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	there, found := d.leases[name]
	if found && there.Holder != holder && there.ExpiresAt.After(d.now()) {
		return actor.Lease{}, false, ctx.Err()
	}
	l := actor.Lease{Name: name, Holder: holder, Epoch: there.Epoch + 1, ExpiresAt: d.now().Add(length)}
	d.leases[name] = l
	return l, true, ctx.Err()
}

func (d *database) RenewLease(ctx context.Context, l actor.Lease, length time.Duration) (bool, error) {
	return d.changeLease(l, d.now().Add(length)), ctx.Err()
}

func (d *database) ReleaseLease(ctx context.Context, l actor.Lease) error {
	d.changeLease(l, d.now())
	return ctx.Err()
}

func (d *database) changeLease(l actor.Lease, until time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	there := d.leases[l.Name]
	if there.Holder != l.Holder || there.Epoch != l.Epoch {
		return false
	}
	there.ExpiresAt = until
	d.leases[l.Name] = there
	return true
}

func (d *database) Lease(ctx context.Context, name string) (actor.Lease, bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l, ok := d.leases[name]
	return l, ok, ctx.Err()
}

func (d *database) Leases(ctx context.Context, prefix string) ([]actor.Lease, time.Time, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var leases []actor.Lease
	for name, l := range d.leases {
		if strings.HasPrefix(name, prefix) {
			leases = append(leases, l)
		}
	}
	slices.SortFunc(leases, func(a, b actor.Lease) int { return cmp.Compare(a.Name, b.Name) })
	return leases, d.now(), ctx.Err()
}

// appliedBy reports whether a commit was the last to write an actor's row.
func (d *database) appliedBy(key actor.Key, id actor.CommitID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rows[key].CommitID == id
}

// number is what an actor counts.
func (d *database) number(key actor.Key) (n int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, after, ok := strings.Cut(string(d.rows[key].State.Data), `"n":`); ok {
		_, _ = fmt.Sscan(strings.TrimRight(after, "}"), &n)
	}
	return n
}
