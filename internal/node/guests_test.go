package node_test

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/greenroom-run/greenroom/engine/wasm/wasmtest"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/internal/guestbuild"
	"github.com/greenroom-run/greenroom/internal/node"
)

// TestGuestsThatMisbehave runs hostile guests beside a well-behaved one: each
// gets a typed error, and the neighbour never notices.
func TestGuestsThatMisbehave(t *testing.T) {
	r := start(t, node.Config{
		Limits: host.Limits{MemoryBytes: 16 << 20},
		// Only what loops has little time: the rest must not depend on the machine.
		Overrides: map[host.Scope]host.Limits{{App: "loops"}: {TurnDeadline: time.Second}},
	})
	r.deploy(t, "good", example(t, "counter", guestbuild.Go))

	tests := []struct {
		name  string
		guest wasmtest.Guest
		code  connect.Code
		kind  string
	}{
		{"traps", wasmtest.Guest{Turn: wasmtest.Code(wasmtest.Unreachable)}, connect.CodeInternal, "guest_trap"},
		{"loops", wasmtest.Guest{Turn: wasmtest.Code(wasmtest.Forever(), wasmtest.I32Const(0))}, connect.CodeDeadlineExceeded, "deadline"},
		{"recurses", wasmtest.Guest{Turn: wasmtest.Code(wasmtest.LocalGet(0), wasmtest.LocalGet(1), wasmtest.Call(2))}, connect.CodeInternal, "guest_stack"},
		{"grows", wasmtest.Guest{Turn: wasmtest.Code(
			wasmtest.Loop(wasmtest.Code(
				wasmtest.I32Const(16), wasmtest.MemoryGrow(), wasmtest.I32Const(-1), 0x46, // i32.eq
				wasmtest.If(wasmtest.Unreachable),
				wasmtest.Again(),
			)...),
			wasmtest.I32Const(0),
		)}, connect.CodeInternal, "guest_memory"},
		{"answers with a number of its own", wasmtest.Guest{Turn: wasmtest.I32Const(7)}, connect.CodeInternal, "guest_protocol"},
		{"fails without a reason", wasmtest.Guest{Turn: wasmtest.I32Const(1)}, connect.CodeUnknown, "guest_error"},
		{"lies about an address", wasmtest.Guest{
			Imports: []wasmtest.Import{wasmtest.Host("reply", "iiii", "i")},
			Turn: wasmtest.Code(wasmtest.I32Const(0), wasmtest.I32Const(0), wasmtest.I32Const(-16), wasmtest.I32Const(1<<30), wasmtest.Call(0),
				wasmtest.Drop, wasmtest.I32Const(0)),
		}, connect.CodeInternal, "guest_trap"},
		{"lies about an error frame", wasmtest.Guest{
			Imports: []wasmtest.Import{wasmtest.Host("fail", "ii", "i")},
			// Version and kind are right, then a field that says it is 4 GiB long.
			Turn: wasmtest.Code(wasmtest.I32Const(1024), wasmtest.I32Const(64), wasmtest.Call(0), wasmtest.Drop, wasmtest.I32Const(1)),
		}, connect.CodeUnknown, "guest_error"},
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			app := "bad" + string(rune('a'+i))
			if tt.name == "loops" {
				app = tt.name
			}
			r.deploy(t, app, tt.guest.Bytes())
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			for range 3 {
				_, err := r.call(ctx, app, "T", "x", "Do", "{}")
				d := detail(err)
				if connect.CodeOf(err) != tt.code || d.GetKind() != tt.kind {
					t.Fatalf("got %v, detail %v; want %v %s", err, d, tt.code, tt.kind)
				}
				if d.ActorType != "T" || d.ActorId != "x" || d.Method != "Do" || d.Retryable {
					t.Errorf("detail %v does not say whose it is", d)
				}
			}
		})
	}
	for range 3 {
		if _, err := r.call(t.Context(), "good", "Counter", "n", "Add", `{"amount":1}`); err != nil {
			t.Errorf("the neighbour: %v", err)
		}
	}
	r.mustCall(t, "good", "Counter", "n", "Get", "", `{"count":3}`)
}

// TestFuelOfTheManifest gives a type less fuel than its host does: a turn that
// needs more fails and says so, and a limit above the host's changes nothing.
func TestFuelOfTheManifest(t *testing.T) {
	r := start(t, node.Config{Limits: host.Limits{Fuel: 10_000_000}})
	for app, tt := range map[string]struct{ asked, limit string }{
		"lower":  {"50000", "at most 50000 are allowed"},
		"higher": {"9000000000", "at most 10000000 are allowed"},
	} {
		manifest := `{"abi":1,"types":[{"name":"T","methods":[{"name":"Do"}],"limits":{"fuel":` + tt.asked + `}}]}`
		r.deploy(t, app, wasmtest.Guest{Manifest: manifest, Turn: wasmtest.Code(wasmtest.Forever(), wasmtest.I32Const(0))}.Bytes())
		_, err := r.call(t.Context(), app, "T", "x", "Do", "{}")
		if connect.CodeOf(err) != connect.CodeFailedPrecondition || detail(err).GetKind() != "out_of_fuel" || !strings.Contains(err.Error(), tt.limit) {
			t.Errorf("%s: got %v, detail %v", app, err, detail(err))
		}
	}
	// What ends is as before.
	manifest := `{"abi":1,"types":[{"name":"T","methods":[{"name":"Do"}],"limits":{"fuel":50000}}]}`
	r.deploy(t, "modest", wasmtest.Guest{Manifest: manifest}.Bytes())
	if _, err := r.call(t.Context(), "modest", "T", "x", "Do", "{}"); err != nil {
		t.Error(err)
	}
}

// TestRefusedUploads sends what is no guest: each is refused with faults that
// say what to change, and nothing is stored.
func TestRefusedUploads(t *testing.T) {
	r := start(t, node.Config{})
	random := rand.New(rand.NewPCG(1, 2))
	noise := make([]byte, 4096)
	for i := range noise {
		noise[i] = byte(random.Uint32())
	}
	good := wasmtest.Guest{}.Bytes()
	tests := []struct {
		name, fault, text string
		wasm              []byte
	}{
		{"empty", "", "", nil},
		{"random", "not_wasm", "", noise},
		{"text", "not_wasm", "", []byte(`(module)`)},
		{"truncated", "malformed", "", good[:len(good)/2]},
		{"no exports", "missing_export", "greenroom_turn", wasmtest.Header()},
		{"unknown import", "unknown_import", "env", wasmtest.Guest{Imports: []wasmtest.Import{wasmtest.Func("env", "abort", "i", "")}}.Bytes()},
		{"unknown host function", "unknown_import", "state_steal", wasmtest.Guest{Imports: []wasmtest.Import{wasmtest.Host("state_steal", "", "")}}.Bytes()},
		{"bad manifest", "", "abi", wasmtest.Guest{Manifest: `{"abi":99,"types":[]}`}.Bytes()},
		{"loops at its start", "start", "", wasmtest.Guest{Init: wasmtest.Forever()}.Bytes()},
		{"too large", "", "33554432", make([]byte, 33<<20)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := r.upload(t.Context(), "", tt.wasm)
			d := detail(err)
			if connect.CodeOf(err) != connect.CodeInvalidArgument || d == nil {
				t.Fatalf("got %v, detail %v", err, d)
			}
			found := tt.fault == ""
			for _, f := range d.Faults {
				found = found || f.Code == tt.fault
			}
			if !found || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("got %v, faults %v; want %s with %q", err, d.Faults, tt.fault, tt.text)
			}
		})
	}
	if status, _ := r.http(t, "GET", "/readyz", ""); status != 200 {
		t.Errorf("readyz says %d", status)
	}
}
