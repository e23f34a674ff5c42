package reminder

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// MaxFollowed is how many reminders one [Follower] follows at most.
const MaxFollowed = loadGroup

// Followed says what a reminder is that is followed.
type Followed struct {
	// ID is the one that is followed.
	ID actor.ReminderID
	// Reminder is what it is now, and is followed from then on under the ID that it has.
	// Version 0: it is over, and followed no more.
	Reminder actor.Reminder
}

// Follower follows reminders of an app by their IDs: it finds out what they are, and when one
// of them has another ID, since another server has taken it over or its name was set anew.
// Its methods may be called concurrently.
type Follower struct {
	admin  *Admin
	app    string
	prefix actor.Prefix
	news   chan []Followed
	wake   chan struct{}

	mu    sync.Mutex
	added []actor.ReminderID // not looked at yet
	count int                // with those that are followed
}

// Follow makes a follower of reminders of an app, whose prefix it is. It does nothing before it
// runs.
func (a *Admin) Follow(app string, prefix actor.Prefix) *Follower {
	return &Follower{admin: a, app: app, prefix: prefix, news: make(chan []Followed), wake: make(chan struct{}, 1)}
}

// News has what was found out.
func (f *Follower) News() <-chan []Followed { return f.news }

// Add has reminders followed. Errors are [*actor.ArgumentError].
func (f *Follower) Add(ids []actor.ReminderID) error {
	for _, id := range ids {
		if id.Prefix != f.prefix {
			return &actor.ArgumentError{Field: "reminder id", Problem: fmt.Sprintf("%s is of another app; those of %s begin with %s", id, f.app, f.prefix)}
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.count+len(ids) > MaxFollowed {
		return &actor.ArgumentError{Field: "reminder ids", Problem: fmt.Sprintf("are more than %d with those that are followed; open another stream for them", MaxFollowed)}
	}
	f.added = append(f.added, ids...)
	f.count += len(ids)
	select {
	case f.wake <- struct{}{}:
	default:
	}
	return nil
}

// followed is what a follower knows of a reminder.
type followed struct {
	name   actor.ReminderName
	paused bool
}

// Run follows until ctx ends.
func (f *Follower) Run(ctx context.Context) {
	known := map[actor.ReminderID]followed{}
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for polls := 0; ; polls++ {
		select {
		case <-f.wake:
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		// One that is paused is not taken over, and must be read whole.
		news, err := f.poll(ctx, known, polls%pausedPolls == 0)
		if err != nil && ctx.Err() == nil {
			f.admin.service.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "reminders that a client follows were not read", slog.String("app", f.app), slog.Any("error", err))
		}
		if len(news) == 0 {
			continue
		}
		select {
		case f.news <- news:
		case <-ctx.Done():
			return
		}
	}
}

// pausedPolls is after how many polls of the others a follower reads reminders that are paused.
const pausedPolls = 15

// poll returns what is new about the reminders that are followed.
func (f *Follower) poll(ctx context.Context, known map[actor.ReminderID]followed, paused bool) ([]Followed, error) {
	f.mu.Lock()
	read := slices.Clone(f.added) // read whole
	f.mu.Unlock()
	added := len(read)
	missing, err := f.missing(ctx, known, paused)
	if err != nil {
		return nil, err
	}
	read = append(read, missing...)
	var news []Followed
	report := func(id actor.ReminderID, r actor.Reminder) {
		delete(known, id)
		if r.Version > 0 {
			known[r.ID] = followed{nameOf(&r), r.Paused}
		}
		news = append(news, Followed{id, r})
	}
	for at := 0; at < len(read); at += loadGroup {
		part := read[at:min(at+loadGroup, len(read))]
		rows, err := f.load(ctx, part)
		if err != nil {
			return news, err
		}
		for i, id := range part {
			was := known[id]
			r := &rows[i]
			switch {
			case r.Version > 0 && at+i >= added: // it is followed, and is or was paused
				known[id] = followed{was.name, r.Paused}
			case r.Version > 0:
				report(id, *r)
			default:
				now, err := f.find(ctx, id, was.name)
				if err != nil {
					return news, err
				}
				report(id, now)
			}
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.added = f.added[added:]
	f.count = len(known) + len(f.added)
	return news, nil
}

// missing returns the IDs of reminders that are followed, and not among those that wait to be
// delivered. It reads no payloads.
func (f *Follower) missing(ctx context.Context, known map[actor.ReminderID]followed, paused bool) ([]actor.ReminderID, error) {
	ranges := map[actor.Bucket][]store.TokenRange{}
	missing := map[actor.ReminderID]bool{}
	for id, k := range known {
		if k.paused && !paused {
			continue
		}
		missing[id] = true
		if !k.paused {
			ranges[id.Bucket()] = append(ranges[id.Bucket()], store.TokenRange{From: id.Token, To: id.Token})
		}
	}
	for b, list := range ranges {
		heads, err := f.admin.service.cfg.Store.RecentReminders(ctx, b, list, MaxFollowed)
		if err != nil {
			return nil, err
		}
		for _, h := range heads {
			delete(missing, h.ID)
		}
	}
	return slices.Collect(maps.Keys(missing)), nil
}

// load reads reminders; one of another app, or that cannot be read, is not there.
func (f *Follower) load(ctx context.Context, ids []actor.ReminderID) ([]actor.Reminder, error) {
	rows, err := f.admin.service.cfg.Store.LoadReminders(ctx, ids)
	var damaged *store.DamagedReminders
	if err != nil && !errors.As(err, &damaged) {
		return nil, err
	}
	for i := range rows {
		if rows[i].Key.App != f.app {
			rows[i] = actor.Reminder{}
		}
	}
	return rows, nil
}

// find returns the present state of a reminder whose ID is gone: it was taken over, perhaps
// more than once, or another one was set under its name. Version 0 means that there is no
// such reminder.
func (f *Follower) find(ctx context.Context, id actor.ReminderID, name actor.ReminderName) (actor.Reminder, error) {
	for range MaxFollowed {
		records, err := f.admin.store.LoadIdempotency(ctx, []actor.KeyedCall{movedCall(f.app, id)})
		if err != nil {
			return actor.Reminder{}, err
		}
		to, err := actor.ParseReminderID(string(records[0].Record.Reply.Data))
		if err != nil {
			break // it is not recorded
		}
		rows, err := f.load(ctx, []actor.ReminderID{to})
		if err != nil {
			return actor.Reminder{}, err
		}
		if rows[0].Version > 0 {
			return rows[0], nil
		}
		id = to
	}
	if name == (actor.ReminderName{}) {
		return actor.Reminder{}, nil
	}
	r, err := f.admin.Get(ctx, name)
	if errors.Is(err, actor.ErrReminderNotFound) || errors.Is(err, actor.ErrStateDamaged) {
		err = nil
	}
	return r, err
}
