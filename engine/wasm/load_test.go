package wasm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine"
	"github.com/greenroom-run/greenroom/engine/compile"
	"github.com/greenroom-run/greenroom/engine/enginetest"
	. "github.com/greenroom-run/greenroom/engine/wasm/wasmtest"
)

func TestLoadSharesOneCompilation(t *testing.T) {
	e := newEngine(t, Config{})
	wasm := Guest{}.Bytes()
	var reads atomic.Int32
	held := make(chan struct{})
	programs := make([]engine.Program, 20)
	var wg sync.WaitGroup
	for n := range programs {
		wg.Go(func() {
			p, err := e.Load(context.Background(), actor.DigestOf(wasm), func(context.Context) ([]byte, error) {
				if reads.Add(1) == 1 {
					close(held)
				}
				return wasm, nil
			})
			if err != nil {
				t.Error(err)
			}
			programs[n] = p
		})
	}
	<-held
	wg.Wait()
	for _, p := range programs {
		if p != programs[0] {
			t.Fatal("two programs of one module")
		}
	}
	if n := reads.Load(); n != 1 {
		t.Errorf("the module was read %d times", n)
	}
}

// A caller that leaves ends a load of its own, and the module can be loaded afterwards.
func TestLoadEndsWithItsCaller(t *testing.T) {
	e := newEngine(t, Config{})
	wasm := Guest{}.Bytes()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	_, err := e.Load(ctx, actor.DigestOf(wasm), func(load context.Context) ([]byte, error) {
		cancel()
		<-load.Done()
		close(ended)
		return nil, load.Err()
	})
	if !errors.Is(err, actor.ErrCanceled) {
		t.Fatalf("got %v", err)
	}
	<-ended
	enginetest.Load(t, e, wasm)
}

func TestLoadErrors(t *testing.T) {
	e := newEngine(t, Config{})
	gone := errors.New("gone")
	for name, tc := range map[string]struct {
		read func(context.Context) ([]byte, error)
		ok   func(error) bool
	}{
		"unreadable": {func(context.Context) ([]byte, error) { return nil, gone }, func(err error) bool { return errors.Is(err, gone) }},
		"panic":      {func(context.Context) ([]byte, error) { panic("oh") }, func(err error) bool { return err != nil }},
		"invalid": {func(context.Context) ([]byte, error) { return Header(), nil }, func(err error) bool {
			var invalid *actor.InvalidModuleError
			return errors.As(err, &invalid) && len(invalid.Faults) == 5
		}},
	} {
		if _, err := e.Load(context.Background(), actor.Digest(name), tc.read); !tc.ok(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What the cache evicts stays good for those who hold it, and is not compiled
// anew for others meanwhile.
func TestEvictedProgramIsUsable(t *testing.T) {
	e := newEngine(t, Config{EngineConfig: compile.EngineConfig{MaxPrograms: 1}})
	guest := func(manifest string) []byte { return Guest{Manifest: manifest}.Bytes() }
	first := enginetest.Load(t, e, guest("1"))
	enginetest.Load(t, e, guest("2"))
	if s := e.Stats(); s.Programs != 1 {
		t.Errorf("stats %+v", s)
	}
	runtime.GC()
	i, err := first.NewInstance(context.Background(), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer i.Close(context.Background())
	if err := i.Run(context.Background(), frame(""), newCalls()); err != nil {
		t.Error(err)
	}
	if again := enginetest.Load(t, e, guest("1")); again != first {
		t.Error("the module was compiled twice")
	}
}

// Code stays within its bound, whatever is called and closed, and with it what
// instances are made from. While every program has instances, no other one is loaded.
func TestCodeStaysWithinItsBound(t *testing.T) {
	guest := func(n int) []byte {
		return Guest{Manifest: fmt.Sprint(n), More: func(b *Builder) { b.Data(4096, make1(20_000)) }}.Bytes()
	}
	open := func(e *Engine, wasm []byte) engine.Instance {
		t.Helper()
		i, err := enginetest.Load(t, e, wasm).NewInstance(context.Background(), testMemory)
		if err != nil {
			t.Fatal(err)
		}
		if err := i.Run(context.Background(), frame(""), newCalls()); err != nil {
			t.Fatal(err)
		}
		return i
	}
	whole := newEngine(t, Config{})
	open(whole, guest(0)).Close(context.Background())
	one := whole.Stats().ProgramBytes
	if one < 20_000 {
		t.Errorf("%d bytes are counted: those of the image are missing", one)
	}
	// Three of one app leave a seventh of what they have.
	e := newEngine(t, Config{EngineConfig: compile.EngineConfig{ProgramBytes: 3*one + one/2}})
	var instances []engine.Instance
	for n := range 10 {
		i := open(e, guest(n))
		if n < 7 {
			i.Close(context.Background())
		} else {
			instances = append(instances, i)
		}
		if s := e.Stats(); s.ProgramBytes > 3*one+one/2 {
			t.Fatalf("after %d modules, %d bytes of code are in memory", n+1, s.ProgramBytes)
		}
	}
	more := guest(10)
	load := func(ctx context.Context) error {
		_, err := e.Load(ctx, actor.DigestOf(more), func(context.Context) ([]byte, error) { return more, nil })
		return err
	}
	if err := load(context.Background()); !errors.Is(err, actor.ErrOverloaded) {
		t.Fatalf("beside three programs with instances: %v", err)
	}
	reclaim := func(string) bool {
		err := instances[0].Close(context.Background())
		instances[0], instances = nil, instances[1:] // or the array keeps it
		return err == nil
	}
	if err := load(engine.WithReclaim(context.Background(), reclaim)); err != nil || len(instances) != 2 {
		t.Error(err)
	}
	for _, i := range instances {
		if err := i.Run(context.Background(), frame(""), newCalls()); err != nil {
			t.Error(err)
		}
		i.Close(context.Background())
	}
}

func TestDiskCache(t *testing.T) {
	wasm := Guest{}.Bytes()
	turn := func(t *testing.T, dir string) string {
		t.Helper()
		var log bytes.Buffer
		e := newEngine(t, Config{EngineConfig: compile.EngineConfig{Compiler: enginetest.InProcess(t, compile.Config{Dir: dir, Logger: slog.New(slog.NewTextHandler(&log, nil))})}})
		i := instantiate(t, e, wasm)
		if err := i.Run(context.Background(), frame(""), newCalls()); err != nil {
			t.Fatal(err)
		}
		return log.String()
	}
	entries := func(dir string) []string {
		es, err := filepath.Glob(filepath.Join(dir, "wazero-*", "*"))
		if err != nil {
			t.Fatal(err)
		}
		return es
	}
	t.Run("used", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "made", "on", "the", "way")
		if log := turn(t, dir); log != "" || len(entries(dir)) != 1 {
			t.Errorf("log %q, %d entries", log, len(entries(dir)))
		}
		if log := turn(t, dir); log != "" {
			t.Errorf("log %q", log)
		}
	})
	for name, damage := range map[string]func([]byte) []byte{
		"truncated": func(b []byte) []byte { return b[:len(b)/2] },
		"empty":     func([]byte) []byte { return nil },
		"bit rot":   func(b []byte) []byte { b[len(b)/2] ^= 0x40; return b },
		"noise":     func([]byte) []byte { return bytes.Repeat([]byte("noise"), 1000) },
		"header":    func(b []byte) []byte { return append([]byte("WAZEVO"), bytes.Repeat([]byte{0xff}, 200)...) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			turn(t, dir)
			for _, f := range entries(dir) {
				b, err := os.ReadFile(f)
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(f, damage(b), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			turn(t, dir)
			if log := turn(t, dir); log != "" {
				t.Errorf("the damage is still there: %s", log)
			}
		})
	}
	t.Run("not a folder", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if log := turn(t, file); !strings.Contains(log, "not cached on disk") {
			t.Errorf("log %q", log)
		}
	})
}
