// Package engine says what runs guests. An [Engine] turns the bytes of a module
// into a [Program], a program makes instances, and an [Instance] runs turns, asking
// its caller through [Calls] for whatever the guest asks for and charging [Fuel].
//
// Package wasm is the engine for guests of abi/SPEC.md, package extism the one for
// Extism plug-ins. Both run on wazero, within what package confine bounds and with the
// WASI of package wasi, on modules that package binary has read, package meter has
// rewritten and package compile has compiled. Package guest has what both do with
// what a guest prints and with how it ends, package judge what both say of the modules
// that they refuse.
package engine

import (
	"context"
	"runtime"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
)

// Engine turns module bytes into programs. It is safe for concurrent use.
type Engine interface {
	// Load returns the program of a module, compiling it unless it is compiled
	// already; wasm is called only then. Programs are cached by digest, in
	// memory and on disk.
	Load(ctx context.Context, digest actor.Digest, wasm func(context.Context) ([]byte, error)) (Program, error)
}

// Program is a compiled module. It is safe for concurrent use and stays valid
// until the engine is closed.
type Program interface {
	// NewInstance makes an instance whose memory never passes memoryLimit bytes, nor
	// what the context's [Memory] has for it.
	NewInstance(ctx context.Context, memoryLimit int64) (Instance, error)
}

// Instance is one guest with its own memory. One goroutine at a time uses it.
type Instance interface {
	// Run runs one turn to its end. The error is nil when the guest is done, an
	// [*actor.GuestError] when it failed on purpose, [actor.ErrDeadline] or
	// [actor.ErrCanceled] (wrapped) when ctx ended first, an [*actor.FuelError]
	// when the turn's fuel did not last, an [*actor.TrapError] otherwise. After
	// anything but nil and a GuestError the instance is broken and can only be
	// closed.
	Run(ctx context.Context, frame *abi.Turn, calls Calls) error
	// MemoryBytes is the memory that the engine counts for the instance, which holds
	// as much or less: while a turn runs, all that its guest could touch.
	MemoryBytes() int64
	// Close frees the instance. It is safe twice.
	Close(ctx context.Context) error
}

// Trimmer is an instance that may hold less than is counted for it once its turn has
// ended.
type Trimmer interface {
	// Trim counts what the instance holds, and gives the rest back to its [Memory].
	// While a turn runs it does nothing and returns false. Any goroutine may call it.
	Trim() bool
}

// Memory is what the guests of an instance's app may hold together. Its methods may be
// called concurrently.
type Memory interface {
	// Take counts bytes more for the instance, before its guest can touch them. It
	// reports false, having counted nothing, if there are no more.
	Take(bytes int64) bool
	// Give takes bytes back that Take has counted.
	Give(bytes int64)
}

type memoryKey struct{}

// WithMemory gives the instance that is made under the context its memory.
func WithMemory(ctx context.Context, m Memory) context.Context {
	return context.WithValue(ctx, memoryKey{}, m)
}

// MemoryOf is the memory that WithMemory gave. Without it there is no bound.
func MemoryOf(ctx context.Context) Memory {
	if m, ok := ctx.Value(memoryKey{}).(Memory); ok {
		return m
	}
	return unbounded{}
}

type unbounded struct{}

func (unbounded) Take(int64) bool { return true }
func (unbounded) Give(int64)      {}

// Fuel is what a turn may use and has used, in the units of package
// engine/meter. An engine that does not meter leaves Used alone.
type Fuel struct {
	Limit uint64 // 0: as much as its time allows
	Used  uint64 // the engine adds what each Run used, also of one that failed
	// Running is what the run under way had used when its guest called [Calls].Call last; 0 between
	// runs. That method may lower Limit, which the engine takes over when it returns.
	Running uint64
}

// Spent is what the turn has used by now, as far as it is known.
func (f *Fuel) Spent() uint64 { return f.Used + f.Running }

// Remaining is the limit of the next Run, 0 for none: a turn of several runs that has
// nothing left gets one unit, which no run gets by with.
func (f *Fuel) Remaining() uint64 {
	if f.Limit == 0 {
		return 0
	}
	return max(1, f.Limit-min(f.Limit, f.Used))
}

// Calls is what a guest may ask of the host during one turn: the host functions
// of abi/SPEC.md section 5, without memory addresses. An [abi.Code] of 0 means
// success. Byte slices passed in are the guest's memory, to be copied if kept;
// slices returned are the host's, to be copied out before the next call.
type Calls interface {
	StateGet(key []byte) (value []byte, format abi.Format, code abi.Code)
	StateSet(key, value []byte, format abi.Format) abi.Code
	StateDelete(key []byte) (existed bool, code abi.Code)
	StateDeleteAll() (n int, code abi.Code)
	// StateKeys returns the encoded key list.
	StateKeys(prefix []byte) ([]byte, abi.Code)
	StateJSON() ([]byte, abi.Code)
	StatePatch(before, after []byte) (changed int, code abi.Code)
	StateVersion() uint64
	StateRevision() uint64
	Reply(contentType string, payload []byte) abi.Code
	// Fail records the guest's error; Run returns it when the guest says failed.
	Fail(e *actor.GuestError) abi.Code
	// Now is the time at which the turn began.
	Now() time.Time
	// Random fills p from the turn's own stream.
	Random(p []byte)
	Log(level int32, text string)
	// ConfigGet and SecretGet return settings of the app of the turn: abi/SPEC.md
	// section 6.
	ConfigGet(name []byte) (value []byte, code abi.Code)
	SecretGet(name []byte) (value []byte, code abi.Code)
	// HTTP sends a request, which must not alias the guest's memory, and waits for
	// the answer. An error ends the guest: Run returns it, wrapped.
	HTTP(r *abi.HTTPRequest) (abi.HTTPResponse, error)
	// ReminderSet takes a reminder, which must not alias the guest's memory.
	ReminderSet(r *abi.Reminder) abi.Code
	ReminderCancel(name []byte) abi.Code
	// ReminderGet and ReminderNames may wait for the store: the latter returns the
	// encoded key list. An error ends the guest: Run returns it, wrapped.
	ReminderGet(name []byte) (r *abi.Reminder, code abi.Code, err error)
	ReminderNames(prefix []byte) (list []byte, code abi.Code, err error)
	// TimerSet takes a timer, which must not alias the guest's memory, and TimerCancel
	// takes one back; both report whether there was one of that name.
	TimerSet(r *abi.Reminder) (replaced bool, code abi.Code)
	TimerCancel(name []byte) (existed bool, code abi.Code)
	// Call runs a turn of another actor, with a message that must not alias the guest's
	// memory, and waits for its end. An error ends the guest: Run returns it, wrapped.
	Call(m *abi.Message) (r *abi.Result, code abi.Code, err error)
	// Send takes a message, which must not alias the guest's memory: durable, or with
	// [abi.MessageVolatile] volatile. It may wait for the store; an error ends the guest: Run
	// returns it, wrapped.
	Send(m *abi.Message) (abi.Code, error)
	// Spawn returns the ID of a new actor of a type of the app, at most
	// [abi.MaxSpawnedIDLen] bytes.
	Spawn(typ []byte) (id string, code abi.Code)
	// SpawnChild returns the ID of a new volatile child of the actor, as Spawn does that of an
	// actor; flags are those of [abi.ChildShared]. It may wait for commits.
	SpawnChild(typ string, flags uint32) (id string, code abi.Code)
	// Become changes the set of methods that the actor accepts from its next turn on, and
	// PassAway ends its life.
	Become(set []byte) abi.Code
	PassAway() abi.Code
	// ServiceClaim and ServiceRelease may wait for the store; the latter reports whether the
	// actor stood for the service.
	ServiceClaim(name []byte) abi.Code
	ServiceRelease(name []byte) (held bool, code abi.Code)
	// Publish publishes an event, with a payload that must not alias the guest's memory.
	Publish(name, contentType string, payload []byte) abi.Code
	// EventSubscribe has the actor subscribe to the events of an actor of the app, whose name must not
	// alias the guest's memory, and EventUnsubscribe ends that; subscribed reports whether it did
	// subscribe. An error ends the guest.
	EventSubscribe(typ, id, method string) (abi.Code, error)
	EventUnsubscribe(typ, id string) (subscribed bool, code abi.Code, err error)
	// HostWatch has the actor watch the host that holds an actor of the app, whose name must not
	// alias the guest's memory; with an empty method it ends the watch. It may wait to learn
	// which host that is. replaced reports whether there was a watch for that actor.
	HostWatch(typ, id, method string) (replaced bool, code abi.Code)
	// ServiceWatch has the actor watch a service or a group of services, whose name must not alias
	// the guest's memory; with an empty method it ends the watch. replaced reports whether there
	// was a watch of that name.
	ServiceWatch(name, method string) (replaced bool, code abi.Code)
	// Problem says why the last function from ReminderSet on was refused, but for Call; empty
	// if there is nothing to say.
	Problem() string
	// Fuel is the turn's account; it is the same during all of the turn.
	Fuel() *Fuel
}

// Processor is a turn's right to have its guest run. Only the goroutine that runs the guest
// uses it.
type Processor interface {
	// Yield lets other turns run. It is called where a guest can wait, with the fuel that
	// the guest has used since the last time. It returns when the guest may go on, or when
	// the turn's context has ended.
	Yield(fuel uint64)
	// Pause gives the right up while the turn waits for something else, and reports whether
	// the turn had it. Resume waits until the turn has it again, or the turn's context has
	// ended.
	Pause() bool
	Resume()
}

// ProcessorKey is the key of a context's [Processor].
type ProcessorKey struct{}

// WithProcessor gives what runs under the context its right to run guests.
func WithProcessor(ctx context.Context, p Processor) context.Context {
	return context.WithValue(ctx, ProcessorKey{}, p)
}

// Yield calls Yield of the context's [Processor]. Without one it lets other goroutines run.
func Yield(ctx context.Context, fuel uint64) {
	if p, ok := ctx.Value(ProcessorKey{}).(Processor); ok {
		p.Yield(fuel)
		return
	}
	runtime.Gosched()
}

// Outside has do wait for something outside of the processors of this host: the context's
// [Processor], if any, is free for others meanwhile.
func Outside(ctx context.Context, do func()) {
	p, ok := ctx.Value(ProcessorKey{}).(Processor)
	if !ok {
		do()
		return
	}
	if p.Pause() {
		defer p.Resume()
	}
	do()
}

type reclaimKey struct{}

// WithReclaim returns a context for loads that may find no memory. reclaim closes a guest instance of
// an app that is not in use, and reports whether it found one.
func WithReclaim(ctx context.Context, reclaim func(app string) bool) context.Context {
	return context.WithValue(ctx, reclaimKey{}, reclaim)
}

// ReclaimOf returns the function of WithReclaim; nil without one.
func ReclaimOf(ctx context.Context) func(app string) bool {
	reclaim, _ := ctx.Value(reclaimKey{}).(func(app string) bool)
	return reclaim
}

type ownerKey struct{}

// Owner is the app that work on modules is for. Owners share the compilers, and apps share the memory
// of programs.
type Owner struct {
	App string
	// Serving says that calls wait for the module, or are about to. Such work has a
	// larger share than uploads, and than what is compiled ahead.
	Serving bool
}

// WithOwner sets the owner of work on modules.
func WithOwner(ctx context.Context, o Owner) context.Context {
	return context.WithValue(ctx, ownerKey{}, o)
}

// OwnerOf is the owner that WithOwner said. Without one the host itself needs the module,
// to serve.
func OwnerOf(ctx context.Context) Owner {
	if o, ok := ctx.Value(ownerKey{}).(Owner); ok {
		return o
	}
	return Owner{Serving: true}
}
