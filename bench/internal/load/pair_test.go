package load

import "testing"

// TestPair expects each pair of a few actors about as often as the others, in order.
func TestPair(t *testing.T) {
	const actors, calls = 5, 10_000
	seen := map[[2]int]int{}
	for n := range calls {
		low, high := Pair(n%7, n, actors)
		if low < 0 || low >= high || high >= actors {
			t.Fatalf("the pair %d, %d of %d actors", low, high, actors)
		}
		seen[[2]int{low, high}]++
	}
	if len(seen) != actors*(actors-1)/2 {
		t.Errorf("%d pairs", len(seen))
	}
	for pair, n := range seen {
		if n < 800 || n > 1200 {
			t.Errorf("%v was chosen %d times of %d", pair, n, calls)
		}
	}
}
