package host_test

import (
	"context"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/hosttest"
)

// benchHost starts a host with a store in memory. o may be nil, for a host that is alone.
func benchHost(b *testing.B, o host.Ownership) (*hosttest.World, *host.Host) {
	w, store := hosttest.New(), newFakeStore()
	store.shared = o != nil
	h, err := host.New(host.Config{Committer: store, Modules: w, Engine: w, Ownership: o})
	if err != nil {
		b.Fatal(err)
	}
	if err := h.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { h.Stop(context.Background()) })
	return w, h
}

// benchMethod calls a method of one actor again and again.
func benchMethod(b *testing.B, h *host.Host, method string) {
	b.ReportAllocs()
	inv := actor.Invocation{ID: "bench", Key: key("a"), Method: method}
	for b.Loop() {
		if _, err := h.Invoke(b.Context(), inv); err != nil {
			b.Fatal(err)
		}
	}
}

// The cost of the host itself: a native guest, a store in memory.
func BenchmarkTurn(b *testing.B) {
	w, h := benchHost(b, nil)
	for _, placement := range []string{"ring", "any"} {
		w.Deploy("app", "T", hosttest.Actor{
			Placement: placement,
			Yields:    true,
			Methods:   map[string]hosttest.Func{"Add": add},
			ReadOnly:  map[string]hosttest.Func{"View": view},
		})
		for _, method := range []string{"Add", "View"} {
			b.Run(placement+"/"+method, func(b *testing.B) { benchMethod(b, h, method) })
		}
	}
}

// What a chain over two actors costs the host, beside a single turn: see BenchmarkTurn.
func BenchmarkChain(b *testing.B) {
	w, h := benchHost(b, nil)
	w.Deploy("app", "T", hosttest.Actor{Yields: true, Methods: map[string]hosttest.Func{"Add": add, "Transfer": func(t *hosttest.Turn) error {
		if _, err := t.Call("T", "b", "Add", ""); err != nil {
			return err
		}
		return add(t)
	}}})
	for _, method := range []string{"Add", "Transfer"} {
		b.Run(method, func(b *testing.B) { benchMethod(b, h, method) })
	}
}

// What it costs to hold actors under a lease, beside a host that is alone: the ratio is
// of the same turns, in turns.
func BenchmarkOwnership(b *testing.B) {
	actors := hosttest.Actor{Methods: map[string]hosttest.Func{"Add": add, "Touch": view}, ReadOnly: map[string]hosttest.Func{"View": view}}
	newHost := func(o host.Ownership) *host.Host {
		w, h := benchHost(b, o)
		w.Deploy("app", "T", actors)
		return h
	}
	alone, owner := newHost(nil), newHost(hosttest.NewHoldings(actor.HeldClean))
	for _, method := range []string{"Add", "Touch", "View"} {
		b.Run(method, func(b *testing.B) {
			const round = 100
			inv := actor.Invocation{ID: "bench", Key: key("a"), Method: method}
			var spent [2]time.Duration
			for b.Loop() {
				for i, h := range []*host.Host{alone, owner} {
					began := time.Now()
					for range round {
						if _, err := h.Invoke(b.Context(), inv); err != nil {
							b.Fatal(err)
						}
					}
					spent[i] += time.Since(began)
				}
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(spent[0].Nanoseconds())/float64(b.N*round), "ns/alone")
			b.ReportMetric(float64(spent[1].Nanoseconds())/float64(spent[0].Nanoseconds()), "owned/alone")
		})
	}
}
