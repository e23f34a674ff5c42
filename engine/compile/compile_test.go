package compile

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine"
	. "github.com/greenroom-run/greenroom/engine/wasm/wasmtest"
)

func newCompiler(tb testing.TB, cfg Config) *Compiler {
	tb.Helper()
	if cfg.Time == 0 {
		cfg.Time = 10 * time.Minute // whatever else the machine does
	}
	c, err := New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := c.Close(); err != nil {
			tb.Error(err)
		}
	})
	return c
}

// The children of this test, which are this program again, run modules as they are.
func init() {
	Serve(Native, whoChecks, asTheyAre)
	Serve(Plugin, whoChecks, asTheyAre)
}

// whoChecks says that a module costs the number of the process that checks it. Of a module
// that ends in a letter it does what that stands for.
func whoChecks(wasm []byte, memory int64) (cost uint64, found []actor.Fault) {
	switch wasm[len(wasm)-1] {
	case 'f':
		for range 100 {
			found = append(found, actor.Fault{Code: "f", Message: fmt.Sprint(memory, strings.Repeat("<", 4<<10))})
		}
	case 'm':
		var kept [][]byte
		for {
			kept = append(kept, bytes.Repeat([]byte{1}, 1<<20))
			cost += uint64(len(kept))
		}
	case 'p':
		panic("a fault of ours")
	}
	return uint64(os.Getpid()), found
}

// asTheyAre takes all memory for the thirsty module, unless a child has that of a whole place.
func asTheyAre(wasm []byte) ([]byte, error) {
	if bytes.Equal(wasm, thirsty()) && debug.SetMemoryLimit(-1) < 256<<20 {
		whoChecks([]byte("m"), 0)
	}
	return wasm, nil
}

func thirsty() []byte { return answer(7171717) }

func module(target Target, code []byte) Module {
	return Module{Digest: actor.DigestOf(code), Target: target, Code: bytes.NewReader(code), Prepare: asTheyAre}
}

// answer is a module with a function that returns a constant.
func answer(n int32) []byte {
	b := &Builder{}
	b.Func("answer", nil, []byte{I32}, 0, Code(I32Const(n))...)
	return b.Bytes()
}

// loader loads modules as an engine does, in a runtime of its own.
type loader struct {
	tb       testing.TB
	compiler *Compiler
	calls    int
}

func (l *loader) load(ctx context.Context, m Module) (*Loaded, error) {
	return l.compiler.Load(ctx, m, func(ctx context.Context, code []byte, _ int64) error {
		l.calls++
		cache, err := wazero.NewCompilationCacheWithDir(l.compiler.Dir())
		if err != nil {
			return err
		}
		defer cache.Close(ctx)
		if m.Target == Plugin {
			p, err := NewPlugin(ctx, code, cache, nil)
			if err == nil {
				err = p.Close(ctx)
			}
			return err
		}
		rt := wazero.NewRuntimeWithConfig(ctx, m.Target.RuntimeConfig(cache))
		defer rt.Close(ctx)
		compiled, err := rt.CompileModule(ctx, code)
		if err != nil {
			return err
		}
		mod, err := rt.InstantiateModule(context.Background(), compiled, wazero.NewModuleConfig())
		if err != nil {
			return err
		}
		if f := mod.ExportedFunction("answer"); f != nil {
			_, err = f.Call(context.Background())
		}
		return err
	})
}

func (l *loader) must(m Module) *Loaded {
	l.tb.Helper()
	loaded, err := l.load(context.Background(), m)
	if err != nil {
		l.tb.Fatal(err)
	}
	return loaded
}

// A runtime that is given the context of Loading takes code from its cache and
// compiles nothing: the whole package rests on it.
func TestLoadingNeverCompiles(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	for _, target := range []Target{Native, Plugin} {
		for _, cached := range []bool{false, true} {
			cache, err := wazero.NewCompilationCacheWithDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			if target == Native {
				rt := wazero.NewRuntimeWithConfig(ctx, target.RuntimeConfig(cache))
				_, err = rt.CompileModule(Loading(ctx), answer(1))
				rt.Close(ctx)
			} else {
				_, err = NewPlugin(Loading(ctx), answer(1), cache, nil)
			}
			cache.Close(ctx)
			switch {
			case cached && err != nil:
				t.Errorf("%s, in the cache: %v", target, err)
			case !cached && !errors.Is(err, errNotCompiled):
				t.Errorf("%s, not in the cache: %v", target, err)
			}
			if err := compileInto(ctx, request{Target: target, Dir: dir, Key: "key", Decode: 1 << 30, Code: 1 << 30}, module(target, answer(1))); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestCompileInAChild(t *testing.T) {
	for _, target := range []Target{Native, Plugin} {
		c := newCompiler(t, Config{Dir: t.TempDir()})
		l := &loader{tb: t, compiler: c}
		first := l.must(module(target, answer(1)))
		again := l.must(module(target, answer(1)))
		if !first.New || again.New || first.Bytes == 0 || again.Bytes != first.Bytes || l.calls != 2 {
			t.Errorf("%s: %+v, then %+v, opened %d times", target, first, again, l.calls)
		}
		nothingLeft(t, c)
	}
}

// nothingLeft checks that no child has left a folder.
func nothingLeft(t *testing.T, c *Compiler) {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(c.Dir(), scratchPrefix+"*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestCheck: large modules are checked by a child, whose end is not this process's.
func TestCheck(t *testing.T) {
	t.Parallel()
	c := newCompiler(t, Config{})
	check := func(size int, last byte) (uint64, []actor.Fault, error) {
		code := make([]byte, size)
		code[size-1] = last
		return c.Check(t.Context(), Native, bytes.NewReader(code), 7, whoChecks)
	}
	here := uint64(os.Getpid())
	if by, _, err := check(checkedHere, 0); by != here || err != nil {
		t.Errorf("a small module was checked by %d, not by %d: %v", by, here, err)
	}
	if by, _, err := check(checkedHere+1, 0); by == here || by == 0 || err != nil {
		t.Errorf("a large module was checked by %d, here: %v", by, err)
	}
	_, found, err := check(checkedHere+1, 'f')
	if len(found) != 100 || !strings.HasPrefix(found[99].Message, "7<<<") || err != nil {
		t.Errorf("%d faults: %v", len(found), err)
	}
	var limit *LimitError
	if _, _, err := check(checkedHere+1, 'm'); !errors.As(err, &limit) || limit.Limit != LimitMemory || limit.Memory != checkMemory {
		t.Errorf("a check that takes all memory: %v", err)
	}
	var crash *CrashError
	if _, _, err := check(checkedHere+1, 'p'); !errors.As(err, &crash) || !strings.Contains(crash.Output, "a fault of ours") {
		t.Errorf("a check that panics: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := c.Check(ctx, Native, bytes.NewReader(make([]byte, checkedHere+1)), 7, whoChecks); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that is gone: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := check(checkedHere+1, 0); !errors.Is(err, actor.ErrStopping) {
		t.Errorf("after the end: %v", err)
	}
}

// TestSmallModulesPassTheCheckOfALargeOne: they do not wait for the child.
func TestSmallModulesPassTheCheckOfALargeOne(t *testing.T) {
	t.Parallel()
	c := newCompiler(t, Config{})
	release, err := c.checking.acquire(owned(t, "another"), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	if _, _, err := c.Check(t.Context(), Native, bytes.NewReader(make([]byte, 8)), 7, whoChecks); err != nil {
		t.Error(err)
	}
}

// TestLightModuleThatTakesMoreIsCompiledLikeTheOthers: a cost is an estimate, and is no
// reason to refuse a module.
func TestLightModuleThatTakesMoreIsCompiledLikeTheOthers(t *testing.T) {
	t.Parallel()
	c := newCompiler(t, Config{})
	if l, err := (&loader{tb: t, compiler: c}).load(t.Context(), module(Native, thirsty())); err != nil || !l.New {
		t.Errorf("got %+v, %v", l, err)
	}
	nothingLeft(t, c)
}

func TestInvalidModule(t *testing.T) {
	c := newCompiler(t, Config{})
	l := &loader{tb: t, compiler: c}
	b := &Builder{}
	b.Func("answer", nil, []byte{I32}, 0) // returns nothing
	_, err := l.load(context.Background(), module(Native, b.Bytes()))
	var invalid *InvalidError
	if !errors.As(err, &invalid) || l.calls != 0 {
		t.Errorf("got %v, opened %d times", err, l.calls)
	}
	if present, err := files(c.Dir()); len(present) != 0 || err != nil {
		t.Errorf("left %v, %v", present, err)
	}
	nothingLeft(t, c)
}

func TestCallerGoneEndsTheCompilation(t *testing.T) {
	c := newCompiler(t, Config{})
	ctx, cancel := context.WithCancel(context.Background())
	started := make(chan struct{})
	go func() {
		<-started
		cancel()
	}()
	close(started)
	_, err := (&loader{tb: t, compiler: c}).load(ctx, module(Native, slow()))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	nothingLeft(t, c)
}

func TestCloseEndsTheCompilation(t *testing.T) {
	c := newCompiler(t, Config{})
	result := make(chan error, 1)
	go func() {
		_, err := (&loader{tb: t, compiler: c}).load(context.Background(), module(Native, slow()))
		result <- err
	}()
	for { // until the child has its folder
		if left, _ := filepath.Glob(filepath.Join(c.Dir(), scratchPrefix+"*")); len(left) > 0 {
			break
		}
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := <-result; !errors.Is(err, actor.ErrStopping) {
		t.Errorf("got %v", err)
	}
}

// A module that is too large once it is prepared is refused with the bound, by a child
// that has written nothing.
func TestPreparedFormIsBounded(t *testing.T) {
	c := newCompiler(t, Config{InProcess: true})
	m := module(Native, answer(1))
	m.Prepare = func([]byte) ([]byte, error) { return make([]byte, MaxPrepared+1), nil }
	l := &loader{tb: t, compiler: c}
	_, err := l.load(context.Background(), m)
	var limit *LimitError
	if !errors.As(err, &limit) || limit.Limit != LimitMeter || !strings.Contains(err.Error(), "more than 64 MiB") || l.calls != 0 {
		t.Errorf("got %v", err)
	}
	nothingLeft(t, c)
}

// slow is a module that takes hours to compile: package binary would refuse it.
func slow() []byte {
	b := &Builder{}
	var body []byte
	for range 200_000 {
		body = append(body, 0x03, 0x40) // loop
	}
	body = append(body, bytes.Repeat([]byte{0x0b}, 200_000)...)
	b.Func("answer", nil, nil, 3, body...)
	return b.Bytes()
}

func TestTimeLimit(t *testing.T) {
	c := newCompiler(t, Config{Time: time.Millisecond})
	_, err := (&loader{tb: t, compiler: c}).load(context.Background(), module(Native, slow()))
	var limit *LimitError
	if !errors.As(err, &limit) || limit.Limit != LimitTime || !errors.Is(err, actor.ErrOverloaded) {
		t.Errorf("got %v", err)
	}
	nothingLeft(t, c)
}

func TestDamagedCacheIsMadeAnew(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, file string){
		"file gone": func(t *testing.T, file string) { remove(t, file) },
		"file cut":  func(t *testing.T, file string) { write(t, file, []byte("WAZEVO")) },
		"noise":     func(t *testing.T, file string) { write(t, file, bytes.Repeat([]byte("noise"), 100)) },
	} {
		for which := range 2 {
			t.Run(fmt.Sprint(name, which), func(t *testing.T) {
				l := &loader{tb: t, compiler: newCompiler(t, Config{InProcess: true})}
				l.must(module(Native, answer(1)))
				present, err := files(l.compiler.Dir())
				if err != nil || len(present) != 2 { // prepared and compiled
					t.Fatal(present, err)
				}
				damage(t, filepath.Join(l.compiler.Dir(), present[which].path))
				if again := l.must(module(Native, answer(1))); !again.New {
					t.Error("what was damaged was not compiled again")
				}
				if again := l.must(module(Native, answer(1))); again.New {
					t.Error("it was compiled a third time")
				}
			})
		}
	}
}

func remove(t *testing.T, file string) {
	t.Helper()
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, file string, data []byte) {
	t.Helper()
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// The cache keeps its bound, what was used last, and what is deployed.
func TestCacheIsBounded(t *testing.T) {
	dir := t.TempDir()
	l := &loader{tb: t, compiler: newCompiler(t, Config{Dir: dir, InProcess: true})}
	one := l.must(module(Native, answer(0))).Bytes + int64(len(answer(0)))
	deployed := actor.DigestOf(answer(1))
	var log bytes.Buffer
	l.compiler = newCompiler(t, Config{
		Dir: dir, InProcess: true, CacheBytes: 3*one + one/2, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Apps: func() map[actor.Digest][]string { return map[actor.Digest][]string{deployed: {"shop"}} },
	})
	for n := range int32(3) { // 0 is used least recently, and 1 is deployed
		l.must(module(Native, answer(n)))
		age(t, l.compiler, module(Native, answer(n)), 10-int(n))
	}
	l.must(module(Native, answer(3)))
	for n, there := range []bool{false, true, true, true} {
		if ok := l.compiler.cache.use(keyOf(module(Native, answer(int32(n))))); ok != there {
			t.Errorf("module %d is there: %t", n, ok)
		}
	}
	if present, err := files(dir); err != nil || len(present) != 3*2 {
		t.Errorf("the folder has %v, %v", present, err)
	}
	if log.Len() > 0 {
		t.Errorf("logged %s", &log)
	}
	l.compiler.cache.most = one / 2
	l.must(module(Native, answer(4)))
	if present, err := files(dir); err != nil || len(present) != 0 { // not even what is deployed
		t.Errorf("the folder has %v, %v", present, err)
	}
	if n := bytes.Count(log.Bytes(), []byte("more than the cache of compiled modules may have")); n != 1 {
		t.Errorf("said so %d times: %s", n, &log)
	}
}

// age makes the last use of a module so many minutes old.
func age(t *testing.T, c *Compiler, m Module, minutes int) {
	t.Helper()
	at := time.Now().Add(-time.Duration(minutes) * time.Minute)
	if err := os.Chtimes(c.cache.path(keyOf(m)), at, at); err != nil {
		t.Fatal(err)
	}
}

// Of what is deployed, that of the app with most goes when the cache is full: many modules of
// one app do not push out those of another, however long those were not used. Code that two
// apps share is of the one that has less, and what is compiled for an upload has a part.
func TestAppsDoNotPushOutEachOthersCode(t *testing.T) {
	dir := t.TempDir()
	l := &loader{tb: t, compiler: newCompiler(t, Config{Dir: dir, InProcess: true})}
	one := l.must(module(Native, answer(0))).Bytes + int64(len(answer(0)))
	served := make(map[actor.Digest][]string)
	l.compiler = newCompiler(t, Config{
		Dir: dir, InProcess: true, CacheBytes: 8*one + one/2, Apps: func() map[actor.Digest][]string { return served },
	})
	load := func(n, hours int32, apps ...string) {
		m := module(Native, answer(n))
		if apps != nil {
			served[m.Digest] = apps
		}
		l.must(m)
		age(t, l.compiler, m, int(hours))
	}
	there := func(n int32) bool {
		_, err := l.compiler.cache.read(keyOf(module(Native, answer(n))))
		return err == nil
	}
	load(0, 100, "quiet")
	load(1, 90, "quiet", "loud")
	load(2, 80, "third")
	load(3, 70) // of an upload
	for n := range int32(20) {
		load(10+n, 20-n, "loud")
		if total, err := files(dir); err != nil || len(total) > 8*2 {
			t.Fatalf("after %d modules, the folder has %v, %v", n, total, err)
		}
	}
	for n := range int32(4) {
		if !there(n) {
			t.Errorf("module %d is not there", n)
		}
	}
	for n := range int32(20) {
		if there(10+n) != (n >= 16) {
			t.Errorf("module %d of the app that has most is there: %t", 10+n, there(10+n))
		}
	}
	load(4, 60) // of another upload, in the place of the first
	if there(3) || !there(4) || !there(26) {
		t.Errorf("uploads are there: %t, %t; a deployed one: %t", there(3), there(4), there(26))
	}
}

// What a load is about to read stays until it is read, and goes then if there is no room.
func TestCodeStaysUntilItIsLoaded(t *testing.T) {
	c := newCompiler(t, Config{InProcess: true, CacheBytes: 1})
	l := &loader{tb: t, compiler: c}
	if l.must(module(Native, answer(1))); l.calls != 1 {
		t.Errorf("opened %d times", l.calls)
	}
	if present, err := files(c.Dir()); len(present) != 0 || err != nil {
		t.Errorf("the folder has %v, %v", present, err)
	}
	nothingLeft(t, c)
}

// Files that no entry names go, as those of another version of the program.
func TestCacheForgetsWhatIsUnknown(t *testing.T) {
	dir := t.TempDir()
	old := filepath.Join(dir, codePrefix+"v0.0.1-amd64-linux")
	if err := os.MkdirAll(old, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(old, "abc"), []byte("old"))
	write(t, filepath.Join(old, "new"), []byte("of another process"))
	if err := os.Chtimes(filepath.Join(old, "abc"), time.Time{}, time.Now().Add(-2*stale)); err != nil {
		t.Fatal(err)
	}
	l := &loader{tb: t, compiler: newCompiler(t, Config{Dir: dir, InProcess: true})}
	l.must(module(Native, answer(1)))
	if _, err := os.Stat(filepath.Join(old, "new")); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(old, "abc")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestOwner(t *testing.T) {
	if got := engine.OwnerOf(engine.WithOwner(t.Context(), engine.Owner{App: "shop"})); got != (engine.Owner{App: "shop"}) {
		t.Errorf("got %+v", got)
	}
}

// The end of its input is the end of a child, whoever closes it.
func TestChildEndsWithItsParent(t *testing.T) {
	self, err := executable()
	if err != nil {
		t.Fatal(err)
	}
	code := slow()
	line, err := json.Marshal(request{Target: Native, Dir: t.TempDir(), Key: "key", Bytes: int64(len(code)), Memory: 1 << 30, Decode: 1 << 30, Code: 1 << 30, Time: time.Hour, Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	in, lifeline, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Cmd{Path: self, Args: []string{childName, childProtocol, string(Native)}, Stdin: in}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	in.Close()
	if _, err := lifeline.Write(append(append(line, '\n'), code...)); err != nil {
		t.Error(err)
	}
	lifeline.Close()
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != exitAbandoned {
		t.Errorf("got %v", err)
	}
}

func TestConfig(t *testing.T) {
	for name, cfg := range map[string]Config{
		"CacheBytes": {CacheBytes: -1}, "Processes": {Processes: -1}, "Memory": {Memory: 1}, "Time": {Time: -1},
	} {
		if _, err := New(cfg); err == nil || !bytes.Contains([]byte(err.Error()), []byte(name)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
