package lane

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// claimed is a [turn.ServiceSource] of one service.
type claimed struct {
	service actor.Service
	asked   int
}

func (c *claimed) FindService(context.Context, string, string) (actor.Service, error) {
	c.asked++
	return c.service, nil
}

// TestServiceIsThereOnceItIsClaimed: a host that has found nobody for a service asks again, and
// who stands for one is remembered for a moment.
func TestServiceIsThereOnceItIsClaimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c claimed
		sv := NewServices(&c)
		find := func() actor.Key {
			t.Helper()
			s, err := sv.Resolve(t.Context(), "app", "name")
			if err != nil {
				t.Fatal(err)
			}
			return s.Actor
		}
		if got := find(); got != (actor.Key{}) {
			t.Fatalf("unclaimed, it is %v", got)
		}
		ann, bob := actor.Key{App: "app", Type: "T", ID: "ann"}, actor.Key{App: "app", Type: "T", ID: "bob"}
		c.service = actor.Service{Name: "name", Actor: ann}
		if got := find(); got != ann {
			t.Errorf("claimed by %v, it is %v", ann, got)
		}
		c.service.Actor = bob
		if got := find(); got != ann || c.asked != 2 {
			t.Errorf("asked %d times, a moment ago it was %v, and is %v", c.asked, ann, got)
		}
		<-time.After(serviceAge)
		if got := find(); got != bob {
			t.Errorf("later it is %v, want %v", got, bob)
		}
	})
}
