package chain_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/greenroom-run/greenroom/host/chain"
)

func doomed(c *chain.Chain[string]) bool {
	select {
	case <-c.Doomed():
		return true
	default:
		return false
	}
}

// TestYoungestIsDoomed: the last to wait closes the circle, and the youngest in it ends.
func TestYoungestIsDoomed(t *testing.T) {
	for last := range 3 {
		var g chain.Graph[string]
		var chains []*chain.Chain[string]
		actors := []string{"a", "b", "c"}
		for i := range actors {
			chains = append(chains, g.Begin(0))
			chains[i].Hold(actors[i])
		}
		for i := range 3 {
			at := (last + 1 + i) % 3
			if chains[at].Wait(actors[(at+1)%3]); i < 2 && doomed(chains[2]) {
				t.Fatal("doomed before the circle is closed")
			}
		}
		for i, c := range chains {
			if doomed(c) != (i == 2) {
				t.Errorf("chain %d, with %d the last to wait: doomed is %t", i, last, doomed(c))
			}
		}
		if circle := chains[2].Circle(); len(circle) != 3 || !slices.Contains(circle, "a") || !slices.Contains(circle, "b") || !slices.Contains(circle, "c") {
			t.Errorf("circle %v", circle)
		}
		chains[2].End()
		chains[1].Hold("c")
		if chains[1].End(); doomed(chains[0]) || doomed(chains[1]) {
			t.Error("another one is doomed")
		}
	}
}

// TestRandomWaits: as long as who is doomed ends, some chain always goes on.
func TestRandomWaits(t *testing.T) {
	const actors, rounds = 4, 20_000
	rng := rand.New(rand.NewPCG(1, 2))
	var g chain.Graph[int]
	type party struct {
		*chain.Chain[int]
		has  []int
		want int // -1: waits for none
	}
	var parties []*party
	holder := make(map[int]*party)
	met := 0
	end := func(p *party) {
		p.End()
		for _, a := range p.has {
			delete(holder, a)
		}
		parties = slices.DeleteFunc(parties, func(o *party) bool { return o == p })
	}
	for range rounds {
		for len(parties) < 4 {
			parties = append(parties, &party{Chain: g.Begin(0), want: -1})
		}
		moved := false
		for _, at := range rng.Perm(len(parties)) {
			p := parties[at]
			select {
			case <-p.Doomed():
				met++
				end(p)
				moved = true
			default:
			}
			if moved {
				break
			}
			switch {
			case p.want >= 0 && holder[p.want] == nil:
				holder[p.want] = p
				p.Hold(p.want)
				p.has, p.want = append(p.has, p.want), -1
			case p.want >= 0:
				continue
			case len(p.has) == 3:
				end(p)
			default:
				for p.want = rng.IntN(actors); holder[p.want] == p; {
					p.want = rng.IntN(actors)
				}
				p.Wait(p.want)
			}
			moved = true
			break
		}
		if !moved {
			t.Fatal("all wait, and none is doomed")
		}
	}
	if met == 0 {
		t.Error("no circle was met")
	}
}

// A chain that is doomed and gets its actor at the same moment may close a circle again before it
// has ended.
func TestDoomedOnce(t *testing.T) {
	var g chain.Graph[string]
	one, three, two := g.Begin(0), g.Begin(0), g.Begin(0) // two is the youngest
	one.Hold("a")
	two.Hold("b")
	three.Hold("c")
	one.Wait("b")
	two.Wait("a")
	<-two.Doomed()
	one.GiveUp()
	one.End()
	two.GiveUp()
	two.Hold("a")
	three.Wait("b")
	two.Wait("c") // a circle again
}

// TestChainKeepsItsAge: a chain that runs again is as old as it was, so that a younger one lets go.
func TestChainKeepsItsAge(t *testing.T) {
	var g chain.Graph[string]
	first := g.Begin(0)
	younger, again := g.Begin(0), g.Begin(first.Born())
	again.Hold("a")
	younger.Hold("b")
	again.Wait("b")
	younger.Wait("a")
	if doomed(again) || !doomed(younger) {
		t.Errorf("the older chain is doomed: %t, the younger one: %t", doomed(again), doomed(younger))
	}
}
