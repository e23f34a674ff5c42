// Package bridge joins package actor and the packages of its capabilities to what
// hosts them: the host functions of a Wasm runtime, or the fake host of package
// actortest. It is internal because neither side of it is for guest authors.
package bridge

import "github.com/greenroom-run/greenroom/abi"

// Host is what every guest may ask of its host during a turn: section 5 of
// abi/SPEC.md, without memory addresses. Slices and strings passed in stay the
// guest's; what is returned is written into buf when it fits there.
//
// Capabilities are no part of it. A program that can reach methods by name keeps
// every method of every type, and would import host functions that it must not;
// they are functions of packages of their own, which call the host themselves.
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
	Random(p []byte)
	Log(level int32, text string)
}

// Outside is section 6 of abi/SPEC.md where there is no Wasm: the capabilities of
// a fake host, which is one beside [Host]. What is returned is the guest's.
type Outside interface {
	ConfigGet(name string) (value []byte, code abi.Code)
	SecretGet(name string) (value []byte, code abi.Code)
	// HTTPRequest takes a request frame and returns the response frame.
	HTTPRequest(frame []byte) (response []byte, code abi.Code)
}

// Reminders are the functions of reminders where there is no Wasm, on a fake host
// which is one beside [Host]. What is returned is the guest's.
type Reminders interface {
	ReminderSet(frame []byte) abi.Code
	ReminderCancel(name string) abi.Code
	ReminderGet(name string) (frame []byte, code abi.Code)
	ReminderNames(prefix string) (list []byte, code abi.Code)
	// Problem says why the last of these was refused.
	Problem() string
}

// Timers are the functions of timers where there is no Wasm, on a fake host which is one
// beside [Host] and [Reminders]. They answer 1, 0 or an [abi.Code].
type Timers interface {
	TimerSet(frame []byte) int32
	TimerCancel(name string) int32
}

// Calls is the function that calls other actors where there is no Wasm, on a fake host which
// is one beside [Host]. It takes a message frame and returns the result frame.
type Calls interface {
	Call(frame []byte) (result []byte, code abi.Code)
}

// Messages is the function that sends messages where there is no Wasm, on a fake host which
// is one beside [Host] and [Reminders]. It takes a message frame.
type Messages interface {
	Send(frame []byte) abi.Code
}

// Events is the function that publishes events where there is no Wasm, on a fake host which is one
// beside [Host] and [Reminders].
type Events interface {
	Publish(name, contentType string, data []byte) abi.Code
}

// Life are the functions of an actor's life where there is no Wasm, on a fake host which is
// one beside [Host] and [Reminders].
type Life interface {
	Spawn(typ string) (id string, code abi.Code)
	Become(set string) abi.Code
	PassAway() abi.Code
	ServiceClaim(name string) abi.Code
	// ServiceRelease answers 1, 0 or an [abi.Code].
	ServiceRelease(name string) int32
}

// Children is the function that makes volatile children where there is no Wasm, on a fake host
// which is one beside [Host] and [Reminders].
type Children interface {
	SpawnChild(typ string, flags uint32) (id string, code abi.Code)
}

// Watches are the functions that watch hosts and services where there is no Wasm, on a fake host
// which is one beside [Host] and [Reminders]. They answer 1, 0 or an [abi.Code].
type Watches interface {
	HostWatch(typ, id, method string) int32
	ServiceWatch(name, method string) int32
}

// Subscriptions are the functions of subscriptions where there is no Wasm, on a fake host which is
// one beside [Host] and [Reminders]. They answer 1, 0 or an [abi.Code].
type Subscriptions interface {
	EventSubscribe(typ, id, method string) int32
	EventUnsubscribe(typ, id string) int32
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
	// HostOf returns the host of a *actor.Context. It panics, as every use of one
	// does, when the turn is over.
	HostOf func(ctx any) Host
)
