package reminder

import (
	"slices"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// View is what whoever decides about buckets knows.
type View struct {
	Now time.Time // database time
	// Live are the processes that are there: each creates, and each delivers.
	Live []actor.HostID
	// Connected are those of them that buckets are dealt to.
	Connected []actor.HostID
	// Gone says for how long, at least, an owner that is not live has been gone.
	Gone map[actor.HostID]time.Duration
	// OwnerTimeout is how long an owner is gone when its buckets go to others.
	OwnerTimeout time.Duration
	// Alone: owners that are not live were processes before this one, and had their
	// executions in themselves.
	Alone bool
}

// ActionKind is what is to be done with a bucket.
type ActionKind uint8

// The kinds of actions.
const (
	AssignBucket ActionKind = iota // give it to Owner
	CloseBucket                    // its creator is gone
	RemoveBucket                   // if it is empty
)

// Action is a step of the allocation. Each is conditional in the store on the epoch of
// the row that it was made from, so that of two leaders that act at once one has no effect.
type Action struct {
	Kind  ActionKind
	Row   actor.BucketRow
	Owner actor.HostID
}

// RemoveAfter is how long a bucket is closed before it is removed: far above every
// timeout of a commit, so that no reminder of it can come any more.
const RemoveAfter = time.Hour

// Rates of deliveries, a second.
const (
	// An instance is hot that delivers more than half as much again as all do on average,
	// and more than hotRate: below it none has trouble.
	hotRate = 1000
	// A bucket is busy from busyRate on: it is dealt by its rate, and not by number.
	busyRate = hotRate / 10
	// A creator leaves a bucket from retireRate on: buckets of no more than that can be
	// shared evenly by instances that are hot.
	retireRate = hotRate / 2
)

// RetireAfter is how old a bucket is before its creator leaves it for its rate. So there
// are no more than sixty an hour of it that are not used up, whatever is created.
const RetireAfter = time.Minute

// Allocate says what a leader does with the buckets that there are: those without an
// owner, or whose owner is gone and has ended what it had under way, are dealt to the
// connected instances in turn, those in use apart from those at rest, and busy ones to the instance
// that delivers the least; those whose creator is gone are closed; those that are closed
// are removed once they are empty.
func Allocate(rows []actor.BucketRow, v View) []Action {
	if len(v.Connected) == 0 {
		return nil
	}
	counts, rates := countOwned(rows, v.Connected), ratesOf(rows, v.Connected)
	var actions []Action
	for _, r := range rows {
		if !r.Closed && !slices.Contains(v.Live, r.Creator) {
			actions = append(actions, Action{Kind: CloseBucket, Row: r})
		}
		if r.Closed && r.ClosedAt.Before(v.Now.Add(-RemoveAfter)) {
			actions = append(actions, Action{Kind: RemoveBucket, Row: r})
		}
		if slices.Contains(v.Live, r.Owner) {
			continue
		}
		if gone, known := v.Gone[r.Owner]; r.Owner != "" && !v.Alone && (!known || gone < v.OwnerTimeout) {
			continue // what it had under way may not have ended yet
		}
		owner := v.Connected[0]
		for _, id := range v.Connected[1:] {
			less := counts[use{id, r.Closed}] < counts[use{owner, r.Closed}]
			if busy(&r) {
				less = rates[id] < rates[owner]
			}
			if less {
				owner = id
			}
		}
		if !busy(&r) {
			counts[use{owner, r.Closed}]++
		}
		rates[owner] += uint64(r.Rate)
		actions = append(actions, Action{Kind: AssignBucket, Row: r, Owner: owner})
	}
	return actions
}

func busy(r *actor.BucketRow) bool { return r.Rate >= busyRate }

// use is an instance and whether buckets are at rest.
type use struct {
	owner  actor.HostID
	closed bool
}

// countOwned counts the buckets that are not busy.
func countOwned(rows []actor.BucketRow, live []actor.HostID) map[use]int {
	counts := map[use]int{}
	for _, r := range rows {
		if !busy(&r) && slices.Contains(live, r.Owner) {
			counts[use{r.Owner, r.Closed}]++
		}
	}
	return counts
}

// ratesOf returns what each live instance delivers.
func ratesOf(rows []actor.BucketRow, live []actor.HostID) map[actor.HostID]uint64 {
	rates := map[actor.HostID]uint64{}
	for _, r := range rows {
		if slices.Contains(live, r.Owner) {
			rates[r.Owner] += uint64(r.Rate)
		}
	}
	return rates
}

// Surplus returns the buckets that an instance has above its share, rounded up, of those
// that are not busy: of these see [Shed]. It gives each up once it has nothing of it under
// way, and the leader deals it anew. What it creates from goes last: it hears at once of what is
// set there.
func Surplus(rows []actor.BucketRow, live []actor.HostID, self actor.HostID) []actor.BucketRow {
	if len(live) < 2 || !slices.Contains(live, self) {
		return nil
	}
	var surplus []actor.BucketRow
	for _, closed := range []bool{false, true} {
		var own, others []actor.BucketRow // others: what another instance creates from, or did
		total := 0
		for _, r := range rows {
			if r.Closed != closed || busy(&r) {
				continue
			}
			total++
			switch {
			case r.Owner != self:
			case r.Creator == self:
				own = append(own, r)
			default:
				others = append(others, r)
			}
		}
		fair := (total + len(live) - 1) / len(live)
		if own = append(own, others...); len(own) > fair {
			surplus = append(surplus, own[fair:]...)
		}
	}
	return surplus
}

// Shed returns the bucket that an instance gives up since it is hot, if there is one: the
// busiest of those that leave the instance which delivers the least with three quarters at
// most of what this one delivers now. So each move makes the shares more even, and none is
// taken back. A bucket that is hot alone stays where it is, and others go. What this
// instance creates from stays too: it hears at once of what is set there, and another one
// would only with its next poll.
//
// One at a time: begun is the one that it was the last time, if any, and is brought to its
// end whatever the rates are by now.
func Shed(rows []actor.BucketRow, live []actor.HostID, self actor.HostID, begun actor.Bucket) []actor.BucketRow {
	if len(live) < 2 || !slices.Contains(live, self) {
		return nil
	}
	rates := ratesOf(rows, live)
	own, total, least := rates[self], uint64(0), rates[self]
	for _, id := range live {
		total += rates[id]
		least = min(least, rates[id])
	}
	hot := own > hotRate && 2*own*uint64(len(live)) > 3*total
	var shed []actor.BucketRow
	for _, r := range rows {
		switch {
		case r.Owner != self:
		case r.Bucket == begun:
			return []actor.BucketRow{r}
		case !hot || !busy(&r) || r.Creator == self && !r.Closed:
		case 4*(least+uint64(r.Rate)) > 3*own:
		case len(shed) == 0 || r.Rate > shed[0].Rate:
			shed = []actor.BucketRow{r}
		}
	}
	return shed
}

// Retire returns the buckets that a creator leaves before they are used up, since they are
// hot: this is how a bucket is split, in what was set and what is to come. One alone has
// nobody to share with.
func Retire(rows []actor.BucketRow, live []actor.HostID, self actor.HostID, now time.Time) (hot []actor.BucketRow) {
	for _, r := range rows {
		if len(live) > 1 && r.Creator == self && !r.Closed && r.Rate >= retireRate && !r.CreatedAt.After(now.Add(-RetireAfter)) {
			hot = append(hot, r)
		}
	}
	return hot
}
