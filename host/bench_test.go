package host_test

import (
	"testing"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/hosttest"
)

// The cost of the host itself: a native guest, a store in memory.
func BenchmarkTurn(b *testing.B) {
	w := hosttest.New()
	h, err := host.New(host.Config{Committer: newFakeStore(), Modules: w, Engine: w})
	if err != nil {
		b.Fatal(err)
	}
	if err := h.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	defer h.Stop(b.Context())
	for _, placement := range []string{"ring", "any"} {
		w.Deploy("app", "T", hosttest.Actor{
			Placement: placement,
			Methods:   map[string]hosttest.Func{"Add": add},
			ReadOnly:  map[string]hosttest.Func{"View": view},
		})
		for _, method := range []string{"Add", "View"} {
			b.Run(placement+"/"+method, func(b *testing.B) {
				b.ReportAllocs()
				inv := actor.Invocation{ID: "bench", Key: key("a"), Method: method}
				for b.Loop() {
					if _, err := h.Invoke(b.Context(), inv); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
