package placement_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/scheduler/placement"
)

func TestGroupKeys(t *testing.T) {
	for _, tt := range []struct {
		separator string
		parts     int
		id, want  string
	}{
		{"", 0, "order/42", "order/42"},
		{"/", 1, "42", "42"},
		{"/", 1, "42/payment", "42"},
		{"/", 1, "42/payment/1", "42"},
		{"/", 2, "order", "order"},
		{"/", 2, "order/42", "order/42"},
		{"/", 2, "order/42/payment", "order/42"},
		{"/", 2, "order/42/payment/1", "order/42"},
		{"/", 2, "order/42/", "order/42"},
		{"/", 2, "order//payment", "order/"},
		{"/", 1, "42/", "42"},
		{"/", 1, "/payment", "/payment"}, // an empty key would be that of many actors
		{"/", 1, "/", "/"},
		{"/", 2, "//", "/"},
		{"::", 1, "42::a", "42"},
		{"::", 1, "42:a", "42:a"},
		{"::", 1, "42:::a", "42"},
		{"é", 1, "aéb", "a"},
	} {
		g := placement.TogetherOf(abi.CoLocate{Group: "g", Separator: tt.separator, Parts: tt.parts})
		if got := g.Key(tt.id); got != tt.want {
			t.Errorf("%q by %d parts with %q between them: got %q, want %q", tt.id, tt.parts, tt.separator, got, tt.want)
		}
	}
}

// TestGroupsHaveOnePlace: actors of one group key have one place, whatever their types and the
// rest of their IDs are.
func TestGroupsHaveOnePlace(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	text := func(letters string, n int) string {
		var b strings.Builder
		for range n {
			b.WriteByte(letters[r.IntN(len(letters))])
		}
		return b.String()
	}
	for range 10_000 {
		separator := text("/:-", 1+r.IntN(3))
		parts := 1 + r.IntN(4)
		key := text("abc", 1+r.IntN(3))
		for range parts - 1 {
			key += separator + text("abc", r.IntN(4))
		}
		whole := placement.Together{Type: placement.GroupName("g")}
		part := placement.Together{Type: placement.GroupName("g"), Separator: separator, Parts: parts}
		want := whole.Place(actor.Key{App: "a", Type: "Order", ID: key})
		for _, id := range []string{key, key + separator, key + separator + text("abc"+separator, r.IntN(9))} {
			if got := part.Place(actor.Key{App: "a", Type: "Payment", ID: id}); got != want {
				t.Fatalf("%q by %d parts with %q between them is at %v, and %q at %v", id, parts, separator, got, key, want)
			}
		}
	}
}

func TestTogetherPolicies(t *testing.T) {
	for _, g := range []placement.Together{
		{Type: "@orders"}, {Type: "@a.b_c-d", Separator: "/", Parts: 1}, {Type: "@g", Separator: ":", Parts: 16}, {Type: "@g", Separator: "::x:", Parts: 2},
	} {
		policy := g.Policy()
		if got, is := placement.ParseTogether(policy); !is || got != g {
			t.Errorf("%q became %+v, %t", policy, got, is)
		}
		if !placement.Exclusive(policy) || placement.Assigned(policy) || placement.RangesOnly(policy) || placement.IsRing(policy) || placement.IsCheckout(policy) {
			t.Errorf("%q is taken for a policy with a table of its own", policy)
		}
		for _, other := range []string{"any", "checkout:32", "ring", "ring:16", "stateless", "static:a,b", "sticky"} {
			if _, is := placement.ParseTogether(other); is {
				t.Errorf("%q is taken for a group", other)
			}
		}
	}
}
