package host

import (
	"context"
	"fmt"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/activation"
	"github.com/greenroom-run/greenroom/host/call"
	"github.com/greenroom-run/greenroom/host/children"
	"github.com/greenroom-run/greenroom/host/executor"
	"github.com/greenroom-run/greenroom/host/follow"
	"github.com/greenroom-run/greenroom/host/inbox"
	"github.com/greenroom-run/greenroom/host/instance"
	"github.com/greenroom-run/greenroom/host/lane"
	"github.com/greenroom-run/greenroom/host/nested"
	"github.com/greenroom-run/greenroom/host/serving"
	"github.com/greenroom-run/greenroom/host/storage"
	"github.com/greenroom-run/greenroom/host/throttle"
	"github.com/greenroom-run/greenroom/host/timer"
	"github.com/greenroom-run/greenroom/host/turn"
	"github.com/greenroom-run/greenroom/host/worker"
	"github.com/greenroom-run/greenroom/internal/fair"
)

// Host runs actors. All methods may be called concurrently.
type Host struct {
	cfg       Config
	events    Events
	life      lifecycle
	memory    call.Memory
	store     *storage.Store
	ownership activation.Ownership
	table     activation.Table
	pools     *instance.Pools
	slots     *executor.Slots
	rules     *throttle.Governor
	reads     lane.Reads
	timers    lane.Timers
	outbox    *inbox.Outbox // nil: there are no messages
	chains    *nested.Chains
	tells     tells
	answering call.Answering
	admission admission
}

// New returns a host that is not started. An error names the field of cfg and
// the remedy.
func New(cfg Config) (*Host, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	h := &Host{cfg: cfg, events: allOf(cfg.Logger, cfg.Observers)}
	h.life.init()
	h.memory = call.NewMemory(cfg.CallMemory)
	h.answering = call.Answering{TurnEnd: h.events.TurnEnd, Memory: &h.memory, Logger: cfg.Logger}
	stored := storage.Config{Committer: children.NewStore(&h.table.Children, cfg.Committer), Pipeline: cfg.Pipeline, Grace: cfg.SettleGrace, Committed: h.events.Commit}
	if cfg.Reminders != nil {
		stored.FindReminders = cfg.Reminders.FindReminders
	}
	h.store = storage.New(stored)
	h.ownership = activation.Ownership{Shared: cfg.Committer.Shared(), Cluster: cfg.Ownership, Store: h.store}
	h.timers = lane.Timers{Clock: timer.NewClock(cfg.TimerMemory, h.admission.fire), Table: &h.table}
	h.table.Init(cfg.MaxActivations, cfg.StateMemory, &h.ownership, activation.Observer{Activated: h.events.Activated, Deactivated: h.events.Deactivated}, h.timers.Clock, h.tells.deliver)
	pools, err := executor.Pools(cfg.Slots, cfg.Pools)
	if err != nil {
		return nil, fmt.Errorf("host config: Pools: %w", err)
	}
	h.slots = executor.New(cfg.Slots, pools)
	if cfg.Rules != nil {
		h.rules = throttle.New(throttle.Config{Source: cfg.Rules, Hosts: cfg.RuleHosts, Counter: cfg.Counter, Logger: cfg.Logger})
	}
	h.pools = instance.New(instance.Config{
		Engine: cfg.Engine, ModuleBytes: cfg.Modules.ModuleBytes, Logger: cfg.Logger, Slots: h.slots,
		Memory: cfg.GuestMemory, MemoryPerApp: cfg.GuestMemoryPerApp, Made: h.events.InstanceMade, Closed: h.events.InstanceClosed,
	})
	served := serving.New(cfg.Modules, h.cfg.LimitsOf, h.pools, h.slots, h.rules)
	records := lane.NewRecordings(h.store, &h.table)
	env := turn.Env{
		Random: cfg.Random, Revisions: &h.table.Revisions, Logger: cfg.Logger, Settings: cfg.Settings, Egress: cfg.Egress,
		Logged: h.events.GuestLog, Sent: h.events.Egress, Timers: &h.timers, Types: served,
	}
	var rems *lane.Reminders
	if cfg.Reminders != nil {
		rems = &lane.Reminders{Keeper: cfg.Reminders, Store: h.store}
		h.outbox = &inbox.Outbox{Types: served, Inboxes: inbox.NewAccount(cfg.Reminders.Inbox)}
		env.Reminders, env.Outbox = rems, h.outbox
	}
	if cfg.Services != nil {
		env.Services = lane.NewServices(cfg.Services)
		h.timers.Followers = follow.New(cfg.Services, cfg.Logger)
		env.Followers = h.timers.Followers
	}
	if cfg.Peers != nil {
		env.Hosts = hosts{cfg.Peers}
	}
	runs := lane.NewRuns(env, &h.ownership, records, rems)
	h.reads = lane.Reads{
		Memory: &h.memory, Table: &h.table, Store: h.store, Deployments: served, Ownership: &h.ownership, Runs: runs,
		Copies: &lane.Copies{Memory: &h.memory, Store: h.store, Table: &h.table},
	}
	h.chains = nested.New(nested.Config{
		Admission: &h.admission, Deployments: served, Memory: &h.memory, Answering: &h.answering, Table: &h.table, Reminders: rems,
		Recordings: records, Peers: cfg.Peers, NewName: h.cfg.newName, Logger: cfg.Logger,
	})
	runs.Call, runs.All = h.chains.Call, h.chains.All
	runs.Spawner = lane.Spawner{Deployments: served, Store: h.store, NewName: h.cfg.newName, Children: &h.table.Children}
	stateless := &lane.Stateless{Store: h.store, Runs: runs}
	h.chains.Turns = &lane.Turns{
		Reminders: rems, Timers: &h.timers,
		Memory: &h.memory, Table: &h.table, Store: h.store, Deployments: served, Ownership: &h.ownership,
		Records: records, Runs: runs, Stateless: stateless,
		Locked: &lane.Locked{
			Places: fair.NewPlaces(cfg.LockedTurns), Table: &h.table, Store: h.store, Deployments: served, Ownership: &h.ownership, Runs: runs,
			Published: h.events.published,
		},
	}
	h.tells = tells{admission: &h.admission, peers: cfg.Peers, logger: cfg.Logger, failed: h.events.TellFailed, newTrace: cfg.NewTrace, told: h.events.Told}
	workers := worker.New(worker.Config{
		Logger: cfg.Logger, CallersCommit: cfg.Pipeline.CallersCommit, Answering: &h.answering, Memory: &h.memory, Table: &h.table, Store: h.store,
		Ownership: &h.ownership, Repeats: records.Repeats, Recorded: records.AsRecorded, Run: h.chains.Turns.Run,
		Committed: rems.Committed, Accepted: rems.Accepted, Refused: rems.Refused, Unused: rems.Unused, Published: h.events.published,
	})
	h.admission = admission{
		grace: cfg.SettleGrace, answering: &h.answering, life: &h.life, memory: &h.memory, table: &h.table, store: h.store,
		deployments: served, ownership: &h.ownership, records: records, reads: &h.reads, stateless: stateless, workers: workers,
		timers: &h.timers, timerFired: h.events.TimerFired, waits: h.chains.Waits, newName: h.cfg.newName,
	}
	return h, nil
}

// Invoke runs one turn and returns its reply when everything that it changed is
// durable. The caller has checked the names: [actor.Key.Validate],
// [actor.ValidateName] of the method and [actor.ValidateIdempotencyKey] hold. What
// depends on the type (its existence, its methods, the size of the payload) is
// checked here. The error is an [*actor.TurnError] around a sentinel or a typed
// error of package actor; after any of them but actor.ErrAmbiguous the turn left no
// trace. If ctx ends, the turn is not started, or is stopped, or, once it is sealed, its
// outcome is awaited; see protocol.md. The payload must not be changed until Invoke returns.
func (h *Host) Invoke(ctx context.Context, inv actor.Invocation) (actor.Reply, error) {
	c := &call.Call{Request: h.invocation(ctx, inv)}
	return h.answering.Conclude(c, h.admission.counted(c, h.admission.admit))
}

// invocation is the request that inv makes, which arrives now.
func (h *Host) invocation(ctx context.Context, inv actor.Invocation) call.Request {
	arrived := time.Now()
	if inv.ID == "" {
		inv.ID = h.cfg.newName()
	}
	return call.Request{Ctx: ctx, Op: call.OpInvoke, Inv: inv, Cause: inv.Cause(), Arrived: arrived}
}

// Delete removes an actor's state, as one turn of that actor; actor.ErrActorNotFound
// when nothing is stored. Its reminders go with it; of very many most go before, and after
// an error some of them may be gone: repeat it. It works for damaged states as well, and for types that
// nothing serves any more. Errors are as those of Invoke.
func (h *Host) Delete(ctx context.Context, key actor.Key) error {
	arrived := time.Now()
	c := &call.Call{Request: call.Request{Ctx: ctx, Op: call.OpDelete, Inv: actor.Invocation{Key: key, Trace: actor.TraceOf(ctx)}, Arrived: arrived}}
	_, err := h.answering.Conclude(c, h.admission.counted(c, h.admission.admitDelete))
	return err
}

// RulesChanged has the rules of an app hold that were changed in the store, before it returns. If they
// cannot be read, they hold a few seconds later.
func (h *Host) RulesChanged(ctx context.Context, app string) error { return h.rules.Changed(ctx, app) }

// Pools returns the pools of Config.Pools, with those that every host has.
func (h *Host) Pools() []*executor.Pool { return h.slots.Pools() }

// WaitingForProcessor returns how many turns wait for a slot of Config.Slots now.
func (h *Host) WaitingForProcessor() int { return h.slots.Waiting() }

// CheckCall returns the error that a call of an app would get now if Config.CallMemory has no room
// for a payload of so many bytes. For the empty app it returns one only if no app has room for
// them.
func (h *Host) CheckCall(app string, bytes int64) error {
	return h.memory.Check(app, call.CallCost+bytes)
}

// CloseIdleInstance closes an unused guest instance of an app, to free what it keeps in memory, and
// reports whether there was one.
func (h *Host) CloseIdleInstance(app string) bool { return h.pools.ReclaimOf(app) }

// InChains returns the actors that chains of several actors have now.
func (h *Host) InChains() []actor.Key {
	held := h.chains.Held()
	keys := make([]actor.Key, len(held))
	for i, a := range held {
		keys[i] = a.Key
	}
	return keys
}

// View reads an actor from the store and looks at its activation, if any.
// actor.ErrActorNotFound when nothing is stored, actor.ErrStateDamaged when the
// state cannot be decoded; in an [*actor.TurnError].
func (h *Host) View(ctx context.Context, key actor.Key) (View, error) {
	return h.reads.View(ctx, key)
}
