package actor

import (
	"fmt"

	"github.com/greenroom-run/greenroom/abi"
)

// ErrInvalidWatch is a watch that cannot be; its message says what to change.
var ErrInvalidWatch = NewError(StatusInvalidArgument, "invalid_watch", "the watch cannot be")

// Why a watch has ended: Failed of a [Cause] of the kind [CauseDisconnected], or [CauseServices].
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
// Watching for the same actor again begins anew. An actor has at most 100 watches
// ([ErrTooMany]); [ErrNotReady]: it is not known now which host holds the other actor.
//
//	actor.WatchHost(ctx, actor.Ref{Type: "Player", ID: "ann"}, "Lost")
func WatchHost(ctx *Context, of Ref, method string) error {
	if method == "" {
		return watchFault("the host of "+of.String(), errNoMethod())
	}
	_, err := watchHost(ctx, of, method)
	return err
}

// UnwatchHost ends the watch that [WatchHost] began for another actor, and reports whether there
// was one.
func UnwatchHost(ctx *Context, of Ref) (watched bool, err error) { return watchHost(ctx, of, "") }

func watchHost(ctx *Context, of Ref, method string) (bool, error) {
	return watched(ctx, "the host of "+of.String(), hostWatch(ctx, of, method))
}

// Services is the input of a method that [WatchService] names: the actors that stand for the watched
// services, in byte order of the names, 256 at most.
type Services struct {
	Services []NamedActor `json:"services"`
	// More reports whether the group has other services, which come later and are not watched.
	More bool `json:"more,omitempty"`
}

// NamedActor is an actor that stands for a service.
type NamedActor struct {
	// Name is that of the service.
	Name string `json:"name"`
	Type string `json:"type"`
	ID   string `json:"id"`
}

// Ref is the address of the actor.
func (n NamedActor) Ref() Ref { return Ref{Type: n.Type, ID: n.ID} }

// WatchService has the actor watch who stands for a service ([Claim]), or, if the name ends in a
// slash, for any service whose name begins with it. A method of the actor runs at once and whenever
// that has changed, with [Services] as input: the whole list, which replaces the one before. Its
// [Cause] has the kind [CauseServices] and the watched name in Name. The first list has what the turn
// has claimed, and a change is seen within about a second. While the method waits or runs there is no
// other list for the actor, and then the newest: it may miss what was there for a moment.
//
// When the actor has moved to another host, which ends the watch, the method runs once more, with an
// empty list and [WatchMoved] in Failed of its Cause: it may watch anew.
//
// A watch is kept in memory alone. It begins with the end of the turn, and none begins if the turn
// fails. It ends unsaid with [UnwatchService], with [PassAway], and with the host of the actor. Watching
// the same name again changes the method alone. An actor has at most 100 watches ([ErrTooMany]);
// [ErrNotReady]: the host follows as many names as it can.
//
//	actor.WatchService(ctx, "workers/", "Workers")
func WatchService(ctx *Context, name, method string) error {
	if method == "" {
		return watchFault(Service(name).String(), errNoMethod())
	}
	_, err := watchService(ctx, name, method)
	return err
}

// UnwatchService ends the watch that [WatchService] began for a name, and reports whether there was
// one. A list that is on its way may still come.
func UnwatchService(ctx *Context, name string) (watched bool, err error) {
	return watchService(ctx, name, "")
}

func watchService(ctx *Context, name, method string) (bool, error) {
	return watched(ctx, Service(name).String(), serviceWatch(ctx, name, method))
}

// watched is what a host function for watches has answered.
func watched(ctx *Context, of string, result int32) (bool, error) {
	switch code := abi.Code(result); {
	case code >= 0:
		return code == 1, nil
	case code == abi.CodeInvalid:
		return false, watchFault(of, ErrInvalidWatch.Messagef("%s", or(problem(ctx), ErrInvalidWatch.Message)))
	default:
		return false, watchFault(of, effectError(ctx, code))
	}
}

func errNoMethod() error { return ErrInvalidWatch.Messagef("it names no method") }

func watchFault(of string, err error) error { return fmt.Errorf("watch %s: %w", of, err) }
