// Package sdk carries the source of the guest SDK and of the ABI that it is built
// on, so that the greenroom binary can set up guest projects offline. It is for
// tools; guests import package actor.
package sdk

import (
	"embed"
	"fmt"
	"os"
	"path/filepath"

	"github.com/greenroom-run/greenroom/abi"
)

// Modules whose source [WriteTo] writes, and their folders below its root. The
// SDK finds the ABI by the relative path in its own go.mod, so the two folders
// keep their places to each other.
const (
	Module    = "github.com/greenroom-run/greenroom/guest-sdk/go"
	Dir       = "guest-sdk/go"
	ABIModule = "github.com/greenroom-run/greenroom/abi"
	ABIDir    = "abi"
)

// Source is this module's own source without its tests.
//
//go:embed go.mod README.md sdk.go
//go:embed actor/call.go actor/call_native.go actor/call_wasm.go actor/capabilities.go actor/child.go actor/child_native.go actor/child_wasm.go actor/codec.go actor/context.go actor/contextstate.go actor/doc.go actor/errors.go actor/event.go actor/event_native.go actor/event_wasm.go actor/exports_wasm.go
//go:embed actor/host_wasm.go actor/life.go actor/life_native.go actor/life_wasm.go actor/log.go actor/message.go actor/message_native.go actor/message_wasm.go actor/method.go actor/payload.go actor/protobuf.go actor/reads_native.go actor/reads_wasm.go actor/register.go actor/settings.go
//go:embed actor/reminder.go actor/reminder_native.go actor/reminder_wasm.go actor/state.go actor/timer.go actor/timer_native.go
//go:embed actor/timer_wasm.go actor/turn.go actor/turns_native.go actor/turns_wasm.go actor/subscribe.go actor/subscribe_native.go actor/subscribe_wasm.go actor/watch.go actor/watch_native.go actor/watch_wasm.go
//go:embed actor/config/config.go actor/config/host_native.go actor/config/host_wasm.go
//go:embed actor/http/host_native.go actor/http/host_wasm.go actor/http/http.go
//go:embed actortest/actortest.go actortest/capabilities.go actortest/chain.go actortest/children.go actortest/events.go actortest/host.go actortest/life.go actortest/messages.go actortest/overlay.go actortest/turn.go
//go:embed actortest/reminders.go actortest/subscriptions.go actortest/timers.go actortest/variables.go actortest/watches.go
//go:embed protobuf/append.go protobuf/doc.go protobuf/reader.go
//go:embed internal/bridge/bridge.go internal/bridge/fill.go
//go:embed internal/jsonplan/append.go internal/jsonplan/decode.go internal/jsonplan/doc.go internal/jsonplan/plan.go
//go:embed internal/reminder/reminder.go
var Source embed.FS

// WriteTo writes both modules below root, in [Dir] and [ABIDir], making folders as
// needed. It refuses to overwrite: a file that exists is an error that wraps
// [os.ErrExist].
func WriteTo(root string) error {
	if err := os.CopyFS(filepath.Join(root, filepath.FromSlash(ABIDir)), abi.Source); err != nil {
		return fmt.Errorf("write the source of %s: %w", ABIModule, err)
	}
	if err := os.CopyFS(filepath.Join(root, filepath.FromSlash(Dir)), Source); err != nil {
		return fmt.Errorf("write the source of %s: %w", Module, err)
	}
	return nil
}
