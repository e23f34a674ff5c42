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
	ring [maxFunctions]atomic.Pointer[level]
}

// level is what a turn needs of its own when it runs within another one of the
// same instance: wazero's Function objects hold a call stack each.
type level struct {
	ctx                guestContext // of the turn
	stack              [2]uint64
	framePtr, frameCap uint32 // the guest's frame buffer

	// fn is there between turns as long as the level is in the ring at place;
	// whoever takes it out of the ring clears fn.
	fn    atomic.Pointer[api.Function]
	place uint64
}

// take returns the level's Function for a turn.
func (fs *functions) take(lv *level, mod api.Module) *api.Function {
	if fn := lv.fn.Swap(nil); fn != nil {
		return fn
	}
	fn := mod.ExportedFunction(abi.ExportTurn)
	return &fn
}

// keep puts it back.
func (fs *functions) keep(lv *level, fn *api.Function) {
	lv.fn.Store(fn)
	if fs.ring[lv.place].Load() == lv { // looked at after the store: no eviction is missed
		return
	}
	lv.place = fs.next.Add(1) % maxFunctions
	if old := fs.ring[lv.place].Swap(lv); old != nil {
		old.fn.Store(nil)
	}
}
