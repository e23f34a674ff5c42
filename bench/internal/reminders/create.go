package reminders

import (
	"context"
	"fmt"
	"time"

	"github.com/greenroom-run/greenroom/bench/internal/bar"
	"github.com/greenroom-run/greenroom/bench/internal/bare"
	"github.com/greenroom-run/greenroom/bench/internal/inhost"
	"github.com/greenroom-run/greenroom/bench/internal/load"
	"github.com/greenroom-run/greenroom/bench/internal/rig"
	"github.com/greenroom-run/greenroom/bench/internal/role"
)

const (
	// minute is how long reminders are set and canceled, part how long each part of it is.
	minute = time.Minute
	part   = 10 * time.Second
)

// creation is reminders.1.
func creation(ctx context.Context, r *rig.Rig, rec *bar.Record) error {
	return onBoth(ctx, r, func(run int, db database) error {
		without, err := spec(ctx, r, db, "Add")
		if err != nil {
			return err
		}
		base, err := measured(ctx, rec, db.name+", turns without a reminder", run, inhost.Role, without)
		if err != nil {
			return err
		}
		with, err := spec(ctx, r, db, "Remind")
		if err != nil {
			return err
		}
		with.Reminders = true
		turns, err := measured(ctx, rec, db.name+", turns that set one", run, inhost.Role, with)
		if err != nil {
			return err
		}
		rec.Compare(check(db.name, "turns"), turns.Rate(), base.Rate())
		if err := singleWrites(ctx, r, rec, run, db, turns); err != nil {
			return err
		}
		if run > 1 {
			return nil // a minute each is enough
		}
		return steady(ctx, r, rec, db, turns.Rate()/2)
	})
}

// singleWrites compares with one durable write for each reminder, one after the other, and
// tells what as many writers as in other bars do.
func singleWrites(ctx context.Context, r *rig.Rig, rec *bar.Record, run int, db database, turns load.Result) error {
	var rates []float64
	for _, writers := range []int{1, 64} {
		plan := load.Plan{Outstanding: writers, Actors: r.Count(actors), Warmup: r.Warmup, Duration: r.Duration, Watch: db.watch}
		what, name := "an INSERT per transaction", bare.InsertRole
		var s any = bare.SQL{URL: db.url, Plan: plan}
		if db.url == "" {
			what, name = "a synced Set each", bare.PebbleRole
			dir, remove, err := r.Folder()
			if err != nil {
				return err
			}
			defer remove()
			s = bare.Pebble{Dir: dir, Plan: plan, Group: 1, StateBytes: 300}
		}
		res, err := measured(ctx, rec, fmt.Sprintf("%s, %s, %d at a time", db.name, what, writers), run, name, s)
		if err != nil {
			return err
		}
		rates = append(rates, res.Rate())
	}
	rec.Compare(check(db.name, "against a synced write each"), turns.Rate(), rates[0])
	rec.Note("%s, run %d: %.1f times what 64 writers do at a time", db.name, run, turns.Rate()/rates[1])
	return nil
}

// steady sets and cancels for a minute.
func steady(ctx context.Context, r *rig.Rig, rec *bar.Record, db database, rate float64) error {
	s, err := spec(ctx, r, db, "Toggle")
	if err != nil {
		return err
	}
	s.Reminders = true
	s.Plan.Rate, s.Plan.Duration = rate, part
	parts, err := role.Call[[]load.Result](ctx, inhost.SteadyRole, inhost.SteadySpec{Spec: s, Parts: int(minute / part)})
	if err != nil {
		return err
	}
	for i, p := range parts {
		rec.Measured(fmt.Sprintf("%s, setting and canceling, from %v on", db.name, time.Duration(i)*part), 1, p)
	}
	first, last := parts[0], parts[len(parts)-1]
	rec.Compare(check(db.name, "setting and canceling, p99 of the last 10 s"), millis(last.P99), millis(first.P99))
	return nil
}
