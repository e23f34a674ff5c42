package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// pagedStore has rows of actors, reminders and messages, and returns three rows at a time, whatever limit a query has.
type pagedStore struct {
	store.Store
	actors    map[string][]int64 // the sizes of their states, by type
	reminders []string           // their names
	asked     []string
	fails     string // what does
}

func (s *pagedStore) ask(what string) error {
	s.asked = append(s.asked, what)
	if s.fails == what {
		return actor.ErrUnavailable
	}
	return nil
}

func (s *pagedStore) Deployments(_ context.Context, app string) (all []actor.Deployment, err error) {
	for typ := range s.actors {
		all = append(all, actor.Deployment{App: app, Type: typ})
	}
	return all, s.ask("types")
}

func (s *pagedStore) ScanActors(_ context.Context, q store.ActorScan, visit func(*store.ScannedActor) bool) (examined int, next string, err error) {
	if !q.AllowStale {
		return 0, "", errors.New("a count makes turns wait")
	}
	if err := s.ask("actors"); err != nil {
		return 0, "", err
	}
	for i, size := range s.actors[q.Type] {
		if next = fmt.Sprintf("%03d", i); next <= q.After {
			continue
		}
		visit(&store.ScannedActor{ActorInfo: store.ActorInfo{StateSize: size}})
		if examined++; examined == 3 {
			return examined, next, nil
		}
	}
	return examined, "", nil
}

func (s *pagedStore) CountReminders(_ context.Context, _ string, after actor.ReminderName, _ int) (count store.ReminderCount, next actor.ReminderName, err error) {
	if err := s.ask("reminders"); err != nil {
		return count, next, err
	}
	from := slices.Index(s.reminders, after.Name) + 1
	for i, name := range s.reminders[from:] {
		if count.Add(name); i == 2 {
			return count, actor.ReminderName{Name: name}, nil
		}
	}
	return count, actor.ReminderName{}, nil
}

// TestCounterReadsAllPages: all that an app stores is counted, a page after the other, and of that only what a quota
// bounds; a page that cannot be read fails the count.
func TestCounterReadsAllPages(t *testing.T) {
	s := &pagedStore{actors: map[string][]int64{"A": {1, 2, 3, 4, 5, 6, 7}, "B": {10}, "C": nil}}
	for i := range 8 {
		s.reminders = append(s.reminders, fmt.Sprint("n", i), actor.MessageName(actor.Key{App: "app", Type: "A", ID: "a"}, uint64(i+1), 0))
	}
	s.reminders = append(s.reminders, "last")
	actors, reminders := actor.Stored{Actors: 8, Bytes: 38}, actor.Stored{Reminders: 9, Messages: 8}
	for _, tt := range []struct {
		quotas []actor.Quota
		want   actor.Stored
		asks   int
	}{
		{[]actor.Quota{actor.QuotaActors}, actors, 1 + 3 + 1 + 1},
		{[]actor.Quota{actor.QuotaBytes}, actors, 1 + 3 + 1 + 1},
		{[]actor.Quota{actor.QuotaReminders}, reminders, 6},
		{[]actor.Quota{actor.QuotaMessages}, reminders, 6},
		{actor.StoredQuotas(), actor.Stored{Actors: 8, Bytes: 38, Reminders: 9, Messages: 8}, 12},
		{nil, actor.Stored{}, 0},
	} {
		s.asked = nil
		if got, err := (counter{s}).CountStored(t.Context(), "app", tt.quotas); err != nil || got != tt.want || len(s.asked) != tt.asks {
			t.Errorf("of %v: %+v, %v, by %q", tt.quotas, got, err, s.asked)
		}
	}
	for _, s.fails = range []string{"types", "actors", "reminders"} {
		if _, err := (counter{s}).CountStored(t.Context(), "app", actor.StoredQuotas()); !errors.Is(err, actor.ErrUnavailable) {
			t.Errorf("without %s: %v", s.fails, err)
		}
	}
}
