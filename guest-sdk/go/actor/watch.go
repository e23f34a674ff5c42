package actor

import (
	"fmt"

	"github.com/greenroom-run/greenroom/abi"
)

// ErrInvalidWatch is a watch that cannot be; its message says what to change.
var ErrInvalidWatch = NewError(StatusInvalidArgument, "invalid_watch", "the watch cannot be")

// Why a watch has ended: Failed of a [Cause] of the kind [CauseDisconnected].
const (
	WatchDisconnected = abi.WatchDisconnected
	WatchMoved        = abi.WatchMoved
)

// WatchHost has the actor watch the host that holds another actor at this moment. A method of the
// actor runs once, without input, when the session to that host has broken or the host is gone
// ([WatchDisconnected]), or when this actor has moved to another host, which ends the watch as well
// ([WatchMoved]). Its [Cause] has the kind [CauseDisconnected], the other actor in From, and one of
// these two in Failed. If messages that the turn tells the other actor from here on are lost with
// that host, the method runs.
//
// A watch is kept in memory alone. It begins with the end of the turn, and none begins if the turn
// fails. It ends unsaid with [UnwatchHost], with [PassAway], and with the host of the actor itself.
// Watching for the same actor again begins anew. An actor watches for at most 100 others
// ([ErrTooMany]); [ErrNotReady]: it is not known now which host holds the other actor.
//
//	actor.WatchHost(ctx, actor.Ref{Type: "Player", ID: "ann"}, "Lost")
func WatchHost(ctx *Context, of Ref, method string) error {
	if method == "" {
		return watchFault(of, ErrInvalidWatch.Messagef("it names no method"))
	}
	_, err := watchHost(ctx, of, method)
	return err
}

// UnwatchHost ends the watch that [WatchHost] began for another actor, and reports whether there
// was one.
func UnwatchHost(ctx *Context, of Ref) (watched bool, err error) { return watchHost(ctx, of, "") }

func watchHost(ctx *Context, of Ref, method string) (bool, error) {
	result := hostWatch(ctx, of, method)
	switch code := abi.Code(result); {
	case code >= 0:
		return code == 1, nil
	case code == abi.CodeInvalid:
		return false, watchFault(of, ErrInvalidWatch.Messagef("%s", or(problem(ctx), ErrInvalidWatch.Message)))
	default:
		return false, watchFault(of, effectError(ctx, code))
	}
}

func watchFault(of Ref, err error) error { return fmt.Errorf("watch the host of %s: %w", of, err) }
