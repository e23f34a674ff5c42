package main

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/server/failure"
)

// guestLogs prints what guests log, apart from the turns that log it: a slow
// terminal must not hold actors up. What does not fit into its queue is counted
// and dropped.
type guestLogs struct {
	cli     *cli
	lines   chan guestLine
	dropped atomic.Int64
	closing chan struct{}
	done    chan struct{}
}

type guestLine struct {
	at  time.Time
	log host.GuestLog
	end *host.TurnEnd // of a call, instead of log
}

// guestLogQueue is a screenful many times over.
const guestLogQueue = 4096

func newGuestLogs(c *cli) *guestLogs {
	g := &guestLogs{cli: c, lines: make(chan guestLine, guestLogQueue), closing: make(chan struct{}), done: make(chan struct{})}
	go g.print()
	return g
}

// Add queues a line. Any goroutine may call it, also after Close.
func (g *guestLogs) Add(l host.GuestLog) {
	select {
	case g.lines <- guestLine{at: time.Now(), log: l}:
	default:
		g.dropped.Add(1)
	}
}

// Call queues a line that says how a call ended. Any goroutine may call it, also
// after Close.
func (g *guestLogs) Call(e host.TurnEnd) {
	select {
	case g.lines <- guestLine{at: time.Now(), end: &e}:
	default:
		g.dropped.Add(1)
	}
}

// Close prints the queued lines and ends.
func (g *guestLogs) Close() {
	close(g.closing)
	<-g.done
}

func (g *guestLogs) print() {
	defer close(g.done)
	for {
		select {
		case l := <-g.lines:
			g.write(l)
		case <-g.closing:
			for {
				select {
				case l := <-g.lines:
					g.write(l)
				default:
					return
				}
			}
		}
	}
}

func (g *guestLogs) write(l guestLine) {
	c := g.cli
	if n := g.dropped.Swap(0); n > 0 {
		c.printf(c.stderr, "(%d lines of guests were dropped here: they log faster than can be shown)\n", n)
	}
	if l.end != nil {
		callLine(c, c.stderr, l.at, l.end)
		return
	}
	showGuestLine(c, c.stderr, l)
}

// callLine prints how a call ended. What a turn failed of is in the log beside
// it; what was refused before it became one is said here.
func callLine(c *cli, w io.Writer, at time.Time, e *host.TurnEnd) {
	method := e.Method
	switch method {
	case "":
		method = "(delete)"
	case actor.MethodAll:
		method = "(the calls together)"
	}
	outcome, colour := "ok", green
	if e.Err != nil {
		kind, message := failure.KindOf(e.Err)
		outcome, colour = kind, red
		if e.Lane == host.LaneNone {
			outcome += ": " + message
		}
	}
	by := ""
	if e.Caller.ID != "" {
		by = ", called by " + e.Caller.Type + " " + e.Caller.ID
	}
	runs := ""
	if e.Runs > 1 {
		runs = fmt.Sprintf(", %d runs", e.Runs)
	}
	c.printf(w, "%s %s %s%s %s  %s %s\n",
		c.paint(w, dim, at.Format(time.TimeOnly)), c.paint(w, bold, "CALL "), strings.Repeat("  ", e.Depth),
		c.paint(w, cyan, e.Key.Type+" "+e.Key.ID), c.paint(w, dim, method), c.paint(w, colour, outcome),
		c.paint(w, dim, fmt.Sprintf("(%s, fuel %d%s%s)", e.Duration.Round(10*time.Microsecond), e.Fuel, runs, by)))
}

// showGuestLine prints one entry of a guest's log, which may have several lines.
func showGuestLine(c *cli, w io.Writer, l guestLine) {
	level := slog.Level(l.log.Level)
	colour := dim
	switch {
	case level >= slog.LevelError:
		colour = red
	case level >= slog.LevelWarn:
		colour = yellow
	case level >= slog.LevelInfo:
		colour = green
	}
	who := fmt.Sprintf("%s %s", l.log.Key.Type, l.log.Key.ID)
	for line := range strings.Lines(l.log.Text) {
		c.printf(w, "%s %s %s %s  %s\n",
			c.paint(w, dim, l.at.Format(time.TimeOnly)),
			c.paint(w, colour, fmt.Sprintf("%-5s", level)),
			c.paint(w, cyan, who),
			c.paint(w, dim, l.log.Method),
			// Tabs indent the stack of a Go guest's panic.
			painted(printableLines(line)))
	}
}
