package embedded

import "testing"

// hashOf is a hash of a number, the same in each run (splitmix64).
func hashOf(n uint64) uint64 {
	n *= 0x9e3779b97f4a7c15
	n = (n ^ n>>30) * 0xbf58476d1ce4e5b9
	n = (n ^ n>>27) * 0x94d049bb133111eb
	return n ^ n>>31
}

// While the rows of one large group wait for their sync, hardly any read of another row waits for
// it, and each read of those rows does.
func TestReadsOfOtherRowsWaitForNoSync(t *testing.T) {
	const group, others, most = 256, 100_000, 10
	var rows marks
	for n := range uint64(group) {
		rows.add(hashOf(n))
	}
	for n := range uint64(group) {
		if !rows.has(hashOf(n)) {
			t.Fatalf("the read of row %d does not wait for its sync", n)
		}
	}
	waits := 0
	for n := range uint64(others) {
		if rows.has(hashOf(group + n)) {
			waits++
		}
	}
	if waits > most {
		t.Errorf("%d of %d reads of other rows wait, want at most %d", waits, others, most)
	}
}
