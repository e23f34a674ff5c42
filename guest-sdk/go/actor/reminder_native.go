//go:build !wasm

package actor

import (
	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/guest-sdk/go/internal/bridge"
)

func reminders(ctx *Context) bridge.Reminders { return ctx.live().host.(bridge.Reminders) }

func reminderSet(ctx *Context, frame []byte) abi.Code { return reminders(ctx).ReminderSet(frame) }

func reminderCancel(ctx *Context, name string) abi.Code { return reminders(ctx).ReminderCancel(name) }

func reminderGet(ctx *Context, name string) ([]byte, abi.Code) {
	return reminders(ctx).ReminderGet(name)
}

func reminderNames(ctx *Context, prefix string) ([]byte, abi.Code) {
	return reminders(ctx).ReminderNames(prefix)
}

func problem(ctx *Context) string { return reminders(ctx).Problem() }
