package wasm

import (
	"testing"

	"github.com/tetratelabs/wazero/api"
)

func TestFunctionsAreBounded(t *testing.T) {
	var fs functions
	levels := make([]level, maxFunctions+1)
	kept := func() (n int) {
		for i := range levels {
			if levels[i].fn.Load() != nil {
				n++
			}
		}
		return n
	}
	for range 3 { // the later rounds find most of them in the ring
		for i := range levels {
			fs.keep(&levels[i], new(api.Function))
			if n := kept(); n > maxFunctions {
				t.Fatalf("%d functions are kept", n)
			}
		}
		if n := kept(); n != maxFunctions {
			t.Fatalf("%d functions are kept after all were used", n)
		}
	}
	last := &levels[maxFunctions]
	fn := last.fn.Load()
	if got := fs.take(last, nil); got != fn || last.fn.Load() != nil {
		t.Error("the function of a level that was just used is gone")
	}
}
