package turn

import (
	"cmp"
	"log/slog"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine"
)

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
	switch {
	case method == "":
	case w.Services == nil:
		return false, t.refuse(abi.CodeNotReady, "this host has no services")
	case !w.Services.CanFollow(w.Of.App, watchedServices(t, name)):
		return false, t.refuse(abi.CodeNotReady, "actors of this host watch as many services as it follows; try again later, or have them watch the same groups")
	}
	return watch(t, w)
}

// watchedServices returns the services that the turn's actor watches, and one more. The host does not follow
// those yet which the turn, or an earlier one that is not committed, has begun to watch.
func watchedServices(t *Turn, more string) []string {
	names := []string{more}
	for of := range t.done.Timers.watchedBy(t.env.Timers, t.spec.Key) {
		if of.Type == "" && of.ID != more {
			names = append(names, of.ID)
		}
	}
	return names
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
