package host

import (
	"cmp"
	"crypto/rand"
	"encoding/base32"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine"
	"github.com/greenroom-run/greenroom/host/executor"
	"github.com/greenroom-run/greenroom/host/pipeline"
	"github.com/greenroom-run/greenroom/host/serving"
)

// Config is what a [Host] is made of. Committer, Modules and Engine are needed;
// the zero value of everything else means its default.
type Config struct {
	// Committer keeps the actors. Required.
	Committer Committer
	// Modules says what serves each actor type. Required.
	Modules ModuleSource
	// Engine runs modules. Required.
	Engine engine.Engine

	// Ownership says which actors this host may run, where other hosts run actors of
	// the same store. Defaults to all, for a host that is alone; if others write to
	// the store all the same, what is answered without a commit is confirmed by it.
	Ownership Ownership
	// Services says who stands for services; every store does. Defaults to none.
	Services ServiceSource
	// Settings gives guests configuration and secrets. Defaults to none.
	Settings Settings
	// Rules has the rules of apps. Defaults to none.
	Rules Rules
	// RuleHosts returns how many hosts share what rules bound for all of them, at least 1. Defaults to
	// 1 always.
	RuleHosts func() int
	// Counter counts what apps store, for their quotas. Defaults to none: those have no effect.
	Counter Counter
	// Reminders keeps and delivers what guests set. Defaults to none: they cannot.
	Reminders Reminders
	// Egress sends the HTTP requests of guests. Defaults to denying all.
	Egress Egress
	// NewTrace returns the trace for one delivery of a volatile message, or nil. Defaults to nil for
	// all.
	NewTrace func() *actor.Trace
	// Peers calls actors that other hosts hold, for guests. Defaults to none: guests call
	// only what this host holds.
	Peers Peers

	// Random fills its argument with random bytes, for the seeds of guests and the names of calls.
	// It is called concurrently. Defaults to crypto/rand.
	Random func([]byte)

	// Logger gets state changes of the host and, unless an observer has a GuestLog,
	// what guests log. Defaults to slog.DiscardHandler.
	Logger *slog.Logger
	// Observers are called, in this order, at the points that [Events] names. Defaults to none.
	Observers []Events

	// Limits bound every actor type. A zero field defaults to the one of
	// [DefaultLimits].
	Limits Limits
	// Overrides replace Limits for an app ([Scope] without a type) or for one
	// type of it, field by field where they are not zero; the type's wins.
	Overrides map[Scope]Limits

	// MaxActivations bounds how many actors are in memory. Above it the least
	// recently used idle one goes; if none is idle, new ones are refused with
	// actor.ErrOverloaded. Defaults to 100,000.
	MaxActivations int
	// StateMemory bounds the states of the actors in memory, in bytes. Above it
	// the least recently used idle actor goes; if none is idle, turns are refused
	// with actor.ErrHostFull. Turns that run may pass it by what they write.
	// Defaults to 1 GiB.
	StateMemory int64
	// CallMemory bounds the payloads of the calls under way, the replies that
	// wait for a commit and the states that read-only methods load, in bytes; a
	// call counts for 2 KiB at least. Above it calls are refused with
	// actor.ErrHostFull. An eighth is for the calls that come first; apps share the rest:
	// an app may take at most seven times what it leaves free of that. The calls of one actor may take an eighth, above which they get
	// actor.ErrMailboxFull. Defaults to 256 MiB.
	CallMemory int64
	// GuestMemory bounds the memory of all instances together, in bytes: of one that
	// runs all that it can touch, of others what they have touched. At the bound idle
	// instances are closed, first of the apps that hold most, and none of an app that
	// holds less than the one that needs memory; then a new instance, or a turn, is
	// refused with actor.ErrOverloaded, and a guest that runs cannot grow. Defaults to
	// 2 GiB.
	GuestMemory int64
	// GuestMemoryPerApp bounds the same of one app. Defaults to half of GuestMemory.
	GuestMemoryPerApp int64
	// InstanceIdle is how long an instance of a pool stays unused before it is
	// closed. Defaults to 1 minute.
	InstanceIdle time.Duration
	// TimerMemory bounds the timers of all actors, in bytes; each counts for half a KiB
	// beside its payload. Apps share it; above an app's share it sets no more. Defaults to
	// 64 MiB.
	TimerMemory int64
	// Slots bounds the guests that run at the same time. While no turn waits, [executor.Beginners]
	// times as many may run if they are new. Apps share them: while more guests want to run, each
	// app's use as much fuel. Defaults to GOMAXPROCS.
	Slots int
	// Pools are pools of turns beside those that every host has, and those of them that differ from
	// their defaults: [executor.Pools]. Limits.Pool chooses one for a type; otherwise its manifest
	// does.
	Pools []executor.PoolConfig
	// LockedTurns bounds the locked turns that run at once, each of which holds
	// a database connection. Apps share them: one alone may have seven eighths. Defaults to 32.
	LockedTurns int

	// Pipeline bounds the groups in which commits and loads go to the store, and
	// what waits for it. Its defaults are those of package pipeline.
	Pipeline pipeline.Config

	// SettleGrace is how long the host tries to settle an ambiguous commit, and
	// how long a caller whose time is up waits for the outcome of a turn that
	// is already sealed, before it receives actor.ErrAmbiguous. Defaults to 15 s.
	SettleGrace time.Duration
	// SweepEvery is how often idle activations and instances are looked for.
	// Defaults to 5 s.
	SweepEvery time.Duration
}

// Defaults of [Config].
const (
	DefaultMaxActivations = 100_000
	DefaultStateMemory    = 1 << 30
	DefaultCallMemory     = 256 << 20
	DefaultGuestMemory    = 2 << 30
	DefaultInstanceIdle   = time.Minute
	DefaultTimerMemory    = 64 << 20
	DefaultLockedTurns    = 32
	DefaultSettleGrace    = 15 * time.Second
	DefaultSweepEvery     = 5 * time.Second
)

// WithDefaults returns a copy of c whose zero fields have their defaults.
func (c Config) WithDefaults() Config {
	if c.Random == nil {
		c.Random = func(p []byte) { rand.Read(p) } // never fails
	}
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	c.Limits = c.Limits.Over(serving.DefaultLimits())
	c.Pipeline = c.Pipeline.WithDefaults()
	c.MaxActivations = cmp.Or(c.MaxActivations, DefaultMaxActivations)
	c.StateMemory = cmp.Or(c.StateMemory, DefaultStateMemory)
	c.CallMemory = cmp.Or(c.CallMemory, DefaultCallMemory)
	c.GuestMemory = cmp.Or(c.GuestMemory, DefaultGuestMemory)
	c.GuestMemoryPerApp = cmp.Or(c.GuestMemoryPerApp, c.GuestMemory/2)
	c.InstanceIdle = cmp.Or(c.InstanceIdle, DefaultInstanceIdle)
	c.TimerMemory = cmp.Or(c.TimerMemory, DefaultTimerMemory)
	c.Slots = cmp.Or(c.Slots, runtime.GOMAXPROCS(0))
	c.LockedTurns = cmp.Or(c.LockedTurns, DefaultLockedTurns)
	c.SettleGrace = cmp.Or(c.SettleGrace, DefaultSettleGrace)
	c.SweepEvery = cmp.Or(c.SweepEvery, DefaultSweepEvery)
	return c
}

// validate reports the first field that cannot work, after WithDefaults.
func (c Config) validate() error {
	switch {
	case c.Committer == nil:
		return fmt.Errorf("host config: Committer is nil; give the store")
	case c.Modules == nil:
		return fmt.Errorf("host config: Modules is nil; give the source of deployments")
	case c.Engine == nil:
		return fmt.Errorf("host config: Engine is nil; give the engine that runs modules")
	}
	positive := []struct {
		field string
		value int64
	}{
		{"MaxActivations", int64(c.MaxActivations)},
		{"StateMemory", c.StateMemory},
		{"CallMemory", c.CallMemory},
		{"GuestMemory", c.GuestMemory},
		{"GuestMemoryPerApp", c.GuestMemoryPerApp},
		{"InstanceIdle", int64(c.InstanceIdle)},
		{"TimerMemory", c.TimerMemory},
		{"Slots", int64(c.Slots)},
		{"LockedTurns", int64(c.LockedTurns)},
		{"SettleGrace", int64(c.SettleGrace)},
		{"SweepEvery", int64(c.SweepEvery)},
	}
	for _, p := range positive {
		if p.value < 0 {
			return fmt.Errorf("host config: %s is %d; give a positive value, or 0 for the default", p.field, p.value)
		}
	}
	if err := c.Pipeline.Validate(); err != nil {
		return fmt.Errorf("host config: Pipeline.%w", err)
	}
	if _, err := executor.Pools(c.Slots, c.Pools); err != nil {
		return fmt.Errorf("host config: Pools: %w", err)
	}
	if err := errors.Join(c.Limits.Validate(), c.fits(c.Limits), c.hasPool(c.Limits.Pool)); err != nil {
		return fmt.Errorf("host config: Limits.%w", err)
	}
	for scope, l := range c.Overrides {
		if scope.App == "" {
			return fmt.Errorf("host config: Overrides has a scope without an app; name the app, or change Limits")
		}
		if err := errors.Join(l.Validate(), c.fits(c.LimitsOf(scope)), c.hasPool(l.Pool)); err != nil {
			return fmt.Errorf("host config: Overrides[%s].%w", scope, err)
		}
	}
	return nil
}

const (
	// MaxStateAndPayload bounds Limits.StateBytes and Limits.PayloadBytes together.
	MaxStateAndPayload = serving.MaxStateAndPayload
	// StatesInMemory is how many of the largest states Config.StateMemory holds
	// at least.
	StatesInMemory = 8
	// PayloadsInMemory is the same of payloads and Config.CallMemory.
	PayloadsInMemory = 2
)

// fits reports limits that leave no room for a single turn.
func (c *Config) fits(l Limits) error {
	switch {
	case l.StateBytes+l.PayloadBytes > MaxStateAndPayload:
		return fmt.Errorf("StateBytes %d and PayloadBytes %d are more than %d together; lower either", l.StateBytes, l.PayloadBytes, MaxStateAndPayload)
	case l.StateBytes > c.StateMemory/StatesInMemory:
		return fmt.Errorf("StateBytes is %d; StateMemory must be at least %d times as much", l.StateBytes, StatesInMemory)
	case l.PayloadBytes > c.CallMemory/PayloadsInMemory:
		return fmt.Errorf("PayloadBytes is %d; CallMemory must be at least %d times as much", l.PayloadBytes, PayloadsInMemory)
	}
	return nil
}

// hasPool reports a pool that is not configured.
func (c *Config) hasPool(name string) error {
	pools, err := executor.Pools(c.Slots, c.Pools)
	if err != nil || name == "" {
		return err
	}
	if !slices.ContainsFunc(pools, func(p executor.PoolConfig) bool { return p.Name == name }) {
		known := make([]string, len(pools))
		for i := range pools {
			known[i] = pools[i].Name
		}
		return fmt.Errorf("Pool: %w", &executor.UnknownPoolError{Name: name, Known: known})
	}
	return nil
}

// newName returns a name that no call had before.
func (c *Config) newName() string {
	var b [16]byte
	c.Random(b[:])
	return base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(b[:])
}

// LimitsOf returns what bounds an app or a type, before its manifest lowers it.
// The receiver is one that [Config.WithDefaults] returned.
func (c *Config) LimitsOf(s Scope) Limits {
	return c.Overrides[s].Over(c.Overrides[Scope{App: s.App}]).Over(c.Limits)
}
