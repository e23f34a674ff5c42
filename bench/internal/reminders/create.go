package reminders

import (
	"fmt"
	"time"

	"github.com/greenroom-run/greenroom/bench/internal/bar"
	"github.com/greenroom-run/greenroom/bench/internal/bare"
	"github.com/greenroom-run/greenroom/bench/internal/inhost"
	"github.com/greenroom-run/greenroom/bench/internal/load"
)

const (
	// minute is how long reminders are set and canceled, part how long each part of it is.
	minute = time.Minute
	part   = 10 * time.Second
)

// creation is reminders.1.
func creation(b *bar.B) {
	onBoth(b, func(run int, db database) {
		base := b.Measure(db.name+", turns without a reminder", run, inhost.Role, spec(b, db, "Add"))
		with := spec(b, db, "Remind")
		with.Reminders = true
		turns := b.Measure(db.name+", turns that set one", run, inhost.Role, with)
		b.Compare(check(db.name, "turns"), turns.Rate(), base.Rate())
		// One durable write for each reminder, one after the other, and as many writers as in
		// other bars.
		one, many := writes(b, run, db, 1), writes(b, run, db, 64)
		b.Compare(check(db.name, "against a synced write each"), turns.Rate(), one.Rate())
		b.Note("%s, run %d: %.1f times what 64 writers do at a time", db.name, run, turns.Rate()/many.Rate())
		if run == 1 { // a minute each is enough
			steady(b, db, turns.Rate()/2)
		}
	})
}

// writes measures durable writes without Greenroom.
func writes(b *bar.B, run int, db database, writers int) load.Result {
	plan := b.Plan(writers, actors, db.watch)
	if db.url == "" {
		return b.Measure(fmt.Sprintf("%s, a synced Set each, %d at a time", db.name, writers), run, bare.PebbleRole,
			bare.Pebble{Dir: b.Folder(), Plan: plan, Group: 1, StateBytes: 300})
	}
	return b.Measure(fmt.Sprintf("%s, an INSERT per transaction, %d at a time", db.name, writers), run, bare.InsertRole, bare.SQL{URL: db.url, Plan: plan})
}

// steady sets and cancels for a minute.
func steady(b *bar.B, db database, rate float64) {
	s := spec(b, db, "Toggle")
	s.Reminders = true
	s.Plan.Rate, s.Plan.Duration = rate, part
	parts := bar.Call[[]load.Result](b, inhost.SteadyRole, inhost.SteadySpec{Spec: s, Parts: int(minute / part)})
	for i, p := range parts {
		b.Measured(fmt.Sprintf("%s, setting and canceling, from %v on", db.name, time.Duration(i)*part), 1, p)
	}
	first, last := parts[0], parts[len(parts)-1]
	b.Compare(check(db.name, "setting and canceling, p99 of the last 10 s"), bar.Millis(last.P99), bar.Millis(first.P99))
}
