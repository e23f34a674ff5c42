package reminders

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/modules"
	"github.com/greenroom-run/greenroom/scheduler/reminder"
)

const (
	// MaxBody holds the largest payload and metadata, escaped as JSON, in bytes.
	MaxBody = 512 << 10
	// PayloadPage is how many reminders of a page come with payloads: each may have some
	// 70 KiB.
	PayloadPage = 50
)

// MissedNames are the missed policies as people write them.
var MissedNames = map[actor.MissedKind]string{actor.MissedCollapse: "collapse", actor.MissedSkip: "skip", actor.MissedCatchUp: "catchup"}

// Setter sets and deletes reminders, for both forms of the API.
type Setter struct {
	Reminders Store
	Types     Types
	// MayDeploy reports whether who asks may deploy, and so set reminders for private
	// methods as well: what an actor has set and an operator imports.
	MayDeploy func(ctx context.Context) bool
}

// Store keeps reminders.
type Store interface {
	Set(ctx context.Context, spec actor.ReminderSpec) (actor.Reminder, reminder.Outcome, error)
	Get(ctx context.Context, name actor.ReminderName) (actor.Reminder, error)
	Cancel(ctx context.Context, names []actor.ReminderName) error
}

// Types says what serves a type.
type Types interface {
	Types(ctx context.Context, app string) ([]modules.ServedType, error)
	Current(app, typ string) (actor.Deployment, *abi.TypeSpec, error)
}

// Set sets a reminder whose type is served and has its method, or that is for
// subscribers.
func (s Setter) Set(ctx context.Context, spec actor.ReminderSpec) (actor.Reminder, reminder.Outcome, error) {
	if err := spec.Validate(); err != nil {
		return actor.Reminder{}, 0, err
	}
	if !spec.Key.IsSubscription() {
		if err := s.checkMethod(ctx, spec.Key, spec.Method); err != nil {
			return actor.Reminder{}, 0, err
		}
	}
	return s.Reminders.Set(ctx, spec)
}

// checkMethod reports a type that is not served, or that has no such method for firings.
func (s Setter) checkMethod(ctx context.Context, key actor.Key, method string) error {
	if _, spec, err := s.Types.Current(key.App, key.Type); err == nil &&
		slices.ContainsFunc(spec.Methods, func(m abi.MethodSpec) bool { return m.Name == method && !m.ReadOnly && !m.Private }) {
		return nil
	}
	types, err := s.Types.Types(ctx, key.App) // it may have been deployed elsewhere a moment ago
	if err != nil {
		return err
	}
	fails := func(err error) error { return &actor.TurnError{Key: key, Method: method, Err: err} }
	for _, t := range types {
		if t.Spec.Name != key.Type {
			continue
		}
		names := make([]string, len(t.Spec.Methods))
		for i, m := range t.Spec.Methods {
			if names[i] = m.Name; m.ReadOnly {
				names[i] += " (read-only)"
			}
			switch {
			case m.Name != method:
			case m.ReadOnly:
				return fails(&actor.ArgumentError{Field: "reminder method", Problem: method + " is read-only, and a firing changes its actor; name another method"})
			case m.Private && !s.MayDeploy(ctx):
				return fails(fmt.Errorf("%w: only actors of the app, and tokens with the role deploy, set reminders for %s.%s", actor.ErrMethodPrivate, key.Type, method))
			default:
				return nil
			}
		}
		return fails(fmt.Errorf("%w: type %s has no method %s; its methods are %s", actor.ErrMethodNotFound, key.Type, method, strings.Join(names, ", ")))
	}
	return fails(fmt.Errorf("%w: app %s has no type %s; deploy a module that declares it, or check the name", actor.ErrTypeNotFound, key.App, key.Type))
}

// Remove removes one reminder, and reports whether it was there.
func (s Setter) Remove(ctx context.Context, name actor.ReminderName) (existed bool, err error) {
	if _, err := s.Reminders.Get(ctx, name); err != nil {
		if cond := actor.AsCondition(err); cond == actor.ErrReminderNotFound {
			return false, nil
		} else if cond != actor.ErrStateDamaged {
			return false, err
		}
	}
	return true, s.Reminders.Cancel(ctx, []actor.ReminderName{name})
}

// ErrNoPeriod refuses a reminder that is to be periodic without a period.
var ErrNoPeriod = &actor.ArgumentError{Field: "reminder period", Problem: fmt.Sprintf("is 0; give at least %v, or leave it out for a reminder that fires once", actor.MinPeriod)}

// EndAfter is the end of a reminder that lives for so long from now on.
func EndAfter(ttl time.Duration, now time.Time) (time.Time, error) {
	if ttl <= 0 {
		return time.Time{}, &actor.ArgumentError{Field: "reminder time to live", Problem: fmt.Sprintf("is %v; give more than 0, or leave it out", ttl)}
	}
	return now.Add(ttl), nil
}

// ErrNoTime refuses a time of the named field that no reminder can have.
func ErrNoTime(field string) error {
	return &actor.ArgumentError{Field: field, Problem: "is no time after the beginning of the year 1 and before the year 10000; give one"}
}
