package wasm

import (
	"testing"

	"github.com/tetratelabs/wazero/api"
)

func TestFunctionsAreBounded(t *testing.T) {
	var fs functions
	entries := make([]entry, maxFunctions+1)
	kept := func() (n int) {
		for i := range entries {
			if entries[i].fn.Load() != nil {
				n++
			}
		}
		return n
	}
	for range 3 { // the later rounds find most of them in the ring
		for i := range entries {
			fs.keep(&entries[i], new(api.Function))
			if n := kept(); n > maxFunctions {
				t.Fatalf("%d functions are kept", n)
			}
		}
		if n := kept(); n != maxFunctions {
			t.Fatalf("%d functions are kept after all were used", n)
		}
	}
	last := &entries[maxFunctions]
	fn := last.fn.Load()
	if got := fs.take(last, nil); got != fn || last.fn.Load() != nil {
		t.Error("the function of an entry that was just used is gone")
	}
}
