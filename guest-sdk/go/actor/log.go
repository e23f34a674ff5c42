package actor

import (
	"fmt"
	"strconv"
	"strings"
)

// Levels of the log, as in log/slog.
const (
	levelDebug = -4
	levelInfo  = 0
	levelWarn  = 4
	levelError = 8
)

// Logger writes lines to the actor's log: a constant message, then facts as
// alternating names and values.
//
//	ctx.Log().Info("item added", "sku", sku, "quantity", n)
//
// Lines are written even if the turn then fails.
type Logger struct{ ctx *Context }

// Debug writes a line that is only of use to whoever mends the actor.
func (l Logger) Debug(msg string, facts ...any) { l.write(levelDebug, msg, facts) }

// Info writes a line about what happened.
func (l Logger) Info(msg string, facts ...any) { l.write(levelInfo, msg, facts) }

// Warn writes a line about what somebody should look at.
func (l Logger) Warn(msg string, facts ...any) { l.write(levelWarn, msg, facts) }

// Error writes a line about what went wrong.
func (l Logger) Error(msg string, facts ...any) { l.write(levelError, msg, facts) }

func (l Logger) write(level int32, msg string, facts []any) {
	if len(facts) == 0 {
		l.ctx.live().host.Log(level, msg)
		return
	}
	var b strings.Builder
	b.WriteString(msg)
	for i := 0; i < len(facts); i += 2 {
		b.WriteByte(' ')
		if i+1 == len(facts) {
			b.WriteString("!missing=")
			writeFact(&b, facts[i])
			break
		}
		fmt.Fprint(&b, facts[i])
		b.WriteByte('=')
		writeFact(&b, facts[i+1])
	}
	l.ctx.live().host.Log(level, b.String())
}

func writeFact(b *strings.Builder, v any) {
	s := fmt.Sprint(v)
	if s == "" || strings.ContainsAny(s, " \t\r\n\"=") {
		s = strconv.Quote(s)
	}
	b.WriteString(s)
}
