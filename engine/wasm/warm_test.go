package wasm

import (
	"compress/gzip"
	"context"
	"io"
	"os"
	"testing"

	"github.com/greenroom-run/greenroom/engine/enginetest"
)

// oldCounter is the counter as the Go SDK built it when it read and wrote JSON
// with caches that a change of actor lost.
func oldCounter(tb testing.TB) []byte {
	tb.Helper()
	f, err := os.Open("../../internal/node/testdata/old/counter-go-0.1.wasm.gz")
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		tb.Fatal(err)
	}
	wasm, err := io.ReadAll(z)
	if err != nil {
		tb.Fatal(err)
	}
	return wasm
}

// addFuel returns what a turn uses that comes to another actor than the one before.
func addFuel(t *testing.T, wasm []byte) int64 {
	t.Helper()
	i, err := enginetest.Load(t, guestEngine(t), wasm).NewInstance(context.Background(), 64<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer i.Close(context.Background())
	var used int64
	for _, id := range []string{"a", "b", "a"} {
		c := newCalls()
		if err := i.Run(context.Background(), call(id, "Add", `{"amount":1}`), c); err != nil {
			t.Fatal(err)
		}
		used = int64(c.fuel.Used)
	}
	return used
}

// What the Go SDK needs for a turn is in the image that instances are put back to.
func TestGoGuestsBeginWarm(t *testing.T) {
	before, now := addFuel(t, oldCounter(t)), addFuel(t, goGuest(t, counterDir))
	t.Logf("fuel of a turn after a change of actor: %d before, %d now", before, now)
	if now > before/4 {
		t.Errorf("a turn after a change of actor uses %d units, more than a quarter of the %d of a module whose codecs are cold", now, before)
	}
}

// BenchmarkGoGuest runs turns of the counter in standard Go, as the present SDK
// builds it and as one before did, on one actor and on two by turns.
func BenchmarkGoGuest(b *testing.B) {
	for _, sdk := range []struct {
		name string
		wasm []byte
	}{{"before", oldCounter(b)}, {"now", goGuest(b, counterDir)}} {
		p := enginetest.Load(b, guestEngine(b), sdk.wasm)
		for _, ids := range [][]string{{"a"}, {"a", "b"}} {
			b.Run(sdk.name+map[int]string{1: "/kept", 2: "/switched"}[len(ids)], func(b *testing.B) {
				i, err := p.NewInstance(context.Background(), 64<<20)
				if err != nil {
					b.Fatal(err)
				}
				defer i.Close(context.Background())
				calls := map[string]*fakeCalls{}
				for n, id := range ids {
					calls[id] = newCalls()
					calls[id].revision = uint64(n+1) << 40
				}
				for n := 0; b.Loop(); n++ {
					id := ids[n%len(ids)]
					if err := i.Run(context.Background(), call(id, "Add", `{"amount":1}`), calls[id]); err != nil {
						b.Fatal(err)
					}
				}
				total := 0.0
				for _, c := range calls {
					total += float64(c.fuel.Used)
				}
				b.ReportMetric(total/float64(b.N), "fuel/op")
			})
		}
	}
}
