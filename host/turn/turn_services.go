package turn

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"strconv"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine"
)

// maxServices is how many services a turn may claim and release.
const maxServices = 64

// ServiceClaim implements [engine.Calls].
func (t *Turn) ServiceClaim(name []byte) abi.Code {
	_, code := t.changeService(string(name), false)
	return code
}

// ServiceRelease implements [engine.Calls].
func (t *Turn) ServiceRelease(name []byte) (held bool, code abi.Code) {
	return t.changeService(string(name), true)
}

// changeService claims or releases a service, and reports whether the actor stood for it.
func (t *Turn) changeService(name string, release bool) (held bool, code abi.Code) {
	if code := cmp.Or(t.mayLive(), mayKeep(t)); code != 0 {
		return false, code
	}
	if t.env.Services == nil {
		return false, t.refuse(abi.CodeNotReady, "this host has no services")
	}
	if err := actor.ValidateService(name); err != nil {
		return false, t.refuse(abi.CodeInvalid, err.Error())
	}
	changes := &t.done.Life.Services
	if at := slices.IndexFunc(*changes, func(v actor.ServiceChange) bool { return v.Name == name }); at >= 0 {
		v := &(*changes)[at]
		held, v.Release = !v.Release, release
		return held, 0
	}
	if len(*changes) == maxServices {
		return false, t.refuse(abi.CodeTooMany, fmt.Sprintf("a turn may claim and release %d services", maxServices))
	}
	// An earlier turn of the actor may have changed it, and not be committed yet.
	if err := t.spec.Leaver.Await(); err != nil {
		t.fault = err
		return false, t.refuse(abi.CodeNotReady, "the turn is to run again")
	}
	var found actor.Service
	var err error
	engine.Outside(t.ctx, func() { found, err = t.env.Services.FindService(t.ctx, t.spec.Key.App, name) })
	switch {
	case err != nil:
		t.Log(int32(slog.LevelWarn), "cannot read the service "+strconv.Quote(name)+" now: "+err.Error())
		return false, t.refuse(abi.CodeNotReady, "the host cannot read services now")
	case found.Name != "" && found.Actor != t.spec.Key && !release:
		return false, t.refuse(abi.CodeTaken, fmt.Sprintf("%s %s stands for the service %q", found.Actor.Type, found.Actor.ID, name))
	}
	if other := t.spec.Leaver.ChangedService(name); other != nil && !release {
		return false, t.refuse(abi.CodeTaken, fmt.Sprintf("%s %s has claimed the service %q in this transaction", other.Type, other.ID, name))
	}
	if held = found.Name != "" && found.Actor == t.spec.Key; release && !held {
		return false, 0
	}
	*changes = append(*changes, actor.ServiceChange{Name: name, Actor: t.spec.Key, Release: release})
	return held, 0
}

// resolve puts the actor that stands for the service of a message in its place.
func (t *Turn) resolve(m *abi.Message) abi.Code {
	if t.env.Services == nil {
		return t.refuse(abi.CodeNotReady, "this host has no services")
	}
	if m.Type != "" || m.ID != "" {
		return t.refuse(abi.CodeInvalid, "a message names an actor or a service; give one of them")
	}
	if err := actor.ValidateService(m.Service); err != nil {
		return t.refuse(abi.CodeInvalid, err.Error())
	}
	found, err := t.env.Services.Resolve(t.ctx, t.spec.Key.App, m.Service)
	switch {
	case err != nil:
		t.Log(int32(slog.LevelWarn), "cannot read the service "+strconv.Quote(m.Service)+" now: "+err.Error())
		return t.refuse(abi.CodeNotReady, "the host cannot read services now")
	case found.Name == "":
		return t.refuse(abi.CodeNotFound, fmt.Sprintf("no actor stands for the service %q", m.Service))
	}
	m.Type, m.ID, m.Service = found.Actor.Type, found.Actor.ID, ""
	return 0
}
