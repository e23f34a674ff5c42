package reminder

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/greenroom-run/greenroom/actor"
)

func TestAllocate(t *testing.T) {
	now := start
	row := func(i uint32, creator, owner actor.HostID) actor.BucketRow {
		return actor.BucketRow{Bucket: actor.Bucket{Prefix: 1, Index: i, Vector: anID.Vector}, Creator: creator, Owner: owner, Epoch: 3}
	}
	closed := func(r actor.BucketRow, ago time.Duration) actor.BucketRow {
		r.Closed, r.ClosedAt = true, now.Add(-ago)
		return r
	}
	view := View{Now: now, Live: []actor.HostID{"a", "b"}, ExecutionTimeout: time.Minute,
		Gone: map[actor.HostID]time.Duration{"old": time.Minute, "fresh": time.Second}}
	for _, tt := range []struct {
		name string
		rows []actor.BucketRow
		want string
	}{
		{"all is well", []actor.BucketRow{row(0, "a", "a"), row(1, "b", "b")}, ""},
		{"free ones are dealt in turn", []actor.BucketRow{row(0, "a", ""), row(1, "a", ""), row(2, "b", "")}, "assign 0 a, assign 1 b, assign 2 a"},
		{"those in use apart from those at rest", []actor.BucketRow{row(0, "a", "a"), closed(row(1, "a", ""), 0), row(2, "b", "")}, "assign 1 a, assign 2 b"},
		{"a lost owner is waited for", []actor.BucketRow{row(0, "a", "fresh"), row(1, "a", "unknown")}, ""},
		{"until its executions have timed out", []actor.BucketRow{row(0, "a", "old")}, "assign 0 a"},
		{"a lost creator's bucket is closed", []actor.BucketRow{row(0, "old", "b")}, "close 0"},
		{"closed ones are removed after an hour", []actor.BucketRow{closed(row(0, "a", "a"), 59*time.Minute), closed(row(1, "old", "b"), 61*time.Minute)}, "remove 1"},
	} {
		var got string
		for _, a := range Allocate(tt.rows, view) {
			if got != "" {
				got += ", "
			}
			switch a.Kind {
			case AssignBucket:
				got += fmt.Sprintf("assign %d %s", a.Row.Bucket.Index, a.Owner)
			case CloseBucket:
				got += fmt.Sprintf("close %d", a.Row.Bucket.Index)
			case RemoveBucket:
				got += fmt.Sprintf("remove %d", a.Row.Bucket.Index)
			}
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// Instances, creators and leaders come and go, leaders act on what they read some time
// ago, and answers are lost: no token is given out twice, a bucket that some creator
// may still use is never removed, a lost owner's buckets go to nobody before its
// executions have timed out, and in the end each bucket has one live owner and the
// shares are even.
func TestAllocationModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const timeout = time.Minute
		now := start
		rows := map[actor.Bucket]*actor.BucketRow{}
		next := map[string]uint32{}
		given := map[actor.ReminderID]bool{}
		hosts := map[actor.HostID]*creator{}
		died := map[actor.HostID]time.Time{}
		gone := map[actor.HostID]map[actor.HostID]time.Time{} // what each leader knows
		born := 0
		live := func() []actor.HostID {
			var ids []actor.HostID
			for id := range hosts {
				ids = append(ids, id)
			}
			slices.Sort(ids)
			return ids
		}
		list := func() []actor.BucketRow {
			var all []actor.BucketRow
			for _, r := range rows {
				all = append(all, *r)
			}
			slices.SortFunc(all, func(a, b actor.BucketRow) int { return int(a.Bucket.Index) - int(b.Bucket.Index) })
			return all
		}
		lost := errors.New("lost")
		join := func() {
			born++
			id := actor.HostID(fmt.Sprint("h", born))
			hosts[id] = newCreator(func(_ context.Context, app string) (actor.BucketRow, error) {
				b := actor.Bucket{Prefix: 1, Vector: anID.Vector, Index: next[app]}
				next[app]++
				rows[b] = &actor.BucketRow{Bucket: b, App: app, Creator: id, Epoch: 1}
				if rapid.IntRange(0, 4).Draw(t, "answer") == 0 {
					return actor.BucketRow{}, lost
				}
				return *rows[b], nil
			})
			gone[id] = map[actor.HostID]time.Time{}
		}
		assign := func(r actor.BucketRow, owner actor.HostID) {
			there := rows[r.Bucket]
			if there == nil || there.Epoch != r.Epoch {
				return
			}
			if at, dead := died[there.Owner]; dead && owner != "" && now.Before(at.Add(timeout)) {
				t.Fatalf("%v is given to %s, and what %s had under way may run", r, owner, there.Owner)
			}
			there.Owner, there.Epoch = owner, there.Epoch+1
		}
		perform := func(actions []Action) {
			for _, a := range actions {
				there := rows[a.Row.Bucket]
				if there == nil {
					continue
				}
				switch a.Kind {
				case AssignBucket:
					assign(a.Row, a.Owner)
				case CloseBucket:
					if hosts[there.Creator] != nil {
						t.Fatalf("%v is closed, and its creator lives", there)
					}
					if !there.Closed {
						there.Closed, there.ClosedAt = true, now
					}
				case RemoveBucket:
					if !there.Closed || !there.ClosedAt.Before(now.Add(-RemoveAfter)) {
						t.Fatalf("%v is removed", there)
					}
					delete(rows, a.Row.Bucket)
				}
			}
		}
		lead := func(id actor.HostID, seen []actor.BucketRow, alive []actor.HostID) {
			for _, r := range seen {
				if _, known := gone[id][r.Owner]; !known && !slices.Contains(alive, r.Owner) {
					gone[id][r.Owner] = now
				}
			}
			since := map[actor.HostID]time.Duration{}
			for owner, at := range gone[id] {
				since[owner] = now.Sub(at)
			}
			perform(Allocate(seen, View{Now: now, Live: alive, Gone: since, ExecutionTimeout: timeout}))
		}
		var stale []actor.BucketRow
		join()
		t.Repeat(map[string]func(*rapid.T){
			"join": func(*rapid.T) { join() },
			"die": func(t *rapid.T) {
				if len(hosts) < 2 {
					t.Skip()
				}
				id := rapid.SampledFrom(live()).Draw(t, "who")
				delete(hosts, id)
				died[id] = now
			},
			"create": func(t *rapid.T) {
				c := hosts[rapid.SampledFrom(live()).Draw(t, "who")]
				app := "app"
				// Many at once, so that buckets are used up.
				if x := c.apps[app]; x != nil && x.used < actor.BucketSize {
					x.used = min(actor.BucketSize, x.used+uint32(rapid.IntRange(0, actor.BucketSize/2).Draw(t, "skip")))
				}
				for range 3 {
					id, spent, err := c.take(context.Background(), app, func(do func()) {})
					if err != nil {
						continue
					}
					if given[id] {
						t.Fatalf("%s was given out twice", id)
					}
					given[id] = true
					if spent != nil && rows[*spent] != nil {
						rows[*spent].Closed, rows[*spent].ClosedAt = true, now
					}
					if rows[id.Bucket()] == nil {
						t.Fatalf("%s is of a bucket that was removed", id)
					}
				}
			},
			"read": func(*rapid.T) { stale = list() },
			"wait": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(1, 4000).Draw(t, "seconds")) * time.Second)
			},
			"lead": func(t *rapid.T) { lead(rapid.SampledFrom(live()).Draw(t, "who"), list(), live()) },
			"stale": func(t *rapid.T) {
				// It read the rows some time ago, and the hosts just now.
				lead(rapid.SampledFrom(live()).Draw(t, "who"), stale, live())
			},
			"surplus": func(t *rapid.T) {
				id := rapid.SampledFrom(live()).Draw(t, "who")
				for _, r := range Surplus(list(), live(), id) {
					assign(r, "")
				}
			},
		})
		// In the end.
		id := live()[0]
		for range 4 {
			now = now.Add(2 * timeout)
			lead(id, list(), live())
			for _, h := range live() {
				for _, r := range Surplus(list(), live(), h) {
					assign(r, "")
				}
			}
			lead(id, list(), live())
		}
		shares := map[use]int{}
		for _, r := range rows {
			if hosts[r.Owner] == nil {
				t.Fatalf("%v has no live owner", r)
			}
			shares[use{r.Owner, r.Closed}]++
		}
		for _, closed := range []bool{false, true} {
			total := 0
			for _, r := range rows {
				if r.Closed == closed {
					total++
				}
			}
			for _, h := range live() {
				if share := (total + len(hosts) - 1) / len(hosts); shares[use{h, closed}] > share {
					t.Fatalf("%s has more than %d of %d: %v", h, share, total, shares)
				}
			}
		}
	})
}
