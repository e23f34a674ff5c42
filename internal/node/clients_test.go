package node_test

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"github.com/greenroom-run/greenroom/internal/guestbuild"
	"github.com/greenroom-run/greenroom/internal/node"
)

// TestNodeClient calls the counter with a client that was generated for Node from
// our protos, over Connect, gRPC and gRPC-Web.
func TestNodeClient(t *testing.T) {
	r := start(t, node.Config{})
	r.deploy(t, "default", example(t, "counter", guestbuild.Go))
	cmd := exec.CommandContext(t.Context(), "build/node/test.sh", r.URL)
	cmd.Dir = "../.."
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !strings.Contains(string(out), "gRPC-Web") && !strings.Contains(string(out), "grpc-web") {
		t.Errorf("the client did not say what it called:\n%s", out)
	}
}

// TestGrpcurl calls the counter with grpcurl, which knows nothing but what
// reflection tells it.
func TestGrpcurl(t *testing.T) {
	r := start(t, node.Config{})
	r.deploy(t, "default", example(t, "counter", guestbuild.Go))
	addr := strings.TrimPrefix(r.URL, "http://")
	grpcurl := func(args ...string) string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), "grpcurl", append([]string{"-plaintext"}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("grpcurl %s: %v (make setup installs grpcurl)\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	if services := grpcurl(addr, "list"); !strings.Contains(services, "greenroom.v1.ActorService") || !strings.Contains(services, "grpc.health.v1.Health") {
		t.Errorf("services: %s", services)
	}
	if health := grpcurl(addr, "grpc.health.v1.Health/Check"); !strings.Contains(health, "SERVING") {
		t.Errorf("health: %s", health)
	}
	// The payload is {"amount":7} in base64.
	call := `{"actor":{"type":"Counter","id":"g"},"method":"Add","payload":"eyJhbW91bnQiOjd9"}`
	var reply struct{ Payload []byte }
	if err := json.Unmarshal([]byte(grpcurl("-d", call, addr, "greenroom.v1.ActorService/Invoke")), &reply); err != nil || string(reply.Payload) != `{"count":7}` {
		t.Errorf("reply %q, %v", reply.Payload, err)
	}
}

// TestCurl calls the counter as the README does.
func TestCurl(t *testing.T) {
	r := start(t, node.Config{})
	r.deploy(t, "default", example(t, "counter", guestbuild.Go))
	curl := func(args ...string) string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), "curl", append([]string{"-sS"}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("curl %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	url := r.URL + "/v2.0/actors/default/Counter/me/method/"
	if got := curl("-X", "PUT", "-H", "Content-Type: application/json", "-d", `{"amount":40}`, url+"Add"); got != `{"count":40}` {
		t.Errorf("Add: %s", got)
	}
	if got := curl(url + "Get"); got != `{"count":40}` {
		t.Errorf("Get: %s", got)
	}
	unary := curl("-H", "Content-Type: application/json", "-d", `{"actor":{"type":"Counter","id":"me"},"method":"Get"}`, r.URL+"/greenroom.v1.ActorService/Invoke")
	if !strings.Contains(unary, `"payload"`) {
		t.Errorf("Connect: %s", unary)
	}
}
