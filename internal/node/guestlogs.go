package node

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/server/failure"
	"github.com/greenroom-run/greenroom/server/rpc"
)

// linesPerSecond is what the guests of one actor type may add to the server's
// own log: a type that says more in a second is cut off until the next one, so
// that a loop in one guest cannot fill a disk or hide the others.
const linesPerSecond = 500

// guestLogs takes what guests say to those who follow it over the API and to the
// server's log.
type guestLogs struct {
	logs   *rpc.Logs
	logger *slog.Logger
	also   func(host.GuestLog) // instead of logger, if it is not nil

	mu     sync.Mutex
	second time.Time
	counts map[host.Scope]int // in that second
}

// observer takes guests' lines and failed turns.
func (g *guestLogs) observer() host.Events { return host.Events{GuestLog: g.line, TurnEnd: g.turnEnd} }

// turnEnd logs the failure of a turn, with the stack of a trap, as if the guest had logged it. It
// logs no call that was refused before its type was found, since any caller can make such calls,
// and no firing that was taken before.
func (g *guestLogs) turnEnd(e host.TurnEnd) {
	if e.Err == nil || e.Lane == host.LaneNone {
		return
	}
	if errors.Is(e.Err, actor.ErrFiringTaken) {
		// Ordinary: a firing that was delivered twice, or whose reminder was changed meanwhile.
		g.logger.Debug("a firing was taken before", "app", e.Key.App, "actor_type", e.Key.Type, "actor_id", e.Key.ID, "method", e.Method, "request", e.InvocationID)
		return
	}
	g.add(host.GuestLog{
		Key: e.Key, Method: e.Method, InvocationID: e.InvocationID, Trace: e.Trace, Run: e.Runs, Level: int32(slog.LevelWarn), Text: failureText(e),
	}, func() {
		kind, message := failure.KindOf(e.Err)
		attrs := e.Trace.AppendLog([]slog.Attr{
			slog.String("app", e.Key.App), slog.String("actor_type", e.Key.Type), slog.String("actor_id", e.Key.ID),
			slog.String("method", e.Method), slog.String("request", e.InvocationID), slog.String("kind", kind), slog.String("error", message),
		})
		if e.Caller != (actor.Key{}) {
			attrs = append(attrs, slog.String("caller_type", e.Caller.Type), slog.String("caller_id", e.Caller.ID))
		}
		if fix := remedy(e); fix != "" {
			attrs = append(attrs, slog.String("remedy", fix))
		}
		var trap *actor.TrapError
		if errors.As(e.Err, &trap) && trap.Stack != "" {
			attrs = append(attrs, slog.String("stack", trap.Stack))
		}
		g.logger.LogAttrs(context.Background(), slog.LevelWarn, "turn failed", attrs...)
	})
}

func (g *guestLogs) line(l host.GuestLog) {
	g.add(l, func() {
		g.logger.LogAttrs(context.Background(), slog.Level(l.Level), "guest log", l.Trace.AppendLog([]slog.Attr{
			slog.String("app", l.Key.App), slog.String("actor_type", l.Key.Type), slog.String("actor_id", l.Key.ID),
			slog.String("method", l.Method), slog.String("request", l.InvocationID), slog.Int("run", l.Run), slog.String("text", l.Text),
		})...)
	})
}

// add takes a line to those who follow, and to the server's log by write.
func (g *guestLogs) add(l host.GuestLog, write func()) {
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
	write()
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
