package compile

import (
	"errors"
	"fmt"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// Limit is what a compilation passed.
type Limit string

// The limits of a compilation.
const (
	LimitMemory Limit = "memory" // of the compiler
	LimitTime   Limit = "time"
	LimitDecode Limit = "decode" // memory that the server would take to load it
	LimitCode   Limit = "code"   // bytes of machine code
	LimitMeter  Limit = "meter"  // bytes of the module as it is run
	LimitStack  Limit = "stack"  // of the compiler
	// LimitProgram is the memory of all programs, which one alone would pass.
	LimitProgram Limit = "program"
)

// LimitError is a module that takes more to compile than it may.
type LimitError struct {
	Limit  Limit
	Memory int64         // the bound of it, in bytes
	Time   time.Duration // the bound of it
}

func (e *LimitError) Error() string {
	switch e.Limit {
	case LimitMemory:
		return fmt.Sprintf("takes more than %d MiB of memory to compile; split large functions, pass fewer parameters, results and local variables through loops and branches, or have the host raise --compile-memory", e.Memory>>20)
	case LimitTime:
		return fmt.Sprintf("takes more than %s to compile; the machine may be busy: try again, or give it more with --compile-time; if that does not help, split large functions and build an optimized module (-Oz, -opt=z, --release)", e.Time)
	case LimitDecode:
		return fmt.Sprintf("takes more than %d MiB of memory to load; declare fewer types, functions, exports, names and segments", e.Memory>>20)
	case LimitCode:
		return fmt.Sprintf("becomes more than %d MiB of machine code; build an optimized module, and split large functions", e.Memory>>20)
	case LimitProgram:
		return fmt.Sprintf("takes more than %d MiB of memory once it is compiled; build an optimized module (-Oz, -opt=z, --release), or have the host raise --max-program-memory", e.Memory>>20)
	case LimitMeter:
		return fmt.Sprintf("becomes more than %d MiB once it is metered; build an optimized module, and use fewer loops, memory.grow, memory.copy and memory.fill", e.Memory>>20)
	case LimitStack:
		return "is nested too deep to be compiled; split large functions"
	}
	return "takes too much to compile"
}

// Is makes a compilation that took too long one that may be tried again: the host
// was busy. A module that is deployed already compiled in time once, and fits on
// another host.
func (e *LimitError) Is(target error) bool {
	return (e.Limit == LimitTime || e.Limit == LimitProgram) && target == actor.ErrOverloaded
}

// InvalidError is a module that the runtime refuses.
type InvalidError struct{ Problem string }

func (e *InvalidError) Error() string { return e.Problem }

// CrashError is a compiler that failed in a way that is not the module's fault,
// though of its making.
type CrashError struct {
	Problem string
	// Output is the end of what it wrote before.
	Output string
}

func (e *CrashError) Error() string { return "the compiler crashed: " + e.Problem }

// errNotCompiled is what wazero is stopped with where it would compile.
var errNotCompiled = errors.New("the module's code is not in the cache")
