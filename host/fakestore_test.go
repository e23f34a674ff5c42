package host_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// fakeStore is just enough of a store to steer the turn loop by hand, inside a
// synctest bubble. What a store guarantees is tested on real ones, in
// internal/guarantees.
type fakeStore struct {
	mu     sync.Mutex
	rows   map[actor.Key]actor.Row
	locks  map[actor.Key]chan struct{}
	calls  map[string]fakeRecord
	faults map[string][]string // operation to the faults that its next calls meet
	loads  int
	// shared is what Shared says; versions counts the groups of questions for them.
	shared   bool
	versions int
	// readsWait means that reads wait for the locks of rows, unless they ask for a read beside
	// them, as in CockroachDB.
	readsWait bool
	// lookups counts reads of idempotency records.
	lookups int
	// hold, if not nil, is received from before each Commit applies.
	hold chan struct{}
	// wrote and recorded, if not nil, are told of every row that changes and of
	// every new record, under the lock.
	wrote    func(key actor.Key, before, after actor.Row)
	recorded func(actor.Key, actor.IdempotencyRecord)
	// applying and applied, if not nil, are told of every commit before its first change
	// and after its last, under the lock.
	applying func(*actor.Commit)
	applied  func(map[actor.ReminderName]actor.Reminder)
	// reminders are those that are there; looks counts how many were read by name.
	reminders map[actor.ReminderName]actor.Reminder
	looks     int
	newest    map[actor.Key]actor.EventPosition // of events
}

// fakeRecord is a recorded call, and the commit that it came with.
type fakeRecord struct {
	actor.IdempotencyRecord
	by actor.CommitID
}

func newFakeStore() *fakeStore {
	return &fakeStore{calls: make(map[string]fakeRecord), rows: make(map[actor.Key]actor.Row), locks: make(map[actor.Key]chan struct{}), faults: make(map[string][]string)}
}

// damagedError stands for package store's, which host never imports.
type damagedError struct {
	key     actor.Key
	version uint64
}

func (e *damagedError) Error() string { return "stored row is damaged: " + e.key.String() }
func (e *damagedError) Unwrap() error { return actor.ErrStateDamaged }
func (e *damagedError) VersionOf(key actor.Key) (uint64, bool) {
	return e.version, key == e.key
}

// fault takes the next planned fault of an operation.
func (s *fakeStore) fault(op string) string {
	f := s.faults[op]
	if len(f) == 0 {
		return ""
	}
	s.faults[op] = f[1:]
	return f[0]
}

func (s *fakeStore) plan(op string, faults ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults[op] = append(s.faults[op], faults...)
}

func (s *fakeStore) LoadActors(ctx context.Context, keys []actor.Key, opts actor.LoadOptions) ([]actor.Row, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range keys {
		lock := s.locks[k]
		if lock == nil || !s.readsWait || opts.AllowStale || opts.BesideLocks {
			continue
		}
		s.mu.Unlock()
		select {
		case lock <- struct{}{}:
			<-lock
		case <-ctx.Done():
		}
		s.mu.Lock()
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.loads++
	switch s.fault("load") {
	case "unavailable":
		return nil, fmt.Errorf("load: %w", actor.ErrUnavailable)
	case "damaged":
		return nil, &damagedError{keys[0], s.rows[keys[0]].Version}
	}
	rows := make([]actor.Row, len(keys))
	for i, k := range keys {
		rows[i] = s.rows[k]
	}
	return rows, nil
}

func (s *fakeStore) Commit(ctx context.Context, commits []actor.Commit) []error {
	s.mu.Lock()
	hold := s.hold
	s.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return slices.Repeat([]error{ctx.Err()}, len(commits))
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	errs := store.ValidateGroup(commits)
	for i := range commits {
		if errs[i] == nil {
			errs[i] = s.apply(&commits[i])
		}
	}
	return errs
}

func (s *fakeStore) apply(c *actor.Commit) error {
	f := s.fault("commit")
	switch f {
	case "unavailable":
		return fmt.Errorf("commit: %w", actor.ErrUnavailable)
	case "full":
		return fmt.Errorf("commit: %w", &actor.SpaceError{Free: 1, Minimum: 2})
	case "lost": // never applied, but nobody knows
		return fmt.Errorf("commit: %w", actor.ErrAmbiguous)
	}
	for _, r := range c.Records {
		if _, ok := s.calls[recordName(r.Actor, r.Method, r.Key)]; ok {
			return actor.ErrKeyExists
		}
	}
	for i := range c.Reminders.Steps {
		step := &c.Reminders.Steps[i]
		if there := s.reminders[step.ReminderName]; there.ID != step.ID || there.Version != step.Version {
			return actor.ErrFiringTaken
		}
		if s.outOfOrder(step, c.Reminders.Steps) {
			return actor.ErrMessageOrder
		}
	}
	fences := slices.Clone(c.Fences)
	for i := range c.Rows {
		fences = append(fences, c.Rows[i].Fence())
	}
	for _, fence := range fences {
		if s.rows[fence.Key].Version != fence.Version {
			return actor.ErrStale
		}
	}
	if s.applying != nil {
		s.applying(c)
	}
	for _, r := range c.Records {
		s.calls[recordName(r.Actor, r.Method, r.Key)] = fakeRecord{r, c.ID}
		if s.recorded != nil {
			s.recorded(r.Actor, r)
		}
	}
	for _, e := range store.PlacedEvents(c) {
		if s.newest == nil {
			s.newest = make(map[actor.Key]actor.EventPosition)
		}
		s.newest[e.Key] = e.EventPosition
	}
	s.applyReminders(c)
	for i := range c.Rows {
		w := &c.Rows[i]
		s.put(w.Key, after(s.rows[w.Key], c.ID, w))
	}
	if s.applied != nil {
		s.applied(s.reminders)
	}
	switch f {
	case "applied": // applied, but nobody knows
		return fmt.Errorf("commit: %w", actor.ErrAmbiguous)
	case "overtaken": // applied, nobody knows, and another writer follows
		key := c.Anchor().Key
		row := s.rows[key]
		row.Version, row.CommitID = row.Version+7, actor.NewCommitID()
		s.put(key, row)
		return fmt.Errorf("commit: %w", actor.ErrAmbiguous)
	}
	return nil
}

// outOfOrder reports whether an earlier ordered message of its sender keeps a step from being
// applied. The caller has the lock.
func (s *fakeStore) outOfOrder(step *actor.ReminderStep, with []actor.ReminderStep) bool {
	sender, ok := actor.SenderOfOrdered(step.Name)
	for n := range s.reminders {
		earlier := step.Ordered && ok && n.Key == step.Key && strings.HasPrefix(n.Name, sender) && n.Name < step.Name
		if earlier && !slices.ContainsFunc(with, func(o actor.ReminderStep) bool { return o.ReminderName == n && o.Then == nil }) {
			return true
		}
	}
	return false
}

// put changes a row. The caller has the lock.
func (s *fakeStore) put(key actor.Key, row actor.Row) {
	before := s.rows[key]
	s.rows[key] = row
	if s.wrote != nil {
		s.wrote(key, before, row)
	}
}

// recordedBy reports whether a record came with c. The caller has the lock.
func (s *fakeStore) recordedBy(c *actor.Commit) bool {
	for _, r := range c.Records {
		if s.calls[recordName(r.Actor, r.Method, r.Key)].by == c.ID {
			return true
		}
	}
	return false
}

func recordName(key actor.Key, method, idem string) string {
	return fmt.Sprintf("%s %s %s", key, method, idem)
}

func (s *fakeStore) LoadIdempotency(ctx context.Context, calls []actor.KeyedCall) ([]actor.Recorded, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.lookups++
	if s.fault("lookup") == "unavailable" {
		return nil, fmt.Errorf("look up: %w", actor.ErrUnavailable)
	}
	found := make([]actor.Recorded, len(calls))
	for i, c := range calls {
		r, ok := s.calls[recordName(c.Actor, c.Method, c.Key)]
		found[i] = actor.Recorded{Found: ok, Record: r.IdempotencyRecord}
	}
	return found, nil
}

// Shared is [store.Store]'s own.
func (s *fakeStore) Shared() bool { return s.shared }

// Versions is [store.Actors]' own.
func (s *fakeStore) Versions(ctx context.Context, keys []actor.Key) ([]actor.RowVersion, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if s.fault("versions") == "unavailable" {
		return nil, fmt.Errorf("versions: %w", actor.ErrUnavailable)
	}
	s.versions++
	versions := make([]actor.RowVersion, len(keys))
	for i, k := range keys {
		row := s.rows[k]
		versions[i] = actor.RowVersion{Version: row.Version, Life: row.Life, Deleted: row.Deleted}
	}
	return versions, nil
}

func after(row actor.Row, id actor.CommitID, w *actor.RowWrite) actor.Row {
	if w.Bump {
		row.Deleted = row.Deleted || row.Version == 0
		row.Version, row.CommitID = w.NewVersion, id
		return row
	}
	row.Version, row.CommitID, row.Deleted = w.NewVersion, id, w.Delete
	row.Spawned = row.Spawned || w.Spawned
	if w.NewLife {
		row.Life++
		row.Born = time.Now()
	}
	switch {
	case w.Delete:
		row.MethodSet = ""
	case w.MethodSet != nil:
		row.MethodSet = *w.MethodSet
	}
	row.Generation, row.StateSchema = w.Generation, w.StateSchema
	switch {
	case w.Delete:
		row.State = actor.EncodedState{}
	case w.State != nil:
		row.State = *w.State
		row.State.Data = bytes.Clone(row.State.Data) // it does not keep the commit
	}
	return row
}

// lock has another host have a row's lock until something is taken out of the result.
func (s *fakeStore) lock(key actor.Key) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	lock := make(chan struct{}, 1)
	lock <- struct{}{}
	s.locks[key] = lock
	return lock
}

func (s *fakeStore) LockedTurn(ctx context.Context, key actor.Key, fn func(context.Context, actor.Row) (*actor.Commit, error)) (*actor.Commit, error) {
	s.mu.Lock()
	lock := s.locks[key]
	if lock == nil {
		lock = make(chan struct{}, 1)
		s.locks[key] = lock
	}
	s.mu.Unlock()
	select {
	case lock <- struct{}{}:
		defer func() { <-lock }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	for {
		s.mu.Lock()
		row, f := s.rows[key], s.fault("locked")
		s.mu.Unlock()
		if f == "damaged" {
			return nil, &damagedError{key, row.Version}
		}
		commit, err := fn(ctx, row)
		if err != nil || commit == nil {
			return nil, err
		}
		if f == "serialization" {
			continue
		}
		s.mu.Lock()
		err = s.apply(commit)
		s.mu.Unlock()
		if err != nil && !errors.Is(err, actor.ErrAmbiguous) {
			return nil, err
		}
		return commit, err
	}
}

func (s *fakeStore) Settle(ctx context.Context, c actor.Commit) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.fault("settle") == "unavailable" {
		return actor.ErrUnavailable
	}
	anchor := c.Anchor()
	row := s.rows[anchor.Key]
	switch {
	case row.CommitID == c.ID, s.recordedBy(&c):
		return nil
	case row.Version == anchor.Version:
		row.Deleted = row.Deleted || row.Version == 0
		row.Version++
		s.put(anchor.Key, row)
		return actor.ErrStale
	case len(c.Rows) == 0, anchor.Version < row.Version && row.Version <= c.Rows[0].NewVersion:
		return actor.ErrStale
	default:
		return actor.ErrAmbiguous
	}
}

func (s *fakeStore) takeVersions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.versions
	s.versions = 0
	return n
}

func (s *fakeStore) takeLoads() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.loads
	s.loads = 0
	return n
}

func (s *fakeStore) takeLookups() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.lookups
	s.lookups = 0
	return n
}

func (s *fakeStore) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.calls)
}

func (s *fakeStore) setHold(hold chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hold = hold
}

// write is another writer's commit.
func (s *fakeStore) write(key actor.Key, change func(*actor.Row)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	row := s.rows[key]
	row.Version++
	row.CommitID = actor.NewCommitID()
	change(&row)
	s.put(key, row)
}

func (s *fakeStore) row(key actor.Key) actor.Row {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rows[key]
}

// committer is the fake store as far as a fault store needs it: there are no
// modules and no settings.
type committer struct {
	*fakeStore
	nothing
}

type nothing struct{ store.Store }
