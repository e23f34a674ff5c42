package server

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/server/dapr"
	"github.com/greenroom-run/greenroom/server/edge"
	"github.com/greenroom-run/greenroom/server/failure"
)

// oddIDs must mean themselves everywhere.
var oddIDs = []string{
	"a", "a/b", "/", "//", "a//b", "..", ".", "../..", "a/../b", "a b", " ", "+", "a+b", "%", "%2F", "a%2Fb", "%25",
	"||", "a||b||state", "?", "a?b=c", "#", "a#b", ";", "&=", "method", "x/method/Get", "é", "日本", "🎭", "\u00a0", "\\",
	"\"", "'", "<script>", "a:b@c", "~", "*", strings.Repeat("x", actor.MaxIDLen), strings.Repeat("🎭", actor.MaxIDLen/4),
}

func TestActorPathRoundTrip(t *testing.T) {
	for _, id := range oddIDs {
		key := actor.Key{App: "a.b-c_1", Type: "T", ID: id}
		got, method, err := dapr.ParseActorPath(actorPath(key, "Get"))
		if err != nil || got != key || method != "Get" {
			t.Errorf("%q: got %v %q, %v", id, got, method, err)
		}
	}
}

func TestParseActorPath(t *testing.T) {
	tests := []struct {
		path string
		err  string // a part of it
		kind string
	}{
		{"", "nothing at", "path_not_found"},
		{"/", "nothing at", "path_not_found"},
		{"/v2.0/actors", "nothing at", "path_not_found"},
		{"/v2.0/actors/", "not of the form", "path_not_found"},
		{"/v2.0//actors/a/T/i/method/M", "nothing at", "path_not_found"},
		{"/v2.0/actors/a/T/i/method", "not of the form", "path_not_found"},
		{"/v2.0/actors/a/T/i/state/M", "not of the form", "path_not_found"},
		{"/v2.0/actors/a/T/i/method/M/", "more segments", "path_not_found"},
		{"/v2.0/actors/a/T/i/j/method/M", "%2F", "path_not_found"},
		{"/v2.0/actors/a/T/../method/M/", "more segments", "path_not_found"},
		{"/v2.0/actors//T/i/method/M", "app is empty", "invalid_argument"},
		{"/v2.0/actors/a//i/method/M", "actor type is empty", "invalid_argument"},
		{"/v2.0/actors/a/T//method/M", "actor id is empty", "invalid_argument"},
		{"/v2.0/actors/a/T/i/method/", "method is empty", "invalid_argument"},
		{"/v2.0/actors/a/T/%zz/method/M", "not percent-encoded", "invalid_argument"},
		{"/v2.0/actors/a/T/%0A/method/M", "control character", "invalid_argument"},
		{"/v2.0/actors/a/T/%00/method/M", "control character", "invalid_argument"},
		{"/v2.0/actors/a/T/%FF/method/M", "UTF-8", "invalid_argument"},
		{"/v2.0/actors/a%2Fb/T/i/method/M", "app has the character", "invalid_argument"},
		{"/v2.0/actors/a/T/i/method/M%2FN", "method has the character", "invalid_argument"},
		{"/v2.0/actors/a/T/" + strings.Repeat("x", 513) + "/method/M", "at most 512", "invalid_argument"},
	}
	for _, tt := range tests {
		_, _, err := dapr.ParseActorPath(tt.path)
		if err == nil {
			t.Errorf("%q was accepted", tt.path)
			continue
		}
		if f := failure.Of(err, false); f.Detail.GetKind() != tt.kind || !strings.Contains(f.Message, tt.err) {
			t.Errorf("%q: %s: %s", tt.path, f.Detail.GetKind(), f.Message)
		}
	}
}

// FuzzActorPath: any path is either refused with a typed error, or means exactly
// what its canonical form means.
func FuzzActorPath(f *testing.F) {
	for _, id := range oddIDs {
		f.Add("/v2.0/actors/default/Counter/" + url.PathEscape(id) + "/method/Get")
		f.Add("/v2.0/actors/default/Counter/" + id + "/method/Get")
	}
	f.Fuzz(func(t *testing.T, path string) {
		key, method, err := dapr.ParseActorPath(path)
		if err != nil {
			var argument *actor.ArgumentError
			var request *failure.Error
			if !errors.As(err, &argument) && !errors.As(err, &request) {
				t.Fatalf("%q: untyped error %v", path, err)
			}
			return
		}
		if err := key.Validate(); err != nil {
			t.Fatalf("%q: accepted an invalid key: %v", path, err)
		}
		again, method2, err := dapr.ParseActorPath(actorPath(key, method))
		if err != nil || again != key || method2 != method {
			t.Fatalf("%q: canonical form is %v.%s, %v", path, again, method2, err)
		}
		if strings.Count(path, "/") != 7 {
			t.Fatalf("%q: accepted with another number of segments", path)
		}
	})
}

// actorPath is the inverse of ParseActorPath.
func actorPath(key actor.Key, method string) string {
	return edge.ActorsPrefix + url.PathEscape(key.App) + "/" + url.PathEscape(key.Type) + "/" +
		url.PathEscape(key.ID) + "/method/" + url.PathEscape(method)
}
