package extism

import (
	"context"
	"slices"

	sdk "github.com/extism/go-sdk"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine/binary"
	"github.com/greenroom-run/greenroom/engine/guest"
	"github.com/greenroom-run/greenroom/engine/meter"
)

// hostFunc is a function that plug-ins import.
type hostFunc struct {
	module, name    string
	params, results []byte // value types
	// call is what this package answers; nil leaves the function to the SDK. It
	// reads its arguments from the stack and writes its result to stack[0]. What
	// ends the turn it throws: see trap.go.
	call func(c *call, stack []uint64)
}

const (
	i32 = byte(binary.I32)
	i64 = byte(binary.I64)
)

// envFuncs lists the functions of Extism's own environment.
func envFuncs() []hostFunc {
	none, wide, narrow, two := []byte(nil), []byte{i64}, []byte{i32}, []byte{i64, i64}
	env := func(name string, params, results []byte, call func(*call, []uint64)) hostFunc {
		return hostFunc{envModule, name, params, results, call}
	}
	return []hostFunc{
		env("alloc", wide, wide, nil),
		env("free", wide, none, nil),
		env("length", wide, wide, nil),
		env("length_unsafe", wide, wide, nil),
		env("load_u8", wide, narrow, nil),
		env("load_u64", wide, wide, nil),
		env("store_u8", []byte{i64, i32}, none, nil),
		env("store_u64", two, none, nil),
		env("input_length", none, wide, nil),
		env("input_offset", none, wide, nil),
		env("input_load_u8", wide, narrow, nil),
		env("input_load_u64", wide, wide, nil),
		env("input_set", two, none, nil),
		env("output_length", none, wide, nil),
		env("output_offset", none, wide, nil),
		env("error_get", none, wide, nil),
		env("memory_bytes", none, wide, nil),
		env("reset", none, none, nil),

		env("output_set", two, none, outputSet),
		env("error_set", wide, none, errorSet),
		env("config_get", wide, wide, configGet),
		env("var_get", wide, wide, stateGet),
		env("var_set", two, none, varSet),
		env("http_request", two, wide, httpRequest),
		env("http_status_code", none, narrow, httpStatusCode),
		env("http_headers", none, wide, httpHeaders),
		env("get_log_level", none, narrow, nothing), // 0: all levels
		env("log_trace", wide, none, logAt(guest.LevelDebug)),
		env("log_debug", wide, none, logAt(guest.LevelDebug)),
		env("log_info", wide, none, logAt(guest.LevelInfo)),
		env("log_warn", wide, none, logAt(guest.LevelWarn)),
		env("log_error", wide, none, logAt(guest.LevelError)),
	}
}

// meterFunc is what metering makes plug-ins import. None may by itself.
func meterFunc() hostFunc {
	return hostFunc{meter.ImportModule, meter.ImportRefill, []byte{i64}, []byte{i64}, refill}
}

// isOwn reports whether this package answers an import that Extism defines.
func isOwn(module, name string) bool {
	for _, f := range envFuncs() {
		if f.module == module && f.name == name {
			return f.call != nil
		}
	}
	return false
}

// hostFunctions returns what is ours in the SDK's form.
func hostFunctions() []sdk.HostFunction {
	var out []sdk.HostFunction
	for _, f := range slices.Concat(envFuncs(), userFuncs(), wasiFuncs(), []hostFunc{meterFunc()}) {
		if f.call == nil {
			continue
		}
		name, answer := f.name, f.call
		h := sdk.NewHostFunctionWithStack(name, func(ctx context.Context, p *sdk.CurrentPlugin, stack []uint64) {
			i, _ := ctx.Value(instanceKey{}).(*instance)
			answer(&call{ctx: ctx, plugin: p, instance: i, function: name}, stack)
		}, f.params, f.results)
		h.SetNamespace(f.module)
		if isOwn(f.module, f.name) {
			h.SetNamespace(ownModule)
		}
		out = append(out, h)
	}
	return out
}

// call is one call of a host function.
type call struct {
	ctx      context.Context
	plugin   *sdk.CurrentPlugin
	instance *instance
	function string
}

// bytes returns the content of a block of the kernel's memory: the memory itself,
// good until the plug-in or the kernel runs again. The block 0 is empty.
func (c *call) bytes(offset uint64) []byte {
	c.started()
	if offset == 0 {
		return nil
	}
	length, err := c.plugin.LengthWithContext(c.ctx, offset)
	if err != nil {
		panic(err)
	}
	data := c.at(offset, length)
	c.instance.tank.Charge(length / byteUnits)
	return data
}

func (c *call) at(offset, length uint64) []byte {
	data, ok := readMemory(c.plugin.Memory(), offset, length)
	if !ok {
		panic(&memoryFault{c.function, offset, length})
	}
	return data
}

// copied is bytes, for a function that reads two blocks: finding the second one
// runs the kernel.
func (c *call) copied(offset uint64) []byte { return append([]byte(nil), c.bytes(offset)...) }

// block puts data into a new block and returns its offset; 0 for no bytes.
func (c *call) block(data []byte) uint64 {
	c.started()
	if len(data) == 0 {
		return 0
	}
	c.instance.tank.Charge(uint64(len(data)) / byteUnits)
	offset, err := c.plugin.AllocWithContext(c.ctx, uint64(len(data)))
	if err != nil {
		panic(err)
	}
	if offset == 0 {
		panic(&noMemory{len(data)})
	}
	copy(c.at(offset, uint64(len(data))), data)
	return offset
}

// started refuses what needs the kernel while the plug-in's start function runs,
// when it does not know its kernel yet, and ends a plug-in whose time is over.
func (c *call) started() {
	if c.instance.plugin == nil {
		panic(&refusal{c.function + startedText})
	}
	c.instance.tank.Check()
}

const startedText = " was called by the start function; a plug-in can call its host from _initialize on"

// turn returns the turn that runs; outside of one the call is refused.
func (c *call) turn() *turn {
	if c.instance.turn == nil {
		panic(&refusal{c.function + " was called outside a turn"})
	}
	return c.instance.turn
}

// refuse ends the turn with what a code means, unless it means success.
func (c *call) refuse(code abi.Code) {
	if code != 0 {
		panic(refused(c.function, code))
	}
}

func nothing(_ *call, stack []uint64) { stack[0] = 0 }

func outputSet(c *call, stack []uint64) {
	// Where it lies is read when the turn is over, as every Extism host does.
	c.instance.output = region{stack[0], stack[1], true}
}

func errorSet(c *call, stack []uint64) {
	c.instance.failed = nil
	if stack[0] != 0 {
		c.instance.failed = &actor.GuestError{Status: statusUnknown, Message: guest.Text(head(c.bytes(stack[0]), abi.MaxErrorMessageLen+4))}
	}
}

func varSet(c *call, stack []uint64) {
	key := c.copied(stack[0])
	if stack[1] == 0 {
		_, code := c.turn().calls.StateDelete(key)
		c.refuse(code)
		return
	}
	c.refuse(c.turn().calls.StateSet(key, c.bytes(stack[1]), abi.FormatBytes))
}

func logAt(level int32) func(*call, []uint64) {
	return func(c *call, stack []uint64) { c.log(level, stack[0]) }
}

func (c *call) log(level int32, text uint64) {
	c.instance.out.Log(level, c.bytes(text))
}
