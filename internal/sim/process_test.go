package sim

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/hosttest"
	"github.com/greenroom-run/greenroom/host/pipeline"
	"github.com/greenroom-run/greenroom/routing"
	"github.com/greenroom-run/greenroom/scheduler"
	"github.com/greenroom-run/greenroom/server"
	"github.com/greenroom-run/greenroom/server/edge"
	"github.com/greenroom-run/greenroom/server/rpc"
	"github.com/greenroom-run/greenroom/store"
	"github.com/greenroom-run/greenroom/store/faultstore"
)

// lease is that of every process.
const lease = time.Second

// errCut is what a process gets of a database that it cannot reach.
var errCut = fmt.Errorf("cut off: %w", actor.ErrUnavailable)

// process is one life of a process of the cluster, wired as package node does it.
type process struct {
	w             *world
	name, address string
	life          string       // name, with how many lives this one is
	dialed        atomic.Int64 // connections

	listening sync.Mutex
	noises    map[string]*noise            // by what happens, under listening
	stores    map[string]*faultstore.Store // by operation, under listening: its faults do not depend on what else is asked

	service *scheduler.Service
	router  *routing.Router
	host    *host.Host
	server  *server.Server

	guests   *hosttest.World
	learning sync.Mutex
	known    map[string]uint64 // the deployments that it serves, under learning
	late     atomic.Bool       // it cannot read newer ones

	joined  chan struct{} // closed when it has registered, or died before
	died    atomic.Bool
	leaving atomic.Bool
	dead    chan struct{} // closed when it crashes, or has left
	frozen  gate
	cut     gate // from the database

	// What is served without HTTP/2: see streams.
	serving    sync.Mutex
	closing    bool
	served     context.Context //nolint:containedctx // of all requests
	endServing context.CancelFunc
	requests   sync.WaitGroup
}

// gate is open, or lets nobody pass.
type gate struct {
	mu     sync.Mutex
	closed chan struct{} // nil: open; closed when it opens
}

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed == nil {
		g.closed = make(chan struct{})
	}
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed != nil {
		close(g.closed)
		g.closed = nil
	}
}

// waits returns what is closed when it opens; nil if it is open.
func (g *gate) waits() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.closed
}

// alive reports whether the process has neither crashed nor left.
func (p *process) alive() bool { return !p.died.Load() }

// pass waits while the process is frozen, and reports whether it is alive then.
func (p *process) pass() bool {
	for p.alive() {
		wait := p.frozen.waits()
		if wait == nil {
			return true
		}
		select {
		case <-wait:
		case <-p.dead:
		}
	}
	return false
}

// addressOf is where a process is reached, in all its lives; nameAt tells whose an
// address is.
func addressOf(n int) string { return fmt.Sprintf("127.0.0.1:%d", 7000+n) }

func nameOf(n int) string { return fmt.Sprintf("p%d", n) }

func nameAt(address string) string {
	for n := range processes {
		if addressOf(n) == address {
			return nameOf(n)
		}
	}
	panic("sim: nobody has the address " + address)
}

// start begins a life of a process.
func (w *world) start(n int) *process {
	p := &process{w: w, name: nameOf(n), address: addressOf(n), joined: make(chan struct{}), dead: make(chan struct{})}
	w.mu.Lock()
	p.noises, p.stores = map[string]*noise{}, map[string]*faultstore.Store{}
	w.lives[n] = append(w.lives[n], p)
	p.life = fmt.Sprintf("%s.%d", p.name, len(w.lives[n]))
	w.mu.Unlock()
	quiet := w.logger(p)
	db := &access{p: p}
	dial := func(ctx context.Context, _, address string) (net.Conn, error) { return w.net.dial(ctx, p, address) }
	client := routing.NewHTTPClient(nil, dial, lease)
	if w.direct {
		client = &http.Client{Transport: streams{p}}
	}
	p.served, p.endServing = context.WithCancel(context.Background())
	p.guests, p.known = hosttest.New(), map[string]uint64{}
	p.learn()
	p.service = must(scheduler.New(scheduler.Config{
		Store: db, Self: actor.Host{Name: p.name, Cluster: app, Address: p.address, Version: "sim"}, Lease: lease,
		Types: p.serves, ReadTypes: p.refresh,
		NewID:  func() actor.HostID { return actor.HostID(fmt.Sprintf("%016X", p.noiseOf("host").rng.Uint64())) }, // with its lock
		Actors: (*actors)(p), Dial: scheduler.Dialer{Client: client}.Dial, Logger: quiet, MaxOwned: w.maxOwned, Ranges: w.ranges,
		Events: scheduler.Events{
			Ended:          func(actor.HostID) { w.happened("host began anew") },
			StickyReleased: func(int) { w.happened("sticky actors released") },
			Led: func(_ uint64, leads bool) {
				if leads {
					w.happened("leader elected")
				}
			},
		},
	}))
	p.host = must(host.New(host.Config{
		Committer: db, Modules: catalog{p.guests, p}, Engine: p.guests, Ownership: w.sabotage.ownership(p), SettleGrace: 2 * lease,
		Peers: w.sabotage.peers(p), Reminders: reminders{p},
		Pipeline: pipeline.Config{StallAfter: 4 * lease},
		Limits:   host.Limits{IdleTimeout: 3 * lease},
	}))
	p.router = must(routing.New(routing.Config{
		Local: p.host, Placement: p.service, Policy: func(_, typ string) (string, bool) { return p.policy(typ), true }, Readers: p.readers,
		Cluster: app, MinProtocol: scheduler.MinProtocol, MaxProtocol: scheduler.MaxProtocol, PeerTimeout: lease, SettleGrace: 2 * lease,
		HTTPClient: client, Logger: quiet,
		Events: routing.Events{Forwarded: func(outcome string) { w.happened("call forwarded: " + outcome) }},
	}))
	p.server = must(server.New(server.Config{
		Config: edge.Config{
			Addr: p.address, Listener: w.net.listen(p), Logger: quiet, Metrics: w.metrics, Peers: &edge.Peers{Cluster: app},
		},
		Backends: rpc.Backends{
			Host: p.router, Modules: nothing{}, Actors: nothing{}, Interconnect: p.router,
			PeerServices: []rpc.PeerService{{Handler: p.service.Handler(), Procedures: []string{greenroomv1connect.SchedulerServiceReportActorTypesProcedure}}},
		},
	}))
	for _, part := range []interface{ Start(context.Context) error }{p.host, p.router, p.server} {
		if err := part.Start(context.Background()); err != nil {
			panic(err)
		}
	}
	w.mu.Lock()
	w.processes[n] = p
	w.mu.Unlock()
	w.running.Go(func() {
		p.join()
		for p.waits(2 * lease) { // modules.Config.PollInterval
			_ = p.refresh(context.Background(), app)
		}
		client.CloseIdleConnections()
	})
	return p
}

// noiseOf is the source of random numbers of something that happens at the process.
func (p *process) noiseOf(what string) *noise {
	p.listening.Lock()
	defer p.listening.Unlock()
	n := p.noises[what]
	if n == nil {
		n = p.w.noiseOf(p.life + " " + what)
		p.noises[what] = n
	}
	return n
}

// storeOf is the database, as an operation finds it.
func (p *process) storeOf(op string) *faultstore.Store {
	seed := p.noiseOf("faults of " + op).rng // which nobody else asks
	p.listening.Lock()
	defer p.listening.Unlock()
	s := p.stores[op]
	if s == nil {
		s = faultstore.New(whole{database: p.w.db}, faultstore.Config{Seed: seed.Uint64(), Rates: storeFaults})
		p.stores[op] = s
		if p.w.faults.Err() != nil {
			s.Calm()
		}
	}
	return s
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// join registers the process, however often that takes.
func (p *process) join() {
	defer close(p.joined)
	for p.pass() {
		ctx, cancel := context.WithTimeout(context.Background(), lease)
		err := p.service.Start(ctx)
		cancel()
		if err == nil {
			return
		}
		<-time.After(lease / 8)
	}
}

// nothing stands for the parts of the server that nobody calls.
type nothing struct{ rpc.Modules }

func (nothing) ListServices(context.Context, actor.ServiceQuery) ([]actor.Service, error) {
	return nil, nil
}

func (nothing) ListActors(context.Context, store.ActorQuery) ([]store.ActorInfo, string, error) {
	return nil, "", nil
}

func (nothing) ScanActors(context.Context, store.ActorScan, func(*store.ScannedActor) bool) (int, string, error) {
	return 0, "", nil
}

// actors is the process's host, which is made after its service.
type actors process

// HandOver implements [scheduler.Actors].
func (a *actors) HandOver(ctx context.Context, moving func(actor.Key) bool) error {
	a.w.happened("hand-over")
	if a.w.sabotage.handOver {
		return nil
	}
	return a.host.HandOver(ctx, moving)
}

// InChains implements [scheduler.Actors].
func (a *actors) InChains() []actor.Key { return a.host.InChains() }

// DropAll implements [scheduler.Actors].
func (a *actors) DropAll() {
	if !a.w.sabotage.dropAll {
		a.host.DropAll()
	}
}

// waits waits for a while, and reports whether the process is alive then.
func (p *process) waits(d time.Duration) bool {
	select {
	case <-time.After(d):
		return p.alive()
	case <-p.dead:
		return false
	}
}

// crash ends a process in the middle of everything, alone or with its machine.
func (p *process) crash(machine bool) {
	if p.dies(machine) && !p.leaving.Load() {
		p.stop()
	}
}

// dies has it be dead for all others, and reports whether it was not.
func (p *process) dies(silent bool) bool {
	if !p.died.CompareAndSwap(false, true) {
		return false
	}
	close(p.dead)
	p.w.net.died(p, silent)
	return true
}

// leave ends a process in order, as package node does, and reports whether that went
// well.
func (p *process) leave() bool {
	<-p.joined
	ctx, cancel := context.WithTimeout(context.Background(), 5*lease)
	defer cancel()
	p.leaving.Store(true)
	go func() {
		select {
		case <-p.dead: // it crashes
			cancel()
		case <-ctx.Done():
		}
	}()
	p.server.Drain(ctx)
	err := p.service.Stop(ctx)
	p.router.Drain()
	err = errors.Join(err, p.server.Stop(ctx))
	p.stopServing(ctx)
	err = errors.Join(err, p.router.Stop(ctx), p.host.Stop(ctx))
	left := p.dies(false) && err == nil
	if left {
		p.w.happened("left in order")
	}
	p.stop()
	return left
}

// stop ends what runs of a process that is dead for everybody else.
func (p *process) stop() {
	p.w.running.Go(func() {
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		_ = p.service.Stop(ended)
		_ = p.server.Stop(ended)
		p.stopServing(ended)
		_ = p.router.Stop(ended)
		_ = p.host.Stop(ended)
	})
}

// access is a process's way to the database.
type access struct{ p *process }

// run does a statement, both ways of which take a while. It fails when the process is
// cut off, or dies; lost tells that the statement was done all the same, or may be.
func (a *access) run(ctx context.Context, op string, do func(ctx context.Context)) (lost bool, err error) {
	noise := a.p.noiseOf(op)
	way := func() error {
		if !a.p.pass() {
			return errCut
		}
		d := noise.delay()
		if cut := a.p.cut.waits(); cut != nil {
			a.p.w.happened("statement of a process that is cut off")
			select {
			case <-cut:
			case <-ctx.Done():
				return ctx.Err()
			case <-a.p.dead:
				return errCut
			case <-time.After(lease):
				return errCut
			}
		}
		select {
		case <-time.After(d):
		case <-ctx.Done():
			return ctx.Err()
		case <-a.p.dead:
			return errCut
		}
		if !a.p.pass() {
			return errCut
		}
		return nil
	}
	if err := way(); err != nil {
		return false, err
	}
	do(context.WithoutCancel(ctx))
	return true, way()
}

// ask is run for statements that may be repeated.
func ask[T any](ctx context.Context, a *access, op string, do func(ctx context.Context) (T, error)) (T, error) {
	var (
		result T
		err    error
	)
	if _, broken := a.run(ctx, op, func(ctx context.Context) { result, err = do(ctx) }); broken != nil {
		var nothing T
		return nothing, broken
	}
	return result, err
}

func (a *access) Shared() bool { return true }

func (a *access) LoadActors(ctx context.Context, keys []actor.Key, opts actor.LoadOptions) ([]actor.Row, error) {
	return ask(ctx, a, "LoadActors", func(ctx context.Context) ([]actor.Row, error) {
		return a.p.storeOf("LoadActors").LoadActors(ctx, keys, opts)
	})
}

func (a *access) Versions(ctx context.Context, keys []actor.Key) ([]actor.RowVersion, error) {
	return ask(ctx, a, "Versions", func(ctx context.Context) ([]actor.RowVersion, error) {
		return a.p.storeOf("Versions").Versions(ctx, keys)
	})
}

func (a *access) LoadIdempotency(ctx context.Context, calls []actor.KeyedCall) ([]actor.Recorded, error) {
	return ask(ctx, a, "LoadIdempotency", func(ctx context.Context) ([]actor.Recorded, error) {
		return a.p.storeOf("LoadIdempotency").LoadIdempotency(ctx, calls)
	})
}

func (a *access) Settle(ctx context.Context, c actor.Commit) error {
	_, err := ask(ctx, a, "Settle", func(ctx context.Context) (struct{}, error) { return struct{}{}, a.p.storeOf("Settle").Settle(ctx, c) })
	return err
}

// LockedTurn is a transaction, which ends with its process's connection.
func (a *access) LockedTurn(ctx context.Context, key actor.Key, fn func(context.Context, actor.Row) (*actor.Commit, error)) (made *actor.Commit, err error) {
	var began bool
	done, broken := a.run(ctx, "turn", func(context.Context) {
		made, err = a.p.storeOf("LockedTurn").LockedTurn(ctx, key, func(ctx context.Context, row actor.Row) (*actor.Commit, error) {
			commit, err := fn(ctx, row)
			began = began || commit != nil
			if err == nil && (!a.p.pass() || a.p.cut.waits() != nil) {
				return nil, errCut
			}
			return commit, err
		})
	})
	switch {
	case broken == nil:
		return made, err
	case done && made != nil:
		a.p.w.happened("answer to a commit lost")
		return made, fmt.Errorf("%v: %w", broken, actor.ErrAmbiguous)
	default:
		return nil, broken
	}
}

// Commit may be applied long after its sender has given it up, or has died.
func (a *access) Commit(ctx context.Context, commits []actor.Commit) []error {
	all := func(err error) []error {
		errs := make([]error, len(commits))
		for i := range errs {
			errs[i] = err
		}
		return errs
	}
	if !a.p.pass() || a.p.cut.waits() != nil {
		return all(errCut)
	}
	noise := a.p.noiseOf("late commit")
	if a.p.w.faulty(noise, 0.08) { // it lingers somewhere on its way
		own := make([]actor.Commit, len(commits)) // the host may use its buffers again
		for i, c := range commits {
			own[i] = copied(c)
		}
		late := 3 * lease
		if noise.chance(0.5) {
			late = lease / 32 // so that it may be there before it is settled
		}
		wait := noise.below(late)
		a.p.w.late.Go(func() {
			<-time.After(wait)
			a.p.w.commit(a.p, own, true)
		})
		return all(fmt.Errorf("connection lost: %w", actor.ErrAmbiguous))
	}
	var errs []error
	done, err := a.run(ctx, "commit", func(context.Context) { errs = a.p.w.commit(a.p, commits, false) })
	switch {
	case err == nil:
		return errs
	case done:
		a.p.w.happened("answer to a commit lost")
		return all(fmt.Errorf("%v: %w", err, actor.ErrAmbiguous))
	default:
		return all(errCut)
	}
}

func copied(c actor.Commit) actor.Commit {
	rows := c.Rows
	c.Rows = nil
	for _, r := range rows {
		if r.State != nil {
			state := *r.State
			state.Data = append([]byte(nil), state.Data...)
			r.State = &state
		}
		c.Rows = append(c.Rows, r)
	}
	return c
}

func (a *access) RegisterHost(ctx context.Context, h actor.Host, length time.Duration) (actor.Host, error) {
	return ask(ctx, a, "RegisterHost", func(ctx context.Context) (actor.Host, error) {
		return a.p.storeOf("RegisterHost").RegisterHost(ctx, h, length)
	})
}

func (a *access) RenewHost(ctx context.Context, id actor.HostID, length time.Duration, sticky int) (time.Time, error) {
	return ask(ctx, a, "RenewHost", func(ctx context.Context) (time.Time, error) {
		return a.p.storeOf("RenewHost").RenewHost(ctx, id, length, sticky)
	})
}

func (a *access) RemoveHost(ctx context.Context, id actor.HostID) error {
	_, err := ask(ctx, a, "RemoveHost", func(ctx context.Context) (struct{}, error) {
		return struct{}{}, a.p.storeOf("RemoveHost").RemoveHost(ctx, id)
	})
	return err
}

func (a *access) ClearHost(ctx context.Context, id actor.HostID, name string, epoch uint64) (bool, error) {
	gone, err := ask(ctx, a, "ClearHost", func(ctx context.Context) (bool, error) {
		return a.p.storeOf("ClearHost").ClearHost(ctx, id, name, epoch)
	})
	return gone, err
}

func (a *access) Hosts(ctx context.Context) ([]actor.Host, time.Time, error) {
	var now time.Time
	hosts, err := ask(ctx, a, "Hosts", func(ctx context.Context) (hosts []actor.Host, err error) {
		hosts, now, err = a.p.storeOf("Hosts").Hosts(ctx)
		return hosts, err
	})
	return hosts, now, err
}

func (a *access) AcquireLease(ctx context.Context, name string, holder actor.HostID, length time.Duration) (actor.Lease, bool, error) {
	var taken bool
	l, err := ask(ctx, a, "AcquireLease", func(ctx context.Context) (l actor.Lease, err error) {
		l, taken, err = a.p.storeOf("AcquireLease").AcquireLease(ctx, name, holder, length)
		return l, err
	})
	return l, taken && err == nil, err
}

func (a *access) RenewLease(ctx context.Context, l actor.Lease, length time.Duration) (bool, error) {
	return ask(ctx, a, "RenewLease", func(ctx context.Context) (bool, error) { return a.p.storeOf("RenewLease").RenewLease(ctx, l, length) })
}

func (a *access) ReleaseLease(ctx context.Context, l actor.Lease) error {
	_, err := ask(ctx, a, "ReleaseLease", func(ctx context.Context) (struct{}, error) {
		return struct{}{}, a.p.storeOf("ReleaseLease").ReleaseLease(ctx, l)
	})
	return err
}

func (a *access) Lease(ctx context.Context, name string) (actor.Lease, bool, error) {
	var found bool
	l, err := ask(ctx, a, "Lease", func(ctx context.Context) (l actor.Lease, err error) {
		l, found, err = a.p.storeOf("Lease").Lease(ctx, name)
		return l, err
	})
	return l, found, err
}

func (a *access) Leases(ctx context.Context, prefix string) ([]actor.Lease, time.Time, error) {
	var now time.Time
	leases, err := ask(ctx, a, "Leases", func(ctx context.Context) (leases []actor.Lease, err error) {
		leases, now, err = a.p.storeOf("Leases").Leases(ctx, prefix)
		return leases, err
	})
	return leases, now, err
}

// counter is the actor of every type: it tells who runs it.
func (w *world) counter(p *process, t *actorType, policy string) hosttest.Actor {
	if t.stateless() {
		echo := func(t *hosttest.Turn) error {
			if !p.pass() {
				return hosttest.Fail("dead")
			}
			return t.Reply(string(t.Frame.Payload))
		}
		return hosttest.Actor{Placement: policy, Methods: map[string]hosttest.Func{"Add": echo, "Touch": echo}, ReadOnly: map[string]hosttest.Func{"Read": echo}}
	}
	typ := t
	count := func(add int64, writes bool) hosttest.Func {
		return func(t *hosttest.Turn) error {
			if writes {
				w.begins(p, actor.Key{App: app, Type: typ.name, ID: t.Frame.ID})
			}
			if n := p.noiseOf("turn of " + typ.name); w.faulty(n, 0.2) { // the guest takes its time
				select {
				case <-time.After(n.delay()):
				case <-t.Context.Done():
				}
			}
			if !p.pass() {
				return hosttest.Fail("dead")
			}
			n, err := t.Number("n")
			if err == nil && add != 0 && n == 0 && typ.deletes {
				n = w.lifeAt(time.Now())
				err = t.SetNumber("n", n)
			}
			if err == nil && add != 0 {
				n, err = t.Add("n", add)
			}
			return errors.Join(err, t.ReplyNumber(n))
		}
	}
	return hosttest.Actor{
		Placement: policy, Instance: "shared",
		Methods:  map[string]hosttest.Func{"Add": count(1, true), "Touch": count(0, true)},
		ReadOnly: map[string]hosttest.Func{"Read": count(0, false)},
	}
}
