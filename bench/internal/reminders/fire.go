package reminders

import (
	"fmt"
	"time"

	"github.com/greenroom-run/greenroom/bench/internal/bar"
	"github.com/greenroom-run/greenroom/bench/internal/inhost"
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
func firing(b *bar.B) {
	onBoth(b, func(run int, db database) {
		res := fire(b, db, 0, b.Duration)
		b.Measured(db.name+", turns begun inside the process", run, res.Turns)
		b.Measured(db.name+", firings", run, res.Fired)
		b.Compare(check(db.name, "firings"), res.Fired.Rate(), res.Turns.Rate())
	})
}

// punctuality is reminders.3. Early is by this machine's clock, which is the databases'.
func punctuality(b *bar.B) {
	onBoth(b, func(run int, db database) {
		res := fire(b, db, punctual, 0)
		b.Measured(db.name+", firings that are all due at once", run, res.Fired)
		b.Compare(check(db.name, "late, p50"), bar.Millis(res.Began.P50), lateP50)
		b.Compare(check(db.name, "late, p99"), bar.Millis(res.Began.P99), lateP99)
		b.Compare(check(db.name, "early"), float64(res.Early), 1)
		b.Note("%s, run %d: at %.0f firings/s they began %s late, and were committed %s late", db.name, run, res.Rate, lateness(res.Began), lateness(res.Committed))
	})
}

func lateness(l inhost.Lateness) string {
	return fmt.Sprintf("%.1f ms (p50), %.1f ms (p99), at most %.1f ms", bar.Millis(l.P50), bar.Millis(l.P99), bar.Millis(l.Max))
}

// fire measures turns for a while, if any, then firings, all at once and at a steady rate.
func fire(b *bar.B, db database, steady, turns time.Duration) inhost.FireResult {
	s := spec(b, db, "Add")
	s.Plan.Duration = turns
	return bar.Call[inhost.FireResult](b, inhost.FireRole, inhost.FireSpec{Spec: s, Burst: burst, Share: quarter, Steady: steady})
}
