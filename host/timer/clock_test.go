package timer

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// An app that sets as many timers as it can leaves memory for those of another app, and what
// has ended is free again.
func TestTimersOfOneAppLeaveRoomToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewClock(64<<10, func(*Timer) {})
		var all []*Timer
		set := func(app string) int {
			n := 0
			for ; c.Room(app, 1, 100); n++ {
				timer := &Timer{spec: &actor.TimerSpec{Key: actor.Key{App: app}, Payload: actor.Payload{Data: make([]byte, 100)}}}
				c.start(timer, time.Hour)
				all = append(all, timer)
			}
			return n
		}
		if loud, quiet := set("loud"), set("quiet"); loud < 80 || quiet < 8 {
			t.Errorf("one app set %d timers, and then another %d", loud, quiet)
		}
		for _, timer := range all {
			c.stop(timer)
		}
		if n := c.bytes.Used(); n != 0 || c.Count() != 0 {
			t.Errorf("%d bytes of %d timers are left", n, c.Count())
		}
		c.Wait()
	})
}

// TestTimersOfInventedAppsAreBounded: callers of all apps may name any, each of which may always
// have some; those of all together are bounded.
func TestTimersOfInventedAppsAreBounded(t *testing.T) {
	const memory = 640 * cost
	c := NewClock(memory, nil)
	for i := range 1000 {
		if app := fmt.Sprint("invented", i); c.Room(app, 10, 0) {
			c.bytes.Add(app, 10*cost)
		}
	}
	if used := c.bytes.Used(); used > 2*memory {
		t.Errorf("timers have %d bytes, where %d are for all", used, memory)
	}
}
