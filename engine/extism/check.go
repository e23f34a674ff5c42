package extism

import (
	"fmt"
	"slices"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine/binary"
	"github.com/greenroom-run/greenroom/engine/confine"
	"github.com/greenroom-run/greenroom/engine/judge"
)

// The codes of faults that this package alone finds. Those that both engines find are
// in package judge, the manifest's own in package manifest.
const (
	// FaultMixedHosts is a module that imports from Extism and from Greenroom's
	// own ABI.
	FaultMixedHosts = "mixed_hosts"
	// FaultNoManifest is a plug-in without a manifest in any of the places.
	FaultNoManifest = "no_manifest"
	// FaultMigrate is a type that declares a migrate hook.
	FaultMigrate = "migrate"
	// FaultReservedName is a method named like an export of another purpose.
	FaultReservedName = "reserved_name"
)

// Accepts reports whether a module is for this engine: it imports from Extism.
// Bytes whose imports cannot be read are for nobody.
func Accepts(wasm []byte) bool {
	imports, err := binary.Imports(wasm)
	return err == nil && slices.ContainsFunc(imports, func(i binary.Import) bool { return i.Module == envModule || i.Module == userModule })
}

// Calls reports whether a module may call other actors.
func Calls(wasm []byte) bool {
	imports, err := binary.Imports(wasm)
	return err == nil && slices.ContainsFunc(imports, func(i binary.Import) bool { return i.Module == userModule && i.Name == "greenroom_call" })
}

// faults collects what is wrong with a module.
type faults = judge.Faults

// check judges a plug-in by its outline alone: nothing of it is compiled or run.
// The Module is nil if it cannot be read.
func check(wasm []byte, memoryLimit int64) (*binary.Module, []actor.Fault) {
	m, f := judge.Parse(wasm)
	if m == nil {
		return nil, f
	}
	checkImports(m, &f)
	checkMemory(m, memoryLimit, &f)
	return m, f
}

func checkImports(m *binary.Module, f *faults) {
	known := judge.WASI()
	for _, h := range append(envFuncs(), userFuncs()...) {
		known[judge.Name{Module: h.module, Name: h.name}] = judge.FuncType(h.params, h.results)
	}
	for _, imp := range m.Imports {
		name := imp.Module + "." + imp.Name
		switch want, ok := known[judge.Name{Module: imp.Module, Name: imp.Name}]; {
		case imp.Module == abi.HostModule:
			f.Add(FaultMixedHosts, "imports %q beside %s: a module is an Extism plug-in or a guest of the Greenroom SDK, not both; plug-ins find the same functions in %s", name, envModule, userModule)
		case imp.Kind != binary.KindFunc:
			f.Add(judge.UnknownImport, "imports the %s %q: only functions can be imported", imp.Kind, name)
		case !ok:
			f.Add(judge.UnknownImport, "imports %q: %s", name, importHint(imp.Module))
		case !imp.Type.Equal(want):
			f.Add(judge.ImportSignature, "imports %q as %s; it is %s", name, imp.Type, want)
		}
	}
}

// importHint says what to do about an import that there is not.
func importHint(module string) string {
	switch module {
	case envModule:
		return "this host's Extism does not have it: build with a released PDK, or update this host"
	case userModule:
		return "this host does not have it; docs/extism.md lists those that it has, whose names begin with greenroom_"
	case abi.WASIModule:
		return "it is not part of WASI preview 1"
	case "env":
		return "nothing defines it. AssemblyScript imports env.abort unless it is built with --use abort=…; C and Rust import what no library defines"
	}
	return fmt.Sprintf("only %s, %s and %s are provided; Extism's linking of several modules is not", envModule, userModule, abi.WASIModule)
}

// checkMemory lets pass what starts within the limit, with the kernel beside it.
func checkMemory(m *binary.Module, limit int64, f *faults) {
	if len(m.Memories) == 0 {
		return // it computes with what the kernel keeps
	}
	if need := int64(m.Memories[0].Min)*confine.PageSize + kernelBytes; need > limit {
		f.Add(judge.Memory, "needs %d bytes of memory to start, with Extism's kernel; the limit is %d: lower the stack size and the static data, or raise the host's limit", need, limit)
	}
}

// reserved are exports that are no methods.
var reserved = []string{
	abi.ExportManifest, "_start", "_initialize", "__wasm_call_ctors", "hs_init", "hs_exit",
}

// checkMethods judges what a manifest says of a plug-in.
func checkMethods(m *binary.Module, spec *abi.Manifest, f *faults) {
	for _, t := range spec.Types {
		if t.Migrate {
			f.Add(FaultMigrate, "type %s: declares migrate, which an Extism plug-in cannot have; read old state where it is used, and remove \"migrate\"", t.Name)
		}
		for _, method := range t.Methods {
			at := t.Name + "." + method.Name
			exp, ok := m.Export(method.Name)
			switch {
			case slices.Contains(reserved, method.Name):
				f.Add(FaultReservedName, "method %s: the export of that name has another purpose; rename the method", at)
			case !ok:
				f.Add(judge.MissingExport, "method %s: the plug-in exports no function %q; export it, or take the method out of the manifest", at, method.Name)
			case exp.Kind != binary.KindFunc:
				f.Add(judge.ExportSignature, "method %s: the plug-in exports %q as a %s; it must be a function", at, method.Name, exp.Kind)
			default:
				checkSignature(m, "method "+at, exp, f)
			}
		}
	}
}

func checkSignature(m *binary.Module, what string, exp binary.Export, f *faults) {
	t, ok := m.FuncType(exp.Index)
	if !ok {
		f.Add(judge.Malformed, "%s: is exported as the function %d, which does not exist", what, exp.Index)
		return
	}
	if len(t.Params) > 0 || len(t.Results) > 1 || len(t.Results) == 1 && t.Results[0] != binary.I32 {
		f.Add(judge.ExportSignature, "%s: is exported as %s; it must be () -> (i32) or () -> (): a plug-in reads its input with the PDK", what, t)
	}
}
