package node_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/internal/guestbuild"
	"github.com/greenroom-run/greenroom/internal/node"
	"github.com/greenroom-run/greenroom/internal/pgtest"
)

// TestSameHistoryOnEveryStore runs one random script on each store: every reply,
// every error and the state at the end must be the same.
func TestSameHistoryOnEveryStore(t *testing.T) {
	stores := map[string]node.Config{"embedded": {}, "postgresql": {StoreURL: pgtest.URL(t)}}
	if url, ok := pgtest.CockroachURL(t); ok {
		stores["cockroachdb"] = node.Config{StoreURL: url}
	}
	histories := map[string][]string{}
	for name, cfg := range stores {
		r := start(t, cfg)
		r.deploy(t, "", example(t, "counter", guestbuild.Go))
		r.deploy(t, "", example(t, "cart", guestbuild.Go))
		histories[name] = script(t, r, rand.New(rand.NewPCG(7, 7)))
	}
	for name, h := range histories {
		if diff := cmp.Diff(histories["embedded"], h); diff != "" {
			t.Errorf("embedded and %s differ:\n%s", name, diff)
		}
	}
	if failed := slices.IndexFunc(histories["embedded"], func(s string) bool { return strings.Contains(s, "guest_error") }); failed < 0 {
		t.Error("no call of the script failed: it shows nothing about errors")
	}
}

// timestamp is what two runs of one script differ in by nature.
var timestamp = regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+Z`)

func script(t *testing.T, r *running, random *rand.Rand) []string {
	t.Helper()
	var history []string
	note := func(what, reply string, err error) {
		if err != nil {
			reply = fmt.Sprint(connect.CodeOf(err), " ", detail(err).GetKind(), " ", detail(err).GetGuest().GetCode())
		}
		history = append(history, what+" -> "+timestamp.ReplaceAllString(reply, "TIME"))
	}
	for range 300 {
		id := fmt.Sprint("a", random.IntN(5))
		switch key := (&greenroomv1.ActorKey{Type: "Counter", Id: id}); random.IntN(8) {
		case 0:
			_, err := r.actors.DeleteActor(t.Context(), connect.NewRequest(&greenroomv1.DeleteActorRequest{Actor: key}))
			note("delete "+id, "", err)
		case 1:
			state, err := r.actors.GetState(t.Context(), connect.NewRequest(&greenroomv1.GetStateRequest{Actor: key}))
			note("state "+id, fmt.Sprint(state != nil && len(state.Msg.Entries) > 0), err)
		case 2:
			reply, err := r.call(t.Context(), "", "Counter", id, "Get", "")
			note("get "+id, reply, err)
		case 3, 4:
			payload := fmt.Sprintf(`{"sku":"s%d","quantity":%d}`, random.IntN(4), random.IntN(12)-2)
			method := []string{"AddItem", "RemoveItem", "SetQuantity", "View", "Checkout", "Clear"}[random.IntN(6)]
			reply, err := r.call(t.Context(), "", "Cart", id, method, payload)
			note(method+" "+id+" "+payload, reply, err)
		default:
			payload := fmt.Sprintf(`{"amount":%d}`, random.IntN(10)-3)
			reply, err := r.call(t.Context(), "", "Counter", id, "Add", payload)
			note("add "+id+" "+payload, reply, err)
		}
	}
	return history
}

// TestRustAccount runs the Rust example.
func TestRustAccount(t *testing.T) {
	r := start(t, node.Config{})
	m := r.deploy(t, "", example(t, "account", guestbuild.Cargo))
	if len(m.Types) != 1 || m.Types[0].Name != "Account" {
		t.Fatalf("module declares %v", m.Types)
	}
	if _, err := r.call(t.Context(), "", "Account", "a", "Deposit", `{"amount":100}`); err != nil {
		t.Fatalf("deposit: %v %v", err, detail(err))
	}
	_, err := r.call(t.Context(), "", "Account", "a", "Withdraw", `{"amount":1000}`)
	if d := detail(err); d.GetKind() != "guest_error" || d.Guest.Code != "insufficient_funds" {
		t.Errorf("overdraft: %v %v", err, d)
	}
	resp, err := r.actors.Query(t.Context(), connect.NewRequest(&greenroomv1.QueryRequest{
		Actor: &greenroomv1.ActorKey{Type: "Account", Id: "a"}, Method: "Balance",
	}))
	if err != nil || !strings.Contains(string(resp.Msg.Payload), "100") {
		t.Errorf("balance: %v %v", resp, err)
	}
}

// TestTinyGo runs the Go examples compiled by TinyGo, where it is installed. Those with a
// test of their own run in that one.
func TestTinyGo(t *testing.T) {
	if !hasTinyGo() {
		t.Skip("tinygo is not on PATH")
	}
	modules, err := filepath.Glob("../../examples/*/go.mod")
	if err != nil || len(modules) == 0 {
		t.Fatalf("no Go example: %v", err)
	}
	r := start(t, node.Config{})
	for _, m := range modules {
		r.deploy(t, "", example(t, filepath.Base(filepath.Dir(m)), guestbuild.TinyGo))
	}
	for i := range 100 {
		r.mustCall(t, "", "Counter", "x", "Add", `{"amount":2}`, fmt.Sprintf(`{"count":%d}`, 2*(i+1)))
	}
	if _, err := r.call(t.Context(), "", "Cart", "x", "View", ""); err != nil {
		t.Error(err)
	}
}

// TestStoreRetriesAreAMetric: a server on a database says how often it tried again.
func TestStoreRetriesAreAMetric(t *testing.T) {
	r := start(t, node.Config{StoreURL: pgtest.URL(t)})
	if _, metrics := r.http(t, http.MethodGet, "/metrics", ""); !strings.Contains(metrics, "\ngreenroom_store_retries_total 0\n") {
		t.Error("the metrics lack greenroom_store_retries_total")
	}
}
