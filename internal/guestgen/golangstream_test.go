package guestgen_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/greenroom-run/greenroom/internal/guestgen"
)

// A streaming rpc becomes a function that publishes, and no method; what only its request has is for
// the server.
func TestGoOfStreams(t *testing.T) {
	dir := t.TempDir()
	const text = `syntax = "proto3";
message Ask { string id = 1; }
message Event { int32 n = 1; }
service S {
  // Watch shows what happens.
  rpc watch_it(Ask) returns (stream Event);
}`
	if err := os.WriteFile(filepath.Join(dir, "a.proto"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	code, err := guestgen.Go(load(t, dir, "a.proto", "id"), "p")
	if err != nil {
		t.Fatal(err)
	}
	got := string(code)
	for _, want := range []string{
		"// Watch shows what happens.\nfunc PublishWatchIt(ctx *actor.Context, event Event) error {\n\treturn actor.Publish(ctx, \"watch_it\", event)\n}",
		"SActor has a method for each rpc of S that returns one message.", "type Event struct",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the code has no %q:\n%s", want, got)
		}
	}
	for _, absent := range []string{"actor.Method(", "actor.ReadOnly(", "actor.Call[", "type Ask struct"} {
		if strings.Contains(got, absent) {
			t.Errorf("the code has %q:\n%s", absent, got)
		}
	}
}
