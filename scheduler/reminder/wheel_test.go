package reminder

import (
	"cmp"
	"runtime"
	"slices"
	"testing"
	"time"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/greenroom-run/greenroom/actor"
)

func tokenID(n uint32) actor.ReminderID {
	return actor.ReminderID{Prefix: actor.Prefix(1 + n%3), Token: n, Vector: actor.Vector([]byte("abcdefgh"))}
}

// Whatever is inserted and cancelled, what the wheel gives out is what a sorted list
// does: everything due, nothing early, nothing twice, and the ticks in order.
func TestWheelAgainstASortedList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.UnixMicro(rapid.Int64Range(0, 1<<52).Draw(t, "start")).UTC()
		w := NewWheel(now)
		var list []Due
		entries := map[actor.ReminderID]Entry{}
		token := uint32(0)
		overdue := false
		span := func(label string) time.Duration {
			return time.Duration(rapid.Int64Range(0, 1<<rapid.IntRange(1, 46).Draw(t, label+" bits")).Draw(t, label)) * time.Microsecond
		}
		t.Repeat(map[string]func(*rapid.T){
			"insert": func(t *rapid.T) {
				at := now.Add(span("after"))
				if rapid.IntRange(0, 9).Draw(t, "past") == 0 {
					at = now.Add(-span("before"))
					overdue = true // such come first, whenever they were due
				}
				id := tokenID(token)
				token++
				entries[id] = w.Insert(id, at)
				if w.ID(entries[id]) != id {
					t.Fatalf("entry of %v is of %v", id, w.ID(entries[id]))
				}
				list = append(list, Due{id, at})
			},
			"cancel": func(t *rapid.T) {
				if len(list) == 0 {
					t.Skip("empty")
				}
				i := rapid.IntRange(0, len(list)-1).Draw(t, "which")
				w.Cancel(entries[list[i].ID])
				list = slices.Delete(list, i, i+1)
			},
			"advance": func(t *rapid.T) {
				now = now.Add(span("by"))
				limit := rapid.IntRange(1, 5).Draw(t, "limit")
				var got []Due
				for {
					some := w.Advance(now, nil, limit)
					got = append(got, some...)
					if len(some) < limit {
						break
					}
				}
				sortDue(list)
				n := 0
				for n < len(list) && !list[n].At.After(now) {
					n++
				}
				want := list[:n]
				if !overdue && !slices.IsSortedFunc(got, func(a, b Due) int { return cmp.Compare(a.At.UnixMicro()/tick, b.At.UnixMicro()/tick) }) {
					t.Fatalf("not in order: %v", got)
				}
				overdue = false
				sortDue(got)
				if !slices.Equal(got, want) {
					t.Fatalf("at %s\ngot  %v\nwant %v", now, got, want)
				}
				list = slices.Clone(list[n:])
			},
			"": func(t *rapid.T) {
				next, ok := w.Next()
				sortDue(list)
				if ok != (len(list) > 0) || ok && next.After(list[0].At) && next.After(now) {
					t.Fatalf("next is %v, %t, and the first %v", next, ok, list)
				}
				if w.Len() != len(list) {
					t.Fatalf("%d entries, want %d", w.Len(), len(list))
				}
			},
		})
	})
}

func BenchmarkWheel(b *testing.B) {
	const n = 4_000_000
	now := start
	random := func(i int) time.Time { return now.Add(time.Duration(uint64(i) * 2654435761 % 3_600_000_000 * 1000)) }
	for b.Loop() {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		w := NewWheel(now)
		began := time.Now()
		for i := range n {
			w.Insert(tokenID(uint32(i)), random(i))
		}
		inserted := time.Since(began)
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/n, "B/entry")
		b.ReportMetric(n/inserted.Seconds(), "inserts/s")
		began = time.Now()
		for e := range n / 10 {
			w.Cancel(Entry(10*e + 1))
		}
		b.ReportMetric(float64(time.Since(began).Nanoseconds())/(n/10), "ns/cancel")
		began = time.Now()
		var due []Due
		given := 0
		for at := now; w.Len() > 0; at = at.Add(time.Second) {
			due = w.Advance(at, due[:0], n)
			given += len(due)
		}
		b.ReportMetric(float64(time.Since(began).Nanoseconds())/float64(given), "ns/due")
		if given != n-n/10 {
			b.Fatalf("%d given out", given)
		}
	}
}

// TestWheelEntrySize keeps what the bound of memory rests on: an entry of 32 bytes, and
// the growth of its slice by at most a quarter, beside what knows a reminder by its ID.
func TestWheelEntrySize(t *testing.T) {
	if size := unsafe.Sizeof(entry{}); size != 32 {
		t.Errorf("an entry has %d bytes", size)
	}
}

// A clock that goes back, by little or by much, holds up nothing that is inserted then, and
// what was there comes at its time.
func TestWheelWhenTheClockGoesBack(t *testing.T) {
	for _, back := range []time.Duration{300 * time.Millisecond, time.Hour} {
		t.Run(back.String(), func(t *testing.T) {
			start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
			w := NewWheel(start)
			before, after := actor.ReminderID{Prefix: 1, Token: 1}, actor.ReminderID{Prefix: 1, Token: 2}
			w.Insert(before, start.Add(time.Minute))
			if due := w.Advance(start, nil, 10); len(due) != 0 {
				t.Fatal(due)
			}
			now := start.Add(-back)
			w.Advance(now, nil, 10)
			w.Insert(after, now.Add(100*time.Millisecond))
			if next, ok := w.Next(); !ok || next.After(now.Add(100*time.Millisecond)) {
				t.Errorf("the next is at %v, %t", next, ok)
			}
			if due := w.Advance(now.Add(99*time.Millisecond), nil, 10); len(due) != 0 {
				t.Errorf("early: %v", due)
			}
			if due := w.Advance(now.Add(100*time.Millisecond), nil, 10); len(due) != 1 || due[0].ID != after {
				t.Errorf("%v, want %v", due, after)
			}
			if due := w.Advance(start.Add(59*time.Second), nil, 10); len(due) != 0 {
				t.Errorf("early: %v", due)
			}
			if due := w.Advance(start.Add(time.Minute), nil, 10); len(due) != 1 || due[0].ID != before || w.Len() != 0 {
				t.Errorf("%v, want %v", due, before)
			}
		})
	}
}

// However many reminders are due at one instant, no more than the limit are taken at a time, and
// those that were inserted first go first.
func TestWheelTakesNoMoreThanTheLimit(t *testing.T) {
	const n, limit = 1_000, 64
	w := NewWheel(start)
	at := start.Add(time.Second)
	for i := range uint32(n) {
		w.Insert(actor.ReminderID{Prefix: 1, Token: i}, at)
	}
	taken := uint32(0)
	for taken < n {
		due := w.Advance(at, nil, limit)
		if len(due) != min(limit, int(n-taken)) {
			t.Fatalf("%d were taken after %d, the limit is %d", len(due), taken, limit)
		}
		for _, d := range due {
			if d.ID.Token != taken {
				t.Fatalf("number %d comes after %d", d.ID.Token, taken)
			}
			taken++
		}
	}
}
