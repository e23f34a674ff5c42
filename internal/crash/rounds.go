package crash

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"
)

// Rounds returns GREENROOM_KILL_ROUNDS, or usual if it is not set.
func Rounds(t testing.TB, usual int) int { return variable(t, "GREENROOM_KILL_ROUNDS", usual) }

// variable returns the number in an environment variable, or usual if it is not set.
func variable(t testing.TB, name string, usual int) int {
	t.Helper()
	s := os.Getenv(name)
	if s == "" {
		return usual
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// Seeded returns a random generator and its seed, which it logs. The seed is
// GREENROOM_KILL_SEED, or another one each time if that is not set.
func Seeded(t testing.TB) (*rand.Rand, uint64) {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("GREENROOM_KILL_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatalf("GREENROOM_KILL_SEED: %v", err)
		}
	}
	t.Logf("GREENROOM_KILL_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0)), seed
}
