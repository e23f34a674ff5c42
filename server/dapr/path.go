package dapr

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/server/edge"
	"github.com/greenroom-run/greenroom/server/failure"
)

// What there is below an actor's path.
const (
	resourceMethod    = "method"
	resourceReminders = "reminders"
	resourceTimers    = "timers"
	resourceSend      = "send"
)

// resourceOf returns the segment that says what of an actor a path is about; empty for
// a path that is about none.
func resourceOf(escaped string) string {
	rest, _ := strings.CutPrefix(escaped, edge.ActorsPrefix)
	parts := strings.SplitN(rest, "/", 5)
	if len(parts) == 5 || len(parts) == 4 && parts[3] == resourceReminders {
		return parts[3]
	}
	return ""
}

// ParseActorPath reads /v2.0/actors/APP/TYPE/ID/method/METHOD from a path as it
// was sent, each segment percent-encoded on its own. Nothing is cleaned: a dot,
// a slash in an ID (%2F) and an empty segment are what they are. An app cannot be
// left out here, since intermediaries merge the slashes around an empty segment.
//
// A path of another shape is a [*Error] of kind path_not_found, a segment
// that breaks its grammar an [*actor.ArgumentError].
func ParseActorPath(escaped string) (key actor.Key, method string, err error) {
	if key, method, err = parsePath(escaped, resourceMethod); err != nil {
		return key, "", err
	}
	return key, method, actor.ValidateName("method", method)
}

// parsePath does the same for a resource of an actor, with its name.
func parsePath(escaped, resource string) (key actor.Key, name string, err error) {
	rest, ok := strings.CutPrefix(escaped, edge.ActorsPrefix)
	if !ok {
		return key, "", edge.ErrNoPath(escaped)
	}
	var segments [5]string
	n := 0
	for more := true; more; n++ {
		if n == len(segments) {
			return key, "", &failure.Error{Kind: failure.KindPathNotFound,
				Text: "the path has more segments than " + edge.ActorsShape + "; write a slash inside an ID as %2F"}
		}
		segments[n], rest, more = strings.Cut(rest, "/")
	}
	all := resource == resourceReminders && n == len(segments)-1 // without a name
	if n < len(segments) && !all || segments[3] != resource {
		return key, "", &failure.Error{Kind: failure.KindPathNotFound, Text: "the path is not of the form " + edge.ActorsShape}
	}
	for i, s := range segments {
		if segments[i], err = url.PathUnescape(s); err != nil {
			return key, "", &actor.ArgumentError{Field: "path", Problem: fmt.Sprintf("has the segment %q, which is not percent-encoded", s)}
		}
	}
	key = actor.Key{App: segments[0], Type: segments[1], ID: segments[2]}
	return key, segments[4], key.Validate()
}

// asksForSeveral reports whether a path has an app alone.
func asksForSeveral(escaped string) bool {
	app, ok := strings.CutPrefix(escaped, edge.ActorsPrefix)
	return ok && app != "" && !strings.Contains(app, "/")
}
