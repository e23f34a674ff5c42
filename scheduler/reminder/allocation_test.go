package reminder

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
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
	view := View{Now: now, Live: []actor.HostID{"a", "b", "stranger"}, Connected: []actor.HostID{"a", "b"}, OwnerTimeout: time.Minute,
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
		{"until it has ended what it had under way", []actor.BucketRow{row(0, "a", "old")}, "assign 0 a"},
		{"who is there and not connected keeps its own, and is dealt none", []actor.BucketRow{row(0, "stranger", "stranger"), row(1, "a", ""), row(2, "a", ""), row(3, "a", "")}, "assign 1 a, assign 2 b, assign 3 a"},
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
// may still use is never removed, a lost owner's buckets go to nobody before it has been
// gone for long enough, and in the end each bucket has one live owner and the
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
			perform(Allocate(seen, View{Now: now, Live: alive, Connected: alive, Gone: since, OwnerTimeout: timeout}))
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
				for _, r := range append(Surplus(list(), live(), id), Shed(list(), live(), id, actor.Bucket{})...) {
					assign(r, "")
				}
			},
			"rates": func(t *rapid.T) {
				for _, r := range list() {
					rows[r.Bucket].Rate = rapid.SampledFrom([]uint32{0, 0, busyRate, retireRate, 3 * hotRate}).Draw(t, "rate")
				}
			},
			"retire": func(t *rapid.T) {
				id := rapid.SampledFrom(live()).Draw(t, "who")
				for _, r := range Retire(list(), live(), id, now) {
					if retired, err := hosts[id].replace(context.Background(), r.App, r.Bucket); retired {
						rows[r.Bucket].Closed, rows[r.Bucket].ClosedAt = true, now
					} else if err != nil && !errors.Is(err, lost) {
						t.Fatal(err)
					}
				}
			},
		})
		// In the end, when all is quiet.
		for _, r := range rows {
			r.Rate = 0
		}
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

// What an instance creates from is the last that it gives up: it hears at once of what is set
// there, and another one would only with its next look.
func TestSurplusKeepsWhatIsCreatedHere(t *testing.T) {
	rows := []actor.BucketRow{
		{Bucket: actor.Bucket{Prefix: 1, Index: 0}, Creator: "b", Owner: "a"},
		{Bucket: actor.Bucket{Prefix: 1, Index: 1}, Creator: "a", Owner: "a"},
	}
	got := Surplus(rows, []actor.HostID{"a", "b"}, "a")
	if len(got) != 1 || got[0].Bucket.Index != 0 {
		t.Errorf("gives up %v", got)
	}
}

// TestShed: an instance that is far busier than the others gives busy buckets up, one at a
// time, to those that deliver the least, until the shares are even enough; then nothing
// moves any more. Those that are not busy are shared by number meanwhile.
func TestShed(t *testing.T) {
	type rates map[actor.HostID][]uint32
	live := []actor.HostID{"a", "b", "c"}
	for _, tt := range []struct {
		name  string
		rates rates
		shed  string // the rates that a gives up at first
		then  rates  // what each has in the end, the busiest first
	}{
		{"nothing to do", rates{"a": {0, 0}, "b": {0}, "c": {0}}, "[]", rates{"a": {0, 0}, "b": {0}, "c": {0}}},
		{"even", rates{"a": {900, 900}, "b": {900, 800}, "c": {900, 700}}, "[]", rates{"a": {900, 900}, "b": {900, 800}, "c": {900, 700}}},
		{"below the rate that matters", rates{"a": {500, 490}, "b": {0}, "c": {0}}, "[]", rates{"a": {500, 490}, "b": {0}, "c": {0}}},
		{"not far above the mean", rates{"a": {1000, 500}, "b": {900, 300}, "c": {400, 0}}, "[]", rates{"a": {1000, 500}, "b": {900, 300}, "c": {400, 0}}},
		{"two hot ones are parted", rates{"a": {3000, 2000}, "b": {0, 0}, "c": {10, 0}}, "[3000]", rates{"a": {2000}, "b": {3000, 0, 0}, "c": {10, 0}}},
		{"one that is hot alone stays, and the others go", rates{"a": {9000, 200, 0}, "b": {100, 0, 0}, "c": {0, 0, 0}}, "[200]", rates{"a": {9000, 0, 0}, "b": {100, 0, 0}, "c": {200, 0, 0}}},
		{"one alone cannot be divided", rates{"a": {9000}, "b": {0}, "c": {0}}, "[]", rates{"a": {9000}, "b": {0}, "c": {0}}},
		{"a busy one is not given back for the number", rates{"a": {9000}, "b": {500, 500, 500}, "c": {900}}, "[]", rates{"a": {9000}, "b": {500, 500, 500}, "c": {900}}},
		{"step by step", rates{"a": {2000, 2000, 2000, 2000}, "b": {0, 0, 0}, "c": {0, 0, 0}}, "[2000]",
			rates{"a": {2000, 2000, 0, 0}, "b": {2000, 0, 0}, "c": {2000, 0, 0}}},
	} {
		var rows []actor.BucketRow
		for _, id := range live {
			for _, rate := range tt.rates[id] {
				rows = append(rows, actor.BucketRow{
					Bucket: actor.Bucket{Prefix: 1, Index: uint32(len(rows)), Vector: anID.Vector}, Creator: id, Closed: true, ClosedAt: start,
					Owner: id, Epoch: 3, Rate: rate,
				})
			}
		}
		got := []uint32{}
		for _, r := range Shed(rows, live, "a", actor.Bucket{}) {
			got = append(got, r.Rate)
		}
		if fmt.Sprint(got) != tt.shed {
			t.Errorf("%s: gives up %v, want %s", tt.name, got, tt.shed)
		}
		// Until nothing moves any more, as [Service] does it.
		moves := 1
		for round := 0; moves > 0; round++ {
			if moves = 0; round == 20 {
				t.Fatalf("%s: does not settle: %v", tt.name, rows)
			}
			seen := slices.Clone(rows)
			for _, id := range live {
				for _, r := range append(Surplus(seen, live, id), Shed(seen, live, id, actor.Bucket{})...) {
					rows[r.Bucket.Index].Owner = ""
					moves++
				}
			}
			for _, a := range Allocate(rows, View{Now: start, Live: live, Connected: live}) {
				rows[a.Row.Bucket.Index].Owner = a.Owner
			}
		}
		end := rates{}
		for _, r := range rows {
			end[r.Owner] = append(end[r.Owner], r.Rate)
		}
		for _, list := range end {
			slices.SortFunc(list, func(a, b uint32) int { return int(b) - int(a) })
		}
		if fmt.Sprint(end) != fmt.Sprint(tt.then) {
			t.Errorf("%s: ends with %v, want %v", tt.name, end, tt.then)
		}
	}

	row := func(i uint32, creator actor.HostID, closed bool, rate uint32) actor.BucketRow {
		return actor.BucketRow{Bucket: actor.Bucket{Prefix: 1, Index: i, Vector: anID.Vector}, Creator: creator, Closed: closed, Owner: "a", Epoch: 3, Rate: rate}
	}
	rows := []actor.BucketRow{row(0, "a", false, 2000), row(1, "a", true, 800), row(2, "b", false, 900)}
	check := func(what string, live []actor.HostID, begun, want int) {
		t.Helper()
		var bucket actor.Bucket
		if begun >= 0 {
			bucket = rows[begun].Bucket
		}
		got := Shed(rows, live, "a", bucket)
		if len(got) > 1 || want < 0 && len(got) != 0 || want >= 0 && (len(got) != 1 || got[0] != rows[want]) {
			t.Errorf("%s: %v, want %d", what, got, want)
		}
	}
	check("not what it creates from, though that is the busiest", live, -1, 2)
	check("a move that has begun goes on", live, 1, 1)
	check("nobody to give it to", live[:1], 1, -1)
	check("taken for gone", live[1:], 1, -1)
	rows[0].Rate, rows[1].Rate, rows[2].Rate = 10, 10, 10
	check("also if it is hot no more", live, 1, 1)
	rows[1].Owner = "b"
	check("until it is done", live, 1, -1)
}

// TestRetire: a creator leaves a bucket that is hot, unless that would change nothing.
func TestRetire(t *testing.T) {
	hot := actor.BucketRow{
		Bucket: actor.Bucket{Prefix: 1, Vector: anID.Vector}, Creator: "a", Owner: "b", Epoch: 3, Rate: retireRate, CreatedAt: start.Add(-RetireAfter),
	}
	both := []actor.HostID{"a", "b"}
	for _, tt := range []struct {
		name   string
		live   []actor.HostID
		change func(*actor.BucketRow)
		want   bool
	}{
		{"hot", both, func(*actor.BucketRow) {}, true},
		{"not hot enough", both, func(r *actor.BucketRow) { r.Rate-- }, false},
		{"too young", both, func(r *actor.BucketRow) { r.CreatedAt = r.CreatedAt.Add(1) }, false},
		{"of another creator", both, func(r *actor.BucketRow) { r.Creator = "b" }, false},
		{"closed already", both, func(r *actor.BucketRow) { r.Closed = true }, false},
		{"nobody to share with", both[:1], func(*actor.BucketRow) {}, false},
	} {
		r := hot
		tt.change(&r)
		if got := Retire([]actor.BucketRow{r}, tt.live, "a", start); (len(got) == 1) != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}

// TestReplaceGivesNoTokenTwice takes tokens while their buckets are replaced, over and over:
// none comes twice, nor from a bucket that was left.
func TestReplaceGivesNoTokenTwice(t *testing.T) {
	var mu sync.Mutex
	next, given, left := uint32(0), map[actor.ReminderID]bool{}, map[actor.Bucket]bool{}
	c := newCreator(func(context.Context, string) (actor.BucketRow, error) {
		mu.Lock()
		defer mu.Unlock()
		next++
		return actor.BucketRow{Bucket: actor.Bucket{Prefix: 1, Vector: anID.Vector, Index: next}}, nil
	})
	take := func() actor.ReminderID {
		mu.Lock()
		before := maps.Clone(left)
		mu.Unlock()
		id, _, err := c.take(t.Context(), "app", func(func()) {})
		mu.Lock()
		defer mu.Unlock()
		if err != nil || given[id] || before[id.Bucket()] {
			t.Errorf("%v, %v: given before %t, of a bucket that was left %t", id, err, given[id], before[id.Bucket()])
		}
		given[id] = true
		return id
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 500 {
				take()
			}
		})
	}
	replaced := 0
	for range 100 {
		b := take().Bucket()
		done, err := c.replace(t.Context(), "app", b)
		if err != nil {
			t.Error(err)
		}
		if done {
			replaced++
			mu.Lock()
			left[b] = true
			mu.Unlock()
		}
		if again, err := c.replace(t.Context(), "app", b); again || err != nil {
			t.Errorf("%v was replaced twice: %v", b, err)
		}
	}
	wg.Wait()
	if replaced != 100 {
		t.Errorf("%d of 100 buckets were replaced", replaced)
	}
	if done, err := c.replace(t.Context(), "other", actor.Bucket{}); done || err != nil {
		t.Errorf("of an app that has none: %t, %v", done, err)
	}
}

// TestRateOfABucket is what its owner delivers, also to subscribers, and in the end nothing.
func TestRateOfABucket(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.start(w.config())
		var r actor.Reminder
		for i := range 10 {
			r = w.set(s, fmt.Sprint(i), true, every(100*time.Millisecond, 1500))
		}
		rate := func() uint32 {
			w.store.mu.Lock()
			defer w.store.mu.Unlock()
			return w.store.buckets[r.ID.Bucket()].Rate
		}
		after(2 * time.Minute)
		if got := rate(); got < 75 || got > 105 {
			t.Errorf("100 a second are %d", got)
		}
		after(5 * time.Minute)
		if got := rate(); got != 0 || len(w.host.list()) != 15_000 {
			t.Errorf("after the last of %d firings it is %d", len(w.host.list()), got)
		}
		c := w.subscribe(s, 1, "jobs")
		w.set(s, "a", true, forSubscribers(every(50*time.Millisecond, 0)))
		for range 60 * 20 {
			after(50 * time.Millisecond)
			for list, _ := take(c); len(list) > 0; list, _ = take(c) {
				answer(t, c, list[0].ID, nil)
			}
		}
		if got := rate(); got < 10 {
			t.Errorf("20 a second to a subscriber are %d", got)
		}
	})
}

// TestHotBucketsAreShared has one of two instances set all the reminders, which fire much:
// it leaves its bucket for another one, the other instance gets the first, and every
// reminder goes on firing, never early and never twice at once.
func TestHotBucketsAreShared(t *testing.T) {
	inBubble(t, func(w *world) {
		a, b, _ := w.startPair(nil)
		set := func(names string, n int, first time.Duration) (bucket actor.Bucket) {
			for n := range n { // 20 a second each
				bucket = w.set(a, fmt.Sprint(names, n), true, func(sp *actor.ReminderSpec) {
					sp.Schedule.After, sp.Schedule.Every = first, 50*time.Millisecond
				}).ID.Bucket()
			}
			return bucket
		}
		first := set("first", 60, 35*time.Second)
		after(34 * time.Second)
		second := set("early", 1, time.Second)
		if first != second {
			t.Fatalf("%v was left for %v before it was hot", first, second)
		}
		after(34 * time.Second)
		if second = set("second", 100, 0); first == second {
			t.Fatalf("reminders are still set in the hot %v: %+v", first, w.store.buckets[first])
		}
		after(20 * time.Second)
		if !b.pending.owns(first) || a.pending.owns(first) || !a.pending.owns(second) {
			t.Errorf("%+v, %+v", w.store.buckets[first], w.store.buckets[second])
		}
		if r := w.store.buckets[first]; !r.Closed || r.Owner != b.tenure.self {
			t.Errorf("%+v", r)
		}
		fired := map[string]time.Time{}
		for _, f := range w.host.list() {
			if f.at.Before(f.due) {
				t.Fatalf("early: %+v", f)
			}
			fired[f.name] = f.at
		}
		for name, at := range fired {
			if time.Since(at) > time.Second {
				t.Errorf("%s fired last %v ago", name, time.Since(at))
			}
		}
		if len(fired) != 161 || w.host.overlaps > 0 {
			t.Errorf("%d of 161 fire, %d of one reminder at once", len(fired), w.host.overlaps)
		}
	})
}

// TestHotBucketIsClosedAfterAll has the store fail when a hot bucket is to be closed.
func TestHotBucketIsClosedAfterAll(t *testing.T) {
	inBubble(t, func(w *world) {
		a, _, _ := w.startPair(nil)
		var failures atomic.Int32
		w.store.fails(func(op string) error {
			if op == "close" && failures.Load() < 2 {
				failures.Add(1)
				return actor.ErrUnavailable
			}
			return nil
		})
		b := w.set(a, "first", true, once(time.Hour)).ID.Bucket()
		w.store.mu.Lock()
		r := w.store.buckets[b]
		r.Rate, r.CreatedAt = hotRate, r.CreatedAt.Add(-time.Hour)
		w.store.buckets[b] = r
		w.store.mu.Unlock()
		after(pollEvery + time.Second)
		if next := w.set(a, "second", true, once(time.Hour)).ID.Bucket(); next == b {
			t.Errorf("%v is still created from", b)
		}
		if row := w.store.bucket(b); failures.Load() == 0 || row.Closed {
			t.Fatalf("closed at once: %+v", row)
		}
		after(3 * pollEvery)
		if row := w.store.bucket(b); failures.Load() != 2 || !row.Closed {
			t.Errorf("not closed after %d failures: %+v", failures.Load(), row)
		}
	})
}
