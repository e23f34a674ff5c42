// Package node builds a whole Greenroom server from a [Config]: the store, the
// Wasm engines, the module service, the host, reminders and the API. It is the one place
// where everything meets.
package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine/extism"
	"github.com/greenroom-run/greenroom/engine/wasm"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/egress"
	"github.com/greenroom-run/greenroom/host/feed"
	"github.com/greenroom-run/greenroom/host/pipeline"
	"github.com/greenroom-run/greenroom/modules"
	"github.com/greenroom-run/greenroom/scheduler/reminder"
	"github.com/greenroom-run/greenroom/server"
	"github.com/greenroom-run/greenroom/server/metrics"
	"github.com/greenroom-run/greenroom/server/rpc"
	"github.com/greenroom-run/greenroom/settings"
	"github.com/greenroom-run/greenroom/store"
	"github.com/greenroom-run/greenroom/store/embedded"
	"github.com/greenroom-run/greenroom/store/sqlstore"
)

// Node is one server process's worth of parts.
type Node struct {
	cfg Config

	mu      sync.Mutex // held by Start and Stop
	server  *server.Server
	metrics *metrics.Metrics
	stops   []stop // of the parts that were started, in this order
}

// stop undoes one step of Start.
type stop struct {
	what string
	do   func(context.Context) error
}

// New checks cfg; nothing is opened before Start.
func New(cfg Config) (*Node, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return &Node{cfg: cfg.WithDefaults()}, nil
}

// Start opens the store and brings up the parts in the order of their needs. If
// it fails, what was started is stopped again.
func (n *Node) Start(ctx context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.server != nil {
		return errors.New("node: started already")
	}
	if err := n.start(ctx); err != nil {
		return errors.Join(err, n.stopAll(context.WithoutCancel(ctx)))
	}
	return nil
}

func (n *Node) start(ctx context.Context) error {
	var st store.Store
	var groups pipeline.Config
	var err error
	given := "--store"
	if n.cfg.StoreURL != "" {
		st, err = sqlstore.Open(ctx, n.cfg.databaseConfig())
	} else {
		given, groups = "--data-dir", pipeline.Disk()
		st, err = embedded.Open(ctx, embedded.Config{Dir: storeFolder(n.cfg.DataDir), Logger: n.cfg.Logger})
	}
	if err != nil {
		return fmt.Errorf("open the store (%s): %w", given, err)
	}
	n.onStop("store", func(context.Context) error { return st.Close() })

	// A process alone asks nobody: a nil test on its way is all that it pays.
	var owned *held
	if n.cfg.Cluster != nil {
		owned = &held{}
	}
	var mods *modules.Service // serves nothing, and nothing is compiled, before it is there
	engine, err := newEngines(ctx, n.cfg, func() map[actor.Digest][]string { return mods.AppsByModule() })
	if err != nil {
		return err
	}
	n.onStop("engine", engine.Close)

	mods, err = modules.New(modules.Config{
		Store: st, Reminders: st, Inspector: engine, Logger: n.cfg.Logger, MaxBytes: n.cfg.Server.MaxModuleBytes, MaxStoredBytes: n.cfg.MaxStoredModules,
		Hosts: clusterHosts(n.cfg.Cluster, st),
		Imports: func(ctx context.Context, app string, d actor.Digest) ([]string, error) {
			code, err := st.ModuleBytes(ctx, app, d)
			if err != nil {
				return nil, err
			}
			functions, err := wasm.HostFunctions(code)
			if err == nil && extism.Calls(code) {
				functions = append(functions, abi.FuncCall)
			}
			return functions, err
		},
		Changed: owned.typesChanged, PollInterval: n.cfg.pollInterval,
		Prepare: func(ctx context.Context, app string, d actor.Digest) error {
			_, err := engine.Load(ctx, d, func(ctx context.Context) ([]byte, error) { return st.ModuleBytes(ctx, app, d) })
			return err
		},
	})
	if err != nil {
		return err
	}
	if err := mods.Start(ctx); err != nil {
		return err
	}
	n.onStop("modules", mods.Stop)
	n.checkLimits(ctx, mods)

	var h *host.Host // takes no calls, and no rules change, before it is there
	appSettings, err := n.openSettings(st, func(ctx context.Context, app string) {
		if err := h.RulesChanged(ctx, app); err != nil {
			n.cfg.Logger.Warn("changed rules hold a little later", "app", app, "error", err)
		}
	}, func() (names []string) {
		for _, p := range h.Pools() {
			names = append(names, p.Name())
		}
		return names
	})
	if err != nil {
		return err
	}
	n.reseal(ctx, appSettings)
	n.warnOfOpenFiles()
	requests, err := egress.New(egress.Config{Grants: appSettings})
	if err != nil {
		return err
	}
	n.onStop("egress", func(context.Context) error { requests.Close(); return nil })

	recorder := n.cfg.Server.Spans
	n.onStop("spans", recorder.Stop) // after what they are of
	counted, logs := metrics.New(), rpc.NewLogs()
	n.metrics = counted
	lines := &guestLogs{logs: logs, logger: n.cfg.Logger, also: n.cfg.GuestLog, counts: make(map[host.Scope]int)}
	var ownership host.Ownership
	var others host.Peers
	called := new(peers)
	if owned != nil {
		ownership, others = owned, called
	}
	events := feed.New(feed.Config{Store: st, Shared: st.Shared(), Logger: n.cfg.Logger, Retention: eventRetention(mods)})
	guests := &guestReminders{store: st, log: n.cfg.Logger}
	h, err = host.New(host.Config{
		Ownership: ownership, Peers: others, Rules: appSettings, RuleHosts: owned.Hosts, Counter: counter{st},
		Reminders: guests, NewTrace: func() *actor.Trace { return recorder.Arrived(nil) },
		Committer: st, Modules: n.hostModules(mods), Engine: engine, Services: st, Settings: appSettings, Egress: requests,
		Logger: n.cfg.Logger, Observers: []host.Events{counted.HostEvents(), recorder.Observer(), lines.observer(), {TurnEnd: n.cfg.TurnEnd}, feeds(events), wakes(guests)},
		Limits: n.cfg.Limits, Overrides: n.cfg.Overrides,
		MaxActivations: n.cfg.MaxActivations, GuestMemory: n.cfg.GuestMemory, GuestMemoryPerApp: n.cfg.GuestMemoryPerApp,
		StateMemory: n.cfg.StateMemory, CallMemory: n.cfg.CallMemory, Slots: n.cfg.RunningTurns, Pools: n.cfg.Pools, LockedTurns: lockedTurns,
		Pipeline: groups,
	})
	if err != nil {
		return err
	}
	engine.reclaim = h.CloseIdleInstance
	n.onStop("events", func(context.Context) error { events.Stop(); return nil }) // after the host
	if err := h.Start(ctx); err != nil {
		return err
	}
	n.onStop("host", h.Stop)

	sweep := &sweeper{store: st, log: n.cfg.Logger}
	sweep.Start(ctx)
	n.onStop("sweeper", sweep.Stop)

	cfg := n.cfg.Server
	cfg.Host, cfg.Modules, cfg.Actors, cfg.Check = h, mods, st, st.Check
	cfg.Settings, cfg.Feed, cfg.Version = appSettings, events, n.cfg.Version
	cfg.Timers = h
	cfg.TempFile = engine.compiler.TempFile
	cfg.Metrics, cfg.Logs, cfg.Logger = counted, logs, n.cfg.Logger
	cfg.Gauges = metrics.Gauges{
		QueueDepth:          h.QueueDepth,
		WaitingForProcessor: h.WaitingForProcessor,
		Timers:              h.Timers,
		Instances:           engine.Instances,
		GuestMemory:         engine.GuestMemory,
		StateMemory:         h.StateMemory,
		CallMemory:          h.CallMemory,
		Stored:              host.QuotasOf(h).EachStored,
	}
	for _, p := range h.Pools() {
		cfg.Gauges.Pools = append(cfg.Gauges.Pools, metrics.Pool{Name: p.Name(), Running: p.Running, Waiting: p.Waiting})
	}
	if database, ok := st.(interface{ Retries() uint64 }); ok {
		cfg.Gauges.StoreRetries = database.Retries
	}
	var c *cluster
	fires := &firings{h, recorder, events}
	if n.cfg.Cluster == nil { // or another host may have the memory for it
		cfg.CheckCall = h.CheckCall
	} else {
		if c, err = n.newCluster(ctx, st, mods, h, owned, called); err != nil {
			return err
		}
		if err := c.router.Start(ctx); err != nil {
			return err
		}
		n.onStop("router", c.router.Stop)
		c.serve(&cfg)
		cfg.Timers = c.router
		cfg.Cluster = c.service
		cfg.Check = alsoReady(st.Check, c.service.Ready) // whether calls that reach this process are answered
		fires.host = c.router
	}
	reminders, err := n.newReminders(st, fires, c)
	if err != nil {
		return err
	}
	admin := reminder.NewAdmin(reminders, st)
	admin.Grow, cfg.Stored = host.QuotasOf(h).Grow, host.QuotasOf(h).Stored
	cfg.Reminders, guests.Service = admin, reminders
	outside := &messages{host: h.Outbox(), admin: admin, store: st}
	if c != nil {
		outside.hosts = &hostCheck{store: st}
	}
	cfg.Messages, cfg.Queues = outside, host.QueuesOf(h)
	cfg.Check = alsoReady(cfg.Check, reminders.Ready)
	if n.cfg.ReadyWhenPrepared {
		cfg.Check = alsoReady(cfg.Check, prepared(mods))
	}
	srv, err := server.New(cfg)
	if err != nil {
		return err
	}
	if err := srv.Start(ctx); err != nil {
		return err
	}
	n.onStop("server", srv.Stop)
	n.server = srv
	if c != nil {
		if err := c.service.Start(ctx); err != nil {
			return err
		}
		// First of all that stops: others take the actors over while calls are still
		// taken, and passed on to them.
		n.onStop("cluster", func(ctx context.Context) error {
			err := c.service.Stop(ctx)
			c.router.Drain()
			return err
		})
	}
	// Before all others: nothing new is fired while calls are still taken.
	if err := reminders.Start(ctx); err != nil {
		return err
	}
	n.onStop("reminders", reminders.Stop)
	// And before that who sends requests here by its readiness goes elsewhere.
	n.onStop("readiness", func(ctx context.Context) error { srv.Drain(ctx); return nil })
	// A server that cannot write is up, to say so; it is ready once it can.
	if err := st.Check(ctx); err != nil {
		n.cfg.Logger.Warn("started, but not ready", "address", srv.Addr().String(), "store", st.Name(), "error", err)
		return nil
	}
	attrs := []any{"address", srv.Addr().String(), "console", srv.ConsoleURL(), "store", st.Name()}
	if n.cfg.DataDir != "" { // relative to where the server was started, unless it was given so
		if dir, err := filepath.Abs(n.cfg.DataDir); err == nil {
			attrs = append(attrs, "data_dir", dir)
		}
	}
	n.cfg.Logger.Info("ready", attrs...)
	return nil
}

// checkLimits says which limits are of types that nothing serves: mistyped, most
// likely, though a type may be deployed later.
func (n *Node) checkLimits(ctx context.Context, mods *modules.Service) {
	for scope := range n.cfg.Overrides {
		if scope.Type == "" {
			continue
		}
		types, err := mods.Types(ctx, scope.App)
		served := slices.ContainsFunc(types, func(t modules.ServedType) bool { return t.Spec.Name == scope.Type })
		if err == nil && !served {
			n.cfg.Logger.Warn("a limit is set for a type that nothing serves", "limit", scope.String())
		}
	}
}

func (n *Node) openSettings(st store.Settings, changed func(ctx context.Context, app string), pools func() []string) (*settings.Service, error) {
	var keys *settings.Keyring
	var err error
	switch {
	case n.cfg.SecretsKeyFile != "":
		keys, err = settings.ReadKeyFile(n.cfg.SecretsKeyFile)
	case n.cfg.DataDir != "":
		keys, err = settings.MakeKeyFile(filepath.Join(n.cfg.DataDir, "secrets.key"))
	}
	if err != nil {
		return nil, err
	}
	return settings.New(settings.Config{Store: st, Keys: keys, Changed: changed, Pools: pools, Logger: n.cfg.Logger})
}

// resealTime bounds what a start waits for secrets to be sealed again.
const resealTime = 30 * time.Second

// reseal seals secrets with the first key. What it cannot do now the next start
// does: the keys that are there read everything as before.
func (n *Node) reseal(ctx context.Context, appSettings *settings.Service) {
	ctx, cancel := context.WithTimeout(ctx, resealTime)
	defer cancel()
	done, err := appSettings.Reseal(ctx)
	if err != nil {
		n.cfg.Logger.Warn("not all secrets are sealed with the first key; keep the others until a start says so", "error", err)
	}
	if done.Sealed > 0 {
		n.cfg.Logger.Info("secrets sealed with the first key", "secrets", done.Sealed)
	}
	if done.Unreadable > 0 {
		n.cfg.Logger.Warn("secrets that none of the keys opens are left as they are", "secrets", done.Unreadable)
	}
}

// feeds tells a feed what happens to the events of actors of this host.
func feeds(f *feed.Feed) host.Events {
	return host.Events{
		Published: func(p host.Published) { f.Published(p.Key, p.Events) },
		TurnEnd: func(e host.TurnEnd) {
			if e.Method == "" && e.Err == nil { // it was deleted
				f.Removed(e.Key)
			}
		},
	}
}

// wakes has the cursors read that wait for the events of actors of this host, also of one that was
// deleted with its events.
func wakes(g *guestReminders) host.Events {
	return host.Events{
		Published: func(p host.Published) { g.Published(p.Key) },
		TurnEnd: func(e host.TurnEnd) {
			if e.Method == "" && e.Err == nil {
				g.Published(e.Key)
			}
		},
	}
}

func (n *Node) onStop(what string, do func(context.Context) error) {
	n.stops = append(n.stops, stop{what, do})
}

// Stop stops taking requests, finishes those in flight, and closes everything in
// the reverse order of Start. When ctx ends first, what is left is cut off. It is
// safe twice and before Start.
func (n *Node) Stop(ctx context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.stopAll(ctx)
}

func (n *Node) stopAll(ctx context.Context) error {
	var errs []error
	for len(n.stops) > 0 {
		last := n.stops[len(n.stops)-1]
		n.stops = n.stops[:len(n.stops)-1]
		began := time.Now()
		if err := last.do(ctx); err != nil {
			errs = append(errs, fmt.Errorf("stop %s: %w", last.what, err))
		}
		n.cfg.Logger.Debug("a part has stopped", "part", last.what, "took", time.Since(began).Round(time.Microsecond).String())
	}
	n.server = nil
	return errors.Join(errs...)
}

// Addr is where the API listens, nil unless the node runs.
func (n *Node) Addr() net.Addr {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.server == nil {
		return nil
	}
	return n.server.Addr()
}
