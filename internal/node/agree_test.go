package node

import (
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/host"
)

// TestStoreOutlastsTheHost: the database waits for a turn for longer than the host
// does, whichever limit says how long that is.
func TestStoreOutlastsTheHost(t *testing.T) {
	for name, cfg := range map[string]Config{
		"defaults": {},
		"limits":   {Limits: host.Limits{TurnDeadline: time.Minute}},
		"a type's": {Overrides: map[host.Scope]host.Limits{{App: "a", Type: "T"}: {TurnDeadline: 2 * time.Minute}}},
	} {
		longest := max(cfg.Limits.TurnDeadline, host.DefaultLimits().TurnDeadline)
		for _, l := range cfg.Overrides {
			longest = max(longest, l.TurnDeadline)
		}
		db := cfg.databaseConfig()
		if db.TurnTimeout <= longest || db.TurnConns != lockedTurns {
			t.Errorf("%s: turns of %v, in a database that gives them %v on %d connections for %d places",
				name, longest, db.TurnTimeout, db.TurnConns, lockedTurns)
		}
	}
}
