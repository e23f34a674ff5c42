package node

import (
	"errors"
	"fmt"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/server/failure"
)

// remedy says how to raise the limit that a turn met; empty if it met none, or the error
// says it.
func remedy(e host.TurnEnd) string {
	var (
		fuel *actor.FuelError
		trap *actor.TrapError
	)
	raise := func(limit string) string {
		return fmt.Sprintf("raise it with --limit %s/%s:%s=…, or --%s for all types", e.Key.App, e.Key.Type, limit, limit)
	}
	switch {
	case errors.As(e.Err, &fuel):
		return raise("turn-fuel") + "; a fuel limit of the type's own is in its manifest"
	case errors.As(e.Err, &trap) && trap.Kind == actor.TrapMemory:
		return raise("max-instance-memory")
	case errors.Is(e.Err, actor.ErrMailboxFull):
		return raise("max-mailbox")
	case errors.Is(e.Err, actor.ErrHostFull):
		return "raise --max-call-memory or --max-state-memory"
	case errors.Is(e.Err, actor.ErrOverloaded):
		return raise("max-instances") + ", --max-actors, --max-memory or --max-memory-per-app"
	}
	return ""
}

// failureText says in one line how a turn failed, and on further lines where.
func failureText(e host.TurnEnd) string {
	kind, message := failure.KindOf(e.Err)
	called := ""
	if e.Caller != (actor.Key{}) {
		called = fmt.Sprintf(", called by %s %s", e.Caller.Type, e.Caller.ID)
	}
	text := fmt.Sprintf("failed%s: %s: %s", called, kind, message)
	if fix := remedy(e); fix != "" {
		text += "; " + fix
	}
	var trap *actor.TrapError
	if errors.As(e.Err, &trap) && trap.Stack != "" {
		text += "\n" + trap.Stack
	}
	return text
}
