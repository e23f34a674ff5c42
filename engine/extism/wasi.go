package extism

import (
	"math"

	"github.com/greenroom-run/greenroom/engine/wasi"
)

// wasiFuncs lists the functions of WASI.
func wasiFuncs() []hostFunc {
	var out []hostFunc
	for _, f := range wasi.Functions() {
		out = append(out, hostFunc{wasi.Module, f.Name, f.Params, f.Results, func(c *call, stack []uint64) {
			f.Call((*system)(c.instance), stack)
		}})
	}
	return out
}

// system is an instance as WASI sees it.
type system instance

var _ wasi.Guest = (*system)(nil)

func (s *system) i() *instance { return (*instance)(s) }

// Memory is the plug-in's own, which comes after the kernel's: see
// [memories.Allocate].
func (s *system) Memory() []byte {
	plugin := &s.mem.parts[1]
	return plugin.data[:plugin.size]
}

func (s *system) Spend(fuel uint64) { s.tank.Charge(fuel) }

func (s *system) Now() int64 { return s.i().nowUnixNano() }

func (s *system) Monotonic() int64 { return s.Now() + s.slept }

// Sleep moves the monotonic clock on: a plug-in that waits for a moment would
// otherwise ask again without end. The clock stands still at its end.
func (s *system) Sleep(nanoseconds int64) {
	s.slept += min(nanoseconds, math.MaxInt64-s.Monotonic())
}

func (s *system) Random(p []byte) { s.i().random(p) }

func (s *system) Print(descriptor uint32, p []byte) { s.out.Print(descriptor, p) }

func (s *system) Exit(code uint32) { panic(&guestFault{exitText(code)}) }
