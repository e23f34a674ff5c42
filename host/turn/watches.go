package turn

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine"
)

// Hosts says which host holds an actor. Its methods may be called concurrently.
type Hosts interface {
	// Session returns a context that ends when the session to the host breaks that holds an
	// actor now, or cannot be opened, or when that host is gone; nil if that is this host. It
	// waits until the holder is known, at most until ctx ends.
	Session(ctx context.Context, key actor.Key) (context.Context, error)
}

// Followers follows services for the watches of actors. Its methods may be called concurrently.
type Followers interface {
	// CanFollow reports whether this host follows a service or a group already, or has room for more
	// names of the app. It reserves none, so concurrent turns may exceed the bound by a few names.
	CanFollow(app, service string, more int) bool
	// Watch has heard called with who stands for a service or a group, as abi/SPEC.md has it: soon,
	// and when that has changed, by one goroutine at a time, until Stop. The list is shared and
	// read-only. Watch does not call heard itself.
	Watch(app, service string, heard func(list []byte)) Following
}

// Following is what [Followers.Watch] has begun. Its methods do not wait for heard.
type Following interface {
	// Again has heard called once more, within a second or so.
	Again()
	// Stop ends it: a call of heard that has begun ends later.
	Stop()
}

// WatchEffect is what a turn does to one watch of its actor.
type WatchEffect struct {
	Of       actor.Key       // an actor that the watched host holds; without a type: services of this name
	Method   string          // empty: the watch ends
	Session  context.Context //nolint:containedctx // as [Hosts.Session] returned it
	Services Followers       // nil for a host
}

// Size is what the watch takes in memory beside a fixed part, in bytes.
func (w *WatchEffect) Size() int64 { return int64(len(w.Of.ID) + len(w.Method)) }

// watch gathers what is done to one watch of an actor, and reports whether there was one. refused
// says why it may not be.
func (c *TimerChanges) watch(by Timers, key actor.Key, w WatchEffect) (replaced bool, refused *TimerRefusal) {
	if c.watched == nil {
		c.watched = by.Watched(key)
	}
	_, replaced = c.watched[w.Of]
	switch {
	case w.Method == "" && !replaced:
		return false, nil
	case w.Method == "":
		delete(c.watched, w.Of)
	case !replaced && len(c.watched) >= actor.MaxWatches:
		return false, &TimerRefusal{abi.CodeTooMany, fmt.Sprintf("an actor watches at most %d hosts and services; end a watch, or have another actor watch", actor.MaxWatches)}
	case !by.Room(key.App, 1+len(c.watches), w.Size()):
		return false, &TimerRefusal{abi.CodeNotReady, "the timers and watches of this app take all the memory that the host gives them; try again later"}
	default:
		c.watched[w.Of] = struct{}{}
	}
	c.watches = append(c.watches, w)
	return replaced, nil
}

// Watches returns what is to be done to watches, in this order.
func (c *TimerChanges) Watches() []WatchEffect { return c.watches }

// HostWatch implements [engine.Calls].
func (t *Turn) HostWatch(typ, id, method string) (replaced bool, code abi.Code) {
	if code := cmp.Or(t.mayTime(), mayKeep(t)); code != 0 {
		return false, code
	}
	w := WatchEffect{Of: actor.Key{App: t.spec.Key.App, Type: typ, ID: id}, Method: method}
	if code := mayWatch(t, w.Of.Validate(), method); code != 0 {
		return false, code
	}
	if method != "" && t.env.Hosts != nil {
		var err error
		engine.Outside(t.ctx, func() { w.Session, err = t.env.Hosts.Session(t.ctx, w.Of) })
		if err != nil {
			t.Log(int32(slog.LevelWarn), "cannot watch the host of "+typ+" "+id+" now: "+err.Error())
			return false, t.refuse(abi.CodeNotReady, "it is not known now which host holds the actor")
		}
	}
	return watch(t, w)
}

// ServiceWatch implements [engine.Calls].
func (t *Turn) ServiceWatch(name, method string) (replaced bool, code abi.Code) {
	if code := cmp.Or(t.mayTime(), mayKeep(t)); code != 0 {
		return false, code
	}
	w := WatchEffect{Of: actor.Key{App: t.spec.Key.App, ID: name}, Method: method, Services: t.env.Followers}
	if code := mayWatch(t, actor.ValidateService(name), method); code != 0 {
		return false, code
	}
	more := 1
	for i := range t.done.Timers.watches {
		if t.done.Timers.watches[i].Services != nil {
			more++
		}
	}
	switch {
	case method == "":
	case w.Services == nil:
		return false, t.refuse(abi.CodeNotReady, "this host has no services")
	case !w.Services.CanFollow(w.Of.App, name, more):
		return false, t.refuse(abi.CodeNotReady, "actors of this host watch as many services as it follows; try again later, or have them watch the same groups")
	}
	return watch(t, w)
}

// mayWatch says why a turn may not watch, 0 if it may. of is what is wrong with the name that it watches.
func mayWatch(t *Turn, of error, method string) abi.Code {
	if of != nil {
		return t.refuse(abi.CodeInvalid, of.Error())
	}
	if method == "" {
		return 0
	}
	if problem := t.spec.Methods.MethodProblem("watch", method); problem != "" {
		return t.refuse(abi.CodeInvalid, problem)
	}
	return 0
}

// watch adds what a turn does to a watch.
func watch(t *Turn, w WatchEffect) (replaced bool, code abi.Code) {
	replaced, refused := t.done.Timers.watch(t.env.Timers, t.spec.Key, w)
	if refused != nil {
		return false, t.refuse(refused.Code, refused.Problem)
	}
	return replaced, 0
}
