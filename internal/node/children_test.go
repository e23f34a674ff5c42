package node_test

import (
	"path/filepath"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/greenroom-run/greenroom/internal/guestbuild"
)

// await calls until the reply is as it should be.
func (r *running) await(t *testing.T, typ, id, method, payload, want string) {
	t.Helper()
	for got := ""; got != want; {
		var err error
		if got, err = r.call(t.Context(), "", typ, id, method, payload); err != nil {
			t.Fatalf("%s, want %s: %v", method, want, err)
		}
	}
}

// TestChildrenOfActors: actors of Wasm guests have volatile children, which they tell and call, and which tell them. A
// child is not there for callers from outside.
func TestChildrenOfActors(t *testing.T) {
	for dir, toolchain := range map[string]string{"crew": guestbuild.Go, "crew-rust": guestbuild.Cargo} {
		t.Run(dir, func(t *testing.T) {
			onStores(t, func(t *testing.T, r *running, _ *turnEnds) {
				r.deploy(t, "", build(t, filepath.Join("testdata", dir), toolchain))
				for i, shared := range []string{"false", "true"} {
					r.mustCall(t, "", "Foreman", "f", "Hire", shared, []string{"1", "2"}[i])
					r.await(t, "Foreman", "f", "Ask", "0", "1") // once it was told
				}
				r.mustCall(t, "", "Foreman", "f", "Ask", "2", "3")
				if _, err := r.call(t.Context(), "", "Foreman", "f", "AskAndFail", "5"); err == nil || !strings.Contains(err.Error(), "the helpers had 8") {
					t.Errorf("it failed with %v", err)
				}
				r.mustCall(t, "", "Foreman", "f", "Ask", "0", "3")
				if _, err := r.call(t.Context(), "", "Foreman", "f", "Report", ""); err != nil {
					t.Fatal(err)
				}
				r.await(t, "Foreman", "f", "View", "", "6")
				for _, id := range []string{"\x01a.b", "\x02a.b", "\x01"} {
					if _, err := r.call(t.Context(), "", "Helper", id, "Add", "1"); connect.CodeOf(err) != connect.CodeInvalidArgument {
						t.Errorf("a call of %q from outside: %v", id, err)
					}
				}
			})
		})
	}
}
