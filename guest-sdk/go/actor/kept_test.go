package actor_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/greenroom-run/greenroom/guest-sdk/go/actor"
	"github.com/greenroom-run/greenroom/guest-sdk/go/actortest"
)

// Guest memory is a cache: an actor behaves the same whether its instance lives
// for ever, serves others in between, or is thrown away before every turn.
func TestKeptStateMakesNoDifference(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 0))
		hosts := map[string]*actortest.Harness{}
		for _, name := range []string{"kept", "dropped", "shared"} {
			hosts[name] = actortest.New(quiet{t})
		}
		for step := range 120 {
			what, id, n := randomStep(r), fmt.Sprint("actor-", r.IntN(3)), r.IntN(100)
			got := map[string]string{}
			for name, h := range hosts {
				switch name {
				case "dropped":
					h.DropInstance()
				case "shared":
					if err := h.Call("Account", "neighbour", "Deposit", Deposit{Amount: 1}, nil); err != nil {
						t.Fatal(err)
					}
				}
				got[name] = what(h, id, n)
			}
			if got["kept"] != got["dropped"] || got["kept"] != got["shared"] {
				t.Fatalf("seed %d, step %d: the hosts answered %q", seed, step, got)
			}
			for name, h := range hosts {
				if want := hosts["dropped"].State("Account", id); !reflect.DeepEqual(h.State("Account", id), want) {
					t.Fatalf("seed %d, step %d: %s has %q, want %q", seed, step, name, h.State("Account", id), want)
				}
			}
		}
	}
}

type step func(h *actortest.Harness, id string, n int) string

func randomStep(r *rand.Rand) step {
	turn := func(method string, in func(n int) any) step {
		return func(h *actortest.Harness, id string, n int) string {
			var out actor.Payload
			err := h.Call("Account", id, method, in(n), &out)
			return fmt.Sprintf("%s %s %v", method, out.Data, err)
		}
	}
	deposit := func(note string) step {
		return turn("Deposit", func(n int) any { return Deposit{Amount: n, Note: note} })
	}
	none := func(int) any { return nil }
	steps := []step{
		deposit(""), deposit(""), deposit("refuse"), deposit("wrapped"),
		turn("Deposit", func(int) any { return []byte(`{"amount":`) }),
		turn("Rename", func(n int) any { return []string{"", "Ada", "Bob"}[n%3] }),
		turn("View", none), turn("Peek", none), turn("Close", none),
		turn("Bypass", func(n int) any { return n }),
		turn("Both", func(n int) any { return n }),
		turn("Scribble", func(n int) any { return fmt.Sprint(n) }),
		func(h *actortest.Harness, id string, n int) string { h.Delete("Account", id); return "deleted" },
		func(h *actortest.Harness, id string, n int) string {
			h.SetState("Account", id, 0, map[string]string{"balance": fmt.Sprint(n), "newer": "true"})
			return "set"
		},
	}
	return steps[r.IntN(len(steps))]
}

// quiet is a test without its log.
type quiet struct{ testing.TB }

func (quiet) Logf(string, ...any) {}

func BenchmarkTurn(b *testing.B) {
	for _, warm := range []bool{true, false} {
		b.Run(map[bool]string{true: "warm", false: "cold"}[warm], func(b *testing.B) {
			h := actortest.New(quiet{b})
			b.ReportAllocs()
			for b.Loop() {
				if !warm {
					h.DropInstance()
				}
				if err := h.Call("Account", "a", "Deposit", Deposit{Amount: 1}, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
