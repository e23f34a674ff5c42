package fair

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
)

// An app that has all places that it may have, and waits for more, leaves one to another app,
// whose next ones have places in turn with it.
func TestPlacesAreDealtByApp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPlaces(8)
		var order []string
		var leaves []func()
		enter := func(app string) {
			leave, err := p.Enter(t.Context(), app, "T")
			if err != nil {
				t.Error(err)
			}
			order, leaves = append(order, app), append(leaves, leave)
		}
		for range 20 {
			go enter("loud")
			synctest.Wait()
		}
		if len(order) != 7 || p.Waiting() != 13 {
			t.Fatalf("of 8 places an app has %d, and %d wait; want 7 and 13", len(order), p.Waiting())
		}
		for range 3 {
			go enter("quiet")
			synctest.Wait()
		}
		if !slices.Contains(order, "quiet") {
			t.Fatal("the other app waits beside a place that is left to it")
		}
		for n := range 5 {
			leaves[n]()
			synctest.Wait()
		}
		if got := order[8:]; fmt.Sprint(got) != "[quiet loud quiet loud loud]" && fmt.Sprint(got) != "[loud quiet loud quiet loud]" {
			t.Errorf("places that are left go to %v", got)
		}
		for n := 5; n < len(leaves); n++ { // which grow meanwhile
			leaves[n]()
			synctest.Wait()
		}
		if len(order) != 23 || p.Waiting() != 0 || p.queue.Running() != 0 {
			t.Errorf("%d had a place, %d wait, %d have one still", len(order), p.Waiting(), p.queue.Running())
		}
	})
}

// Who gives up waiting has no place, and takes none from others.
func TestPlaceThatIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPlaces(1)
		leave, err := p.Enter(t.Context(), "a", "T")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := p.Enter(ctx, "b", "T"); !errors.Is(err, context.Canceled) || p.Waiting() != 0 {
			t.Errorf("entered: %v; %d wait", err, p.Waiting())
		}
		leave()
		leave()
		if leave, err = p.Enter(t.Context(), "b", "T"); err != nil {
			t.Fatal(err)
		}
		leave()
	})
}

// TestFreePlaceCostsLittle: where nobody waits, a place is had without the memory of a queue.
func TestFreePlaceCostsLittle(t *testing.T) {
	p := NewPlaces(8)
	if n := testing.AllocsPerRun(100, func() {
		leave, err := p.Enter(t.Context(), "a", "T")
		if err != nil {
			t.Fatal(err)
		}
		leave()
	}); n > 2 {
		t.Errorf("%v allocations for a place, want 2 at most", n)
	}
}
