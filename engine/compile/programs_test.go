package compile

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"testing"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine/confine"
)

// fakeProgram is not so small that Go keeps several in one block.
type fakeProgram [64]byte

func TestProgramsAreBoundedInBytes(t *testing.T) {
	var log bytes.Buffer
	ps := NewPrograms[fakeProgram](10, 100, slog.New(slog.NewTextHandler(&log, nil)))
	used := &fakeProgram{}
	ps.Put("used", used, 60)
	ps.Put("idle", &fakeProgram{}, 40)
	if n, bytes := ps.Len(); n != 2 || bytes != 100 || log.Len() > 0 {
		t.Errorf("%d programs of %d bytes, log %q", n, bytes, &log)
	}
	if ps.Get("used") != used {
		t.Error("a program is gone")
	}
	ps.Put("new", &fakeProgram{}, 30) // idle goes: it was used least recently
	if n, _ := ps.Len(); n != 2 || !ps.recent.Contains("used") {
		t.Errorf("%d programs, %v", n, ps.recent.Keys())
	}
	ps.Put("large", &fakeProgram{}, 1000) // one stays whatever its size
	if n, _ := ps.Len(); n != 1 || !ps.recent.Contains("large") {
		t.Errorf("%d programs, %v", n, ps.recent.Keys())
	}
	if !bytes.Contains(log.Bytes(), []byte("programs in memory take more than they may")) {
		t.Errorf("log %q", &log)
	}
	if ps.Get("used") != used {
		t.Error("a program that is in use is not found")
	}
	ps.Clear()
	for { // until the collector's cleanups have run
		runtime.GC()
		if _, bytes := ps.Len(); bytes == 60 {
			break
		}
		runtime.Gosched()
	}
	if ps.Get("used") != used || ps.Get("idle") != nil {
		t.Error("the one that is in use is to be there, and no other")
	}
	runtime.KeepAlive(used)
}

// A program that takes the place of another one of the same module counts once.
func TestProgramReplaced(t *testing.T) {
	ps := NewPrograms[fakeProgram](10, 100, slog.New(slog.DiscardHandler))
	ps.Put("a", &fakeProgram{}, 60)
	second := &fakeProgram{}
	ps.Put("a", second, 50)
	if ps.recentBytes != 50 || ps.Get("a") != second {
		t.Errorf("kept %d bytes", ps.recentBytes)
	}
	if ps.Get("a"); ps.recentBytes != 50 {
		t.Errorf("kept %d bytes after another use", ps.recentBytes)
	}
}

func TestProgramsLoad(t *testing.T) {
	ps := NewPrograms[fakeProgram](10, 100, slog.New(slog.DiscardHandler))
	var gate confine.Gate
	var bug *confine.PanicError
	if _, err := ps.Load(t.Context(), &gate, "a", func(context.Context) (*fakeProgram, error) { panic("oh") }); !errors.As(err, &bug) || len(bug.Stack) == 0 {
		t.Errorf("got %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	release := make(chan struct{})
	_, err := ps.Load(ended, &gate, "b", func(ctx context.Context) (*fakeProgram, error) {
		cancel()
		<-release
		return &fakeProgram{}, ctx.Err() // the caller's end is not the load's
	})
	close(release)
	if !errors.Is(err, actor.ErrCanceled) {
		t.Errorf("got %v", err)
	}
	if err := gate.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := ps.Load(t.Context(), &gate, "c", nil); !errors.Is(err, actor.ErrStopping) {
		t.Errorf("got %v", err)
	}
}
