package meter

import (
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/greenroom-run/greenroom/engine/binary"
)

// The two readers of the format, this package's and package binary's, agree about
// WebAssembly's official test suite and about what comes of it when bytes change.
func TestReadersAgree(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/tetratelabs/wazero").Output()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(strings.TrimSpace(string(out)) + "/internal/integration_test/spectest/v2/testdata/*/*.wasm")
	if err == nil && len(files) == 0 {
		files, err = filepath.Glob(strings.TrimSpace(string(out)) + "/internal/integration_test/spectest/v2/testdata/*.wasm")
	}
	if err != nil || len(files) < 500 {
		t.Fatalf("found %d modules of the test suite: %v", len(files), err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	var both, changed int
	for _, file := range files {
		wasm, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if agree(t, filepath.Base(file), wasm) {
			both++
		}
		if len(wasm) <= 8 || len(wasm) > 20_000 {
			continue
		}
		for range 3 {
			damaged := slices.Clone(wasm)
			damaged[8+random.IntN(len(wasm)-8)] = byte(random.Uint32())
			if agree(t, filepath.Base(file)+", damaged", damaged) {
				changed++
			}
		}
	}
	if both < 3000 || changed < 3000 {
		t.Errorf("only %d modules and %d damaged ones were compared", both, changed)
	}
	t.Logf("of %d modules both take %d, and %d damaged ones", len(files), both, changed)
}

// agree reports whether both readers take a module.
func agree(t *testing.T, name string, wasm []byte) bool {
	t.Helper()
	outline, err := binary.Parse(wasm)
	var limit *binary.Error
	if errors.As(err, &limit) && limit.Limit {
		return false // of that package alone
	}
	m, merr := parse(wasm)
	if merr == nil {
		_, _, merr = Rewrite(wasm, Config{}) // reads the code
	}
	switch {
	case err == nil && merr == nil:
	case err != nil && merr != nil:
		return false
	default:
		if valid(wasm) == nil {
			t.Errorf("%s is valid, and the readers differ: binary %v, meter %v", name, err, merr)
		}
		return false
	}
	var imported int
	for _, i := range outline.Imports {
		if i.Kind == binary.KindFunc {
			imported++
		}
	}
	if len(outline.Types) != len(m.types) || imported != int(m.importedFuncs) || outline.Globals != int(m.globals) {
		t.Errorf("%s: binary has %d types, %d imported functions, %d globals; meter %d, %d, %d", name,
			len(outline.Types), imported, outline.Globals, len(m.types), m.importedFuncs, m.globals)
	}
	for f := range m.funcs() {
		typ, ok := outline.FuncType(f)
		if !ok {
			t.Fatalf("%s: binary has no function %d", name, f)
		}
		if f < m.importedFuncs {
			continue
		}
		want := m.types[m.funcTypes[f-m.importedFuncs]]
		if len(typ.Params) != len(want.params) || len(typ.Results) != len(want.results) {
			t.Errorf("%s: function %d is %s; meter has %d parameters and %d results", name, f, typ, len(want.params), len(want.results))
		}
	}
	if _, ok := outline.FuncType(m.funcs()); ok {
		t.Errorf("%s: binary has more than %d functions", name, m.funcs())
	}
	return true
}
