package reminders

import (
	"context"
	"runtime"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/bench/internal/bar"
	"github.com/greenroom-run/greenroom/bench/internal/bare"
	"github.com/greenroom-run/greenroom/bench/internal/inhost"
	"github.com/greenroom-run/greenroom/scheduler/reminder"
)

const (
	// wheelRole fills a wheel.
	wheelRole = "wheel"
	// inWheel is how many reminders are in it, and wheelBytes what one may take.
	inWheel    = 4_000_000
	wheelBytes = 100
	// window is how far ahead is read of what is due within day, and resident what the
	// process may take, in MiB.
	window   = time.Hour
	day      = 24 * time.Hour
	resident = 300
	// taken is how many reminders are in the buckets that are taken over, due how many of
	// them are due by then, and takeOverTime by when these are to have fired, in ms.
	taken        = 1_000_000
	due          = 1000
	takeOverTime = 2000
)

type wheelSpec struct{ Entries int }

// wheelResult is what an entry takes on the heap, in bytes, and how long it takes to
// insert and to give out one.
type wheelResult struct {
	Bytes       float64
	Insert, Due time.Duration
}

// runWheel plays wheelRole.
func runWheel(_ context.Context, s wheelSpec) (res wheelResult, err error) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	now := time.Now()
	w := reminder.NewWheel(now)
	began := time.Now()
	b := actor.Bucket{Prefix: 1, Vector: actor.Vector([]byte("benchmrk"))}
	for i := range s.Entries {
		at := now.Add(time.Duration(uint64(i) * 2654435761 % uint64(window)))
		b.Index = uint32(i / actor.BucketSize)
		w.Insert(b.Token(uint32(i%actor.BucketSize)), at)
	}
	res.Insert = time.Since(began) / time.Duration(s.Entries)
	runtime.GC()
	runtime.ReadMemStats(&after)
	res.Bytes = float64(after.HeapAlloc-before.HeapAlloc) / float64(s.Entries)
	var list []reminder.Due
	began = time.Now()
	given := 0
	for w.Len() > 0 {
		now = now.Add(10 * time.Millisecond)
		list = w.Advance(now, list[:0], s.Entries)
		given += len(list)
	}
	res.Due = time.Since(began) / time.Duration(given)
	return res, nil
}

// memory is reminders.4. It runs once: what is stored takes a while.
func memory(b *bar.B) {
	wheel := bar.Call[wheelResult](b, wheelRole, wheelSpec{inWheel})
	b.Compare("a reminder in the wheel", wheel.Bytes, wheelBytes)
	b.Note("of a reminder the wheel has the token, by which key and payload are read when it is due; one takes %v to insert, and %v to give out", wheel.Insert, wheel.Due)
	once(b, func(db database) {
		n := b.Reminders
		s, took := stored(b, db, inhost.StoreSpec{Count: n, First: time.Now().Add(window / 6), Span: day})
		res := bar.Call[inhost.WindowResult](b, inhost.WindowRole, inhost.WindowSpec{Spec: s, Window: window, Expect: int(float64(n) * (window * 4 / 5).Hours() / day.Hours())})
		b.Compare(check(db.name, "resident"), mebi(res.Resident), resident)
		b.Note("%s: %d reminders, stored in %.0f s; %d of them in %d buckets were in memory %.1f s after the start; resident before %.0f MiB",
			db.name, n, took.Seconds(), res.InMemory, res.Buckets, res.Took.Seconds(), mebi(res.Bare))
	})
}

// takeOver is reminders.5. All that is not due is so within the window, so that an instance
// reads all of it.
func takeOver(b *bar.B) {
	once(b, func(db database) {
		n := min(taken, b.Reminders)
		s, _ := stored(b, db, inhost.StoreSpec{Count: n, First: time.Now().Add(window / 4), Span: window / 2, Overdue: n / due})
		res := bar.Call[inhost.TakeOverResult](b, inhost.TakeOverRole, inhost.TakeOverSpec{Spec: s, Window: window, Due: due})
		b.Compare(check(db.name, "the last of 1,000 that are due"), bar.Millis(res.Last), takeOverTime)
		b.Note("%s: %d buckets with %d reminders, assigned within %.0f ms; the first of those that are due had fired after %.0f ms, when the last had, %d others had been read",
			db.name, res.Buckets, n, bar.Millis(res.Assigned), bar.Millis(res.First), res.InMemory)
	})
}

// stored stores reminders, and returns what hosts their actors and how long it took.
func stored(b *bar.B, db database, which inhost.StoreSpec) (s inhost.Spec, took time.Duration) {
	s = spec(b, db, "Add")
	which.Spec = s
	began := time.Now()
	buckets := bar.Call[[]actor.Bucket](b, inhost.StoreRole, which)
	if db.url == "" {
		return s, time.Since(began)
	}
	bulk := bare.Bulk{
		URL: db.url, Count: which.Count, First: which.First.UnixMicro(), Span: which.Span.Microseconds(),
		Every: int64(which.Overdue), Past: which.First.Add(-inhost.Overdue).UnixMicro(),
		App: actor.DefaultApp, Type: "Counter", Actors: s.Plan.Actors, Spec: `{"method":"Add","at":%s}`,
	}
	for _, k := range buckets {
		bulk.Buckets = append(bulk.Buckets, bare.BulkBucket{
			Prefix: int64(k.Prefix), Index: int64(k.Index), First: int64(k.First()), Vector: k.Vector.String(), Tokens: actor.BucketSize,
		})
	}
	bar.Call[int](b, bare.BulkRole, bulk)
	return s, time.Since(began)
}

func mebi(n int64) float64 { return float64(n) / (1 << 20) }
