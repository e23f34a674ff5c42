package embedded_test

import (
	"bytes"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store/embedded"
)

// watchedCode is a small module that is read twice: for its digest, and to be written.
type watchedCode struct {
	*bytes.Reader
	reads   int
	written func()
}

func (c *watchedCode) ReadAt(p []byte, off int64) (int, error) {
	if c.reads++; c.reads == 2 {
		c.written()
	}
	return c.Reader.ReadAt(p, off)
}

// TestAppsStoreModulesInTurn has one app's uploads wait for the one that is being written, and
// then another app's: the next but one is the other app's.
func TestAppsStoreModulesInTurn(t *testing.T) {
	const flood = 10
	s := open(t, embedded.Config{Dir: t.TempDir()})
	entered, leave := make(chan struct{}), make(chan struct{})
	var mu sync.Mutex
	var order []string
	var uploads sync.WaitGroup
	put := func(app string, n int, began func()) {
		waiting := s.UploadsWaiting()
		uploads.Go(func() {
			wasm := fmt.Append(nil, app, n)
			digest := actor.DigestOf(wasm)
			code := &watchedCode{Reader: bytes.NewReader(wasm), written: func() {
				mu.Lock()
				order = append(order, app)
				mu.Unlock()
				began()
			}}
			if err := s.PutModule(t.Context(), actor.Module{App: app, Digest: digest, Size: int64(len(wasm))}, code, 0); err != nil {
				t.Error(err)
			}
		})
		for n > 0 && s.UploadsWaiting() == waiting {
			runtime.Gosched()
		}
	}
	put("loud", 0, func() { close(entered); <-leave })
	<-entered
	for n := range flood {
		put("loud", n+1, func() {})
	}
	put("quiet", 1, func() {})
	close(leave)
	uploads.Wait()
	if len(order) != flood+2 || order[1] != "quiet" && order[2] != "quiet" {
		t.Errorf("modules were written of %v", order)
	}
}
