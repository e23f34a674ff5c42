package node

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/server"
)

// linesPerSecond is what the guests of one actor type may add to the server's
// own log: a type that says more in a second is cut off until the next one, so
// that a loop in one guest cannot fill a disk or hide the others.
const linesPerSecond = 500

// guestLogs takes what guests say to those who follow it over the API and to the
// server's log.
type guestLogs struct {
	logs   *server.Logs
	logger *slog.Logger
	also   func(host.GuestLog) // instead of logger, if it is not nil

	mu     sync.Mutex
	second time.Time
	counts map[host.Scope]int // in that second
}

func newGuestLogs(logs *server.Logs, cfg Config) *guestLogs {
	return &guestLogs{logs: logs, logger: cfg.Logger, also: cfg.GuestLog, counts: make(map[host.Scope]int)}
}

// watch returns events with guests' lines and traps taken here.
func (g *guestLogs) watch(events host.Events) host.Events {
	events.GuestLog = g.line
	turnEnd := events.TurnEnd
	events.TurnEnd = func(e host.TurnEnd) {
		if turnEnd != nil {
			turnEnd(e)
		}
		if e.Err != nil {
			g.trap(e)
		}
	}
	return events
}

// trap says why a guest trapped, with its stack, as if it had logged it.
func (g *guestLogs) trap(e host.TurnEnd) {
	var trap *actor.TrapError
	if !errors.As(e.Err, &trap) {
		return
	}
	text := string(trap.Kind) + ": " + trap.Message
	if trap.Stack != "" {
		text += "\n" + trap.Stack
	}
	g.line(host.GuestLog{Key: e.Key, Method: e.Method, Level: int32(slog.LevelError), Text: text})
}

func (g *guestLogs) line(l host.GuestLog) {
	now := time.Now()
	g.logs.Publish(now, l)
	if g.also != nil {
		g.also(l)
		return
	}
	switch n := g.count(now, host.Scope{App: l.Key.App, Type: l.Key.Type}); {
	case n > linesPerSecond:
		return
	case n == linesPerSecond:
		g.logger.Warn("guests log too much; the rest of this second is left out", "app", l.Key.App, "actor_type", l.Key.Type)
		return
	}
	g.logger.Log(context.Background(), slog.Level(l.Level), "guest log",
		"app", l.Key.App, "actor_type", l.Key.Type, "actor_id", l.Key.ID,
		"method", l.Method, "invocation", l.InvocationID, "text", l.Text)
}

// count returns how many lines a type has logged in this second.
func (g *guestLogs) count(now time.Time, scope host.Scope) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if now.Sub(g.second) >= time.Second {
		g.second = now
		clear(g.counts)
	}
	g.counts[scope]++
	return g.counts[scope]
}
