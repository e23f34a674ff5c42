package reminder

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// AdminStore is what an [Admin] needs of a store.
type AdminStore interface {
	Commit(ctx context.Context, commits []actor.Commit) []error
	Buckets(ctx context.Context, after actor.Bucket, limit int) ([]actor.BucketRow, error)
	FindReminders(ctx context.Context, names []actor.ReminderName) ([]actor.Reminder, error)
	ListReminders(ctx context.Context, q store.ReminderQuery) (list []actor.Reminder, next actor.ReminderName, err error)
	ListMessages(ctx context.Context, q store.MessageQuery) (list []actor.Reminder, next string, err error)
	ListDeadLetters(ctx context.Context, q store.DeadLetterQuery) ([]actor.DeadLetter, error)
	RemoveDeadLetter(ctx context.Context, id actor.ReminderID, due time.Time) (bool, error)
	LoadIdempotency(ctx context.Context, calls []actor.KeyedCall) ([]actor.Recorded, error)
}

// Admin sets and looks after reminders for callers from outside of turns: each change is
// a commit of its own. Its methods may be called concurrently.
type Admin struct {
	service *Service
	store   AdminStore
	// Grow lets what an app stores grow, or refuses it. Defaults to letting it.
	Grow func(ctx context.Context, app string, by actor.Stored) error
}

// NewAdmin returns an Admin that creates from the buckets of s.
func NewAdmin(s *Service, st AdminStore) *Admin { return &Admin{service: s, store: st} }

func (a *Admin) grow(ctx context.Context, app string, by actor.Stored) error {
	if a.Grow == nil {
		return nil
	}
	return a.Grow(ctx, app, by)
}

// Outcome is the result of setting a reminder.
type Outcome uint8

// The outcomes of [Admin.Set].
const (
	Created Outcome = iota + 1
	// Replaced: there was one of that name.
	Replaced
	// Kept: there is one of that name, which was to be kept.
	Kept
)

// Now returns database time; zero before the service has started.
func (a *Admin) Now() time.Time { return a.service.clock.now() }

// Stats returns what the service has done.
func (a *Admin) Stats() Stats { return a.service.Stats() }

// Set sets a reminder, and returns it as it was set, without the times of the store; or,
// if it was kept, the one that is there. Errors are [*actor.ArgumentError], those of
// [Service.Prepare], and [actor.ErrAmbiguous] if it may or may not be set: the call may
// be repeated.
func (a *Admin) Set(ctx context.Context, spec actor.ReminderSpec) (actor.Reminder, Outcome, error) {
	if a.Now().IsZero() {
		return actor.Reminder{}, 0, errNotStarted()
	}
	spec.Link = actor.TraceOf(ctx).Link()
	// A spec that is refused is so whether or not there is a reminder to be kept.
	if _, err := a.service.planner.Prepare(spec, actor.ReminderID{Prefix: 1}, a.Now()); err != nil {
		return actor.Reminder{}, 0, err
	}
	name := actor.ReminderName{Key: spec.Key, Name: spec.Name}
	outcome := Created
	switch there, err := a.Get(ctx, name); {
	case err == nil && spec.Keep:
		return there, Kept, nil
	case err == nil, errors.Is(err, actor.ErrStateDamaged) && !spec.Keep:
		outcome = Replaced
	case !errors.Is(err, actor.ErrReminderNotFound):
		return actor.Reminder{}, 0, err
	}
	if outcome == Created {
		if err := a.grow(ctx, spec.Key.App, actor.Stored{Reminders: 1}); err != nil {
			return actor.Reminder{}, 0, err
		}
	}
	r, err := a.service.Prepare(ctx, spec)
	if err != nil {
		return actor.Reminder{}, 0, err
	}
	commit := actor.CommitOf()
	commit.Reminders.Set = []actor.Reminder{r}
	err = a.store.Commit(ctx, []actor.Commit{commit})[0]
	if err != nil && !errors.Is(err, actor.ErrAmbiguous) {
		return actor.Reminder{}, 0, fmt.Errorf("set a reminder: %w", err)
	}
	if err != nil || spec.Keep {
		// Another may have been quicker to set what was to be kept.
		there, readErr := a.Get(ctx, name)
		switch {
		case err != nil && (readErr != nil || there.ID != r.ID):
			return actor.Reminder{}, 0, fmt.Errorf("set a reminder: %w", err)
		case readErr == nil && there.ID != r.ID:
			return there, Kept, nil
		}
	}
	a.service.Committed(&commit.Reminders)
	return r, outcome, nil
}

// Get returns a reminder. It returns [actor.ErrReminderNotFound] if no reminder has that
// name.
func (a *Admin) Get(ctx context.Context, name actor.ReminderName) (actor.Reminder, error) {
	found, err := a.store.FindReminders(ctx, []actor.ReminderName{name})
	if err != nil {
		return actor.Reminder{}, fmt.Errorf("read a reminder: %w", err)
	}
	if found[0].Version == 0 {
		return actor.Reminder{}, fmt.Errorf("%w: %s has none that is called %q", actor.ErrReminderNotFound, name.Key, name.Name)
	}
	return found[0], nil
}

// List lists reminders as the store does.
func (a *Admin) List(ctx context.Context, q store.ReminderQuery) (list []actor.Reminder, next actor.ReminderName, err error) {
	return a.store.ListReminders(ctx, q)
}

// Cancel removes reminders, each by a commit of its own. Those that are not there are
// none.
func (a *Admin) Cancel(ctx context.Context, names []actor.ReminderName) error {
	for part := range slices.Chunk(names, loadGroup) {
		commits := make([]actor.Commit, len(part))
		for i := range part {
			commits[i] = actor.CommitOf()
			commits[i].Reminders.Cancel = part[i : i+1]
		}
		if err := errors.Join(a.store.Commit(ctx, commits)...); err != nil {
			return fmt.Errorf("remove reminders: %w", err)
		}
	}
	return nil
}

// maxPauseTries is how often a change of a reminder is tried that fires meanwhile.
const maxPauseTries = 100

// SetPaused pauses reminders, or resumes them, and returns how many there are and of how
// many that changed something. [actor.ErrFiringTaken] if one kept firing meanwhile.
//
// Messages are not paused: an ordered one would hold up all later ones of its sender.
func (a *Admin) SetPaused(ctx context.Context, names []actor.ReminderName, paused bool) (found, changed int, err error) {
	for _, n := range names {
		if err := actor.ValidateReminderName(n.Name); err != nil {
			return 0, 0, err
		}
	}
	for part := range slices.Chunk(names, loadGroup) {
		f, c, err := a.setPaused(ctx, part, paused)
		found, changed = found+f, changed+c
		if err != nil {
			return found, changed, fmt.Errorf("pause or resume reminders: %w", err)
		}
	}
	return found, changed, nil
}

func (a *Admin) setPaused(ctx context.Context, names []actor.ReminderName, paused bool) (found, changed int, err error) {
	for range maxPauseTries {
		rows, readErr := a.store.FindReminders(ctx, names)
		if readErr != nil && !errors.Is(readErr, actor.ErrStateDamaged) {
			return found, changed, readErr
		}
		var commits []actor.Commit
		for i := range rows {
			if rows[i].Version == 0 {
				continue
			}
			if rows[i].Paused == paused {
				found++
				continue
			}
			c := actor.CommitOf()
			c.Reminders.Steps = []actor.ReminderStep{a.service.planner.Paused(&rows[i], paused, a.Now())}
			commits = append(commits, c)
		}
		if len(commits) == 0 {
			return found, changed, nil
		}
		names, err = nil, nil
		var resumed []store.ReminderHead
		var failed error // of those that are not tried again
		for i, commitErr := range a.store.Commit(ctx, commits) {
			switch {
			case commitErr == nil:
				found++
				changed++
				a.service.Committed(&commits[i].Reminders)
				if st := &commits[i].Reminders.Steps[0]; !paused {
					resumed = append(resumed, store.ReminderHead{ID: st.ID, FireAt: st.Then.FireAt})
				}
			case errors.Is(commitErr, actor.ErrFiringTaken), errors.Is(commitErr, actor.ErrAmbiguous):
				// The row says what it is now.
				names = append(names, commits[i].Reminders.Steps[0].ReminderName)
				err = commitErr
			default:
				failed = errors.Join(failed, commitErr)
			}
		}
		a.service.takeovers.notify(resumed)
		if failed != nil {
			return found, changed, failed
		}
		if len(names) == 0 {
			return found, changed, nil
		}
	}
	return found, changed, err
}

// DeadLetterID names a dead letter.
type DeadLetterID struct {
	Reminder actor.ReminderID
	Due      time.Time // the occurrence, to the microsecond
}

// DeadLetterIDOf returns the ID of a dead letter.
func DeadLetterIDOf(d *actor.DeadLetter) DeadLetterID {
	return DeadLetterID{d.Reminder.ID, d.Reminder.Due}
}

// String returns prefix-token-vector-microseconds.
func (id DeadLetterID) String() string {
	return fmt.Sprintf("%s-%d-%s-%d", id.Reminder.Prefix, id.Reminder.Token, id.Reminder.Vector, id.Due.UnixMicro())
}

// ParseDeadLetterID reads what [DeadLetterID.String] wrote.
func ParseDeadLetterID(s string) (DeadLetterID, error) {
	bad := &actor.ArgumentError{Field: "dead letter id", Problem: fmt.Sprintf("%q is none; give one as the list of dead letters has it", s)}
	parts := strings.SplitN(s, "-", 4) // the microseconds may be negative
	if len(parts) != 4 {
		return DeadLetterID{}, bad
	}
	id, err := actor.ParseReminderID("reminder||" + strings.Join(parts[:3], "||"))
	if err != nil {
		return DeadLetterID{}, bad
	}
	micros, err := strconv.ParseInt(parts[3], 10, 64)
	if err != nil || strconv.FormatInt(micros, 10) != parts[3] {
		return DeadLetterID{}, bad
	}
	return DeadLetterID{id, time.UnixMicro(micros).UTC()}, nil
}

// DeadLetters lists dead letters as the store does.
func (a *Admin) DeadLetters(ctx context.Context, q store.DeadLetterQuery) ([]actor.DeadLetter, error) {
	return a.store.ListDeadLetters(ctx, q)
}

// DeadLetter returns one of an app; [actor.ErrDeadLetterNotFound].
func (a *Admin) DeadLetter(ctx context.Context, app string, id DeadLetterID) (*actor.DeadLetter, error) {
	list, err := a.store.ListDeadLetters(ctx, store.DeadLetterQuery{App: app, AfterID: id.Reminder, AfterDue: id.Due.Add(-time.Microsecond), Limit: 1})
	if err != nil {
		return nil, fmt.Errorf("read a dead letter: %w", err)
	}
	if len(list) == 0 || DeadLetterIDOf(&list[0]) != id {
		return nil, fmt.Errorf("%w: %s", actor.ErrDeadLetterNotFound, id)
	}
	return &list[0], nil
}

// RemoveDeadLetter removes a dead letter of an app, and reports whether it was there.
func (a *Admin) RemoveDeadLetter(ctx context.Context, app string, id DeadLetterID) (bool, error) {
	switch _, err := a.DeadLetter(ctx, app, id); {
	case errors.Is(err, actor.ErrDeadLetterNotFound):
		return false, nil
	case err != nil:
		return false, err
	}
	return a.store.RemoveDeadLetter(ctx, id.Reminder, id.Due)
}

// Buckets returns bucket rows of an app, or of all if it is empty, above a position in the
// order of prefix, vector and index, at most limit (1 to [store.MaxList]).
func (a *Admin) Buckets(ctx context.Context, app string, after actor.Bucket, limit int) ([]actor.BucketRow, error) {
	var rows []actor.BucketRow
	for {
		page, err := a.store.Buckets(ctx, after, store.MaxList)
		if err != nil {
			return nil, fmt.Errorf("list buckets: %w", err)
		}
		for _, r := range page {
			if app != "" && r.App != app {
				continue
			}
			if rows = append(rows, r); len(rows) == limit {
				return rows, nil
			}
		}
		if len(page) < store.MaxList {
			return rows, nil
		}
		after = page[len(page)-1].Bucket
	}
}

// Subscribe is [Service.Subscribe].
func (a *Admin) Subscribe(app string, names []string, limit int) (*Subscriber, error) {
	return a.service.Subscribe(app, names, limit)
}

// Release is [Service.Release].
func (a *Admin) Release(ctx context.Context, r ReleaseRequest) ([]actor.ReminderID, error) {
	return a.service.Release(ctx, r)
}

// Notice is [Service.Notice].
func (a *Admin) Notice(heads []store.ReminderHead) { a.service.Notice(heads) }

// Table is [Service.Table].
func (a *Admin) Table(app string) (rows []actor.BucketRow, changed <-chan struct{}) {
	return a.service.Table(app)
}

// Prefix returns the prefix of the IDs of an app's reminders, which it keeps for ever.
func (a *Admin) Prefix(ctx context.Context, app string) (actor.Prefix, error) {
	if rows, _ := a.Table(app); len(rows) > 0 {
		return rows[0].Bucket.Prefix, nil
	}
	id, err := a.service.creators.token(ctx, app) // the app's first, perhaps
	return id.Prefix, err
}
