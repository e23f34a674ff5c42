package node_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"connectrpc.com/connect"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/internal/guestbuild"
	"github.com/greenroom-run/greenroom/internal/node"
)

// TestGuestThatReachesMethodsByName deploys a guest whose linker keeps all methods
// there are. What it does not use it must not import all the same: a host refuses
// capabilities that no type declares, and knows no functions that are to come.
func TestGuestThatReachesMethodsByName(t *testing.T) {
	for _, toolchain := range []string{guestbuild.Go, guestbuild.TinyGo} {
		t.Run(toolchain, func(t *testing.T) {
			if _, err := exec.LookPath(toolchain); err != nil {
				t.Skipf("%s is not on PATH", toolchain)
			}
			built, err := guestbuild.Build(t.Context(), guestbuild.Request{
				Dir: filepath.Join("testdata", "template"), Out: filepath.Join(t.TempDir(), "template.wasm"), Toolchain: toolchain,
			})
			if err != nil {
				t.Fatal(err)
			}
			wasm, err := os.ReadFile(built.Path)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"http_request", "http_response", "config_get", "secret_get"} {
				// As an import has it: module, name and kind.
				if bytes.Contains(wasm, append([]byte("greenroom"+string(rune(len(name)))+name), 0)) {
					t.Errorf("the guest imports %s", name)
				}
			}
			if !bytes.Contains(wasm, []byte("greenroom\x0astate_json\x00")) {
				t.Error("the guest imports no state_json, so that this test looks for the wrong thing")
			}
			r := start(t, node.Config{})
			r.deploy(t, "", wasm)
			r.mustCall(t, "", "Letter", "ann", "Write", `"Dear {{.ID}} of {{.App}}"`, ``)
			if toolchain == guestbuild.Go { // TinyGo compiles text/template, whose fields then panic
				r.mustCall(t, "", "Letter", "ann", "Render", ``, `"Dear ann of default"`)
			}
		})
	}
}

// TestModulesOfOldSDKs calls modules that earlier SDKs built: they run on every
// newer host, beside and after modules of the present SDK, on the same state.
func TestModulesOfOldSDKs(t *testing.T) {
	old := gunzip(t, filepath.Join("testdata", "old", "counter-go-0.1.wasm.gz"))
	r := start(t, node.Config{})
	r.deploy(t, "", old)
	r.mustCall(t, "", "Counter", "x", "Add", `{"amount":2}`, `{"count":2}`)
	r.mustCall(t, "", "Counter", "y", "Add", `{"amount":5}`, `{"count":5}`)
	r.deploy(t, "", example(t, "counter", guestbuild.Go))
	r.mustCall(t, "", "Counter", "x", "Add", `{"amount":2}`, `{"count":4}`)
	r.deploy(t, "", old)
	r.mustCall(t, "", "Counter", "x", "Get", ``, `{"count":4}`)
	r.mustCall(t, "", "Counter", "x", "Reset", ``, `{"count":4}`)
	if _, err := r.call(t.Context(), "", "Counter", "y", "Add", `{"amount":9223372036854775807}`); detail(err).GetGuest().GetCode() != "overflow" {
		t.Errorf("got %v", err)
	}
}

func gunzip(t *testing.T, path string) []byte {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestReadOfAMap reads a state that is a map of structs: by a plan, since encoding/json
// takes ten times the fuel, and without encoding the state. What a read-only method changes
// in its struct is dropped.
func TestReadOfAMap(t *testing.T) {
	for _, toolchain := range []string{guestbuild.Go, guestbuild.TinyGo} {
		t.Run(toolchain, func(t *testing.T) {
			if _, err := exec.LookPath(toolchain); err != nil {
				t.Skipf("%s is not on PATH", toolchain)
			}
			r := start(t, node.Config{})
			r.deploy(t, "", build(t, filepath.Join("testdata", "shelf"), toolchain))
			for i, name := range []string{"a", "b", "c"} {
				r.mustCall(t, "", "Shelf", "x", "Put", `{"name":"`+name+`","quantity":3}`, strconv.Itoa(i+1))
			}
			r.mustCall(t, "", "Shelf", "x", "Empty", ``, `0`)
			const all = `{"items":{"a":{"name":"a","quantity":3},"b":{"name":"b","quantity":3},"c":{"name":"c","quantity":3}}}`
			r.mustCall(t, "", "Shelf", "x", "View", ``, all)

			fuel := func(typ, method string) uint64 {
				res, err := r.actors.Query(t.Context(), connect.NewRequest(&greenroomv1.QueryRequest{
					Actor: &greenroomv1.ActorKey{Type: typ, Id: "x"}, Method: method,
				}))
				if err != nil {
					t.Fatal(err)
				}
				n, err := strconv.ParseUint(res.Header().Get("Greenroom-Fuel"), 10, 64)
				if err != nil || n == 0 {
					t.Fatalf("fuel of %s.%s: %v", typ, method, err)
				}
				return n
			}
			// Three entries beside one number.
			if view, get := fuel("Shelf", "View"), fuel("Note", "Get"); view > 8*get {
				t.Errorf("the read of a map took %d units of fuel, that of a number %d", view, get)
			}
		})
	}
}

// TestRegisterInATurn: a guest that registers a type in a turn traps, and is told what to
// change.
func TestRegisterInATurn(t *testing.T) {
	withGoToolchains(t, func(t *testing.T, toolchain string) {
		r := start(t, node.Config{})
		r.deploy(t, "", build(t, filepath.Join("testdata", "late"), toolchain))
		_, err := r.call(t.Context(), "", "Late", "x", "Add", `"Other"`)
		if detail(err).GetKind() != "guest_trap" || !strings.Contains(err.Error(), `actor.Register("Other"): a turn runs already`) || !strings.Contains(err.Error(), "init function") {
			t.Errorf("%v", err)
		}
	})
}
