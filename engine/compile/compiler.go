package compile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine/confine"
)

// Config configures a [Compiler]. The zero value is usable.
type Config struct {
	// Dir is the folder of compiled code, made if needed. It must be writable by
	// this user alone: what is in it is executed. Several processes may share it.
	// Defaults to a folder of this process alone, which Close removes.
	Dir string
	// CacheBytes bounds the code in Dir, beside what is being loaded. The least recently
	// used goes: of modules that serve nothing, then of the app that has most. Defaults to
	// 1 GiB.
	CacheBytes int64
	// Processes bounds the compilations that run at the same time. Defaults to 1:
	// a compilation has half of the processors, and may take Memory. One light module,
	// of up to 400 KB or so, is compiled beside them with a quarter of Memory.
	Processes int
	// Memory bounds what one compilation takes, in bytes. Defaults to 512 MiB,
	// which is enough for 10 MB of standard Go.
	Memory int64
	// Time bounds one compilation, without its wait for others. Defaults to 45 s.
	Time time.Duration
	// Apps returns the apps that modules serve, which share the cache. It is called
	// concurrently. Defaults to none.
	Apps func() map[actor.Digest][]string
	// InProcess compiles in this process, without bounds and without an end. It is
	// for modules that are trusted, in tests and benchmarks.
	InProcess bool
	// Logger gets warnings about the cache. Defaults to discarding.
	Logger *slog.Logger
}

// WithDefaults returns a copy with defaults filled in.
func (c Config) WithDefaults() Config {
	c.CacheBytes = cmp.Or(c.CacheBytes, 1<<30)
	c.Processes = cmp.Or(c.Processes, 1)
	c.Memory = cmp.Or(c.Memory, 512<<20)
	c.Time = cmp.Or(c.Time, 45*time.Second)
	if c.Apps == nil {
		c.Apps = func() map[actor.Digest][]string { return nil }
	}
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return c
}

// leastMemory is what a compilation needs to begin.
const leastMemory = 64 << 20

func (c Config) validate() error {
	switch {
	case c.CacheBytes < 0:
		return errors.New("compile config: CacheBytes is negative; give a size in bytes, or 0 for 1 GiB")
	case c.Processes < 0:
		return errors.New("compile config: Processes is negative; give a number of processes, or 0 for 1")
	case c.Memory != 0 && c.Memory < leastMemory:
		return fmt.Errorf("compile config: Memory is %d; give at least %d bytes, or 0 for 512 MiB", c.Memory, leastMemory)
	case c.Time < 0:
		return errors.New("compile config: Time is negative; give a duration, or 0 for 45 s")
	}
	return nil
}

const (
	// MaxPrepared bounds a module as it is run, which the server keeps. Standard Go
	// grows by a third.
	MaxPrepared = 64 << 20
	// decodeBytes bounds what wazero allocates to decode a module, which the server
	// does itself. 10 MB of standard Go take a fifth of it.
	decodeBytes = 128 << 20
	// codeBytes bounds the machine code of a module, which is in the server's
	// memory. 10 MB of standard Go become a third of it.
	codeBytes = 192 << 20
)

const (
	// nanosOfCost is about how long a unit of [Module.Cost] takes.
	nanosOfCost = 5
	// lightCost is up to which cost a module is light: a third of a second, or 400 KB.
	// TinyGo and Rust modules are; of standard Go none is.
	lightCost = 64_000_000
	// lightTime bounds the compilation of a light module on a busy machine.
	lightTime = 4 * time.Second
)

// Compiler compiles modules and keeps their code. It is safe for concurrent use.
type Compiler struct {
	cfg   Config
	cache *cache
	// queue has the places of compilations, and light one more for light modules.
	queue, light *queue
	// reading has one place, see [Compiler.Read], and checking one for the child of
	// [Compiler.Check]: at its low priority it may take long, which small modules do not
	// wait for.
	reading, checking *queue
	temp              string // removed by Close

	closing context.Context
	close   context.CancelFunc
	jobs    sync.WaitGroup
	mu      sync.Mutex // of jobs' beginning
}

// New makes a compiler.
func New(cfg Config) (*Compiler, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg = cfg.WithDefaults()
	c := &Compiler{cfg: cfg, queue: newQueue(cfg.Processes), light: newQueue(1), reading: newQueue(1), checking: newQueue(1)}
	c.closing, c.close = context.WithCancel(context.Background())
	var err error
	if cfg.Dir != "" {
		if c.cache, err = openCache(cfg.Dir, cfg.CacheBytes, cfg.Apps, cfg.Logger); err != nil {
			cfg.Logger.Warn("compiled modules are not cached on disk", "dir", cfg.Dir, "error", err)
		}
	}
	if c.cache == nil {
		if c.temp, err = os.MkdirTemp("", "greenroom-modules-"); err == nil {
			c.cache, err = openCache(c.temp, cfg.CacheBytes, cfg.Apps, cfg.Logger)
		}
		if err != nil {
			return nil, fmt.Errorf("folder of compiled modules: %w", err)
		}
	}
	return c, nil
}

// Dir is the folder that wazero's cache is to be opened with.
func (c *Compiler) Dir() string { return c.cache.dir }

// TempFile makes a file beside the code, for a module that is on its way. It goes when
// it is closed, or with the process.
func (c *Compiler) TempFile() (*os.File, error) { return c.cache.temp() }

// Module is what is to be compiled.
type Module struct {
	// Digest names the module as it was uploaded, and its code in the cache.
	Digest actor.Digest
	Target Target
	// Code is the module as it was uploaded.
	Code actor.Code
	// Cost is about what compiling it takes, in units of 5 ns: what is cheap goes first.
	Cost uint64
	// Prepare is what [Serve] was given for the target.
	Prepare Preparer
	// Version names what Prepare makes of modules: code is found under the version
	// that it was compiled under.
	Version string
}

// Checker judges a module by its bytes, which it may not keep: what it costs to compile, or
// its faults. An instance may begin with so many bytes of memory.
type Checker func(wasm []byte, memory int64) (cost uint64, found []actor.Fault)

// Preparer returns a module as it is to be run: bounded and metered. Its errors are
// about the module.
type Preparer func(wasm []byte) ([]byte, error)

// Loaded is a module's code in the cache.
type Loaded struct {
	// Bytes is the size of the machine code.
	Bytes int64
	// New says that it was not there before.
	New bool

	cache *cache
	key   key
}

// Remove takes the code out of the cache: its module was refused.
func (l *Loaded) Remove() error { return l.cache.remove(l.key) }

const (
	// checkedHere is the size up to which a module is checked in this process: that takes a
	// few milliseconds, and less than to start another.
	checkedHere = 1 << 20
	// checkMemory bounds the process that checks a larger one.
	checkMemory = 256 << 20
)

// Check runs check on an uploaded module of a target, in a child unless the module is small:
// one child at a time, the owners of [engine.WithOwner] in turn. Errors are those of the package
// comment.
func (c *Compiler) Check(ctx context.Context, t Target, code actor.Code, memory int64, check Checker) (cost uint64, found []actor.Fault, err error) {
	if code.Size() <= checkedHere || c.cfg.InProcess {
		err = c.Read(ctx, code, func(wasm []byte) error {
			cost, found = check(wasm, memory)
			return nil
		})
		return cost, found, err
	}
	if !c.begin() {
		return 0, nil, actor.ErrStopping
	}
	defer c.jobs.Done()
	ctx, cancel := c.untilClosed(ctx)
	defer cancel()
	release, err := c.checking.acquire(ctx, 1)
	if err != nil {
		return 0, nil, context.Cause(ctx)
	}
	defer release()
	r, err := runChild(ctx, request{
		Target: t, Dir: c.cache.dir, Bytes: code.Size(), Time: c.cfg.Time, Memory: min(c.cfg.Memory, checkMemory), Threads: 1, Check: memory,
	}, code)
	switch {
	case err != nil:
		return 0, nil, err
	case r.Verdict == nil:
		return 0, nil, errors.New("the compiler did not check the module")
	}
	return r.Verdict.Cost, r.Verdict.Faults, nil
}

// untilClosed returns a context that ends with the compiler as well, by [actor.ErrStopping].
func (c *Compiler) untilClosed(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(c.closing, func() { cancel(actor.ErrStopping) })
	return ctx, func() { stop(); cancel(nil) }
}

// Read runs read with an uploaded module in the memory of this process: one at a time,
// the owners of [engine.WithOwner] in turn. The bytes are unmapped afterwards: nothing
// may alias them then. They are outside of Go's heap, so that they go at once, and do
// not have the collector wait for as much garbage.
func (c *Compiler) Read(ctx context.Context, code actor.Code, read func(wasm []byte) error) error {
	release, err := c.reading.acquire(ctx, 1)
	if err != nil {
		return confine.Ended(ctx)
	}
	defer release()
	wasm, err := confine.Map(uint64(code.Size()))
	if err != nil {
		return fmt.Errorf("memory for a module of %d bytes: %w", code.Size(), err)
	}
	defer func() { _ = confine.Unmap(wasm) }() // what Map returned
	if _, err := io.ReadFull(io.NewSectionReader(code, 0, code.Size()), wasm); err != nil {
		return fmt.Errorf("read the module: %w", err)
	}
	return read(wasm)
}

// Compile puts the module's code into the cache unless it is there.
func (c *Compiler) Compile(ctx context.Context, m Module) (*Loaded, error) {
	if !c.begin() {
		return nil, actor.ErrStopping
	}
	defer c.jobs.Done()
	l := &Loaded{cache: c.cache, key: keyOf(m)}
	c.cache.reserve(l.key)
	defer c.cache.release(l.key)
	if l.New = !c.cache.use(l.key); l.New {
		if err := c.compile(ctx, l.key, m); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// Load calls open when the module's code is in the cache, preparing and compiling it
// first if it is not there. open gets the prepared module and the size of its machine
// code. It must compile the one with the context that it is given, under which wazero
// loads and never compiles, and may be called twice. The owners of [engine.WithOwner] take
// turns. Errors are those of the package comment, or open's.
func (c *Compiler) Load(ctx context.Context, m Module, open func(ctx context.Context, prepared []byte, bytes int64) error) (*Loaded, error) {
	if !c.begin() {
		return nil, actor.ErrStopping
	}
	defer c.jobs.Done()
	l := &Loaded{cache: c.cache, key: keyOf(m)}
	c.cache.reserve(l.key)
	defer c.cache.release(l.key)
	if c.cache.use(l.key) {
		err := c.open(ctx, l, open)
		if err == nil {
			return l, nil
		}
		if errors.Is(err, actor.ErrOverloaded) { // the code is not at fault
			return nil, err
		}
		if !errors.Is(err, errNotCompiled) && !errors.Is(err, os.ErrNotExist) {
			c.cfg.Logger.Warn("the cache of compiled modules is damaged; the module is compiled again",
				"dir", c.cache.dir, "module", m.Digest.Short(), "error", err)
		}
		if err := c.cache.remove(l.key); err != nil {
			return nil, fmt.Errorf("remove damaged code: %w", err)
		}
	}
	l.New = true
	// Another process that shares the folder may take the code away at once.
	var err error
	for range maxTries {
		if err = c.compile(ctx, l.key, m); err != nil {
			return nil, err
		}
		if err = c.open(ctx, l, open); err == nil {
			return l, nil
		}
		if refusal := (*LimitError)(nil); errors.Is(err, actor.ErrOverloaded) && !errors.As(err, &refusal) {
			return nil, err // the compiled code stays for the next request
		}
		if !errors.Is(err, errNotCompiled) && !errors.Is(err, os.ErrNotExist) {
			break
		}
	}
	return nil, errors.Join(err, l.Remove())
}

// open opens what the cache has.
func (c *Compiler) open(ctx context.Context, l *Loaded, open func(context.Context, []byte, int64) error) error {
	e, err := c.cache.read(l.key)
	if err != nil {
		return err
	}
	prepared, err := c.cache.prepared(l.key)
	if err != nil {
		return err
	}
	l.Bytes = e.size() - int64(len(prepared))
	return open(Loading(ctx), prepared, l.Bytes)
}

// maxTries is how often a module is compiled whose code is not there afterwards.
const maxTries = 3

// compile puts a module's code into the cache. A light module has a place of its own; if it
// takes more than a light one may, it is compiled like the others.
func (c *Compiler) compile(ctx context.Context, k key, m Module) error {
	ctx, cancel := c.untilClosed(ctx)
	defer cancel()
	if m.Cost <= lightCost {
		limit := (*LimitError)(nil)
		err := c.compileIn(ctx, c.light, min(c.cfg.Time, lightTime), max(leastMemory, c.cfg.Memory/4), k, m)
		if !errors.As(err, &limit) || limit.Limit != LimitTime && limit.Limit != LimitMemory {
			return err
		}
		m.Cost = uint64(lightTime / nanosOfCost)
	}
	return c.compileIn(ctx, c.queue, c.cfg.Time, c.cfg.Memory, k, m)
}

// compileIn compiles a module in a place of a queue.
func (c *Compiler) compileIn(ctx context.Context, q *queue, most time.Duration, memory int64, k key, m Module) error {
	release, err := q.acquire(ctx, m.Cost)
	if err != nil {
		return context.Cause(ctx)
	}
	defer release()
	reportCompiling(ctx)
	scratch, err := c.cache.scratch()
	if err != nil {
		return fmt.Errorf("folder for compiling: %w", err)
	}
	defer os.RemoveAll(scratch)
	req := request{
		Target: m.Target, Dir: scratch, Key: k, Bytes: m.Code.Size(), Time: most,
		Memory: memory, Decode: decodeBytes, Code: codeBytes,
		Threads: max(1, runtime.NumCPU()/2),
	}
	if c.cfg.InProcess {
		err = compileInto(ctx, req, m)
	} else {
		_, err = runChild(ctx, req, m.Code)
	}
	if err != nil {
		return err
	}
	if err := c.cache.install(k, m.Digest, scratch); err != nil {
		return fmt.Errorf("keep compiled code in %s: %w", filepath.Clean(c.cache.dir), err)
	}
	return nil
}

func (c *Compiler) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing.Err() != nil {
		return false
	}
	c.jobs.Add(1)
	return true
}

// Close ends the compilations that run, with [actor.ErrStopping], and waits for
// them. It is safe twice.
func (c *Compiler) Close() error {
	c.mu.Lock()
	c.close()
	c.mu.Unlock()
	c.jobs.Wait()
	if c.temp != "" {
		return os.RemoveAll(c.temp)
	}
	return nil
}
