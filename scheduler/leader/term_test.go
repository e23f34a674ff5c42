package leader

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/scheduler/clock"
	"github.com/greenroom-run/greenroom/scheduler/clustertest"
	"github.com/greenroom-run/greenroom/scheduler/placement"
	"github.com/greenroom-run/greenroom/scheduler/protocol"
)

const testLease = 3 * time.Second

// process is a process that may lead, as host a.
type process struct {
	Config
	link *clustertest.Link
}

func newProcess() *process {
	link := &clustertest.Link{DB: clustertest.New()}
	return &process{Config{
		Store: link, Self: actor.Host{Name: "a", Cluster: "test", MinProtocol: protocol.MinVersion, MaxProtocol: protocol.MaxVersion},
		Host:     func() actor.HostID { return "a" },
		RenewRow: func(context.Context) (time.Time, error) { return time.Now(), nil },
		Lease:    testLease, Clock: clock.New(clock.Clocks{}, testLease), Ranges: placement.DefaultRanges, Logger: slog.New(slog.DiscardHandler),
	}, link}
}

// term begins a term, without a lease in the database.
func (p *process) term(epoch uint64) *term {
	return newTerm(&p.Config, actor.Lease{Name: LeaseName, Holder: "a", Epoch: epoch}, p.now())
}

// TestHostsAreReadInOrder: a host that registers while a new leader reads the hosts for the
// first time, and connects at once, is not taken for one that is gone.
func TestHostsAreReadInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProcess()
		term := p.term(1)
		slow := make(chan struct{})
		p.link.Answers = slow
		var reads [2]chan struct{}
		for i := range reads {
			reads[i] = make(chan struct{})
			go func() {
				defer close(reads[i])
				term.readHosts(t.Context(), "")
			}()
			synctest.Wait()
			if i == 0 { // it has read them, and is not answered yet
				if _, err := (&clustertest.Link{DB: p.link.DB}).RegisterHost(t.Context(), actor.Host{ID: "b", Cluster: "test"}, time.Minute); err != nil {
					t.Fatal(err)
				}
			}
		}
		close(slow)
		<-reads[0]
		<-reads[1]
		if !term.leader.Begin(protocol.Session{Host: "b", Number: 1, Epoch: 1}) {
			t.Error("a host that is registered is not let in")
		}
	})
}

// TestHostThatTakesNothing: a session ends with whose host the leader would have to keep more
// than it may.
func TestHostThatTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProcess()
		term := p.term(1)
		var ended error
		h := &hostSession{end: func(why error) { ended = why }, out: protocol.NewOutbox[*greenroomv1.ReportActorTypesResponse]()}
		term.sessions["b"] = h
		for range maxUnsent {
			h.out.Put(nil)
		}
		if term.plan(); ended != nil {
			t.Errorf("it has as much as it may: %v", ended)
		}
		h.out.Put(nil)
		if term.plan(); ended == nil {
			t.Error("nothing bounds what it is sent")
		}
	})
}

// TestRowThatIsRenewedStays: a host whose row was over when it was read, and that has renewed
// it before it was removed, is not taken for gone.
func TestRowThatIsRenewedStays(t *testing.T) {
	for _, renews := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			p, ctx := newProcess(), t.Context()
			lease, _, err := p.link.AcquireLease(ctx, LeaseName, "a", testLease)
			if err != nil {
				t.Fatal(err)
			}
			term := newTerm(&p.Config, lease, p.now())
			if _, err := p.link.RegisterHost(ctx, actor.Host{ID: "b", Cluster: "test"}, testLease/4); err != nil {
				t.Fatal(err)
			}
			<-time.After(testLease / 2)
			slow, read := make(chan struct{}), make(chan struct{})
			p.link.Answers = slow
			go func() {
				defer close(read)
				term.readHosts(ctx, "")
			}()
			synctest.Wait()
			if renews {
				if _, err := (&clustertest.Link{DB: p.link.DB}).RenewHost(ctx, "b", testLease, 0); err != nil {
					t.Fatal(err)
				}
			}
			close(slow)
			<-read
			if gone := term.leader.Gone("b"); gone == renews || term.knows("b") != renews {
				t.Errorf("renewed %t: it is gone %t, a member %t", renews, gone, term.knows("b"))
			}
		})
	}
}

// TestMessagesOfAnOlderSession are not taken: what a host claimed in it, it may have handed
// over since.
func TestMessagesOfAnOlderSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, ctx := newProcess(), t.Context()
		if _, err := (&clustertest.Link{DB: p.link.DB}).RegisterHost(ctx, actor.Host{ID: "b", Cluster: "test", Roles: []string{protocol.RoleHost}}, time.Minute); err != nil {
			t.Fatal(err)
		}
		term := p.term(1)
		term.readHosts(ctx, "")
		var sessions []*hostSession
		for n := range uint64(2) {
			h := &hostSession{
				session: protocol.Session{Host: "b", Number: n + 1, Epoch: 1}, end: func(error) {}, out: protocol.NewOutbox[*greenroomv1.ReportActorTypesResponse](),
			}
			if err := term.begin(h, &greenroomv1.SchedulerHello{MaxProtocol: protocol.MaxVersion}); err != nil {
				t.Fatal(err)
			}
			sessions = append(sessions, h)
		}
		claims := &greenroomv1.ReportActorTypesRequest{Message: &greenroomv1.ReportActorTypesRequest_RangeClaims{RangeClaims: protocol.ToClaims(protocol.Order{
			Types: []protocol.TypeName{{App: "a", Type: "R"}}, Policy: abi.PlacementRing, Ranges: []protocol.Range{{Last: placement.LastPoint, Hosts: []placement.HostID{"b"}}},
		}, protocol.MaxVersion)[0]}}
		if err := term.receive(sessions[0], claims); err == nil {
			t.Error("the session before goes on")
		}
		complete := &greenroomv1.ReportActorTypesRequest{Message: &greenroomv1.ReportActorTypesRequest_StickyClaims{StickyClaims: &greenroomv1.StickyClaimsReport{Complete: true}}}
		if err := term.receive(sessions[1], complete); err != nil {
			t.Error(err)
		}
		if shares := term.tables.Shares(); shares["b"] != 0 {
			t.Errorf("it claims nothing, and is taken to hold %d ranges", shares["b"])
		}
	})
}

// TestCountEndsBeforeTheLease: a leader's count of its lease is over before the lease is,
// however long the answers of the database take, and whenever the database is lost.
func TestCountEndsBeforeTheLease(t *testing.T) {
	const takes = testLease / 3
	counted := false
	for lost := takes + time.Millisecond; lost < 3*testLease; lost += testLease / 5 {
		synctest.Test(t, func(t *testing.T) {
			p := newProcess()
			p.link.SetTakes(takes)
			down := time.AfterFunc(lost, func() { p.link.SetDown(true) })
			defer down.Stop()
			e := New(p.Config)
			ctx, cancel := context.WithCancel(t.Context())
			var running sync.WaitGroup
			running.Go(func() { e.Run(ctx) })
			defer running.Wait()
			defer cancel()
			defer func() { p.link.SetDown(false); p.link.SetTakes(0) }()
			for began := time.Now(); time.Since(began) < lost+2*testLease; <-time.After(testLease / 100) {
				term := e.term.Load()
				if term == nil {
					continue
				}
				p.link.DB.Mu.Lock()
				ends := p.link.DB.Leases[LeaseName].ExpiresAt
				p.link.DB.Mu.Unlock()
				term.lock()
				leading := term.leader.Leading(p.now())
				term.mu.Unlock()
				counted = counted || leading
				if leading && !ends.After(time.Now()) {
					t.Fatalf("the database was lost after %v; after %v the lease is over, and its count is not", lost, time.Since(began))
				}
			}
		})
	}
	if !counted {
		t.Error("the process never led")
	}
}

// TestLeaseIsRenewedUnderNoLock: what hosts answer is taken under a lock that a renewal of the
// leader's lease does not wait for.
func TestLeaseIsRenewedUnderNoLock(t *testing.T) {
	p := newProcess()
	term := p.term(1)
	if _, taken, err := p.link.AcquireLease(t.Context(), LeaseName, "a", testLease); err != nil || !taken {
		t.Fatal(taken, err)
	}
	sent := term.sent.Load()
	term.mu.Lock()
	defer term.mu.Unlock()
	renewed := make(chan bool, 1)
	go func() { renewed <- term.renew(t.Context()) }()
	select {
	case held := <-renewed:
		if !held || term.sent.Load() <= sent {
			t.Errorf("renewed: %t; the renewal was sent at %d and is at %d", held, sent, term.sent.Load())
		}
	case <-time.After(time.Minute):
		t.Fatal("a renewal waits for the lock of sessions")
	}
}
