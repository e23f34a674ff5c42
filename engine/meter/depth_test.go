package meter

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// recursive makes a module whose exported function "f" counts its calls in the
// exported global "n" and then runs code, in which function 0 is f itself and
// function 1 calls f.
func recursive(locals, code string) []byte {
	f := locals + "\x23\x00\x41\x01\x6a\x24\x00" + code + "\x0b"
	g := "\x00\x10\x00\x0b"
	bodies := "\x0a\x02" + string(appendU32(nil, uint32(len(f)))) + f + string(appendU32(nil, uint32(len(g)))) + g
	return build(oneType, "\x03\x02\x00\x00", "\x04\x01\x70\x00\x02", "\x06\x01\x7f\x01\x41\x00\x0b",
		"\x07\x02\x01f\x00\x00\x01n\x03\x00", "\x09\x01\x00\x41\x00\x0b\x02\x00\x01", bodies)
}

func TestRecursionEnds(t *testing.T) {
	const depth = 320
	thousand := "\x01\xe8\x07\x7e"
	tests := map[string]struct {
		wasm  []byte
		calls int64 // of f, until the depth is used up
	}{
		"a function that calls itself":         {recursive("\x00", "\x10\x00"), depth + 1},
		"two that call each other":             {recursive("\x00", "\x10\x01"), depth + 1},
		"through a table":                      {recursive("\x00", "\x41\x00\x11\x00\x00"), depth + 1},
		"through a table and another":          {recursive("\x00", "\x41\x01\x11\x00\x00"), depth + 1},
		"with many local variables":            {recursive(thousand, "\x10\x00"), depth/16 + 1},
		"through a table, with many variables": {recursive(thousand, "\x41\x00\x11\x00\x00"), depth/16 + 1},
		"in a loop":                            {recursive("\x00", "\x03\x40\x10\x00\x0c\x00\x0b"), depth + 1},
		"with a way out between calls":         {recursive("\x00", "\x10\x00\x0f\x10\x00"), depth},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			metered, _, err := Rewrite(test.wasm, Config{})
			if err != nil {
				t.Fatal(err)
			}
			for _, cfg := range []wazero.RuntimeConfig{compiler(), interpreter()} {
				m, err := start(t, cfg, metered, &tank{})
				if err != nil {
					t.Fatal(err)
				}
				for range 2 { // the host's reset is enough to go on
					before := m.get("n")
					_, err = m.call(generatedExport{name: "f"}, 0, plenty, depth)
					if got := m.get("n") - before; !errors.Is(err, errTooDeep) || got != test.calls {
						t.Errorf("ended after %d calls with %v; want %d and too deep", got, err, test.calls)
					}
				}
			}
		})
	}
}

// TestDepthIsGivenBack calls what returns more often than the depth would allow.
func TestDepthIsGivenBack(t *testing.T) {
	// if n % 8 != 0 { f() }, written in several ways
	tests := map[string]string{
		"direct":        "\x23\x00\x41\x07\x71\x04\x40\x10\x00\x0b",
		"indirect":      "\x23\x00\x41\x07\x71\x04\x40\x41\x00\x11\x00\x00\x0b",
		"by a return":   "\x23\x00\x41\x07\x71\x45\x04\x40\x0f\x0b\x10\x00",
		"by a branch":   "\x02\x40\x23\x00\x41\x07\x71\x45\x0d\x01\x10\x00\x0b",
		"from a loop":   "\x03\x40\x23\x00\x41\x07\x71\x45\x0d\x01\x10\x00\x0b",
		"by a br_table": "\x02\x40\x23\x00\x41\x07\x71\x45\x0e\x01\x00\x01\x0b\x10\x00",
		"between calls": "\x23\x00\x41\x07\x71\x04\x40\x10\x00\x0f\x10\x00\x0b",
		"in both arms":  "\x23\x00\x41\x07\x71\x04\x40\x10\x00\x05\x23\x00\x45\x04\x40\x10\x00\x0b\x0b",
	}
	for name, code := range tests {
		t.Run(name, func(t *testing.T) {
			metered, _, err := Rewrite(recursive("\x00", code), Config{})
			if err != nil {
				t.Fatal(err)
			}
			m, err := start(t, compiler(), metered, &tank{})
			if err != nil {
				t.Fatal(err)
			}
			m.set(ExportDepth, 10)
			m.set(ExportFuel, plenty)
			for range 100 {
				if _, err := m.mod.ExportedFunction("f").Call(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if m.get(ExportDepth) != 10 {
				t.Errorf("the depth is %d, was 10", m.get(ExportDepth))
			}
			if m.get("n") != 800 {
				t.Errorf("%d calls, want 800", m.get("n"))
			}
		})
	}
}

// TestCallRegion marks the region in each body with brackets.
func TestCallRegion(t *testing.T) {
	const (
		call, block, loop, then, orElse, end = "\x10\x00", "\x02\x40", "\x03\x40", "\x04\x40", "\x05", "\x0b"
		br, brTable, ret, nop                = "\x0c", "\x0e", "\x0f", "\x01"
	)
	tests := map[string]string{
		"a call alone":                        nop + "[" + call + "]" + nop,
		"two calls":                           "[" + call + nop + call + "]" + ret,
		"in two blocks":                       "[" + block + call + end + nop + block + block + call + end + end + "]",
		"in one block":                        block + nop + "[" + call + "]" + br + "\x00" + end,
		"in one arm":                          then + nop + orElse + "[" + call + "]" + end,
		"in both arms":                        nop + "[" + then + call + nop + orElse + nop + call + end + "]" + nop,
		"an if with a call in its first arm":  "[" + then + call + orElse + nop + end + call + "]",
		"in a loop":                           nop + "[" + loop + nop + call + br + "\x00" + end + "]" + nop,
		"in a block in a loop in a block":     block + "[" + loop + block + call + end + end + "]" + nop + end,
		"a branch within":                     "[" + call + block + br + "\x00" + end + call + "]",
		"a branch out of the block":           nop + "[" + block + call + br + "\x00" + call + end + "]" + nop,
		"a branch out of two blocks":          "[" + block + nop + block + call + br + "\x01" + call + end + end + "]",
		"a branch to a loop around":           "[" + loop + block + call + br + "\x01" + call + end + end + "]",
		"a branch before the calls":           block + br + "\x00" + "[" + call + call + "]" + end,
		"a branch that another level brings":  "[" + block + loop + call + br + "\x01" + end + nop + end + "]",
		"a return between calls":              call + ret + call,
		"a return in a loop":                  loop + call + ret + end,
		"a table with the function among its": call + block + brTable + "\x01\x00\x01" + end + call,
		"no call":                             nop,
	}
	for name, marked := range tests {
		t.Run(name, func(t *testing.T) {
			before, rest, ok := strings.Cut(marked, "[")
			within, after, _ := strings.Cut(rest, "]")
			got, found := callRegion([]byte(before+within+after+end), 0, func(in instruction) bool { return in.op == opCall })
			want := region{}
			if ok {
				want = region{len(before), len(before) + len(within)}
			}
			if got != want || found != ok {
				t.Errorf("%v %t, want %v %t", got, found, want, ok)
			}
		})
	}
}

// TestReentry has the host call back into a module while it runs: both levels
// draw on one fuel and one depth.
func TestReentry(t *testing.T) {
	// f calls the host 3 times in a loop of its own, the host calls g, which loops
	// 100 times. Imports: function 0 is the host's.
	f := "\x01\x01\x7f\x03\x40\x10\x00\x20\x00\x41\x01\x6a\x22\x00\x41\x03\x48\x0d\x00\x0b\x0b"
	g := "\x01\x01\x7f\x03\x40\x20\x00\x41\x01\x6a\x22\x00\x41\xe4\x00\x48\x0d\x00\x0b\x0b"
	wasm := build(oneType, "\x02\x01\x04host\x04back\x00\x00", "\x03\x02\x00\x00", "\x07\x02\x01f\x00\x01\x01g\x00\x02",
		"\x0a\x02"+string(appendU32(nil, uint32(len(f))))+f+string(appendU32(nil, uint32(len(g))))+g)
	metered, _, err := Rewrite(wasm, Config{})
	if err != nil {
		t.Fatal(err)
	}
	var used [2]int64
	for i, cfg := range []wazero.RuntimeConfig{compiler(), interpreter()} {
		ctx := context.Background()
		rt := wazero.NewRuntimeWithConfig(ctx, cfg)
		t.Cleanup(func() { rt.Close(ctx) })
		k := &tank{}
		i64s := []api.ValueType{api.ValueTypeI64}
		_, err := rt.NewHostModuleBuilder(ImportModule).NewFunctionBuilder().
			WithGoFunction(api.GoFunc(k.refill), i64s, i64s).Export(ImportRefill).Instantiate(ctx)
		if err != nil {
			t.Fatal(err)
		}
		seen := []int64{}
		_, err = rt.NewHostModuleBuilder("host").NewFunctionBuilder().
			WithGoModuleFunction(api.GoModuleFunc(func(ctx context.Context, mod api.Module, _ []uint64) {
				seen = append(seen, int64(mod.ExportedGlobal(ExportFuel).Get()))
				if _, err := mod.ExportedFunction("g").Call(ctx); err != nil {
					panic(err)
				}
			}), nil, nil).Export("back").Instantiate(ctx)
		if err != nil {
			t.Fatal(err)
		}
		mod, err := rt.InstantiateWithConfig(ctx, metered, wazero.NewModuleConfig().WithStartFunctions())
		if err != nil {
			t.Fatal(err)
		}
		m := &machine{mod, k}
		m.set(ExportFuel, plenty)
		if _, err := mod.ExportedFunction("f").Call(ctx); err != nil {
			t.Fatal(err)
		}
		used[i] = plenty - m.get(ExportFuel)
		if used[i] < 300 {
			t.Errorf("used %d: the inner calls have not been charged", used[i])
		}
		if len(seen) != 3 || seen[0] <= seen[1] || seen[1] <= seen[2] {
			t.Errorf("the host saw the fuel at %d, which does not fall", seen)
		}
		m.set(ExportFuel, 150) // ends within the inner call
		if _, err := mod.ExportedFunction("f").Call(ctx); !errors.Is(err, errNoFuel) {
			t.Errorf("with little fuel: %v", err)
		}
	}
	if used[0] != used[1] {
		t.Errorf("used %d on one engine, %d on the other", used[0], used[1])
	}
}

// TestImportCost calls an imported function so often.
func TestImportCost(t *testing.T) {
	const calls = 5
	f := "\x00" + strings.Repeat("\x10\x00", calls) + "\x0b"
	wasm := build(oneType, "\x02\x01\x03env\x07nothing\x00\x00", "\x03\x01\x00", "\x07\x01\x01f\x00\x01",
		"\x0a\x01"+string(appendU32(nil, uint32(len(f))))+f)
	var used [2]int64
	for i, cost := range []uint32{0, 1000} {
		metered, _, err := Rewrite(wasm, Config{ImportCost: cost})
		if err != nil {
			t.Fatal(err)
		}
		m, err := start(t, compiler(), metered, &tank{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.call(generatedExport{name: "f"}, 0, plenty, 10); err != nil {
			t.Fatal(err)
		}
		used[i] = plenty - m.get(ExportFuel)
	}
	if used[1]-used[0] != calls*1000 {
		t.Errorf("used %d", used)
	}
}
