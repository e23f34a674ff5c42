package extism

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/abi/manifest"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine/compile"
	"github.com/greenroom-run/greenroom/engine/enginetest"
	"github.com/greenroom-run/greenroom/engine/judge"
	. "github.com/greenroom-run/greenroom/engine/wasm/wasmtest"
)

// embedded is a plug-in with a manifest beside it.
func embedded(b *Builder, text string) []byte {
	wasm, err := manifest.Embed(b.Bytes(), []byte(text))
	if err != nil {
		panic(err)
	}
	return wasm
}

func TestRefusedPlugins(t *testing.T) {
	e := newEngine(t, Config{})
	// Only what loops gets little time: the rest must not depend on the machine.
	hasty := map[string]*Engine{
		"loops at its start":             newEngine(t, Config{EngineConfig: compile.EngineConfig{InitTimeout: 200 * time.Millisecond}}),
		"a start function that loops":    newEngine(t, Config{EngineConfig: compile.EngineConfig{InitTimeout: 200 * time.Millisecond}}),
		"a manifest function that loops": newEngine(t, Config{EngineConfig: compile.EngineConfig{InspectTimeout: 200 * time.Millisecond}}),
	}
	i32 := []byte{I32}
	one := func(b *Builder) { b.ImportFunc(envModule, "alloc", []byte{I64}, []byte{I64}) }
	const spec = `{"abi":1,"types":[{"name":"T","methods":[{"name":"Do"}]}]}`
	for _, tt := range []struct {
		name  string
		build func(b *Builder)
		spec  string   // in a section, if not empty
		codes []string // of all faults
		text  string
	}{
		{name: "no manifest", build: one, codes: []string{FaultNoManifest}, text: "deploy --manifest"},
		{name: "a method that is not exported", build: one, spec: `{"abi":1,"types":[{"name":"T","methods":[{"name":"Do"},{"name":"Undo"}]}]}`, codes: []string{judge.MissingExport, judge.MissingExport}, text: "T.Undo"},
		{
			name: "a method of the wrong type", codes: []string{judge.ExportSignature, judge.ExportSignature}, text: "(i32) -> ()",
			spec: `{"abi":1,"types":[{"name":"T","methods":[{"name":"Do"},{"name":"memory"}]}]}`,
			build: func(b *Builder) {
				one(b)
				b.Memory(1, 0)
				b.Export("memory", 2, 0)
				b.Func("Do", i32, nil, 0)
			},
		},
		{
			name: "migrates", codes: []string{FaultMigrate}, text: "which an Extism plug-in cannot have",
			spec:  `{"abi":1,"types":[{"name":"T","migrate":true,"methods":[{"name":"Do","reentrant":true}]}]}`,
			build: func(b *Builder) { one(b); b.Func("Do", nil, i32, 0, I32Const(0)...) },
		},
		{name: "a bad manifest", build: one, spec: `{"abi":2,"types":[]}`, codes: []string{"manifest_abi_version", "manifest_bad_value"}},
		{
			name: "a reserved name", codes: []string{FaultReservedName}, spec: `{"abi":1,"types":[{"name":"T","methods":[{"name":"_initialize"}]}]}`,
			build: func(b *Builder) { one(b); b.Func("_initialize", nil, nil, 0) },
		},
		{
			name: "unknown imports", spec: spec, codes: []string{judge.UnknownImport, judge.UnknownImport, judge.UnknownImport, judge.UnknownImport, judge.UnknownImport, FaultMixedHosts, judge.UnknownImport}, text: "--use abort",
			build: func(b *Builder) {
				one(b)
				b.ImportFunc(envModule, "file_open", nil, nil)
				b.ImportFunc(userModule, "greenroom_steal", nil, nil)
				b.ImportFunc("env", "abort", nil, nil)
				b.ImportFunc(ownModule, "output_set", []byte{I64, I64}, nil)
				b.ImportFunc("greenroom_meter", "refill", []byte{I64}, []byte{I64})
				b.ImportFunc("greenroom", "state_version", nil, []byte{I64})
				b.ImportMemory(envModule, "memory")
			},
		},
		{
			name: "imports of other types", spec: spec, codes: []string{judge.ImportSignature, judge.ImportSignature},
			build: func(b *Builder) {
				b.ImportFunc(envModule, "alloc", i32, i32)
				b.ImportFunc(userModule, "greenroom_now", nil, nil)
			},
		},
		{name: "too much memory", spec: spec, codes: []string{judge.Memory}, build: func(b *Builder) { one(b); b.Memory(1100, 0) }},
		{
			name: "does not compile", spec: spec, codes: []string{judge.Compile},
			build: func(b *Builder) { one(b); b.Func("Do", nil, i32, 0, Drop) },
		},
		{
			name: "loops at its start", spec: spec, codes: []string{judge.Start}, text: "did not return within",
			build: func(b *Builder) {
				one(b)
				b.Func("Do", nil, i32, 0, I32Const(0)...)
				b.Func("_initialize", nil, nil, 0, Forever()...)
			},
		},
		{
			name: "a start function that loops", spec: spec, codes: []string{judge.Start}, text: "did not return within",
			build: func(b *Builder) {
				one(b)
				b.Func("Do", nil, i32, 0, I32Const(0)...)
				b.Start(b.Func("", nil, nil, 0, Forever()...))
			},
		},
		{
			name: "a start function that calls the host", spec: spec, codes: []string{judge.Start}, text: "called by the start function",
			build: func(b *Builder) {
				one(b)
				b.Func("Do", nil, i32, 0, I32Const(0)...)
				b.Start(b.Func("", nil, nil, 0, Code(I64Const(8), Call(0), Drop)...))
			},
		},
		{
			name: "a start function that logs", spec: spec, codes: []string{judge.Start}, text: "called by the start function",
			build: func(b *Builder) {
				b.ImportFunc(envModule, "log_info", []byte{I64}, nil)
				b.Func("Do", nil, i32, 0, I32Const(0)...)
				b.Start(b.Func("", nil, nil, 0, Code(I64Const(8), Call(0))...))
			},
		},
		{
			name: "a manifest function that fails", codes: []string{judge.Manifest}, text: "returned 1",
			build: func(b *Builder) { one(b); b.Func("greenroom_manifest", nil, i32, 0, I32Const(1)...) },
		},
		{
			name: "a manifest function that sets state", codes: []string{judge.Manifest}, text: "outside a turn",
			build: func(b *Builder) {
				b.ImportFunc(envModule, "var_set", []byte{I64, I64}, nil)
				b.Func("greenroom_manifest", nil, nil, 0, Code(I64Const(0), I64Const(0), Call(0))...)
			},
		},
		{
			name: "a manifest function that lies", codes: []string{judge.Manifest}, text: "outside of Extism's memory",
			build: func(b *Builder) {
				b.ImportFunc(envModule, "output_set", []byte{I64, I64}, nil)
				b.Func("greenroom_manifest", nil, nil, 0, Code(I64Const(-1), I64Const(9), Call(0))...)
			},
		},
		{
			name: "a manifest function that loops", codes: []string{judge.Manifest}, text: "did not return within",
			build: func(b *Builder) { one(b); b.Func("greenroom_manifest", nil, i32, 0, Code(Forever(), I32Const(1))...) },
		},
		{
			name: "a manifest function of the wrong type", codes: []string{judge.ExportSignature}, text: "(i32) -> (i32)",
			build: func(b *Builder) { one(b); b.Func("greenroom_manifest", i32, i32, 0, LocalGet(0)...) },
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := e
			if hurried := hasty[tt.name]; hurried != nil {
				e = hurried
			}
			b := &Builder{}
			tt.build(b)
			wasm := b.Bytes()
			if tt.spec != "" {
				wasm = embedded(b, tt.spec)
			}
			spec, found, err := e.Inspect(context.Background(), bytes.NewReader(wasm))
			if err != nil || spec != nil {
				t.Fatalf("%v, %v", spec, err)
			}
			var codes, texts []string
			for _, f := range found {
				codes, texts = append(codes, f.Code), append(texts, f.Message)
			}
			if !slices.Equal(codes, tt.codes) || !strings.Contains(strings.Join(texts, "\n"), tt.text) {
				t.Errorf("got %q\n%s\nwant %q with %q", codes, strings.Join(texts, "\n"), tt.codes, tt.text)
			}
			if !strings.Contains(tt.name, "imports") {
				return // found by more than the outline
			}
			if _, err := e.Load(context.Background(), actor.DigestOf(wasm), func(context.Context) ([]byte, error) { return wasm, nil }); !errors.As(err, new(*actor.InvalidModuleError)) {
				t.Errorf("it can be loaded: %v", err)
			}
		})
	}
	for _, e := range append(slices.Collect(maps.Values(hasty)), e) {
		if s := e.Stats(); s.Programs != 0 || s.Instances != 0 {
			t.Errorf("what was refused is kept: %+v", s)
		}
	}
}

// A start function, tables and globals survive what is done to the module.
func TestPrepare(t *testing.T) {
	e := newEngine(t, Config{})
	b := &Builder{}
	b.ImportFunc(envModule, "alloc", []byte{I64}, []byte{I64})
	g := b.Global(1)
	b.Table(3)
	b.Memory(1, 2)
	b.Func("Do", nil, []byte{I32}, 0, GlobalGet(g)...)
	b.Func("Silent", nil, nil, 0)
	b.Start(b.Func("", nil, nil, 0, Code(GlobalGet(g), I32Const(1), I32Sub, GlobalSet(g))...))
	b.Func("_initialize", nil, nil, 0, Code(GlobalGet(g), If(Unreachable))...)
	b.Func("__wasm_call_ctors", nil, nil, 0, Unreachable)
	i := instantiate(t, enginetest.Load(t, e, embedded(b, `{"abi":1,"types":[{"name":"T","methods":[{"name":"Do"},{"name":"Silent"}]}]}`)))
	for _, method := range []string{"Do", "Silent", "Do"} {
		if err := i.Run(context.Background(), frame("x", method, ""), newCalls()); err != nil {
			t.Errorf("%s: %v", method, err)
		}
	}
}

func TestDamagedPlugins(t *testing.T) {
	e := newEngine(t, Config{EngineConfig: compile.EngineConfig{InspectTimeout: 200 * time.Millisecond, InitTimeout: 200 * time.Millisecond}})
	wasm := plug(Code(block(8), Drop, I32Const(0)))
	for n := range wasm {
		for _, bit := range []byte{1, 0x80, 0xff} {
			damaged := bytes.Clone(wasm)
			damaged[n] ^= bit
			if _, _, err := e.Inspect(context.Background(), bytes.NewReader(damaged)); err != nil {
				t.Fatalf("byte %d ^ %x: %v", n, bit, err)
			}
		}
	}
}

func FuzzInspect(f *testing.F) {
	e := newEngine(f, Config{EngineConfig: compile.EngineConfig{InspectTimeout: 100 * time.Millisecond, InitTimeout: 100 * time.Millisecond}})
	f.Add(plug(Code(block(8), Drop, I32Const(0))))
	f.Add(Header())
	f.Fuzz(func(t *testing.T, wasm []byte) {
		spec, found, err := e.Inspect(context.Background(), bytes.NewReader(wasm))
		if err != nil || (spec == nil) == (len(found) == 0) {
			t.Fatalf("%v %v %v", spec, found, err)
		}
		if spec == nil {
			return
		}
		i, err := enginetest.Load(t, e, wasm).NewInstance(context.Background(), testMemory)
		if err != nil {
			return // it needs more
		}
		defer i.Close(context.Background())
		_ = i.Run(enginetest.Deadline(t, 100*time.Millisecond), frame("x", spec.Types[0].Methods[0].Name, "{}"), newCalls())
	})
}
