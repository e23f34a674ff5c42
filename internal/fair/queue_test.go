package fair

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// The queue keeps to a model that knows nothing of turns: what waits, in which order of its
// type, what runs, and the bounds.
func TestQueueKeepsItsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := Config{
			Waiting:        Bounds{PerApp: rapid.Int64Range(1, 6).Draw(t, "waiting")},
			Bytes:          Bounds{PerApp: 50},
			Running:        Bounds{Total: rapid.Int64Range(0, 6).Draw(t, "running"), PerApp: rapid.Int64Range(0, 4).Draw(t, "runningPerApp")},
			RunningPerType: rapid.Int64Range(0, 3).Draw(t, "runningPerType"),
			Quantum:        rapid.Int64Range(1, 5).Draw(t, "quantum"),
		}
		q := New[int](cfg)
		counts := cfg.Running.Total+cfg.Running.PerApp+cfg.RunningPerType > 0
		var waiting, running []*Entry[int]
		of := func(es []*Entry[int], app, typ string) (n, bytes int64) {
			for _, e := range es {
				if (app == "" || e.App == app) && (typ == "" || e.Type == typ) {
					n, bytes = n+1, bytes+e.Bytes
				}
			}
			return n, bytes
		}
		mayRun := func(e *Entry[int]) bool {
			if !counts {
				return true
			}
			all, _ := of(running, "", "")
			app, _ := of(running, e.App, "")
			typ, _ := of(running, e.App, e.Type)
			total, perApp := cfg.Running.Total, cfg.Running.PerApp
			return (total == 0 || all < total) && (perApp == 0 || app < perApp) && (cfg.RunningPerType == 0 || typ < cfg.RunningPerType)
		}
		number := 0
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				number++
				e := &Entry[int]{
					App: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "app"), Type: rapid.SampledFrom([]string{"x", "y"}).Draw(t, "type"),
					Cost: rapid.Int64Range(0, 20).Draw(t, "cost"), Bytes: rapid.Int64Range(0, 20).Draw(t, "bytes"), Value: number,
				}
				n, bytes := of(waiting, e.App, "")
				fits := n < cfg.Waiting.PerApp && bytes+e.Bytes <= cfg.Bytes.PerApp
				err := q.Push(e)
				if full := (*FullError)(nil); fits != (err == nil) || err != nil && (!errors.As(err, &full) || full.App != e.App) {
					t.Fatalf("pushing to %d with %d bytes: %v", n, bytes, err)
				}
				if fits {
					waiting = append(waiting, e)
				}
			},
			"run": func(t *rapid.T) {
				number++
				e := &Entry[int]{
					App: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "app"), Type: rapid.SampledFrom([]string{"x", "y"}).Draw(t, "type"), Value: number,
				}
				want := len(waiting) == 0 && mayRun(e)
				if q.Run(e) != want {
					t.Fatalf("%+v runs at once, want %v; %d wait", e, want, len(waiting))
				}
				if want && counts {
					running = append(running, e)
				}
			},
			"next": func(t *rapid.T) {
				e := q.Next()
				if e == nil {
					if slices.ContainsFunc(waiting, mayRun) {
						t.Fatal("an entry may run and is not dealt")
					}
					return
				}
				first := waiting[slices.IndexFunc(waiting, func(o *Entry[int]) bool { return o.App == e.App && o.Type == e.Type })]
				if first != e || !mayRun(e) {
					t.Fatalf("dealt %+v before %+v", e, first)
				}
				waiting = slices.DeleteFunc(waiting, func(o *Entry[int]) bool { return o == e })
				if counts {
					running = append(running, e)
				}
			},
			"remove": func(t *rapid.T) {
				all := append(slices.Clone(waiting), running...)
				if len(all) == 0 {
					return
				}
				e := rapid.SampledFrom(all).Draw(t, "entry")
				q.Remove(e)
				q.Remove(e)
				gone := func(o *Entry[int]) bool { return o == e }
				waiting, running = slices.DeleteFunc(waiting, gone), slices.DeleteFunc(running, gone)
			},
			"": func(t *rapid.T) {
				n, _ := of(waiting, "a", "")
				if q.Len() != len(waiting) || q.Running() != len(running) || int(q.waiting.Has("a")) != int(n) {
					t.Fatalf("%d wait, %d of a, %d run; the queue says %d, %d, %d", len(waiting), n, len(running), q.Len(), int(q.waiting.Has("a")), q.Running())
				}
				if len(waiting) == 0 && len(q.apps.byName)+q.apps.order.Len()+len(q.waiting.apps)+len(q.bytes.apps) > 0 {
					t.Fatal("nothing waits, and an app is kept")
				}
				if len(running) == 0 && len(q.running.apps)+len(q.types) > 0 {
					t.Fatal("nothing runs, and an app is kept")
				}
			},
		})
	})
}

// Apps, and types of an app, are served in proportion to their weights whatever their
// entries cost and how many they have, in each interval in which both wait.
func TestQueueServesInProportion(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weights := map[string]int64{"a": rapid.Int64Range(1, 4).Draw(t, "a"), "b": rapid.Int64Range(1, 4).Draw(t, "b"), "c": 1}
		quantum := rapid.Int64Range(1, 50).Draw(t, "quantum")
		q := New[struct{}](Config{Weight: func(app string) int64 { return weights[app] }, Quantum: quantum})
		largest := int64(0)
		push := func(app, typ string, most int64) {
			e := &Entry[struct{}]{App: app, Type: typ, Cost: rapid.Int64Range(1, most).Draw(t, "cost")}
			largest = max(largest, e.Cost)
			if err := q.Push(e); err != nil {
				t.Fatal(err)
			}
		}
		// Each type always has something: before the last one is dealt, another comes.
		most := map[string]int64{"ax": 1, "ay": 1000, "bx": 30, "cx": rapid.Int64Range(1, 2000).Draw(t, "most")}
		for _, f := range []string{"ax", "ay", "bx", "cx"} {
			for range rapid.IntRange(2, 5).Draw(t, "entries") {
				push(f[:1], f[1:], most[f])
			}
		}
		type lead struct{ least, most int64 }
		served := map[string]int64{}
		leads := map[string]*lead{}
		check := func(of string, by, bound int64) {
			l := leads[of]
			if l == nil {
				l = &lead{}
				leads[of] = l
			}
			l.least, l.most = min(l.least, by), max(l.most, by)
			if l.most-l.least > bound {
				t.Fatalf("in some interval, one of %s was served %d more than the other; quantum %d, largest cost %d", of, l.most-l.least, quantum, largest)
			}
		}
		for range 200 {
			e := q.Next()
			served[e.App] += e.Cost * 12 / weights[e.App]
			served[e.App+e.Type] += e.Cost
			push(e.App, e.Type, most[e.App+e.Type])
			bound := 12*(quantum+2*largest) + 200 // the divisions above round
			check("ab", served["a"]-served["b"], bound)
			check("ac", served["a"]-served["c"], bound)
			check("bc", served["b"]-served["c"], bound)
			check("ax ay", served["ax"]-served["ay"], quantum+2*largest)
		}
	})
}

// Rounds in which no flow can pay are not walked.
func TestQueueSkipsRounds(t *testing.T) {
	q := New[int](Config{})
	for n := range 3 {
		if err := q.Push(&Entry[int]{App: fmt.Sprint(n), Cost: 1 << 60, Value: n}); err != nil {
			t.Fatal(err)
		}
	}
	for n := range 3 {
		if e := q.Next(); e.Value != n {
			t.Fatalf("dealt %d, want %d", e.Value, n)
		}
	}
}

// A flood of one app delays the one entry of another by one entry.
func TestQueueFlood(t *testing.T) {
	q := New[int](Config{Running: Bounds{Total: 1}})
	flood := func() {
		if err := q.Push(&Entry[int]{App: "loud"}); err != nil {
			t.Fatal(err)
		}
	}
	for range 1000 {
		flood()
	}
	runs := q.Next()
	if err := q.Push(&Entry[int]{App: "quiet"}); err != nil {
		t.Fatal(err)
	}
	for n := range 2 {
		q.Remove(runs)
		runs = q.Next()
		if runs.App == "quiet" {
			return
		}
		flood()
		t.Log(n)
	}
	t.Error("the other app's entry waits for more than one")
}
