package host_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-run/greenroom/host"
)

// kidModel is what a parent and its children are where one turn follows the other.
type kidModel struct {
	n     map[string]int64 // of those that live; "a" is the parent
	back  map[string]int   // messages that came back, by who sent them and why
	dead  []string         // children that are gone
	ended map[string]bool  // those of them whose family is over
}

// kidRun is a turn of a model, with those that it calls.
type kidRun struct {
	n     map[string]int64
	fresh []string // children that it makes, in order
	made  map[string]bool
	ended map[string]bool
	open  map[string]bool
	gone  map[string]bool // have passed away in it
	tells []kidTold
}

type kidTold struct {
	from, to string
	ops      []kidOp
}

// run returns the reply of a turn of who, or the code of its failure. After a failure nothing has changed.
func (r *kidRun) run(who string, ops []kidOp) (reply, code string) {
	n, gone, tells := maps.Clone(r.n), maps.Clone(r.gone), len(r.tells)
	var texts []string
	for _, o := range ops {
		text := ""
		switch o.Do {
		case "add":
			r.n[who] += o.N
			text = fmt.Sprint(r.n[who])
		case "look":
			text = fmt.Sprint(r.n[who])
		case "new", "share":
			id := "none is left"
			if len(r.fresh) > 0 {
				id, r.fresh = r.fresh[0], r.fresh[1:]
			}
			r.made[id], text = true, id
		case "call", "must":
			text, code = r.call(who, o.To, o.Ops)
			if code != "" && o.Do == "call" {
				text, code = code, ""
			}
			text = "(" + text + ")"
		case "tell":
			if r.ended[o.To] {
				code = "untold"
			}
			r.tells = append(r.tells, kidTold{who, o.To, o.Ops})
		case "fail":
			code = "on_purpose"
		case "trap":
			code = "trap"
		case "pass":
			r.gone[who], text = true, "passed"
		}
		if code != "" {
			r.n, r.gone, r.tells = n, gone, r.tells[:tells]
			return "", code
		}
		if text != "" {
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, " "), ""
}

func (r *kidRun) call(who, to string, ops []kidOp) (reply, code string) {
	_, lives := r.n[to]
	switch {
	case r.ended[to] && who != "a":
		return "", "invalid_call"
	case r.made[to]:
		return "", "not_atomic"
	case !lives || r.gone[to] && !r.open[to]:
		return "", "passed_away"
	case r.open[to]:
		return "", "not_reentrant"
	}
	r.open[to] = true
	defer delete(r.open, to)
	return r.run(to, ops)
}

// turn runs a turn of the parent in the model, and what it tells.
func (m *kidModel) turn(ops []kidOp, fresh []string) (reply, code string) {
	r := &kidRun{n: maps.Clone(m.n), fresh: fresh, made: map[string]bool{}, ended: m.ended, open: map[string]bool{"a": true}, gone: map[string]bool{}}
	if reply, code = r.run("a", ops); code != "" {
		return reply, code
	}
	m.n = r.n
	for _, id := range fresh {
		m.n[id] = 0
	}
	for id := range r.gone {
		if id == "a" {
			m.end()
			m.n["a"], m.back = 0, map[string]int{}
			continue
		}
		delete(m.n, id)
		m.dead = append(m.dead, id)
	}
	for _, tell := range r.tells {
		if r.gone["a"] && tell.from != "a" { // the family is over before it leaves
			continue
		}
		code := "passed_away"
		if _, lives := m.n[tell.to]; lives {
			to := &kidRun{n: m.n}
			_, code = to.run(tell.to, tell.ops)
			m.n = to.n
		}
		if _, lives := m.n[tell.from]; lives && code != "" {
			m.back[tell.from+" "+code]++
		}
	}
	return reply, code
}

// end ends all children.
func (m *kidModel) end() {
	for id := range m.n {
		if id != "a" {
			delete(m.n, id)
			m.dead = append(m.dead, id)
		}
	}
	for _, id := range m.dead {
		m.ended[id] = true
	}
}

// script returns what a turn of a parent or of a child does.
func (m *kidModel) script(rng *rand.Rand, child bool, depth int) (ops []kidOp) {
	family := slices.Concat(slices.Sorted(maps.Keys(m.n)), m.dead)
	for range 1 + rng.IntN(4) {
		to := family[rng.IntN(len(family))]
		switch rng.IntN(12) {
		case 0, 1:
			ops = append(ops, kidAdd(int64(1+rng.IntN(9))))
		case 2:
			ops = append(ops, kidLook)
		case 3:
			if !child {
				ops = append(ops, []kidOp{kidNew, kidShare}[rng.IntN(2)])
			}
		case 4, 5, 6, 7:
			if depth > 0 {
				ops = append(ops, kidOp{Do: []string{"call", "call", "must"}[rng.IntN(3)], To: to, Ops: m.script(rng, true, depth-1)})
			}
		case 8, 9:
			tell := kidTell(to, kidAdd(int64(1+rng.IntN(9))))
			if rng.IntN(4) == 0 {
				tell.Ops = append(tell.Ops, kidFail)
			}
			ops = append(ops, tell)
		case 10:
			if rng.IntN(3) == 0 {
				return append(ops, []kidOp{kidFail, kidTrap}[rng.IntN(2)])
			}
		case 11:
			if child || rng.IntN(4) == 0 {
				return append(ops, kidPass)
			}
		}
	}
	return ops
}

// TestChildrenAsInAModel: turns of a parent and of its children, which call and tell each other, fail, pass away,
// are refused, settled and run again, do what they would do one after the other.
func TestChildrenAsInAModel(t *testing.T) {
	runs, counts := 150, map[string]int{}
	if testing.Short() {
		runs = 30
	}
	for seed := range runs {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(uint64(seed), 23))
			k := newKids(t, host.Config{SweepEvery: time.Second, Limits: host.Limits{IdleTimeout: time.Minute}})
			m := &kidModel{n: map[string]int64{"a": 0}, back: map[string]int{}, ended: map[string]bool{}}
			for step := range 25 {
				fault := rng.IntN(12)
				if fault == 1+seed%2 { // of the two, which together leave outcomes that cannot be known
					fault = 3
				}
				switch fault {
				case 0:
					time.Sleep(2 * time.Minute)
					m.end()
					counts["evicted"]++
				case 1:
					k.store.mu.Lock()
					if row, ok := k.store.rows[key("a")]; ok && !row.Deleted {
						row.Version += 3
						k.store.rows[key("a")] = row
						counts["refused"]++
					}
					k.store.mu.Unlock()
				case 2:
					k.store.plan("commit", []string{"lost", "applied"}[rng.IntN(2)])
					counts["settled"]++
				}
				ops := m.script(rng, false, 3)
				reply, err := k.do(t.Context(), "a", ops...)
				synctest.Wait()
				var fresh []string
				for _, word := range strings.Fields(reply) {
					if word[0] < ' ' {
						fresh = append(fresh, word)
					}
				}
				want, code := m.turn(ops, fresh)
				if reply != want || (err != nil) != (code != "") {
					t.Fatalf("seed %d, step %d, %+v: %q, %v; want %q, %q", seed, step, ops, reply, err, want, code)
				}
				counts["failed "+code]++
				see := kidOp{Do: "see"}
				seen := func(id string) string {
					return fmt.Sprintf("%d/%d/%d", m.n[id], m.back[id+" passed_away"], m.back[id+" on_purpose"])
				}
				look, want := []kidOp{see}, seen("a")
				for id := range m.n {
					if id != "a" {
						look, want = append(look, kidCall(id, see)), want+" ("+seen(id)+")"
					}
				}
				for _, id := range m.dead {
					look, want = append(look, kidCall(id, kidLook)), want+" (passed_away)"
				}
				if got := k.must(t, "a", look[:min(len(look), 60)]...); !strings.HasPrefix(want, got) {
					t.Fatalf("seed %d, step %d, after %+v: %q, want %q", seed, step, ops, got, want)
				}
				counts["children"] += len(m.n) - 1
			}
		})
	}
	for _, what := range []string{"evicted", "refused", "settled", "children", "failed ", "failed on_purpose", "failed trap", "failed passed_away", "failed not_reentrant"} {
		if counts[what] == 0 {
			t.Errorf("it never happened: %s", what)
		}
	}
	t.Logf("%v", counts)
}
