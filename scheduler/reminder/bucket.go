package reminder

import (
	"maps"
	"math"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// ownedBucket is a bucket that this instance delivers; guarded by the lock of its [pending],
// except for sweeps.
type ownedBucket struct {
	bucket actor.Bucket
	row    actor.BucketRow
	knownTokens
	readAhead
	progress
	bucketRate
	inheritance
	adopted uint64 // in which poll of the store, or after it
	leaving bool
	// deliveredBefore is a time up to which others may have delivered what is in it, or this
	// process did as its owner at another time; zero: nobody has.
	deliveredBefore time.Time
}

// knownTokens are those of a bucket that its owner knows.
type knownTokens struct {
	seen    *bitmap    // tokens that were read, or that there was notice of; nil once none comes any more
	high    int64      // the highest of them, from 0; -1: none
	highest lastMinute // what high was
}

// readAhead is how far a bucket was read.
type readAhead struct {
	// Everything before this position of the window was read.
	at         time.Time
	afterToken *uint32
	// changed says that there was notice of a reminder since the bucket was last asked whether it
	// is empty.
	changed bool
	leftOut leftOut
	// reading says that a page is being read, of what is due before readTo; noted are the
	// tokens that there was notice of meanwhile, which the page may have or not, with the time
	// of those that were taken into memory. passed are those while a sweep is reading.
	reading bool
	readTo  time.Time
	noted   map[uint32]time.Time
	passed  map[uint32]struct{}
}

// leftOut is the part of what is due in which reminders are that memory had no space for when there
// was notice of them; zero if there are none.
type leftOut struct {
	from place
	last time.Time // the latest time of such a reminder
}

func (l *leftOut) isEmpty() bool { return l.last.IsZero() }

// add extends the part to one that begins at a place.
func (l *leftOut) add(from place, last time.Time) {
	if l.isEmpty() || !from.at.After(l.from.at) {
		l.from = from
	}
	if last.After(l.last) {
		l.last = last
	}
}

// progress is how far a bucket is delivered.
type progress struct {
	// deliveredTill is a time before which nothing is left to deliver, as the last sweep
	// has found; nor is anything that is due then, up to leftToken.
	deliveredTill time.Time
	leftToken     *uint32
	saved         time.Time // deliveredTill as it was saved
	sweeps        sweeps    // for the goroutine that polls the store
}

// bucketRate is how many deliveries began a second, as of measured, by the local clock; since
// then there were begun.
type bucketRate struct {
	rate      float64
	measured  time.Time
	begun     int
	savedRate uint32
}

// inheritance is what subscribers of a lost owner may still execute: what is for subscribers
// and was due by dueBy, until held, by the local clock.
type inheritance struct{ dueBy, held time.Time }

// saw notes that a token is there.
func (b *ownedBucket) saw(id actor.ReminderID) {
	n := id.Token - b.bucket.First()
	if b.seen != nil {
		b.seen.add(n)
	}
	b.high = max(b.high, int64(n))
}

// hasSeen reports whether a token was read or noticed, as far as that is recorded.
func (k *knownTokens) hasSeen(id actor.ReminderID) bool {
	return k.seen != nil && k.seen.has(id.Token-id.Bucket().First())
}

// bitmap is a set of numbers below [actor.BucketSize]. Its parts are made when the first number of
// each is added: most apps have few tokens of their bucket.
type bitmap [(actor.BucketSize + partSize - 1) / partSize]*[partSize / 64]uint64

// partSize is how many numbers a part of a bitmap has.
const partSize = 4096

func (b *bitmap) has(n uint32) bool {
	part := b[n/partSize]
	return part != nil && part[n%partSize/64]&(1<<(n%64)) != 0
}

func (b *bitmap) add(n uint32) {
	part := &b[n/partSize]
	if *part == nil {
		*part = new([partSize / 64]uint64)
	}
	(*part)[n%partSize/64] |= 1 << (n % 64)
}

// forgetNoted keeps of what was noted while the last page was read what the next one may
// have, and is in memory already.
func (b *readAhead) forgetNoted() {
	maps.DeleteFunc(b.noted, func(_ uint32, at time.Time) bool { return at.IsZero() || at.Before(b.at) })
	if b.noted == nil {
		b.noted = map[uint32]time.Time{}
	}
}

// rateOver is over how long rates are averaged, about: what fires at each full minute is no
// reason to move a bucket then.
const rateOver = 30 * time.Second

// measure brings the rate up to date.
func (b *bucketRate) measure(now time.Time) {
	took := now.Sub(b.measured).Seconds()
	if took <= 0 {
		return
	}
	b.rate += (float64(b.begun)/took - b.rate) * -math.Expm1(-took/rateOver.Seconds())
	b.begun, b.measured = 0, now
}

// rateChanged reports whether the rate differs enough from what was written down: by a
// quarter, and by what matters.
func (b *bucketRate) rateChanged() bool {
	saved := float64(b.savedRate)
	return math.Abs(b.rate-saved) > max(busyRate/10, saved/4) || b.rate < 1 && saved > 0
}

// lasts reports whether subscribers of a lost owner may still execute what they were given.
func (b *inheritance) lasts() bool { return time.Now().Before(b.held) }

// extend makes b last as long as was, which the same bucket of this instance had before.
func (b *inheritance) extend(was *inheritance) {
	if was.held.After(b.held) {
		b.dueBy, b.held = was.dueBy, was.held
	}
}
