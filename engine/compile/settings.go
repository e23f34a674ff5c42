package compile

import (
	"cmp"
	"fmt"
	"log/slog"
	"time"
)

// EngineConfig is what every engine that runs compiled code is made of. The zero
// value of a field means its default.
type EngineConfig struct {
	// Compiler makes and keeps compiled code. The engines of a host share one.
	// Defaults to one of its own, which keeps it in a temporary folder.
	Compiler *Compiler
	// Logger gets warnings about compiled code, and panics of host functions.
	// Defaults to discarding.
	Logger *slog.Logger
	// MaxPrograms bounds the compiled modules that are kept in memory without
	// anybody using them. Its default is the engine's.
	MaxPrograms int
	// ProgramBytes bounds what all compiled modules take in memory, in bytes: machine
	// code, and what instances are made from. See [Programs]. Defaults to 256 MiB.
	ProgramBytes int64
	// MaxInstances bounds the instances; one more is actor.ErrOverloaded. Its
	// default is the engine's.
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
}

// WithDefaults returns a copy with defaults filled in. Two of the defaults are the
// engine's own: maxPrograms and maxInstances.
func (c EngineConfig) WithDefaults(maxPrograms, maxInstances int) EngineConfig {
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	c.MaxPrograms = cmp.Or(c.MaxPrograms, maxPrograms)
	c.MaxInstances = cmp.Or(c.MaxInstances, maxInstances)
	c.ProgramBytes = cmp.Or(c.ProgramBytes, 256<<20)
	c.InitTimeout = cmp.Or(c.InitTimeout, 5*time.Second)
	c.InspectMemory = cmp.Or(c.InspectMemory, 64<<20)
	c.InspectTimeout = cmp.Or(c.InspectTimeout, 5*time.Second)
	return c
}

// Validate names the first field of an engine's configuration that cannot work.
func (c EngineConfig) Validate(engine string) error {
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
			return fmt.Errorf("%s config: %s is negative; give a positive value, or 0 for the default", engine, f.name)
		}
	}
	return nil
}
