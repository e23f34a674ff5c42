package meter

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

var (
	errNoFuel  = errors.New("out of fuel")
	errTooDeep = errors.New("too deep")
)

// tank is the host's side of metering in tests: so many refills of so much.
type tank struct {
	amount  int64
	refills int
	granted int64
}

func (k *tank) refill(_ context.Context, stack []uint64) {
	switch {
	case int64(stack[0]) == DepthExceeded:
		panic(errTooDeep)
	case int64(stack[0]) >= 0:
		panic(fmt.Sprintf("asked to refill %d", int64(stack[0])))
	case k.refills == 0:
		panic(errNoFuel)
	}
	k.refills--
	k.granted += k.amount - int64(stack[0])
	stack[0] = uint64(k.amount)
}

// machine is a runtime with one instance of a module.
type machine struct {
	mod  api.Module
	tank *tank
}

// start instantiates a module; its globals are set before its start function,
// if it has one, by what the tank gives at the first charge.
func start(t *testing.T, cfg wazero.RuntimeConfig, wasm []byte, k *tank) (*machine, error) {
	t.Helper()
	ctx := context.Background()
	rt := wazero.NewRuntimeWithConfig(ctx, cfg)
	t.Cleanup(func() { rt.Close(ctx) })
	i64s := []api.ValueType{api.ValueTypeI64}
	_, err := rt.NewHostModuleBuilder(ImportModule).NewFunctionBuilder().
		WithGoFunction(api.GoFunc(k.refill), i64s, i64s).Export(ImportRefill).Instantiate(ctx)
	if err != nil {
		t.Fatal(err)
	}
	i32s := []api.ValueType{api.ValueTypeI32}
	_, err = rt.NewHostModuleBuilder("env").
		NewFunctionBuilder().WithGoFunction(api.GoFunc(func(_ context.Context, s []uint64) {
		s[0] = uint64(uint32(s[0]) * 3)
	}), i32s, i32s).Export("answer").
		NewFunctionBuilder().WithGoFunction(api.GoFunc(func(context.Context, []uint64) {}), nil, nil).Export("nothing").
		Instantiate(ctx)
	if err != nil {
		t.Fatal(err)
	}
	mod, err := rt.InstantiateWithConfig(ctx, wasm, wazero.NewModuleConfig().WithStartFunctions())
	return &machine{mod, k}, err
}

func (m *machine) set(name string, v uint64) {
	if g := m.mod.ExportedGlobal(name); g != nil {
		g.(api.MutableGlobal).Set(v)
	}
}

func (m *machine) get(name string) int64 {
	if g := m.mod.ExportedGlobal(name); g != nil {
		return int64(g.Get())
	}
	return 0
}

// call runs an export under a fresh budget, fuel and depth.
func (m *machine) call(e generatedExport, round int, fuel int64, depth uint32) ([]uint64, error) {
	m.set(exportBudget, 300)
	m.set(ExportFuel, uint64(fuel))
	m.set(ExportDepth, uint64(depth))
	args := []uint64{}
	for i, p := range e.params {
		v := uint64(round*7+i) * 0x0123456789abcdef
		if p == typeI32 || p == typeF32 {
			v = uint64(uint32(v) & 0xff7fffff)
		}
		if p == typeF64 {
			v &^= 1 << 62
		}
		args = append(args, v)
	}
	values, err := m.mod.ExportedFunction(e.name).Call(context.Background(), args...)
	for i, r := range e.results {
		if err == nil && (r == typeI32 || r == typeF32) {
			values[i] = uint64(uint32(values[i])) // the rest is undefined
		}
	}
	return values, err
}

// outcome is a line of what a module did.
func outcome(values []uint64, err error) string {
	if err != nil {
		first, _, _ := strings.Cut(err.Error(), "\n")
		if _, why, ok := strings.Cut(first, "] failed: "); ok {
			return why // without the number of a start function, which differs
		}
		return first
	}
	return fmt.Sprintf("%x", values)
}

const plenty = MaxFuel

// history calls every export twice and writes down what comes back, what is in
// memory, and, apart from it, what fuel was used and what depth was left.
func history(t *testing.T, cfg wazero.RuntimeConfig, wasm []byte, m generated) (does, costs []string) {
	t.Helper()
	k := &tank{amount: plenty, refills: 1000}
	machine, err := start(t, cfg, wasm, k)
	does = append(does, "start: "+outcome(nil, err))
	if err != nil {
		return does, nil
	}
	for round := range 2 {
		for _, e := range m.exports {
			const depth = 1_000_000 // the budget ends recursion before
			k.refills, k.granted = 1000, plenty
			values, err := machine.call(e, round, plenty, depth)
			does = append(does, fmt.Sprintf("%s: %s", e.name, outcome(values, err)))
			costs = append(costs, fmt.Sprintf("%s: fuel %d, depth %d", e.name, k.granted-machine.get(ExportFuel), machine.get(ExportDepth)))
			if err == nil && machine.mod.ExportedGlobal(ExportDepth) != nil && machine.get(ExportDepth) != depth {
				t.Errorf("%s returned with depth %d of %d", e.name, machine.get(ExportDepth), depth)
			}
		}
	}
	memory, _ := machine.mod.Memory().Read(0, machine.mod.Memory().Size())
	does = append(does, fmt.Sprintf("memory %x", sha256.Sum256(memory)))
	for i := range 6 {
		does = append(does, fmt.Sprintf("g%d %x", i, machine.get(fmt.Sprintf("g%d", i))))
	}
	return does, costs
}

func compiler() wazero.RuntimeConfig    { return wazero.NewRuntimeConfigCompiler() }
func interpreter() wazero.RuntimeConfig { return wazero.NewRuntimeConfigInterpreter() }

// checkSame proves of one seed that metering changes nothing that a module does,
// and that what it charges is the same on two engines of different kinds.
func checkSame(t *testing.T, seed uint64) (trapped, returned int) {
	t.Helper()
	m := generate(seed, true)
	metered, _, err := Rewrite(m.wasm, Config{})
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	if again, _, _ := Rewrite(m.wasm, Config{}); !bytes.Equal(metered, again) {
		t.Errorf("seed %d: two rewritings differ", seed)
	}
	if _, _, err := Rewrite(metered, Config{}); !errors.Is(err, ErrMetered) {
		t.Errorf("seed %d: metering twice: %v", seed, err)
	}
	plain, _ := history(t, compiler(), m.wasm, m)
	compiled, costs := history(t, compiler(), metered, m)
	interpreted, costsInterpreted := history(t, interpreter(), metered, m)
	for i := range plain {
		if plain[i] != compiled[i] || plain[i] != interpreted[i] {
			t.Fatalf("seed %d:\nunmetered            %s\nmetered, compiled    %s\nmetered, interpreted %s", seed, plain[i], compiled[i], interpreted[i])
		}
		if strings.Contains(plain[i], "wasm error") {
			trapped++
		} else {
			returned++
		}
	}
	if !slices.Equal(costs, costsInterpreted) {
		t.Errorf("seed %d: charges differ:\n%v\n%v", seed, costs, costsInterpreted)
	}
	return trapped, returned
}

// randomModules is how many are tried: under the race detector, which has nothing to find
// in one goroutine, a few.
func randomModules() int {
	if RaceEnabled {
		return 40
	}
	return 200
}

func TestRandomModulesDoTheSame(t *testing.T) {
	trapped, returned := 0, 0
	for seed := range uint64(randomModules()) { //nolint:gosec // a small number
		a, b := checkSame(t, seed)
		trapped, returned = trapped+a, returned+b
	}
	t.Logf("%d traps, %d other outcomes, all alike", trapped, returned)
	if n := randomModules(); trapped < n/2 || returned < 5*n {
		t.Error("the modules are too much alike")
	}
}

func FuzzRandomModules(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) { checkSame(t, seed) })
}

// TestRandomModulesEnd proves that what would run forever does not: fixed fuel
// and a fixed number of refills end everything.
func TestRandomModulesEnd(t *testing.T) {
	ended := map[string]int{}
	for seed := range uint64(randomModules()) { //nolint:gosec // a small number
		m := generate(seed, false)
		metered, _, err := Rewrite(m.wasm, Config{MaxDepth: 500}) // the interpreter itself ends at 2,000 calls
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		var lines [2][]string
		for i, cfg := range []wazero.RuntimeConfig{compiler(), interpreter()} {
			machine, err := start(t, cfg, metered, &tank{amount: 20_000, refills: 3})
			if err != nil {
				lines[i] = append(lines[i], outcome(nil, err))
				continue
			}
			for _, e := range m.exports {
				machine.tank.refills = 3
				values, err := machine.call(e, 0, 20_000, 500)
				lines[i] = append(lines[i], fmt.Sprintf("%s: %s, %d refills left", e.name, outcome(values, err), machine.tank.refills))
				switch {
				case errors.Is(err, errNoFuel):
					ended["fuel"]++
				case errors.Is(err, errTooDeep):
					ended["depth"]++
				case err != nil:
					ended["trap"]++
				default:
					ended["returned"]++
				}
			}
		}
		if !slices.Equal(lines[0], lines[1]) {
			t.Errorf("seed %d: the engines disagree:\n%v\n%v", seed, lines[0], lines[1])
		}
	}
	t.Logf("%v", ended)
	if ended["fuel"] < randomModules()/2 || ended["depth"] == 0 {
		t.Errorf("too few modules were endless: %v", ended)
	}
}
