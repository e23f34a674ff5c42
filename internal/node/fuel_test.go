package node_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"connectrpc.com/connect"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
	"github.com/greenroom-run/greenroom/client"
	"github.com/greenroom-run/greenroom/engine/wasm/wasmtest"
	"github.com/greenroom-run/greenroom/internal/node"
)

// TestFuelIsReported calls one guest in every lane and over every protocol: each
// reply says what the turn used, which is the same number, and the metric has the
// sum of them.
func TestFuelIsReported(t *testing.T) {
	r := start(t, node.Config{})
	hundredTimes := wasmtest.Code(
		wasmtest.I32Const(100), wasmtest.LocalSet(1),
		wasmtest.Loop(wasmtest.Code(
			wasmtest.LocalGet(1), wasmtest.I32Const(1), 0x6b, // i32.sub
			wasmtest.LocalSet(1), wasmtest.LocalGet(1), 0x0d, 0, // br_if
		)...),
		wasmtest.I32Const(0),
	)
	r.deploy(t, "", wasmtest.Guest{Turn: hundredTimes, Manifest: `{"abi":1,"types":[
		{"name":"Ring","methods":[{"name":"Do"},{"name":"See","read_only":true}]},
		{"name":"Any","placement":"any","methods":[{"name":"Do"}]},
		{"name":"None","placement":"stateless","methods":[{"name":"Do"}]}]}`}.Bytes())

	plain := h2c()
	t.Cleanup(plain.CloseIdleConnections)
	overGRPC := greenroomv1connect.NewActorServiceClient(plain, r.URL, connect.WithGRPC())
	stream, err := client.New(client.Config{URL: r.URL, StreamOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stream.Close() })

	unary := func(api greenroomv1connect.ActorServiceClient) func(typ, method string) (string, error) {
		return func(typ, method string) (string, error) {
			res, err := api.Invoke(t.Context(), connect.NewRequest(&greenroomv1.InvokeRequest{
				Actor: &greenroomv1.ActorKey{Type: typ, Id: "x"}, Method: method,
			}))
			if err != nil {
				return "", err
			}
			return res.Header().Get("Greenroom-Fuel"), nil
		}
	}
	protocols := map[string]func(typ, method string) (string, error){
		"connect": unary(r.actors),
		"grpc":    unary(overGRPC),
		"http": func(typ, method string) (string, error) {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, r.URL+"/v2.0/actors/default/"+typ+"/x/method/"+method, nil)
			if err != nil {
				return "", err
			}
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				return "", err
			}
			return res.Header.Get("Greenroom-Fuel"), res.Body.Close()
		},
		"stream": func(typ, method string) (string, error) {
			reply, err := stream.Invoke(t.Context(), typ, "x", method, nil)
			return strconv.FormatUint(reply.Fuel, 10), err
		},
	}
	for _, lane := range []struct{ typ, method string }{{"Ring", "Do"}, {"Ring", "See"}, {"Any", "Do"}, {"None", "Do"}} {
		said := ""
		for name, call := range protocols {
			got, err := call(lane.typ, lane.method)
			fuel, notNumber := strconv.ParseUint(got, 10, 64)
			if err != nil || notNumber != nil || fuel == 0 || said != "" && got != said {
				t.Errorf("%s.%s over %s: used %q, %v; over another %q", lane.typ, lane.method, name, got, err, said)
			}
			said = got
		}
	}
	_, metrics := r.http(t, http.MethodGet, "/metrics", "")
	for _, typ := range []string{"Ring", "Any", "None"} {
		if !strings.Contains(metrics, `greenroom_fuel_total{app="default",type="`+typ+`"} `) {
			t.Errorf("no metric of %s's fuel", typ)
		}
	}
}
