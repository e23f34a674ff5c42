package wasm

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/greenroom-run/greenroom/abi"
	. "github.com/greenroom-run/greenroom/engine/wasm/wasmtest"
)

const wrap = 0xa7 // i32.wrap_i64

// requester sends the frame at 2048 and asks for the response with a buffer of each
// of the sizes, and replies with what the last of them got.
func requester(frame []byte, sizes ...int32) Guest {
	turn := Code(I32Const(2048), I32Const(int32(len(frame))), Call(0), Drop)
	for _, size := range sizes {
		turn = Code(turn, I32Const(8192), I32Const(size), Call(1), []byte{wrap}, LocalSet(2))
	}
	return Guest{
		Manifest: `{"abi":1,"types":[{"name":"T","methods":[{"name":"Do"}],"capabilities":{"http":["a.example"]}}]}`,
		Imports:  []Import{Host("http_request", "ii", "l"), Host("http_response", "ii", "l"), Host("reply", "iiii", "i")},
		More:     func(b *Builder) { b.Data(2048, frame) },
		Turn:     Code(turn, I32Const(0), I32Const(0), I32Const(8192), LocalGet(2), Call(2), Drop, I32Const(0)),
	}
}

// A guest that asks for the answer again does not send again, and what the host
// keeps of a request is no part of the guest's memory.
func TestHTTPIsSentOnce(t *testing.T) {
	e := newEngine(t, Config{})
	sent := abi.HTTPRequest{Method: "PUT", URL: "https://a.example/x", Headers: []abi.Header{{Name: "a", Value: "b"}}, Body: []byte("body"), TimeoutMillis: 7, Flags: 1}
	calls := newCalls()
	calls.answer = abi.HTTPResponse{Status: 201, Headers: []abi.Header{{Name: "c", Value: "d"}}, Body: []byte("made")}
	want := abi.AppendHTTPResponse(nil, &calls.answer)
	i := instantiate(t, e, requester(abi.AppendHTTPRequest(nil, &sent), 0, 10, 1000, 1000).Bytes())
	if err := i.Run(context.Background(), frame("{}"), calls); err != nil {
		t.Fatal(err)
	}
	if string(calls.reply.Data) != string(want) {
		t.Errorf("the guest got %q, want %q", calls.reply.Data, want)
	}
	if len(calls.requests) != 1 {
		t.Fatalf("%d requests", len(calls.requests))
	}
	memory, _ := i.mod.Memory().Read(0, i.mod.Memory().Size())
	clear(memory)
	if got := calls.requests[0]; string(abi.AppendHTTPRequest(nil, &got)) != string(abi.AppendHTTPRequest(nil, &sent)) {
		t.Errorf("after the guest's memory changed the request is %+v", got)
	}
}

func TestHTTPRefusals(t *testing.T) {
	e := newEngine(t, Config{})
	good := abi.AppendHTTPRequest(nil, &abi.HTTPRequest{URL: "https://a.example"})
	// What a function answers, as one byte of a reply.
	answers := func(g Guest, call []byte) byte {
		t.Helper()
		g.Turn = Code(I32Const(4096), call, []byte{wrap}, Store(), I32Const(0), I32Const(0), I32Const(4096), I32Const(1), Call(2), Drop, I32Const(0))
		calls := newCalls()
		if err := instantiate(t, e, g.Bytes()).Run(context.Background(), frame("{}"), calls); err != nil {
			t.Fatal(err)
		}
		return calls.reply.Data[0]
	}
	code := func(c abi.Code) byte { return byte(c) }
	for name, frame := range map[string][]byte{"empty": nil, "of another kind": {1, 4}, "cut": good[:len(good)-1]} {
		if got := answers(requester(frame), Code(I32Const(2048), I32Const(int32(len(frame))), Call(0))); got != code(abi.CodeInvalid) {
			t.Errorf("a frame that is %s: %d", name, int8(got))
		}
	}
	if got := answers(requester(good), Code(I32Const(0), I32Const(0), Call(1))); got != code(abi.CodeNotFound) {
		t.Errorf("a response without a request: %d", int8(got))
	}

	// An error of the host ends the guest, whatever it would have done.
	stopped := errors.New("run again")
	calls := newCalls()
	calls.httpErr = stopped
	if err := instantiate(t, e, requester(good, 100).Bytes()).Run(context.Background(), frame("{}"), calls); !errors.Is(err, stopped) || calls.reply != nil {
		t.Errorf("got %v, reply %v", err, calls.reply)
	}
	// The answer of one turn is not there in the next.
	i := instantiate(t, e, requester(good, 100).Bytes())
	calls = newCalls()
	calls.answer = abi.HTTPResponse{Status: 200}
	if err := i.Run(context.Background(), frame("{}"), calls); err != nil || i.response != nil {
		t.Errorf("%v; the host still has %q", err, i.response)
	}
}

// A large answer costs fuel, as every byte that a guest gets does.
func TestHTTPCostsFuel(t *testing.T) {
	e := newEngine(t, Config{})
	used := func(size int) uint64 {
		calls := newCalls()
		calls.answer = abi.HTTPResponse{Status: 200, Body: make([]byte, size)}
		g := requester(abi.AppendHTTPRequest(nil, &abi.HTTPRequest{URL: "https://a.example"}))
		g.Turn = Code(I32Const(2048), I32Const(25), Call(0), Drop, I32Const(0))
		if err := instantiate(t, e, g.Bytes()).Run(context.Background(), frame("{}"), calls); err != nil {
			t.Fatal(err)
		}
		return calls.fuel.Used
	}
	if small, large := used(0), used(1<<20); small < fuelHTTP || large < small+1<<20/byteUnits {
		t.Errorf("a small answer costs %d, one of 1 MiB %d", small, large)
	}
}

func TestUndeclaredCapabilities(t *testing.T) {
	e := newEngine(t, Config{})
	manifest := func(capabilities string) string {
		return `{"abi":1,"types":[{"name":"A","methods":[{"name":"Do"}]},{"name":"T","methods":[{"name":"Do"}]` + capabilities + `}]}`
	}
	imports := map[string]Import{
		"config": Host("config_get", "iiii", "l"), "secrets": Host("secret_get", "iiii", "l"), "http": Host("http_request", "ii", "l"),
	}
	for capability, imp := range imports {
		for declared := range imports {
			g := Guest{Imports: []Import{imp}, Manifest: manifest(`,"capabilities":{"` + declared + `":["a"]}`)}
			_, found, err := e.Inspect(t.Context(), bytes.NewReader(g.Bytes()))
			if err != nil || (len(found) == 0) != (declared == capability) {
				t.Errorf("%s imported, %s declared: %v %v", capability, declared, found, err)
			}
		}
		_, found, err := e.Inspect(t.Context(), bytes.NewReader(Guest{Imports: []Import{imp}, Manifest: manifest("")}.Bytes()))
		if err != nil || len(found) != 1 || found[0].Code != FaultCapability ||
			!strings.Contains(found[0].Message, imp.Name) || !strings.Contains(found[0].Message, `"`+capability+`"`) {
			t.Errorf("%s: %v %v", capability, found, err)
		}
	}
	// Several are all named.
	_, found, err := e.Inspect(t.Context(), bytes.NewReader(Guest{Imports: slices.Collect(func(yield func(Import) bool) {
		for _, imp := range imports {
			if !yield(imp) {
				return
			}
		}
	}), Manifest: manifest("")}.Bytes()))
	if err != nil || len(found) != 3 {
		t.Errorf("%v %v", found, err)
	}
}
