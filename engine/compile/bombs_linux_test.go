package compile

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/engine/binary"
	"github.com/greenroom-run/greenroom/engine/meter"
	. "github.com/greenroom-run/greenroom/engine/wasm/wasmtest"
)

// What passes the bounds of package binary is compiled or refused, and no child ever
// has more memory than its limit, what the kernel adds to it, and the program.
func TestBombsKeepTheirLimits(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector's shadow of the memory is many times what is measured")
	}
	const memory = 256 << 20
	c := newCompiler(t, Config{Memory: memory, Processes: 2})
	for _, bomb := range Bombs() {
		m, err := binary.Parse(bomb.Make(bomb.Small))
		if err != nil {
			t.Fatal(bomb.Name, err)
		}
		code, _, err := meter.Rewrite(binary.Prepare(m).Wasm(), meter.Config{})
		if err != nil {
			t.Fatal(bomb.Name, err)
		}
		begin := time.Now()
		err = compileOnly(c, module(Native, code))
		var limit *LimitError
		if err != nil && !errors.As(err, &limit) {
			t.Errorf("%s: %v", bomb.Name, err)
		}
		t.Logf("%s: %v in %v, children up to %d MiB", bomb.Name, err, time.Since(begin), childMemory(t)>>20)
	}
	if most := childMemory(t); most > memory+dataSlack+128<<20 {
		t.Errorf("a child had %d MiB", most>>20)
	}
}

// childMemory is the most that a child of this process has had resident.
func childMemory(t *testing.T) int64 {
	t.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &usage); err != nil {
		t.Fatal(err)
	}
	return usage.Maxrss << 10
}

// compileOnly puts code into the cache that no runtime of this test can load: it
// imports what only engines have.
func compileOnly(c *Compiler, m Module) error {
	_, err := c.Compile(context.Background(), m)
	return err
}
