package wasm

import (
	"slices"
	"strings"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine/binary"
	"github.com/greenroom-run/greenroom/engine/confine"
	"github.com/greenroom-run/greenroom/engine/judge"
)

// The codes of faults that this package alone finds. Those that both engines find are
// in package judge, the manifest's own in package manifest.
const (
	FaultNotReactor = "not_reactor"
	FaultAlloc      = "alloc"
	FaultWarm       = "warm"
)

// faults collects what is wrong with a module.
type faults = judge.Faults

const reactorHint = "build it as a reactor: GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared (or tinygo build -target=wasip1 -buildmode=c-shared); \"greenroom build\" does so"

// check judges a module by its outline alone: nothing of it is compiled or run.
// The Module is nil if it cannot be read.
func check(wasm []byte, memoryLimit int64) (*binary.Module, []actor.Fault) {
	m, f := judge.Parse(wasm)
	if m == nil {
		return nil, f
	}
	checkImports(m, &f)
	checkExports(m, &f)
	checkMemory(m, memoryLimit, &f)
	return m, f
}

func checkImports(m *binary.Module, f *faults) {
	known := judge.WASI()
	for _, h := range hostFuncs() {
		known[judge.Name{Module: abi.HostModule, Name: h.name}] = judge.FuncType(h.params, h.results)
	}
	for _, imp := range m.Imports {
		name := imp.Module + "." + imp.Name
		switch {
		case imp.Module != abi.HostModule && imp.Module != abi.WASIModule:
			f.Add(judge.UnknownImport, "imports the %s %q: only %s and %s are provided%s", imp.Kind, name, abi.HostModule, abi.WASIModule, importHint(imp.Module))
			continue
		case imp.Kind != binary.KindFunc:
			f.Add(judge.UnknownImport, "imports the %s %q: only functions can be imported", imp.Kind, name)
			continue
		}
		want, ok := known[judge.Name{Module: imp.Module, Name: imp.Name}]
		if !ok {
			hint := "update this host, or build the guest with an older SDK"
			if imp.Module == abi.WASIModule {
				hint = "it is not part of WASI preview 1"
			}
			f.Add(judge.UnknownImport, "imports %q, which this host does not have: %s", name, hint)
		} else if !imp.Type.Equal(want) {
			f.Add(judge.ImportSignature, "imports %q as %s; it is %s", name, imp.Type, want)
		}
	}
}

// importHint says where an import of that module usually comes from.
func importHint(module string) string {
	switch {
	case module == "env":
		return "; it is usually a C or Rust \"extern\" function that no library defines: link what defines it, or name the module greenroom in its declaration"
	case strings.HasPrefix(module, "wasi:"):
		return "; it comes from WASI preview 2: build for preview 1 (wasip1) or wasm32-unknown-unknown"
	case module == "wasi_unstable":
		return "; it comes from an old WASI: build with a newer toolchain for preview 1"
	case module == "gojs" || module == "go":
		return "; it was built for browsers: use GOOS=wasip1 instead of GOOS=js"
	case module == "__wbindgen_placeholder__" || module == "wbg":
		return "; it comes from wasm-bindgen, which is for browsers: remove the crate that uses it (often chrono, getrandom or uuid with its \"js\" feature)"
	case strings.HasPrefix(module, "extism:"):
		return "; it is from an Extism plug-in: a module is either one of those, with all imports from extism:host, or a guest of the native ABI"
	}
	return ""
}

func checkExports(m *binary.Module, f *faults) {
	_, command := m.Export("_start")
	_, reactor := m.Export(exportInitialize)
	if command && !reactor {
		f.Add(FaultNotReactor, "is a command (it exports _start and no _initialize), which runs once and ends; %s", reactorHint)
	}
	// Guests of Go have one of the two; those of Rust have none.
	language := "list the actor types in greenroom::actors! { … } at the root of a crate of type cdylib"
	if command || reactor {
		language = "import the Greenroom SDK's package actor, and call actor.Register from an init function; " + reactorHint
	}
	i32, i64 := []binary.ValueType{binary.I32}, []binary.ValueType{binary.I64}
	for _, want := range []struct {
		name string
		typ  binary.FuncType
		need bool
	}{
		{abi.ExportAlloc, binary.FuncType{Params: i32, Results: i32}, true},
		{abi.ExportManifest, binary.FuncType{Results: i64}, true},
		{abi.ExportTurn, binary.FuncType{Params: []binary.ValueType{binary.I32, binary.I32}, Results: i32}, true},
		{abi.ExportInitialize, binary.FuncType{}, false},
		{abi.ExportWarm, binary.FuncType{}, false},
	} {
		exp, ok := m.Export(want.name)
		switch {
		case !ok && want.need:
			f.Add(judge.MissingExport, "does not export %s %s: %s", want.name, want.typ, language)
		case !ok:
		case exp.Kind != binary.KindFunc:
			f.Add(judge.ExportSignature, "exports %s as a %s; it must be a function %s", want.name, exp.Kind, want.typ)
		default:
			if got, ok := m.FuncType(exp.Index); !ok {
				f.Add(judge.Malformed, "exports %s as the function %d, which does not exist", want.name, exp.Index)
			} else if !got.Equal(want.typ) {
				f.Add(judge.ExportSignature, "exports %s as %s; it must be %s", want.name, got, want.typ)
			}
		}
	}
	switch exp, ok := m.Export(abi.ExportMemory); {
	case !ok:
		f.Add(judge.MissingExport, "does not export its memory as %q: linkers do so by default; remove flags such as --no-export-memory or --import-memory", abi.ExportMemory)
	case exp.Kind != binary.KindMemory:
		f.Add(judge.ExportSignature, "exports %q as a %s; it must be the memory", abi.ExportMemory, exp.Kind)
	}
}

func checkMemory(m *binary.Module, limit int64, f *faults) {
	if len(m.Memories) == 0 {
		imported := slices.ContainsFunc(m.Imports, func(i binary.Import) bool { return i.Kind == binary.KindMemory })
		if !imported { // an imported one has its own fault
			f.Add(judge.Memory, "has no memory: export one as %q", abi.ExportMemory)
		}
		return
	}
	pages := int64(m.Memories[0].Min)
	if pages > maxPages || m.Memories[0].Max > maxPages {
		f.Add(judge.Memory, "declares a memory of more than %d pages (4 GiB)", maxPages)
	} else if pages*confine.PageSize > limit {
		f.Add(judge.Memory, "needs %d bytes of memory to start; the limit is %d: lower the stack size and the static data (for Rust, -C link-arg=-zstack-size=65536), or raise the host's limit", pages*confine.PageSize, limit)
	}
}
