package wasm

import (
	"bytes"
	"math/rand/v2"
	"testing"

	. "github.com/greenroom-run/greenroom/engine/wasm/wasmtest"
)

// Whatever was written where, a memory that was restored is as a new one, with and
// without the kernel's help.
func TestRestore(t *testing.T) {
	e := newEngine(t, Config{})
	for name, g := range map[string]Guest{
		"small": {Pages: 3, More: func(b *Builder) { b.Data(2048, []byte("data")); b.Data(70_000, make1(9_000)) }},
		"large": {Pages: 40, More: func(b *Builder) { b.Data(5_000, make1(100)); b.Data(1<<20, make1(512<<10)) }},
	} {
		t.Run(name, func(t *testing.T) {
			fresh, used := instantiate(t, e, g.Bytes()), instantiate(t, e, g.Bytes())
			want := fresh.mem.data[:fresh.mem.size]
			random := rand.New(rand.NewPCG(1, 2))
			knowing, blind := used.mem.pool.pages, &pagemap{open: func() int { return -1 }}
			defer func() { used.mem.pool.pages = knowing }()
			for n := range 100 {
				memory := used.mem.data[:used.mem.size]
				for range random.IntN(20) {
					at := random.IntN(len(memory))
					for i := range memory[at:min(len(memory), at+random.IntN(9_000))] {
						memory[at+i] = byte(random.Uint32())
					}
				}
				used.mem.pool.pages = knowing
				if n%2 == 1 {
					used.mem.pool.pages = blind
				}
				used.mem.restore(used.image)
				if !bytes.Equal(memory, want) {
					t.Fatalf("round %d: the memory differs from a new one's", n)
				}
			}
		})
	}
}
