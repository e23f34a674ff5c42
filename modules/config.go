package modules

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// Inspector judges a module before it is stored.
type Inspector interface {
	// Inspect returns the module's manifest, or every fault found. The error is
	// for what is not the module's fault.
	Inspect(ctx context.Context, wasm actor.Code) (*abi.Manifest, []actor.Fault, error)
}

// Config configures a [Service].
type Config struct {
	// Store keeps modules and deployments. Required.
	Store store.Modules
	// Inspector judges uploads. Required.
	Inspector Inspector
	// Prepare is the place to compile a module, so that few calls wait for that. It
	// is called before a module takes a type over, from Deploy and when another
	// process deployed it; and with each module of a type that nothing served here
	// before, as at the start, while that type is served already: then one module at
	// a time. What it returns is logged; the module serves all the same. It is called
	// concurrently. Its ctx ends when the service stops, but may have been made for a
	// caller of Deploy. It has the app as [engine.Owner], which serves in the first case
	// alone. Defaults to nothing.
	Prepare func(ctx context.Context, app string, d actor.Digest) error
	// Reminders are looked at when a deployment takes methods away: those that name one
	// are warned of. Defaults to none.
	Reminders Reminders
	// Hosts returns the hosts of the cluster: Deploy refuses a module that one of them does not
	// know how to run. Defaults to none: this process is alone.
	Hosts func(ctx context.Context) ([]actor.Host, error)
	// Imports returns the host functions that a stored module imports, by which Deploy judges
	// whether Hosts know them, and whether its types call others. Defaults to none.
	Imports func(ctx context.Context, app string, d actor.Digest) ([]string, error)
	// Changed is called after anything that Known or Current returns has changed. It must
	// be quick. Defaults to nothing.
	Changed func()
	// Logger gets changes of deployments and failures of the poll. Defaults to
	// discarding.
	Logger *slog.Logger
	// MaxBytes is the size of the largest module that is taken, in bytes.
	// Defaults to 32 MiB.
	MaxBytes int64
	// MaxStoredBytes bounds the modules of one app together, in bytes: [store.StoredBytes].
	// Those that serve no type are removed to make room, the oldest first. Defaults to
	// 1 GiB.
	MaxStoredBytes int64
	// PollInterval is how often deployments made by other processes are looked
	// for. Defaults to 5 s.
	PollInterval time.Duration
}

// Reminders lists reminders. Every store does.
type Reminders interface {
	ListReminders(ctx context.Context, q store.ReminderQuery) (list []actor.Reminder, next actor.ReminderName, err error)
}

// WithDefaults returns a copy with defaults filled in.
func (c Config) WithDefaults() Config {
	if c.Prepare == nil {
		c.Prepare = func(context.Context, string, actor.Digest) error { return nil }
	}
	if c.Hosts == nil {
		c.Hosts = func(context.Context) ([]actor.Host, error) { return nil, nil }
	}
	if c.Imports == nil {
		c.Imports = func(context.Context, string, actor.Digest) ([]string, error) { return nil, nil }
	}
	if c.Changed == nil {
		c.Changed = func() {}
	}
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	c.MaxBytes = cmp.Or(c.MaxBytes, 32<<20)
	c.MaxStoredBytes = cmp.Or(c.MaxStoredBytes, 1<<30)
	c.PollInterval = cmp.Or(c.PollInterval, 5*time.Second)
	return c
}

func (c Config) validate() error {
	switch {
	case c.Store == nil:
		return errors.New("modules config: Store is nil; give the store that keeps modules")
	case c.Inspector == nil:
		return errors.New("modules config: Inspector is nil; give the engine that will run the modules")
	case c.MaxBytes < 0:
		return errors.New("modules config: MaxBytes is negative; give a size in bytes, or 0 for 32 MiB")
	case c.MaxStoredBytes < 0:
		return errors.New("modules config: MaxStoredBytes is negative; give a size in bytes, or 0 for 1 GiB")
	case c.PollInterval < 0:
		return errors.New("modules config: PollInterval is negative; give a duration, or 0 for 5 s")
	}
	return nil
}
