package server

import "testing"

func TestFIFO(t *testing.T) {
	var q fifo[int]
	next, want, most := 0, 0, 0
	for round := range 1000 {
		for range round % 7 {
			q.push(next)
			next++
		}
		for range min(q.len(), 3+round%2) {
			if got := q.pop(); got != want {
				t.Fatalf("got %d, want %d", got, want)
			}
			want++
		}
		most = max(most, q.len())
		if cap(q.items) > 4*most+8 {
			t.Fatalf("room for %d, of which at most %d were used", cap(q.items), most)
		}
	}
	if q.len() != next-want {
		t.Errorf("%d are left of %d", q.len(), next-want)
	}
}
