package scheduler

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// TestHostsAreReadInOrder: a host that registers while a new leader reads the hosts for the
// first time, and connects at once, is not taken for one that is gone.
func TestHostsAreReadInOrder(t *testing.T) {
	run(t, func(c *testCluster) {
		p := c.process("a")
		term := newTerm(p.Service, actor.Lease{Name: leaderLease, Holder: p.Self(), Epoch: 1}, p.now())
		slow := make(chan struct{})
		p.db.answers = slow
		var reads [2]chan struct{}
		for i := range reads {
			reads[i] = make(chan struct{})
			go func() {
				defer close(reads[i])
				term.readHosts(c.t.Context(), "")
			}()
			synctest.Wait()
			if i == 0 { // it has read them, and is not answered yet
				if _, err := (&link{db: c.db}).RegisterHost(c.t.Context(), actor.Host{ID: "b", Cluster: "test"}, time.Minute); err != nil {
					t.Fatal(err)
				}
			}
		}
		close(slow)
		<-reads[0]
		<-reads[1]
		if !term.leader.Begin(Session{Host: "b", Number: 1, Epoch: 1}) {
			t.Error("a host that is registered is not let in")
		}
	})
}
