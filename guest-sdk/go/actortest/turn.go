package actortest

import (
	"fmt"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/guest-sdk/go/actor"
)

// Limits of a host that was not told others.
const (
	defaultStateBytes   = 1 << 20
	defaultPayloadBytes = 4 << 20
)

// row is the stored state of one actor; an actor that was called and stored
// nothing has one of version 0, for its revision.
type row struct {
	version  uint64
	revision uint64
	schema   uint32
	state    map[string]value

	set     string // of methods that are accepted; empty: all
	spawned bool
	created bool // the hook has run, or the state was there before
}

// cause is what asks for a turn that nobody calls. Without a kind, the actor leaves.
type cause struct {
	kind            uint8
	name            string
	due             time.Time
	attempt, missed uint32
	metadata        []abi.Header
	firing          *firing       // of a reminder
	message         *message      // of a message
	event           *subscription // whose event it is
}

func limitOr(limit int64, otherwise int) int {
	if limit == 0 {
		return otherwise
	}
	return int(limit)
}

func tooLarge(status actor.Status, what string, size, limit int) *actor.Error {
	return actor.NewError(status, what+"_too_large", fmt.Sprintf("the %s has %d bytes; at most %d are allowed", what, size, limit))
}
