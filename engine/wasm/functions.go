package wasm

import (
	"sync/atomic"

	"github.com/tetratelabs/wazero/api"

	"github.com/greenroom-run/greenroom/abi"
)

// maxFunctions bounds the Function objects that are kept between turns. One has
// a call stack of 10 KB, or of as much as its deepest turn took, and costs 4 µs
// to make: worth keeping for the instances in use, too much for a hundred
// thousand that wait.
const maxFunctions = 2048

// functions lets instances keep the Functions that they used last: first in,
// first out.
type functions struct {
	next atomic.Uint64
	ring [maxFunctions]atomic.Pointer[entry]
}

// entry is what an instance runs its turns with.
type entry struct {
	ctx                guestContext // of the turn that runs
	stack              [2]uint64    // arguments and results
	framePtr, frameCap uint32       // the guest's frame buffer

	// fn is there between turns as long as the entry is in the ring at place;
	// whoever takes it out of the ring clears fn.
	fn    atomic.Pointer[api.Function]
	place uint64
}

// take returns the entry's Function for a turn.
func (fs *functions) take(en *entry, mod api.Module) *api.Function {
	if fn := en.fn.Swap(nil); fn != nil {
		return fn
	}
	fn := mod.ExportedFunction(abi.ExportTurn)
	return &fn
}

// keep puts it back.
func (fs *functions) keep(en *entry, fn *api.Function) {
	en.fn.Store(fn)
	if fs.ring[en.place].Load() == en { // looked at after the store: no eviction is missed
		return
	}
	en.place = fs.next.Add(1) % maxFunctions
	if old := fs.ring[en.place].Swap(en); old != nil {
		old.fn.Store(nil)
	}
}
