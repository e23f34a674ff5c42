package feed

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/internal/fair"
)

// trimmer removes the old events of actors that publish here. A quarter of what a type keeps is
// the average of what its actor has beyond that: each event has the same chance to have the
// actor trimmed, so nothing is remembered of actors.
type trimmer struct {
	cfg    *Config
	places *fair.Places
	chance func(n int) int // a random number below n

	mu      sync.Mutex
	waiting map[string]int // trims that are under way or wait, by app
	work    sync.WaitGroup
}

const (
	// trims is how many are under way, which apps share, and trimTimeout bounds one.
	trims       = 2
	trimTimeout = 30 * time.Second
	// maxTrims is how many an app has at once: an actor that finds no room is trimmed later.
	maxTrims = 64
)

func (t *trimmer) init(cfg *Config) {
	t.cfg, t.places, t.chance, t.waiting = cfg, fair.NewPlaces(trims), rand.IntN, map[string]int{}
}

// published trims the events of an actor, now and then.
func (t *trimmer) published(key actor.Key, events int) {
	keep := t.retention(key)
	if t.chance(max(1, keep.Count/4)) >= events {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.waiting[key.App] >= maxTrims {
		return
	}
	t.waiting[key.App]++
	t.work.Go(func() { t.trim(key, keep) })
}

// retention returns what is kept of an actor's events.
func (t *trimmer) retention(key actor.Key) Retention {
	keep := DefaultRetention()
	if t.cfg.Retention == nil {
		return keep
	}
	r := t.cfg.Retention(key.App, key.Type)
	if r.Count > 0 {
		keep.Count = r.Count
	}
	if r.Bytes > 0 {
		keep.Bytes = r.Bytes
	}
	if r.Age > 0 {
		keep.Age = r.Age
	}
	return keep
}

func (t *trimmer) trim(key actor.Key, keep Retention) {
	ctx, cancel := context.WithTimeout(context.Background(), trimTimeout)
	defer cancel()
	leave, err := t.places.Enter(ctx, key.App, key.Type)
	if err == nil {
		err = t.cfg.Store.TrimEvents(ctx, key, actor.EventsKept{Count: keep.Count, Bytes: keep.Bytes, Before: time.Now().Add(-keep.Age)})
		leave()
	}
	if err != nil {
		t.cfg.Logger.Warn("events were not trimmed", "app", key.App, "actor_type", key.Type, "actor_id", key.ID, "error", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.waiting[key.App]--; t.waiting[key.App] == 0 {
		delete(t.waiting, key.App)
	}
}
