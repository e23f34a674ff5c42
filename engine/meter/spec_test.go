package meter_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/greenroom-run/greenroom/engine/meter"
)

// TestSpecification runs WebAssembly's official test suite, in the form in which
// the wazero module publishes it, on every module as it is and metered: both
// must answer every action alike, and no invalid module may become valid.
func TestSpecification(t *testing.T) {
	dir := moduleDir(t, "github.com/tetratelabs/wazero") + "/internal/integration_test/spectest"
	files, err := filepath.Glob(dir + "/v2/testdata/*.json")
	if err != nil || len(files) < 100 {
		t.Fatalf("found %d files of the test suite in %s: %v", len(files), dir, err)
	}
	host, err := os.ReadFile(dir + "/testdata/spectest.wasm")
	if err != nil {
		t.Fatal(err)
	}
	total, least := 0, 20_000
	if meter.RaceEnabled { // which has nothing to find in one goroutine
		files, least = files[:len(files)/8], 500
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
			total += runScript(t, file, host)
		})
	}
	if total < least {
		t.Errorf("only %d actions were compared", total)
	}
	t.Logf("%d actions, all alike", total)
}

func moduleDir(t *testing.T, module string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		t.Fatalf("find the module %s: %v", module, err)
	}
	return strings.TrimSpace(string(out))
}

type script struct{ Commands []command }

type command struct {
	Type       string
	Line       int
	Name       string
	Filename   string
	ModuleType string `json:"module_type"`
	As         string
	Action     struct {
		Type, Module, Field string
		Args                []struct {
			Type     string
			LaneType string `json:"lane_type"`
			Value    json.RawMessage
		}
	}
}

// world is one of the two sides that are compared.
type world struct {
	rt      wazero.Runtime
	metered bool
	current api.Module
	byName  map[string]api.Module
}

func newWorld(t *testing.T, metered bool, host []byte) *world {
	t.Helper()
	ctx := context.Background()
	rt := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().WithCoreFeatures(api.CoreFeaturesV2))
	t.Cleanup(func() { rt.Close(ctx) })
	_, err := rt.NewHostModuleBuilder(meter.ImportModule).NewFunctionBuilder().
		WithGoFunction(api.GoFunc(func(_ context.Context, stack []uint64) {
			if int64(stack[0]) == meter.DepthExceeded {
				panic(errors.New("too deep"))
			}
			stack[0] = meter.MaxFuel
		}), []api.ValueType{api.ValueTypeI64}, []api.ValueType{api.ValueTypeI64}).
		Export(meter.ImportRefill).Instantiate(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rt.InstantiateWithConfig(ctx, host, wazero.NewModuleConfig().WithName("spectest")); err != nil {
		t.Fatal(err)
	}
	return &world{rt: rt, metered: metered, byName: map[string]api.Module{}}
}

func (w *world) instantiate(wasm []byte, name string) error {
	if w.metered {
		var err error
		if wasm, _, err = meter.Rewrite(wasm, meter.Config{}); err != nil {
			return err
		}
	}
	mod, err := w.rt.InstantiateWithConfig(context.Background(), wasm, wazero.NewModuleConfig().WithName(name).WithStartFunctions())
	if err != nil {
		return err
	}
	w.current = mod
	return nil
}

func (w *world) act(c command) ([]uint64, error) {
	mod := w.current
	if c.Action.Module != "" {
		mod = w.byName[c.Action.Module]
	}
	if mod == nil {
		return nil, errors.New("no module")
	}
	if c.Action.Type == "get" {
		g := mod.ExportedGlobal(c.Action.Field)
		if g == nil {
			return nil, errors.New("no global")
		}
		return []uint64{g.Get()}, nil
	}
	if w.metered {
		mod.ExportedGlobal(meter.ExportDepth).(api.MutableGlobal).Set(10_000)
	}
	args, err := arguments(c)
	if err != nil {
		return nil, err
	}
	f := mod.ExportedFunction(c.Action.Field)
	if f == nil {
		return nil, errors.New("no function")
	}
	return f.Call(context.Background(), args...)
}

func arguments(c command) ([]uint64, error) {
	var args []uint64
	for _, a := range c.Action.Args {
		if a.Type != "v128" {
			var s string
			if err := json.Unmarshal(a.Value, &s); err != nil {
				return nil, err
			}
			if s == "null" {
				args = append(args, 0)
				continue
			}
			v, err := strconv.ParseUint(s, 10, 64)
			if err != nil {
				return nil, err
			}
			args = append(args, v)
			continue
		}
		var lanes []string
		if err := json.Unmarshal(a.Value, &lanes); err != nil {
			return nil, err
		}
		bits, _ := strconv.Atoi(a.LaneType[1:])
		var halves [2]uint64
		for i, s := range lanes {
			v, err := strconv.ParseUint(s, 10, 64)
			if err != nil {
				v = math.MaxUint64 // a NaN pattern; any will do, both get the same
			}
			halves[i*bits/64] |= v & (math.MaxUint64 >> (64 - bits)) << (i * bits % 64)
		}
		args = append(args, halves[:]...)
	}
	return args, nil
}

// runScript returns how many actions it compared.
func runScript(t *testing.T, file string, host []byte) int {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var s script
	if err := json.Unmarshal(data, &s); err != nil {
		t.Fatal(err)
	}
	worlds := []*world{newWorld(t, false, host), newWorld(t, true, host)}
	compared := 0
	for i, c := range s.Commands {
		at := fmt.Sprintf("%s:%d", filepath.Base(file), c.Line)
		switch c.Type {
		case "module", "assert_uninstantiable", "assert_unlinkable":
			wasm, err := os.ReadFile(filepath.Join(filepath.Dir(file), c.Filename))
			if err != nil {
				t.Fatal(err)
			}
			name := registeredAs(s.Commands[i+1:])
			var errs [2]error
			for k, w := range worlds {
				errs[k] = w.instantiate(wasm, name)
				if c.Name != "" {
					w.byName[c.Name] = w.current
				}
			}
			if (errs[0] == nil) != (errs[1] == nil) {
				t.Errorf("%s: instantiate: unmetered %v, metered %v", at, errs[0], errs[1])
			}
		case "assert_invalid", "assert_malformed":
			if c.ModuleType != "binary" {
				continue
			}
			wasm, err := os.ReadFile(filepath.Join(filepath.Dir(file), c.Filename))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := worlds[0].rt.CompileModule(context.Background(), wasm); err == nil {
				continue // the engine is lenient here
			}
			metered, _, err := meter.Rewrite(wasm, meter.Config{})
			if err != nil {
				continue
			}
			if _, err := worlds[1].rt.CompileModule(context.Background(), metered); err == nil {
				t.Errorf("%s: an invalid module became valid", at)
			}
		case "action", "assert_return", "assert_trap", "assert_exhaustion":
			if c.Action.Type == "" {
				continue
			}
			a, errA := worlds[0].act(c)
			b, errB := worlds[1].act(c)
			if (errA == nil) != (errB == nil) || errA == nil && !slices.Equal(a, b) && !references(worlds[0], c) {
				t.Errorf("%s: %s: unmetered %x %v, metered %x %v", at, c.Action.Field, a, errA, b, errB)
			}
			compared++
		}
	}
	return compared
}

// references reports whether an action answers with references, which are
// addresses in wazero and differ by nature.
func references(w *world, c command) bool {
	if c.Action.Type == "get" {
		return true
	}
	f := w.current.ExportedFunction(c.Action.Field)
	return f != nil && slices.ContainsFunc(f.Definition().ResultTypes(), func(v api.ValueType) bool {
		return v == api.ValueTypeExternref || v == 0x70
	})
}

// registeredAs looks ahead for the name under which the module just read is
// registered, since wazero names a module when it makes it.
func registeredAs(rest []command) string {
	for _, c := range rest {
		switch c.Type {
		case "register":
			return c.As
		case "module":
			return ""
		}
	}
	return ""
}
