package reminders

import (
	"context"
	"fmt"
	"time"

	"github.com/greenroom-run/greenroom/bench/internal/bar"
	"github.com/greenroom-run/greenroom/bench/internal/inhost"
	"github.com/greenroom-run/greenroom/bench/internal/rig"
	"github.com/greenroom-run/greenroom/bench/internal/role"
)

const (
	// burst is how many reminders are due at once.
	burst = 60_000
	// quarter is the share of what could be fired, and punctual how long it goes on.
	quarter  = 0.25
	punctual = 10 * time.Second
	// lateP50 and lateP99 are how late half of the firings may be, and all but the last of
	// a hundred.
	lateP50, lateP99 = 20, 100 // ms
)

// firing is reminders.2.
func firing(ctx context.Context, r *rig.Rig, rec *bar.Record) error {
	return onBoth(ctx, r, func(run int, db database) error {
		res, err := fire(ctx, r, db, 0, r.Duration)
		if err != nil {
			return err
		}
		rec.Measured(db.name+", turns begun inside the process", run, res.Turns)
		rec.Measured(db.name+", firings", run, res.Fired)
		rec.Compare(check(db.name, "firings"), res.Fired.Rate(), res.Turns.Rate())
		return nil
	})
}

// punctuality is reminders.3. Early is by this machine's clock, which is the databases'.
func punctuality(ctx context.Context, r *rig.Rig, rec *bar.Record) error {
	return onBoth(ctx, r, func(run int, db database) error {
		res, err := fire(ctx, r, db, punctual, 0)
		if err != nil {
			return err
		}
		rec.Measured(db.name+", firings that are all due at once", run, res.Fired)
		rec.Compare(check(db.name, "late, p50"), millis(res.Began.P50), lateP50)
		rec.Compare(check(db.name, "late, p99"), millis(res.Began.P99), lateP99)
		rec.Compare(check(db.name, "early"), float64(res.Early), 1)
		rec.Note("%s, run %d: at %.0f firings/s they began %s late, and were committed %s late", db.name, run, res.Rate, lateness(res.Began), lateness(res.Committed))
		return nil
	})
}

func lateness(l inhost.Lateness) string {
	return fmt.Sprintf("%.1f ms (p50), %.1f ms (p99), at most %.1f ms", millis(l.P50), millis(l.P99), millis(l.Max))
}

// fire measures turns for a while, if any, then firings, all at once and at a steady rate.
func fire(ctx context.Context, r *rig.Rig, db database, steady, turns time.Duration) (inhost.FireResult, error) {
	s, err := spec(ctx, r, db, "Add")
	if err != nil {
		return inhost.FireResult{}, err
	}
	s.Plan.Duration = turns
	return role.Call[inhost.FireResult](ctx, inhost.FireRole, inhost.FireSpec{Spec: s, Burst: burst, Share: quarter, Steady: steady})
}
