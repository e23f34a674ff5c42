package wasm

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/abi/manifest"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine/compile"
	"github.com/greenroom-run/greenroom/engine/judge"
	. "github.com/greenroom-run/greenroom/engine/wasm/wasmtest"
)

func TestInspect(t *testing.T) {
	// Only what loops gets little time: the rest must not depend on the machine.
	limits := Config{EngineConfig: compile.EngineConfig{InspectMemory: 1 << 20, InitTimeout: 10 * time.Minute, InspectTimeout: 10 * time.Minute}}
	hasty := map[string]func(*Config){
		"start loops":    func(c *Config) { c.InitTimeout = 100 * time.Millisecond },
		"alloc loops":    func(c *Config) { c.InspectTimeout = 100 * time.Millisecond },
		"manifest loops": func(c *Config) { c.InspectTimeout = 100 * time.Millisecond },
	}
	printAndExit := func(text string) Guest { // as the Go runtime does when init panics
		return Guest{
			Imports: []Import{
				Func("wasi_snapshot_preview1", "fd_write", "iiii", "i"),
				Func("wasi_snapshot_preview1", "proc_exit", "i", ""),
			},
			More: func(b *Builder) {
				b.Data(2048, []byte(text))
				b.Data(3000, append(le32(2048), le32(uint32(len(text)))...))
			},
			Init: Code(I32Const(2), I32Const(3000), I32Const(1), I32Const(3008), Call(0), Drop, I32Const(2), Call(1)),
		}
	}
	for _, tc := range []struct {
		name string
		wasm []byte
		want []string // "code: part of the message", in order
	}{
		{"empty", nil, []string{"not_wasm: is empty"}},
		{"text", []byte("\n ;; a guest\n(module)"), []string{"not_wasm: wat2wasm"}},
		{"component", []byte("\x00asm\x0d\x00\x01\x00"), []string{"not_wasm: component"}},
		{"gzip", []byte{0x1f, 0x8b, 8, 0}, []string{"not_wasm: gzip"}},
		{"elf", []byte("\x7fELF\x02\x01"), []string{"not_wasm: native program"}},
		{"random", []byte("hello, world"), []string{"not_wasm: is not a WebAssembly module"}},
		{"half a header", []byte("\x00asm\x01"), []string{"not_wasm: cut off"}},
		{"another version", []byte("\x00asm\x02\x00\x00\x00"), []string{"not_wasm: version 02000000"}},
		{"truncated", Guest{}.Bytes()[:60], []string{"malformed: at byte"}},
		{
			"an empty module", Header(),
			[]string{"missing_export: greenroom_alloc (i32) -> (i32)", "missing_export: list the actor types in greenroom::actors!", "missing_export: greenroom_turn", "missing_export: memory", "memory: no memory"},
		},
		{
			"a command", Guest{Omit: "greenroom_turn", More: func(b *Builder) { b.Func("_start", nil, nil, 0) }}.Bytes(),
			[]string{"not_reactor: -buildmode=c-shared", "missing_export: call actor.Register from an init function"},
		},
		{
			"unknown imports", Guest{Imports: []Import{Func("env", "foo", "", ""), Func("wasi_snapshot_preview1", "sock_dance", "", ""), Host("http_get", "", ""), Host("state_delete_all", "l", "i"), Func("gojs", "x", "", "")}}.Bytes(),
			[]string{
				`unknown_import: imports the function "env.foo": only greenroom and wasi_snapshot_preview1 are provided`,
				"unknown_import: not part of WASI preview 1", "unknown_import: update this host",
				`import_signature: imports "greenroom.state_delete_all" as (i64) -> (i32); it is () -> (i32)`,
				"unknown_import: GOOS=wasip1",
			},
		},
		{
			"an imported memory", func() []byte { b := &Builder{}; b.ImportMemory("env", "memory"); return b.Bytes() }(),
			[]string{"unknown_import: memory", "missing_export: ", "missing_export: ", "missing_export: ", "missing_export: memory"},
		},
		{
			"wrong exports", Guest{Omit: "greenroom_alloc", More: func(b *Builder) { b.Export("greenroom_alloc", 2, 0); b.Func("_initialize", []byte{I32}, nil, 0) }}.Bytes(),
			[]string{"export_signature: as a memory", "export_signature: _initialize as (i32) -> ()"},
		},
		{"too much memory", Guest{Pages: 17}.Bytes(), []string{"memory: needs 1114112 bytes of memory to start; the limit is 1048576"}},
		{"does not compile", Guest{Turn: Code(I64Const(1))}.Bytes(), []string{"compile: cannot use i64"}},
		{"start traps", Guest{Init: Code(Unreachable)}.Bytes(), []string{"start: unreachable"}},
		{"start loops", Guest{Init: Forever()}.Bytes(), []string{"start: did not return within 100ms"}},
		{
			"start panics", printAndExit("panic: actor: the type Counter is registered twice\n\ngoroutine 1 [running]:\nmain.main()\n").Bytes(),
			[]string{"start: does not start: panic: actor: the type Counter is registered twice (the guest exited with code 2)"},
		},
		{"alloc loops", Guest{Alloc: Code(Forever(), I32Const(0))}.Bytes(), []string{"alloc: did not return within"}},
		{"alloc lies", Guest{Alloc: I32Const(1 << 30)}.Bytes(), []string{"alloc: beyond the end of memory"}},
		{"manifest loops", Guest{Describe: Code(Forever(), I64Const(0))}.Bytes(), []string{"manifest: did not return within"}},
		{"manifest outside memory", Guest{Describe: I64Const(-1<<32 | 100)}.Bytes(), []string{"manifest: 100 bytes at 4294967295"}},
		{"manifest of 4 GiB", Guest{Describe: I64Const(1<<32 - 1)}.Bytes(), []string{"manifest: 4294967295 bytes; at most 65536"}},
		{"manifest traps", Guest{Describe: Code(Unreachable)}.Bytes(), []string{"manifest: unreachable"}},
		{"no manifest", Guest{Describe: I64Const(0)}.Bytes(), []string{"manifest_"}},
		{
			"every fault of a manifest", Guest{Manifest: `{"abi":1,"types":[{"name":"a b","methods":[{"name":"Do"}]},{"name":"T","placement":"moon","methods":[{"name":"Do"}]}]}`}.Bytes(),
			[]string{manifest.CodeBadName + ": ", manifest.CodeBadValue + ": moon"},
		},
		{
			"a service without its descriptor", Guest{Manifest: `{"abi":1,"types":[{"name":"T","methods":[{"name":"Do"}],"protobuf":{"service":"shop.v1.Cart","descriptor":"CgA="}}]}`}.Bytes(),
			[]string{judge.Service + ": type T: the descriptor of shop.v1.Cart has the file , which is not valid"},
		},
		{"a table of half a billion", Guest{More: func(b *Builder) { b.Table(1 << 29) }}.Bytes(), []string{"limit: tables of 536870912 elements"}},
		{
			"four billion locals",
			Guest{More: func(b *Builder) { b.Func("", nil, nil, 1<<32-1) }}.Bytes(), []string{"limit: 4294967295 locals"},
		},
		{
			"four billion imports in five bytes",
			slices.Concat(Header(), Section(2, []byte{0xff, 0xff, 0xff, 0xff, 0x0f})), []string{"limit: 4294967295 imports"},
		},
		{
			"a thousand imports in five bytes",
			slices.Concat(Header(), Section(2, []byte{0xe8, 0x07, 0, 0, 0})), []string{"malformed: claims 1000 imports in 3 bytes"},
		},
		{
			"a function that would compile for minutes", // 160 KB that only nest
			Guest{Turn: Code(bytes.Repeat([]byte{2, 0x40}, 40_000), bytes.Repeat([]byte{0x0b}, 40_000), I32Const(0))}.Bytes(),
			[]string{"limit: too complex to compile: the function number 2 has 40000 blocks"},
		},
		{
			"an instruction of the future",
			Guest{Turn: Code(0x12, 0)}.Bytes(), []string{"malformed: instruction 0x12"},
		},
		{
			"exceptions", slices.Concat(Header(), Section(13, []byte{0})), []string{"malformed: experimental features"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg := limits
			if hurry := hasty[tc.name]; hurry != nil {
				hurry(&cfg)
			}
			e := newEngine(t, cfg)
			m, found, err := e.Inspect(context.Background(), bytes.NewReader(tc.wasm))
			for tc.name == "manifest loops" && len(found) == 1 && found[0].Code == FaultAlloc && cfg.InspectTimeout < time.Minute {
				cfg.InspectTimeout *= 4 // the step before had as little, and the machine no time for it
				e = newEngine(t, cfg)
				m, found, err = e.Inspect(context.Background(), bytes.NewReader(tc.wasm))
			}
			if err != nil || m != nil {
				t.Fatalf("got %v, %v, %v", m, found, err)
			}
			if len(found) != len(tc.want) {
				t.Fatalf("got %d faults, want %d: %q", len(found), len(tc.want), found)
			}
			for n, want := range tc.want {
				code, part, _ := strings.Cut(want, ": ")
				if f := found[n]; !strings.HasPrefix(f.Code, code) || !strings.Contains(f.Message, part) {
					t.Errorf("got %q\nwant %q", f, want)
				}
			}
			if s := e.Stats(); s.Instances != 0 || s.MemoryBytes != 0 || s.Programs != 0 {
				t.Errorf("something is left: %+v", s)
			}
		})
	}
}

func TestInspectGood(t *testing.T) {
	e := newEngine(t, Config{})
	wasm := Guest{}.Bytes()
	m, found, err := e.Inspect(context.Background(), bytes.NewReader(wasm))
	if err != nil || len(found) > 0 {
		t.Fatalf("%v, %v", found, err)
	}
	if len(m.Types) != 1 || m.Types[0].Name != "T" || m.Types[0].Placement != "ring" {
		t.Errorf("manifest %+v", m)
	}
	if _, err := e.Load(context.Background(), actor.DigestOf(wasm), func(context.Context) ([]byte, error) {
		return nil, errors.New("asked for the bytes of a module that is compiled already")
	}); err != nil {
		t.Error(err)
	}
}

func TestInspectCanceled(t *testing.T) {
	e := newEngine(t, Config{})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, found, err := e.Inspect(ctx, bytes.NewReader(Guest{Init: Forever()}.Bytes())); !errors.Is(err, actor.ErrCanceled) {
		t.Errorf("got %v, %v", found, err)
	}
}

// FuzzInspect feeds bytes that begin as a proper guest: none of them may end the
// process, and none may be both refused and accepted.
func FuzzInspect(f *testing.F) {
	e := newEngine(f, Config{EngineConfig: compile.EngineConfig{InitTimeout: 20 * time.Millisecond, InspectTimeout: 20 * time.Millisecond, MaxPrograms: 8}})
	f.Add(Guest{}.Bytes())
	f.Add(Guest{Init: Forever()}.Bytes())
	f.Add(Guest{Imports: []Import{Host("state_get", "iiii", "l")}, More: func(b *Builder) {
		b.Table(3)
		b.Custom("name", slices.Concat([]byte{1}, U32(4), []byte{1, 0, 1, 'f'}))
	}}.Bytes())
	f.Fuzz(func(t *testing.T, wasm []byte) {
		m, found, err := e.Inspect(context.Background(), bytes.NewReader(bytes.Clone(wasm)))
		if err != nil {
			t.Fatalf("neither good nor bad: %v", err)
		}
		if (m == nil) != (len(found) > 0) {
			t.Fatalf("manifest %v, faults %v", m, found)
		}
	})
}
