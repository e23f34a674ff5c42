package meter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// valid asks an engine. Its decoder and validator are not ours, which makes them
// a second opinion; that it panics on some invalid modules is a no.
func valid(wasm []byte) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
		}
	}()
	ctx := context.Background()
	cfg := wazero.NewRuntimeConfigInterpreter().WithCoreFeatures(api.CoreFeaturesV2)
	rt := wazero.NewRuntimeWithConfig(ctx, cfg)
	defer rt.Close(ctx)
	_, err = rt.CompileModule(ctx, wasm)
	return err
}

// checkHostile proves of any bytes that the rewriting does not panic; that no
// invalid module becomes valid, which it would if it reached one of the added
// globals, locals, functions or labels; that every valid one stays valid; and that whatever the engine makes of it ends when the fuel does,
// which it would not if the engine saw a loop where the rewriting saw none.
func checkHostile(t *testing.T, wasm []byte) {
	t.Helper()
	metered, _, err := Rewrite(wasm, Config{MaxDepth: 500, MaxMemoryPages: 16, MaxTableElements: 1000})
	if err != nil {
		return // and no engine sees it: wazero allocates as much as lying lengths say
	}
	before := valid(wasm)
	if before != nil {
		// wazero 1.12 refuses a module whose last section is a custom one without
		// data, valid as it is; not so with one behind it that has some.
		before = valid(slices.Concat(wasm, []byte{0, 3, 1, 'x', 0}))
	}
	if before != nil {
		if valid(metered) == nil {
			t.Errorf("an invalid module became valid; it was: %v", before)
		}
		return
	}
	if err := valid(metered); err != nil {
		t.Errorf("a valid module became invalid: %v", err)
		return
	}
	if _, _, err := Rewrite(metered, Config{}); !errors.Is(err, ErrMetered) {
		t.Errorf("metering twice: %v", err)
	}
	checkEnds(t, metered)
}

// checkRefused proves that only invalid modules are refused, of those that are
// near enough to a valid one for an engine to be asked.
func checkRefused(t *testing.T, wasm []byte) {
	t.Helper()
	_, _, err := Rewrite(wasm, Config{})
	if err == nil || errors.Is(err, ErrMetered) ||
		strings.Contains(err.Error(), "a list of") || strings.Contains(err.Error(), "of WebAssembly 2.0") {
		return // engines know more
	}
	if valid(wasm) == nil {
		t.Errorf("a valid module is refused: %v", err)
	}
}

// checkEnds runs a metered module with little fuel. The time that it has is no
// measure, only the end of a test that would not end.
func checkEnds(t *testing.T, metered []byte) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	machine, err := start(t, interpreter().WithCloseOnContextDone(true), metered, &tank{amount: 5_000, refills: 1})
	if err != nil {
		return
	}
	for name, f := range machine.mod.ExportedFunctionDefinitions() {
		machine.set(ExportFuel, 5_000)
		machine.set(ExportDepth, 500)
		params := 0
		for _, p := range f.ParamTypes() {
			if params++; p == typeV128 {
				params++
			}
		}
		if _, err := machine.mod.ExportedFunction(name).Call(ctx, make([]uint64, params)...); ctx.Err() != nil {
			t.Errorf("%s does not end: %v", name, err)
			return
		}
	}
}

// hidden makes a module with one function, exported as "f", of some code.
func hidden(code string) []byte {
	wasm := []byte("\x00asm\x01\x00\x00\x00\x01\x04\x01\x60\x00\x00\x03\x02\x01\x00\x05\x03\x01\x00\x01\x07\x05\x01\x01f\x00\x00")
	body := "\x00" + code + "\x0b"
	wasm = append(wasm, secCode, byte(len(body)+2), 1, byte(len(body)))
	return append(wasm, body...)
}

const loopForever = "\x03\x40\x0c\x00\x0b"

// TestNoHiddenLoops are endless loops in bytes that an engine takes for
// instructions and a reader of other rules for something else.
func TestNoHiddenLoops(t *testing.T) {
	constant := "\xfd\x0c" + strings.Repeat("\x00", 16)
	tests := map[string]struct{ code, err string }{
		"a longer number of a SIMD instruction": {
			code: "\x02\x40" + constant + "\x41\x00\x0d\x00\xfd\x8c\x00" + "\x0b" + loopForever + strings.Repeat("\x01", 10),
			err:  "not written in the shortest form",
		},
		"a reference type of two bytes in a select": {
			code: "\x41\x00\x41\x00\x41\x00\x1c\x01\x63\x28" + loopForever + "\x1a",
			err:  "the type 0x63 is not of WebAssembly 2.0",
		},
		"a memory index in a load": {
			code: "\x41\x00\x28\x42\x00\x00" + loopForever + "\x1a",
			err:  "an alignment of 1<<66 is not of WebAssembly 2.0",
		},
		"a block of a type of two bytes": {
			code: "\x02\x63\x70" + loopForever + "\x0b",
			err:  "the type 0x63 is not of WebAssembly 2.0",
		},
		"a memory index that is not zero": {
			code: "\x3f\x03\x40\x0c\x00\x0b\x1a",
			err:  "a reserved byte is 0x03, not zero",
		},
		"a null of a type of two bytes": {
			code: "\xd0\x83\x40\x0c\x00\x0b\x1a",
			err:  "the type 0x83 is not a reference of WebAssembly 2.0",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			wasm := hidden(test.code)
			if _, _, err := Rewrite(wasm, Config{}); err == nil || !strings.Contains(err.Error(), test.err) {
				t.Errorf("got %v, want …%s", err, test.err)
			}
		})
	}
}

func FuzzRewrite(f *testing.F) {
	for seed := range uint64(16) {
		wasm := generate(seed, seed%2 == 0).wasm
		f.Add(wasm)
		if metered, _, err := Rewrite(wasm, Config{}); err == nil {
			f.Add(metered)
		}
	}
	f.Add(magic)
	f.Add(hidden(loopForever))
	f.Fuzz(checkHostile)
}

// TestDamagedModules changes every byte of a module in several ways, and cuts it
// off everywhere.
func TestDamagedModules(t *testing.T) {
	step := 1
	if RaceEnabled { // which has nothing to find in one goroutine
		step = 8
	}
	for seed := range uint64(1) {
		wasm := generate(seed, true).wasm
		damaged := make([]byte, len(wasm))
		for i := 0; i < len(wasm); i += step {
			checkHostile(t, wasm[:i])
			for _, change := range []byte{1, 2, 0x40, 0x80, 0xff} {
				copy(damaged, wasm)
				damaged[i] ^= change
				checkHostile(t, damaged)
				checkRefused(t, damaged)
			}
			if t.Failed() {
				t.Fatalf("seed %d, byte %d", seed, i)
			}
		}
	}
}
