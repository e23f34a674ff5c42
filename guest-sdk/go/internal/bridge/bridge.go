// Package bridge joins package actor to what hosts it: the host functions of a
// Wasm runtime, or the fake host of package actortest. It is internal because
// neither side of it is for guest authors.
package bridge

import "github.com/greenroom-run/greenroom/abi"

// Host is what a guest may ask of its host during a turn: section 5 of
// abi/SPEC.md, without memory addresses. Slices and strings passed in stay the
// guest's; what is returned is written into buf when it fits there.
type Host interface {
	StateGet(key string, buf []byte) (value []byte, format abi.Format, code abi.Code)
	StateSet(key string, value []byte, format abi.Format) abi.Code
	StateDelete(key string) (existed bool, code abi.Code)
	StateDeleteAll() (n int, code abi.Code)
	StateKeys(prefix string, buf []byte) (list []byte, code abi.Code)
	StateJSON(buf []byte) (object []byte, code abi.Code)
	StatePatch(before, after []byte) (changed int, code abi.Code)
	StateVersion() uint64
	StateRevision() uint64
	Reply(contentType string, payload []byte) abi.Code
	Fail(frame []byte) abi.Code
	// ConfigGet and SecretGet return bytes that are the guest's.
	ConfigGet(name string) (value []byte, code abi.Code)
	SecretGet(name string) (value []byte, code abi.Code)
	// HTTPRequest takes a request frame and returns the response frame, which is
	// the guest's.
	HTTPRequest(frame []byte) (response []byte, code abi.Code)
	Random(p []byte)
	Log(level int32, text string)
}

// Instance is the memory of one guest instance. One turn runs at a time.
type Instance interface {
	// Turn runs the turn of a frame and returns abi.TurnDone or abi.TurnFailed.
	// The frame may be overwritten once it has returned.
	Turn(frame []byte) int32
}

// Package actor sets these when it is initialized: it cannot export them without
// showing them to every guest author.
var (
	// NewInstance makes an instance of everything that was registered.
	NewInstance func(Host) Instance
	// Manifest returns the manifest of everything that was registered.
	Manifest func() []byte
)
