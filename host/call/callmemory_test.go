package call

import (
	"fmt"
	"testing"
)

// TestCallsOfInventedAppsAreBounded: callers of all apps may name any app, and each app may always have
// some memory; all together have twice the bound at most.
func TestCallsOfInventedAppsAreBounded(t *testing.T) {
	m := NewMemory(6400)
	for i := range 1000 {
		_ = m.Take(fmt.Sprint("invented", i), 100)
	}
	if used := m.Used(); used > 2*6400 {
		t.Errorf("calls have %d bytes, where 6400 are for all", used)
	}
}
