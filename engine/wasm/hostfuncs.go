package wasm

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/tetratelabs/wazero/api"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine/confine"
)

// hostFunc is one function of the module greenroom. Its implementation reads
// its arguments from the stack, and returns its result, or a code instead of one.
type hostFunc struct {
	name            string
	params, results []api.ValueType
	fuel            uint64 // per call; bytes come on top
	call            func(i *instance, mem guestBytes, stack []uint64) (uint64, abi.Code)
}

// The fuel of host functions, by about what they cost the host.
const (
	fuelCall  = 100
	fuelMap   = 300   // a look-up, a change
	fuelLog   = 2_000 // a line to the host's log
	fuelHTTP  = 50_000
	fuelNest  = 20_000 // a turn of another actor
	fuelSet   = 5_000  // a reminder, checked and given a token
	fuelFind  = 20_000 // a question to the store
	fuelTimer = 1_000  // a timer, checked
	fuelSpawn = 5_000  // an actor, with a row of its own
	byteUnits = 4      // bytes copied for one unit
	jsonUnits = 8      // per byte of JSON, taken apart and compared
)

const (
	i32 = api.ValueTypeI32
	i64 = api.ValueTypeI64
)

// hostFuncs lists the functions of abi/SPEC.md sections 5 and 6, in its order.
func hostFuncs() []hostFunc {
	one, none := []api.ValueType{i32}, []api.ValueType(nil)
	wide := []api.ValueType{i64}
	args := func(n int) []api.ValueType {
		return []api.ValueType{i32, i32, i32, i32, i32, i32}[:n]
	}
	return []hostFunc{
		{abi.FuncStateGet, args(4), wide, fuelMap, stateGet},
		{abi.FuncStateSet, args(5), one, fuelMap, stateSet},
		{abi.FuncStateDelete, args(2), one, fuelMap, stateDelete},
		{abi.FuncStateDeleteAll, none, one, fuelMap, stateDeleteAll},
		{abi.FuncStateKeys, args(4), wide, fuelMap, stateKeys},
		{abi.FuncStateJSON, args(2), wide, fuelMap, stateJSON},
		{abi.FuncStatePatch, args(4), one, fuelMap, statePatch},
		{abi.FuncStateVersion, none, wide, fuelCall, stateVersion},
		{abi.FuncStateRevision, none, wide, fuelCall, stateRevision},
		{abi.FuncReply, args(4), one, fuelMap, reply},
		{abi.FuncFail, args(2), one, fuelMap, fail},
		{abi.FuncNow, none, wide, fuelCall, now},
		{abi.FuncRandom, args(2), one, fuelCall, random},
		{abi.FuncLog, args(3), one, fuelLog, logText},
		{abi.FuncReminderSet, args(2), one, fuelSet, reminderSet},
		{abi.FuncReminderCancel, args(2), one, fuelMap, reminderCancel},
		{abi.FuncReminderGet, args(4), wide, fuelFind, reminderGet},
		{abi.FuncReminderNames, args(4), wide, fuelFind, reminderNames},
		{abi.FuncTimerSet, args(2), one, fuelTimer, timerSet},
		{abi.FuncTimerCancel, args(2), one, fuelMap, timerCancel},
		{abi.FuncProblem, args(2), wide, fuelCall, problem},
		{abi.FuncCall, args(2), wide, fuelNest, callActor},
		{abi.FuncCallResult, args(2), wide, fuelCall, callResult},
		{abi.FuncSend, args(2), one, fuelSet, send},
		{abi.FuncSpawn, args(4), wide, fuelSpawn, spawn},
		{abi.FuncSpawnChild, args(5), wide, fuelSpawn, spawnChild},
		{abi.FuncBecome, args(2), one, fuelMap, become},
		{abi.FuncPassAway, none, one, fuelMap, passAway},
		{abi.FuncServiceClaim, args(2), one, fuelFind, serviceClaim},
		{abi.FuncServiceRelease, args(2), one, fuelFind, serviceRelease},
		{abi.FuncEventPublish, args(6), one, fuelSet, eventPublish},
		{abi.FuncEventSubscribe, args(6), one, fuelFind, eventSubscribe},
		{abi.FuncEventUnsubscribe, args(4), one, fuelFind, eventUnsubscribe},
		{abi.FuncHostWatch, args(6), one, fuelSet, hostWatch},
		{abi.FuncServiceWatch, args(4), one, fuelSet, serviceWatch},
		{abi.FuncConfigGet, args(4), wide, fuelMap, configGet},
		{abi.FuncSecretGet, args(4), wide, fuelMap, secretGet},
		{abi.FuncHTTPRequest, args(2), wide, fuelHTTP, httpRequest},
		{abi.FuncHTTPResponse, args(2), wide, fuelCall, httpResponse},
	}
}

func instantiateHost(ctx context.Context, rt *wasmRuntime) error {
	builder := rt.NewHostModuleBuilder(abi.HostModule)
	for _, f := range hostFuncs() {
		builder.NewFunctionBuilder().WithGoModuleFunction(enter(f), f.params, f.results).Export(f.name)
	}
	_, err := builder.Instantiate(ctx)
	return err
}

// enter makes the wazero form of a host function: the instance comes from the
// context of the call, and the memory is its own, also where a module exports a
// function of the host as one of its own, so that nobody called. The guest pays when
// its call is done, by what that read and wrote.
func enter(f hostFunc) api.GoModuleFunc {
	name, call, fuel, wide := f.name, f.call, f.fuel, f.results[0] == i64
	return func(ctx context.Context, _ api.Module, stack []uint64) {
		i, _ := ctx.Value(instanceKey{}).(*instance)
		i.work = fuel
		result, code := call(i, guestBytes{instance: i, function: name}, stack)
		switch {
		case code == 0:
			stack[0] = result
		case wide:
			stack[0] = uint64(int64(code))
		default:
			stack[0] = uint64(uint32(code))
		}
		i.spend(i.work)
	}
}

// guestBytes reads the memory of the guest that called function.
type guestBytes struct {
	instance *instance
	function string
}

// memoryFault is a host function whose arguments reach outside the guest's
// memory. It is thrown through the guest: the call traps.
type memoryFault struct {
	function   string
	ptr, count uint32
}

func (e *memoryFault) Error() string {
	return fmt.Sprintf("out of bounds memory access: %s was given %d bytes at address %d, outside the guest's memory", e.function, e.count, e.ptr)
}

// at returns the guest's bytes that the arguments ptr and len name, to be read.
func (g guestBytes) at(ptr, count uint64) []byte {
	b := g.buffer(ptr, count)
	g.instance.work += uint64(len(b)) / byteUnits
	return b
}

// buffer returns the guest's bytes that the arguments ptr and len name, to be
// written. The slice is the guest's memory itself, good until the guest runs
// again.
func (g guestBytes) buffer(ptr, count uint64) []byte {
	p, n := uint32(ptr), uint32(count) // the high halves of an i32 on the stack are undefined
	mem := g.instance.mem
	from, to := uint64(p), uint64(p)+uint64(n)
	if to > mem.size {
		panic(&memoryFault{g.function, p, n})
	}
	return mem.data[from:to:to]
}

// fill puts data into a buffer of the guest if it fits, and returns its length.
func (g guestBytes) fill(buf, data []byte) uint64 {
	g.instance.work += uint64(len(data)) / byteUnits // made for the guest in any case
	if len(data) <= len(buf) {
		copy(buf, data)
	}
	return uint64(uint32(len(data)))
}

// value is the result of a function that fills buf with data, or returns c if it is not 0.
func (g guestBytes) value(buf, data []byte, c abi.Code) (uint64, abi.Code) {
	if c != 0 {
		return 0, c
	}
	return g.fill(buf, data), 0
}

// count is the result of a function that counts.
func count(n int, c abi.Code) (uint64, abi.Code) { return uint64(uint32(n)), c }

// wasThere is the result of a function that reports whether there was something.
func wasThere(there bool, c abi.Code) (uint64, abi.Code) {
	if there {
		return 1, c
	}
	return 0, c
}

func stateGet(i *instance, g guestBytes, s []uint64) (uint64, abi.Code) {
	key, buf := g.at(s[0], s[1]), g.buffer(s[2], s[3])
	if i.calls == nil {
		return 0, abi.CodeNoTurn
	}
	value, format, code := i.calls.StateGet(key)
	if code != 0 {
		return 0, code
	}
	return g.fill(buf, value) | uint64(format)<<32, 0
}

func stateSet(i *instance, g guestBytes, s []uint64) (uint64, abi.Code) {
	key, value, format := g.at(s[0], s[1]), g.at(s[2], s[3]), uint32(s[4])
	switch {
	case i.calls == nil:
		return 0, abi.CodeNoTurn
	case format > uint32(abi.FormatJSON):
		return 0, abi.CodeInvalid
	}
	return 0, i.calls.StateSet(key, value, abi.Format(format))
}

func stateDelete(i *instance, g guestBytes, s []uint64) (uint64, abi.Code) {
	key := g.at(s[0], s[1])
	if i.calls == nil {
		return 0, abi.CodeNoTurn
	}
	return wasThere(i.calls.StateDelete(key))
}

func stateDeleteAll(i *instance, _ guestBytes, _ []uint64) (uint64, abi.Code) {
	if i.calls == nil {
		return 0, abi.CodeNoTurn
	}
	return count(i.calls.StateDeleteAll())
}

func stateKeys(i *instance, g guestBytes, s []uint64) (uint64, abi.Code) {
	prefix, buf := g.at(s[0], s[1]), g.buffer(s[2], s[3])
	if i.calls == nil {
		return 0, abi.CodeNoTurn
	}
	list, code := i.calls.StateKeys(prefix)
	return g.value(buf, list, code)
}

func stateJSON(i *instance, g guestBytes, s []uint64) (uint64, abi.Code) {
	buf := g.buffer(s[0], s[1])
	if i.calls == nil {
		return 0, abi.CodeNoTurn
	}
	object, code := i.calls.StateJSON()
	return g.value(buf, object, code)
}

func statePatch(i *instance, g guestBytes, s []uint64) (uint64, abi.Code) {
	before, after := g.at(s[0], s[1]), g.at(s[2], s[3])
	i.work += uint64(len(before)+len(after)) * jsonUnits
	if i.calls == nil {
		return 0, abi.CodeNoTurn
	}
	return count(i.calls.StatePatch(before, after))
}

func stateVersion(i *instance, _ guestBytes, _ []uint64) (uint64, abi.Code) {
	if i.calls == nil {
		return 0, abi.CodeNoTurn
	}
	return i.calls.StateVersion(), 0
}

func stateRevision(i *instance, _ guestBytes, _ []uint64) (uint64, abi.Code) {
	if i.calls == nil {
		return 0, abi.CodeNoTurn
	}
	return i.calls.StateRevision(), 0
}

// maxContentTypeBytes is far above any media type; what is longer would only
// travel through headers and logs.
const maxContentTypeBytes = 256

func reply(i *instance, g guestBytes, s []uint64) (uint64, abi.Code) {
	contentType, payload := g.at(s[0], s[1]), g.at(s[2], s[3])
	switch {
	case i.calls == nil:
		return 0, abi.CodeNoTurn
	case !validContentType(contentType):
		return 0, abi.CodeInvalid
	}
	return 0, i.calls.Reply(mediaType(contentType), payload)
}

// mediaType makes a string of a content type, of most without an allocation.
func mediaType(b []byte) string {
	const usual = "application/json"
	if string(b) == usual {
		return usual
	}
	return string(b)
}

// validContentType refuses what could not stand in an HTTP header.
func validContentType(b []byte) bool {
	if len(b) > maxContentTypeBytes {
		return false
	}
	for _, c := range b {
		if c < ' ' || c > '~' {
			return false
		}
	}
	return true
}

func fail(i *instance, g guestBytes, s []uint64) (uint64, abi.Code) {
	frame := g.at(s[0], s[1])
	if i.calls == nil {
		return 0, abi.CodeNoTurn
	}
	e, err := abi.DecodeError(frame)
	if err != nil || !validContentType([]byte(e.DetailContentType)) {
		return 0, abi.CodeInvalid
	}
	failure := &actor.GuestError{
		Status: actor.Status(e.Status), Code: e.Code, Message: e.Message, Retryable: e.Retryable,
		RetryAfter: time.Duration(e.RetryAfterMillis) * time.Millisecond,
		Detail:     actor.Payload{ContentType: e.DetailContentType, Data: e.Detail},
	}
	code := i.calls.Fail(failure)
	if code == 0 {
		i.guestErr = failure
	}
	return 0, code
}

func now(i *instance, _ guestBytes, _ []uint64) (uint64, abi.Code) { return uint64(i.nowUnixNano()), 0 }

func random(i *instance, g guestBytes, s []uint64) (uint64, abi.Code) {
	i.random(g.buffer(s[0], s[1]))
	return 0, 0
}

func logText(i *instance, g guestBytes, s []uint64) (uint64, abi.Code) {
	level, text := int32(uint32(s[0])), g.at(s[1], s[2])
	i.out.Log(level, text)
	if i.calls == nil {
		return 0, abi.CodeNoTurn
	}
	return 0, 0
}

// callActor keeps the result until the guest has a buffer for it: asking twice must not
// call twice.
func callActor(i *instance, g guestBytes, s []uint64) (uint64, abi.Code) {
	frame := bytes.Clone(g.at(s[0], s[1])) // what the host keeps must not alias the guest's memory
	i.result = nil
	if i.calls == nil {
		return 0, abi.CodeNoTurn
	}
	var m abi.Message
	if abi.DecodeMessage(frame, &m) != nil {
		return 0, abi.CodeInvalid
	}
	var r *abi.Result
	var code abi.Code
	var err error
	fuel := i.calls.Fuel()
	fuel.Running = i.tank.Spent(int64(i.fuel.Get()))
	i.wait(func() { r, code, err = i.calls.Call(&m) })
	i.tank.Lower(fuel.Remaining())
	switch {
	case err != nil:
		panic(&confine.Stop{Err: err})
	case code != 0:
		return 0, code
	}
	i.result = abi.AppendResult(nil, r)
	i.work += uint64(len(i.result)) / byteUnits
	return uint64(uint32(len(i.result))), 0
}

// kept is the result of a function that fills buf with the result of the call before; data is nil if
// there is none.
func (g guestBytes) kept(buf, data []byte) (uint64, abi.Code) {
	switch {
	case g.instance.calls == nil:
		return 0, abi.CodeNoTurn
	case data == nil:
		return 0, abi.CodeNotFound
	}
	return g.fill(buf, data), 0
}

func callResult(i *instance, g guestBytes, s []uint64) (uint64, abi.Code) {
	return g.kept(g.buffer(s[0], s[1]), i.result)
}
