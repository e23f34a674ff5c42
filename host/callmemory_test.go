package host

import (
	"fmt"
	"testing"
)

// CallsInCommon and CallsOf return what is taken of Config.CallMemory, by whoever came first and by
// an app.
func (h *Host) CallsInCommon() int64     { return h.memory.common.used.Load() }
func (h *Host) CallsOf(app string) int64 { return h.memory.Has(app) }

// TestCallsOfInventedAppsAreBounded: callers of all apps may name any app, and each app may always have
// some memory; all together have twice the bound at most.
func TestCallsOfInventedAppsAreBounded(t *testing.T) {
	m := newCallMemory(6400)
	for i := range 1000 {
		_ = m.take(fmt.Sprint("invented", i), 100)
	}
	if used := m.Used(); used > 2*6400 {
		t.Errorf("calls have %d bytes, where 6400 are for all", used)
	}
}
