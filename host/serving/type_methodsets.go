package serving

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/residency"
)

// Accepts says why an actor with the row l does not take a method now: [actor.ErrPassedAway] or
// [actor.ErrNotAccepted]. A firing of a reminder or of a timer runs whatever method it names. f is
// the firing of a reminder or a message; nil: none asks for the turn.
func (s *Type) Accepts(m *Method, l *residency.Row, cause actor.Cause, f *actor.Firing) error {
	switch {
	case f != nil && f.Message != nil && f.SentAt.Before(l.Born):
		return &actor.ReasonError{Condition: actor.ErrPassedAway, Reason: "it has passed away since the message was sent"}
	case l.Dead():
		return &actor.ReasonError{Condition: actor.ErrPassedAway, Reason: "it was spawned, and its life is over"}
	case s.spawnOnly && !l.Exists:
		return &actor.ReasonError{Condition: actor.ErrPassedAway, Reason: "an actor of the type " + s.Deployment.Type + " exists only once another one has spawned it"}
	case l.MethodSet == "" || len(m.Sets) == 0 || slices.Contains(m.Sets, l.MethodSet) || cause == actor.CauseFiring || cause == actor.CauseTimer || cause == actor.CauseUndelivered || cause == actor.CauseNotice:
		return nil
	}
	if _, known := s.sets[l.MethodSet]; !known {
		return &actor.ReasonError{Condition: actor.ErrNotAccepted, Reason: fmt.Sprintf("it has the method set %q, which no method of the deployed module is in", l.MethodSet)}
	}
	var names []string
	for name, other := range s.methods {
		// Whoever calls a private method may call all; others are told what they may call.
		if (m.Private || !other.Private) && (len(other.Sets) == 0 || slices.Contains(other.Sets, l.MethodSet)) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return &actor.ReasonError{Condition: actor.ErrNotAccepted, Reason: fmt.Sprintf("%s is in the set %q; the actor is in %q, which takes %s",
		m.Name, strings.Join(m.Sets, ", "), l.MethodSet, cmp.Or(few(names), "no calls from outside"))}
}

// SetProblem implements [turn.Methods].
func (s *Type) SetProblem(set string) string {
	if _, ok := s.sets[set]; ok || set == "" {
		return ""
	}
	if len(s.sets) == 0 {
		return fmt.Sprintf("no method of the type %s is in a method set", s.Deployment.Type)
	}
	return fmt.Sprintf("no method of the type %s is in the method set %q; there are %s", s.Deployment.Type, set, few(slices.Sorted(maps.Keys(s.sets))))
}

// Creation returns the hook that is to run before the first turn of an actor with the row l;
// empty: none is. A state, even an empty one, shows that it has run.
func (s *Type) Creation(l *residency.Row) string {
	if l.State.Format() != actor.FormatNone {
		return ""
	}
	return s.Hooks.Created
}
