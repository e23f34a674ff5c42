package compile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine"
	"github.com/greenroom-run/greenroom/engine/confine"
)

// fakeProgram is not so small that Go keeps several in one block.
type fakeProgram [64]byte

// idle is the inUse of programs without instances.
func idle(*fakeProgram) bool { return false }

// put admits a program and puts it.
func put(t *testing.T, ps *Programs[fakeProgram], d actor.Digest, p *fakeProgram, bytes int64) {
	t.Helper()
	if err := ps.Admit(t.Context(), bytes); err != nil {
		t.Fatalf("%s: %v", d, err)
	}
	ps.Put(d, p, bytes)
}

// What is loaded stays within the bound, whatever was loaded before: what has no
// instances goes, and is freed, before another program is admitted.
func TestProgramsAreBoundedInBytes(t *testing.T) {
	ps := NewPrograms(10, 100, idle, slog.New(slog.DiscardHandler))
	for n := range 20 {
		put(t, ps, actor.Digest(fmt.Sprint(n)), &fakeProgram{}, 40)
		if _, bytes := ps.Len(); bytes > 100 {
			t.Fatalf("after %d programs, %d bytes are in memory", n+1, bytes)
		}
	}
	if ps.Get("19") == nil || ps.Get("0") != nil {
		t.Error("the one used last is to be there, and not the first")
	}
	put(t, ps, "used again", &fakeProgram{}, 40)
	if ps.Get("19") == nil || ps.Get("18") != nil {
		t.Error("what was used least recently is to go first")
	}
	var large *LimitError
	if err := ps.Admit(t.Context(), 101); !errors.As(err, &large) || !errors.Is(err, actor.ErrOverloaded) || ps.Get("19") == nil {
		t.Errorf("a program beyond the bound: %v", err)
	}
}

// What has instances stays, and is found, until the host closes them.
func TestProgramsInUseStay(t *testing.T) {
	var log bytes.Buffer
	used := &fakeProgram{}
	ps := NewPrograms(1, 100, func(p *fakeProgram) bool { return p == used }, slog.New(slog.NewTextHandler(&log, nil)))
	put(t, ps, "used", used, 60)
	put(t, ps, "other", &fakeProgram{}, 40) // it is the one that is kept
	put(t, ps, "more", &fakeProgram{}, 30)
	for range 2 {
		if err := ps.Admit(t.Context(), 50); !errors.Is(err, actor.ErrOverloaded) || !strings.Contains(err.Error(), "100 bytes") {
			t.Errorf("got %v", err)
		}
	}
	if ps.Get("used") != used || ps.Get("other") != nil {
		t.Error("the one that has instances is to be found, and the one that made room not any more")
	}
	if n := strings.Count(log.String(), "max-program-memory"); n != 1 {
		t.Errorf("%d warnings: %s", n, &log)
	}
	closed := 0
	ctx := engine.WithReclaim(t.Context(), func() bool {
		if closed++; closed == 3 {
			used = nil
		}
		return true
	})
	if err := ps.Admit(ctx, 50); err != nil || closed != 3 {
		t.Errorf("after %d instances were closed: %v", closed, err)
	}
	ps.Release(50)
	if _, bytes := ps.Len(); bytes != 0 {
		t.Errorf("%d bytes are left", bytes)
	}
}

// What a program comes to take later counts like the rest of it.
func TestProgramGrows(t *testing.T) {
	p := &fakeProgram{}
	ps := NewPrograms(1, 100, func(q *fakeProgram) bool { return p == q }, slog.New(slog.DiscardHandler))
	ps.Extend("p", p, 10) // Put is to count it
	put(t, ps, "p", p, 60)
	if err := ps.Admit(t.Context(), 30); err != nil {
		t.Fatal(err)
	}
	ps.Extend("p", p, 30)
	if err := ps.Admit(t.Context(), 20); !errors.Is(err, actor.ErrOverloaded) {
		t.Errorf("got %v", err)
	}
	p = nil
	if err := ps.Admit(t.Context(), 100); err != nil {
		t.Error(err)
	}
	if ps.recentBytes != 0 {
		t.Errorf("%d bytes are kept of nothing", ps.recentBytes)
	}
}

// A program that takes the place of another one of the same module counts once.
func TestProgramReplaced(t *testing.T) {
	ps := NewPrograms(10, 200, idle, slog.New(slog.DiscardHandler))
	put(t, ps, "a", &fakeProgram{}, 60)
	second := &fakeProgram{}
	put(t, ps, "a", second, 50)
	if ps.recentBytes != 50 || ps.Get("a") != second {
		t.Errorf("kept %d bytes", ps.recentBytes)
	}
	if ps.Get("a"); ps.recentBytes != 50 {
		t.Errorf("kept %d bytes after another use", ps.recentBytes)
	}
}

// A load goes on as long as any of its callers is there, and ends with the last; the next
// begins after it.
func TestLoadEndsWithItsLastCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := NewPrograms(10, 100, idle, slog.New(slog.DiscardHandler))
		var gate confine.Gate
		loads, ended := 0, 0
		load := func(ctx context.Context) (*fakeProgram, error) {
			loads++
			<-ctx.Done()
			ended++
			return nil, ctx.Err()
		}
		var leave []context.CancelFunc
		for range 3 {
			ctx, cancel := context.WithCancel(t.Context())
			leave = append(leave, cancel)
			go func() {
				if _, err := ps.Load(ctx, &gate, "a", load); !errors.Is(err, actor.ErrCanceled) {
					t.Errorf("got %v", err)
				}
			}()
			synctest.Wait()
		}
		for n, cancel := range leave {
			if loads != 1 || ended != 0 {
				t.Errorf("after %d of 3 callers have left: %d loads, %d ended", n, loads, ended)
			}
			cancel()
			synctest.Wait()
		}
		if ended != 1 {
			t.Error("the load goes on though its callers have left")
		}
		want := &fakeProgram{}
		if p, err := ps.Load(t.Context(), &gate, "a", func(context.Context) (*fakeProgram, error) { return want, nil }); p != want || err != nil {
			t.Errorf("another load: %v, %v", p, err)
		}
		if len(ps.loads) != 0 {
			t.Errorf("%d loads are kept", len(ps.loads))
		}
	})
}

// A load closes instances for whichever of its callers can, also for one that came later.
func TestLoadReclaimsForAllItsCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := NewPrograms(10, 100, idle, slog.New(slog.DiscardHandler))
		var gate confine.Gate
		compiled, closed := make(chan struct{}), 0
		load := func(ctx context.Context) (*fakeProgram, error) {
			<-compiled
			if !engine.Reclaim(ctx) {
				return nil, actor.ErrOverloaded
			}
			return &fakeProgram{}, nil
		}
		for _, ctx := range []context.Context{t.Context(), engine.WithReclaim(t.Context(), func() bool { closed++; return true })} {
			go func() {
				if _, err := ps.Load(ctx, &gate, "a", load); err != nil {
					t.Error(err)
				}
			}()
			synctest.Wait()
		}
		close(compiled)
		synctest.Wait()
		if closed != 1 {
			t.Errorf("%d instances were closed", closed)
		}
	})
}

// TestLoadThatCompilesOutlivesItsCallers: a module that takes longer to compile than its
// callers wait would never be loaded if each of them ended the compilation.
func TestLoadThatCompilesOutlivesItsCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := NewPrograms(10, 100, idle, slog.New(slog.DiscardHandler))
		var gate confine.Gate
		want, loads, compiled := &fakeProgram{}, 0, make(chan struct{})
		load := func(ctx context.Context) (*fakeProgram, error) {
			loads++
			reportCompiling(ctx)
			select {
			case <-compiled:
				return want, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := ps.Load(ctx, &gate, "a", load); !errors.Is(err, actor.ErrDeadline) {
			t.Errorf("a caller who has a second: %v", err)
		}
		time.AfterFunc(time.Second, func() { close(compiled) })
		if p, err := ps.Load(t.Context(), &gate, "a", load); p != want || err != nil || loads != 1 {
			t.Errorf("the next caller, after %d loads: %v, %v", loads, p, err)
		}
	})
}

func TestProgramsLoad(t *testing.T) {
	ps := NewPrograms(10, 100, idle, slog.New(slog.DiscardHandler))
	var gate confine.Gate
	var bug *confine.PanicError
	if _, err := ps.Load(t.Context(), &gate, "a", func(context.Context) (*fakeProgram, error) { panic("oh") }); !errors.As(err, &bug) || len(bug.Stack) == 0 {
		t.Errorf("got %v", err)
	}
	if err := gate.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := ps.Load(t.Context(), &gate, "c", nil); !errors.Is(err, actor.ErrStopping) {
		t.Errorf("got %v", err)
	}
}
