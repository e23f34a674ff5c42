package edge

import (
	"fmt"
	"math"

	"github.com/greenroom-run/greenroom/actor"
)

// Unbounded is the size of a body without a limit.
const Unbounded = math.MaxInt64 >> 1

// ErrPayloadTooLarge names the limit of the payloads of actors, and what sets it.
func ErrPayloadTooLarge(limit int64) error {
	return fmt.Errorf("%w of %d bytes, by --max-payload or --limit APP/TYPE:max-payload=… of the server", actor.ErrPayloadTooLarge, limit)
}

// ErrMessageTooLarge names the limit of a message, which no setting changes by itself.
func ErrMessageTooLarge(limit int64) error {
	return fmt.Errorf("%w of %d bytes for one message; send less in one", actor.ErrPayloadTooLarge, limit)
}

// ErrModuleTooLarge names the limit of a module, and the flag that sets it.
func ErrModuleTooLarge(limit int64) error {
	return fmt.Errorf("%w of %d bytes, by --max-module of the server", actor.ErrModuleTooLarge, limit)
}
