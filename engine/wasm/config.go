package wasm

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/greenroom-run/greenroom/engine/compile"
)

// Config configures an [Engine]. The zero value is usable.
type Config struct {
	// Compiler makes and keeps compiled code. The engines of a host share one.
	// Defaults to one of its own, which keeps it in a temporary folder.
	Compiler *compile.Compiler
	// Logger gets warnings about compiled code, and panics of host functions.
	// Defaults to discarding.
	Logger *slog.Logger
	// MaxPrograms bounds the compiled modules that are kept in memory without
	// anybody using them. Defaults to 256.
	MaxPrograms int
	// ProgramBytes bounds what those take, in bytes, with their machine code. The
	// one used last stays even beyond it. Defaults to 256 MiB.
	ProgramBytes int64
	// MaxInstances bounds the instances; one more is actor.ErrOverloaded.
	// Defaults to 500,000: 32 TiB of the 128 TiB of addresses that a process has,
	// at the default limit of 64 MiB each.
	MaxInstances int
	// InitTimeout bounds the start function and _initialize of an instance.
	// Defaults to 5 s.
	InitTimeout time.Duration
	// InspectMemory is the memory limit of the trial instance of an inspection,
	// in bytes. Defaults to 64 MiB.
	InspectMemory int64
	// InspectTimeout bounds each step of an inspection that runs the guest.
	// Defaults to 5 s.
	InspectTimeout time.Duration
	// AllowInterpreter permits running where wazero has no compiler, about a
	// hundred times slower. Defaults to false: [New] fails there.
	AllowInterpreter bool
}

// WithDefaults returns a copy with defaults filled in.
func (c Config) WithDefaults() Config {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.MaxPrograms == 0 {
		c.MaxPrograms = 256
	}
	if c.ProgramBytes == 0 {
		c.ProgramBytes = 256 << 20
	}
	if c.MaxInstances == 0 {
		c.MaxInstances = 500_000
	}
	if c.InitTimeout == 0 {
		c.InitTimeout = 5 * time.Second
	}
	if c.InspectMemory == 0 {
		c.InspectMemory = 64 << 20
	}
	if c.InspectTimeout == 0 {
		c.InspectTimeout = 5 * time.Second
	}
	return c
}

func (c Config) validate() error {
	for _, f := range []struct {
		name  string
		value int64
	}{
		{"MaxPrograms", int64(c.MaxPrograms)},
		{"MaxInstances", int64(c.MaxInstances)},
		{"InitTimeout", int64(c.InitTimeout)},
		{"InspectMemory", c.InspectMemory},
		{"InspectTimeout", int64(c.InspectTimeout)},
		{"ProgramBytes", c.ProgramBytes},
	} {
		if f.value < 0 {
			return fmt.Errorf("wasm config: %s is negative; give a positive value, or 0 for the default", f.name)
		}
	}
	return nil
}
