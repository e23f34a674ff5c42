package wasm

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/engine/enginetest"
	"github.com/greenroom-run/greenroom/internal/guestbuild"
)

// rustGuest builds the counter of bench/guest, once per process.
var rustGuest = func() func(tb testing.TB) []byte {
	var once sync.Once
	var wasm []byte
	var err error
	return func(tb testing.TB) []byte {
		tb.Helper()
		once.Do(func() {
			out := filepath.Join(compiledGuests, "bench-counter.wasm")
			if _, err = guestbuild.Build(context.Background(), guestbuild.Request{Dir: "../../bench/guest", Out: out}); err == nil {
				wasm, err = os.ReadFile(out)
			}
		})
		if err != nil {
			tb.Skip(err)
		}
		return wasm
	}
}()

// steadyCalls answers as a host does whose work costs nothing: the state is
// always the same, and what the guest writes is let go.
type steadyCalls struct {
	*fakeCalls
	json   []byte
	rev    uint64
	writes int
}

func (c *steadyCalls) StateJSON() ([]byte, abi.Code)                   { return c.json, 0 }
func (c *steadyCalls) StatePatch(before, after []byte) (int, abi.Code) { c.writes++; return 1, 0 }
func (c *steadyCalls) StateRevision() uint64                           { return c.rev }
func (c *steadyCalls) Reply(string, []byte) abi.Code                   { return 0 }

// BenchmarkGuest is the guest's share of a warm turn: what runs between the
// host's call and its return, for a counter in Rust and in Go.
//
//	kept     the same actor again, whose state the guest still has
//	loaded   the same actor, whose state is loaded again
//	switched another actor: the instance is reset before
func BenchmarkGuest(b *testing.B) {
	ballast := `,"ballast":"` + strings.Repeat("B", 180) + `"}`
	e := guestEngine(b)
	for name, g := range map[string]struct {
		wasm    func() []byte
		payload string
	}{
		"rust": {func() []byte { return rustGuest(b) }, "1"},
		"go":   {func() []byte { return goGuest(b, counterDir) }, `{"amount":1}`},
	} {
		p := enginetest.Load(b, e, g.wasm())
		for _, step := range []string{"kept", "loaded", "switched"} {
			b.Run(name+"/"+step, func(b *testing.B) {
				in, err := p.NewInstance(context.Background(), 64<<20)
				if err != nil {
					b.Fatal(err)
				}
				defer in.Close(context.Background())
				calls := &steadyCalls{fakeCalls: newCalls(), json: []byte(`{"count":123` + ballast)}
				turn, ids := call("1", "Add", g.payload), []string{"1", "2"}
				b.ReportAllocs()
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				var took []time.Duration
				began := clock()
				for n := 0; b.Loop(); n++ {
					switch step {
					case "loaded":
						calls.rev++
						turn.Revision = calls.rev
						calls.rev++
					case "switched":
						turn.ID = ids[n%2]
					}
					if err := in.Run(context.Background(), turn, calls); err != nil {
						b.Fatal(err)
					}
					if n%batch == batch-1 {
						now := clock()
						took = append(took, time.Duration((now-began)*1e9/batch))
						began = now
					}
				}
				b.ReportMetric(float64(quantile(took, 0.1)), "quiet-cpu-ns/op")
				b.ReportMetric(float64(calls.fuel.Used)/float64(b.N), "fuel/op")
			})
		}
	}
}

// batch is how many turns are measured together: on a busy machine the quick
// ones of them tell what a turn costs.
const batch = 32

func quantile(of []time.Duration, q float64) time.Duration {
	if len(of) == 0 {
		return 0
	}
	slices.Sort(of)
	return of[int(q*float64(len(of)-1))]
}
