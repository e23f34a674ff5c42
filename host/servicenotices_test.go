package host_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/hosttest"
)

// stands has an actor W stand for a service.
func (d *directory) stands(service, id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.of[service] = actor.Key{App: "app", Type: "W", ID: id}
}

// A list that comes while nothing serves the actor's type, or its method, comes again when it is deployed anew.
func TestServiceNoticeOutlastsADeployment(t *testing.T) {
	for _, method := range []string{"", "Learn"} { // that is removed; empty: the type is
		synctest.Test(t, func(t *testing.T) {
			hs, w := followers(t, host.Limits{})
			hs.run(t, "a", "WatchAndAdd", "mailer", "false")
			w.learned.want(t, "a mailer:")
			world := hs.stages[0].world
			if method == "" {
				world.Remove("app", "W")
			} else {
				a := w.actor(abi.PlacementRing)
				delete(a.Methods, method)
				a.Life.Sets = nil
				world.Deploy("app", "W", a)
			}
			hs.services.stands("mailer", "b")
			later()
			hs.services.stands("mailer", "b2")
			later()
			w.learned.want(t)
			world.Deploy("app", "W", w.actor(abi.PlacementRing))
			later()
			w.learned.want(t, "a mailer: mailer=W/b2")
			later()
			w.learned.want(t)
		})
	}
}

// A list whose turn could not begin before its time was up comes again.
func TestServiceNoticeThatWaitsForAPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, w, g := &directory{of: map[string]actor.Key{}}, new(following), newGate()
		s := newStage(t, host.Config{Slots: 1, Services: d, Overrides: map[host.Scope]host.Limits{{App: "app", Type: "W"}: {TurnDeadline: time.Second}}})
		s.world.Deploy("app", "W", w.actor(abi.PlacementRing))
		s.world.Deploy("app", "T", hosttest.Actor{Yields: true, Methods: map[string]hosttest.Func{"Hold": g.wait}})
		if _, err := s.Invoke(t.Context(), actor.Invocation{Key: actor.Key{App: "app", Type: "W", ID: "a"}, Method: "Watch", Payload: actor.Payload{Data: []byte("mailer")}}); err != nil {
			t.Fatal(err)
		}
		w.learned.want(t, "a mailer:")
		held := s.fill(t.Context(), g.entered)
		d.stands("mailer", "b")
		time.Sleep(3 * time.Second)
		w.learned.want(t)
		close(g.leave)
		for _, c := range held {
			<-c
		}
		later()
		later()
		w.learned.want(t, "a mailer: mailer=W/b")
	})
}

// A change that is undone while a list's turn runs or waits brings no list.
func TestServiceNoticeOfAChangeThatIsUndone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hs, w := followers(t, host.Limits{})
		hold := make(chan struct{})
		w.enter = func(string) { <-hold }
		hs.run(t, "a", "Watch", "work/", "false")
		w.learned.want(t)
		hs.run(t, "b", "Claim", "work/1", "")
		later()
		hs.run(t, "b", "Release", "work/1", "")
		later()
		close(hold)
		w.learned.want(t, "a work/:")
		later()
		w.learned.want(t)
		hs.run(t, "b", "Claim", "work/1", "")
		later()
		w.learned.want(t, "a work/: work/1=W/b")
	})
}
