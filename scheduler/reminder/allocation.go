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
	// Gone says for how long, at least, an owner that is not live has been gone.
	Gone map[actor.HostID]time.Duration
	// ExecutionTimeout is after which time nothing that an owner had under way runs.
	ExecutionTimeout time.Duration
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

// Allocate says what a leader does with the buckets that there are: those without an
// owner, or whose owner is gone and has nothing under way any more, are dealt to the
// instances in turn, those in use apart from those at rest; those whose creator is gone
// are closed; those that are closed are removed once they are empty.
func Allocate(rows []actor.BucketRow, v View) []Action {
	if len(v.Live) == 0 {
		return nil
	}
	counts := countOwned(rows, v.Live)
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
		if gone, known := v.Gone[r.Owner]; r.Owner != "" && !v.Alone && (!known || gone < v.ExecutionTimeout) {
			continue // what it had under way may still run
		}
		owner := v.Live[0]
		for _, id := range v.Live[1:] {
			if counts[use{id, r.Closed}] < counts[use{owner, r.Closed}] {
				owner = id
			}
		}
		counts[use{owner, r.Closed}]++
		actions = append(actions, Action{Kind: AssignBucket, Row: r, Owner: owner})
	}
	return actions
}

// use is an instance and whether buckets are at rest.
type use struct {
	owner  actor.HostID
	closed bool
}

func countOwned(rows []actor.BucketRow, live []actor.HostID) map[use]int {
	counts := map[use]int{}
	for _, r := range rows {
		if slices.Contains(live, r.Owner) {
			counts[use{r.Owner, r.Closed}]++
		}
	}
	return counts
}

// Surplus returns the buckets that an instance has above its share, rounded up. It gives
// each up once it has nothing of it under way, and the leader deals it anew.
func Surplus(rows []actor.BucketRow, live []actor.HostID, self actor.HostID) []actor.BucketRow {
	if len(live) < 2 || !slices.Contains(live, self) {
		return nil
	}
	var surplus []actor.BucketRow
	for _, closed := range []bool{false, true} {
		var own []actor.BucketRow
		total := 0
		for _, r := range rows {
			if r.Closed != closed {
				continue
			}
			total++
			if r.Owner == self {
				own = append(own, r)
			}
		}
		fair := (total + len(live) - 1) / len(live)
		if len(own) > fair {
			surplus = append(surplus, own[fair:]...)
		}
	}
	return surplus
}
