package node_test

import (
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/greenroom-run/greenroom/client"
	"github.com/greenroom-run/greenroom/internal/guestbuild"
	"github.com/greenroom-run/greenroom/internal/node"
	"github.com/greenroom-run/greenroom/internal/pgtest"
)

// allClients returns clients of a server that make unary calls and streamed ones.
func allClients(t *testing.T, url string) map[string]*client.Client {
	t.Helper()
	all := map[string]*client.Client{}
	for name, conf := range map[string]client.Config{"unary": {URL: url, Unary: true}, "stream": {URL: url, StreamOnly: true}} {
		c, err := client.New(conf)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		all[name] = c
	}
	return all
}

// transfer is a payment without a coordinating actor.
func transfer(from, to string, amount int) []client.Request {
	return []client.Request{
		{Type: "Account", ID: from, Method: "Deposit", Payload: fmt.Append(nil, -amount)},
		{Type: "Account", ID: to, Method: "Deposit", Payload: fmt.Append(nil, amount)},
		{Type: "Account", ID: from, Method: "Get"},
	}
}

func texts(replies []client.Reply) string {
	var all []string
	for _, r := range replies {
		all = append(all, string(r.Payload))
	}
	return strings.Join(all, " ")
}

// TestInvokeAll: several calls are one transaction, in every form.
func TestInvokeAll(t *testing.T) {
	r := start(t, node.Config{})
	r.deploy(t, "", build(t, filepath.Join("testdata", "bank"), guestbuild.Go))
	for form, c := range allClients(t, r.URL) {
		for range 2 { // the second time it is the record
			if replies, err := c.InvokeAll(t.Context(), "k", transfer(form, form+"-2", 5)...); texts(replies) != "-5 5 -5" || err != nil {
				t.Errorf("%s: %q, %v", form, texts(replies), err)
			}
		}
		_, err := c.InvokeAll(t.Context(), "", transfer(form, form+"-2", 13)...)
		var failed *client.Error
		if !errors.As(err, &failed) || failed.Guest == nil || failed.Guest.Code != "unlucky" || !strings.HasPrefix(failed.Message, "call 2: ") {
			t.Errorf("%s: %v", form, err)
		}
		_, err = c.InvokeAll(t.Context(), "", client.Request{Type: "Account", ID: "x", Method: "Deposit", Payload: []byte("1")}, client.Request{Type: "Account", ID: "x", Method: "Nothing"})
		if !errors.As(err, &failed) || failed.Kind != "method_not_found" {
			t.Errorf("%s: %v", form, err)
		}
		r.mustCall(t, "", "Account", form, "Get", "", "-5")
	}
	calls := func(amount int) string {
		return fmt.Sprintf(`{"calls":[{"type":"Account","id":"h","method":"Deposit","data":%d},{"type":"Account","id":"h2","method":"Deposit","data":%d},{"type":"Account","id":"h","method":"CallTrap","data":"h3"}]}`, -amount, amount)
	}
	for again := range 2 {
		res := put(t, r.URL+"/v2.0/actors/default", calls(9007199254740993), "Idempotency-Key", "k")
		if used := res.Header.Get("Greenroom-Fuel"); (used == "0") != (again == 1) {
			t.Errorf("run %d used %s", again, used)
		}
		if res.StatusCode != http.StatusOK || res.body != `{"replies":[-9007199254740993,9007199254740993,"trap"]}` {
			t.Errorf("%s %s", res.Status, res.body)
		}
	}
	for body, want := range map[string]string{
		calls(13): "call 2: ", "{}": "are none", `{"calls":[{"type":"Account","id":"h","method":"no name"}]}`: "call 1: ", `{"calls":[{"type":"Account","id":"h","method":"Get","payload":1}]}`: `unknown member \"payload\"; known are`, "x": "not the JSON of calls",
	} {
		if res := put(t, r.URL+"/v2.0/actors/default", body); res.StatusCode < 400 || !strings.Contains(res.body, want) {
			t.Errorf("%s: %s %s", body, res.Status, res.body)
		}
	}
	if res := put(t, r.URL+"/v2.0/actors/default", calls(1), "Idempotency-Key", "k"); !strings.Contains(res.body, "make the calls together with a new key") {
		t.Errorf("%s %s", res.Status, res.body)
	}
	if res := put(t, r.URL+"/v2.0/actors/default", calls(13)); !strings.Contains(res.body, "unlucky") {
		t.Errorf("%s %s", res.Status, res.body)
	}
}

// TestInvokeAllInACluster: calls go to the server that holds their actors, and are refused if none
// holds all.
func TestInvokeAllInACluster(t *testing.T) {
	first, second, ids := twoBanks(t, 2)
	for form, c := range allClients(t, first.URL) {
		for _, of := range [][]string{ids[first.URL], ids[second.URL]} {
			if replies, err := c.InvokeAll(t.Context(), form, transfer(of[0], of[1], 10)...); len(replies) != 3 || err != nil {
				t.Errorf("%s: %q, %v", form, texts(replies), err)
			}
			if _, err := c.InvokeAll(t.Context(), "", transfer(of[0], of[1], 13)...); err == nil || !strings.Contains(err.Error(), "call 2: ") {
				t.Errorf("%s: %v", form, err)
			}
		}
		for _, pair := range [][2]string{{ids[first.URL][0], ids[second.URL][0]}, {ids[second.URL][0], ids[first.URL][0]}} {
			_, err := c.InvokeAll(t.Context(), "", transfer(pair[0], pair[1], 1)...)
			var failed *client.Error
			if !errors.As(err, &failed) || failed.Kind != "not_atomic" {
				t.Errorf("%s: %v", form, err)
			}
		}
	}
	for _, of := range ids {
		for i, want := range []string{"80", "120"} {
			if res := put(t, first.URL+"/v2.0/actors/default/Account/"+of[i]+"/method/Deposit", "0"); res.body != want {
				t.Errorf("%s has %s, want %s", of[i], res.body, want)
			}
		}
	}
}

// twoBanks starts two servers that divide the accounts among themselves, and returns accounts with
// a balance of 100 by the server that holds them, a number of each.
func twoBanks(t *testing.T, number int) (first, second *running, held map[string][]string) {
	t.Helper()
	url := pgtest.URL(t)
	named := func(name string) func(*node.Config) {
		return func(c *node.Config) { c.Cluster.HostName = name }
	}
	first = start(t, inCluster(url, named("bank-1")))
	m := first.deploy(t, "default", build(t, filepath.Join("testdata", "bank"), guestbuild.Go))
	second = start(t, inCluster(url, named("bank-2")))
	first.place(t, m, "Account", "static:bank-1,bank-2")
	until(t, "both have their parts", func() bool {
		for _, n := range []*running{first, second} {
			parts := n.placement(t, "Account").Ranges
			if len(parts) != 2 || parts[0].Name != "bank-1" || len(parts[0].Hosts) == 0 || len(parts[1].Hosts) == 0 {
				return false
			}
		}
		return true
	})
	at := func(id, amount string) string {
		res := put(t, first.URL+"/v2.0/actors/default/Account/"+id+"/method/Deposit", amount)
		if res.StatusCode != http.StatusOK {
			t.Fatal(res.Status, res.body)
		}
		if host := res.Header.Get("Greenroom-Host"); host != "" {
			return "http://" + host
		}
		return first.URL
	}
	held = map[string][]string{}
	for i := 0; len(held[first.URL]) < number || len(held[second.URL]) < number; i++ {
		id := fmt.Sprint("acc", i)
		by := at(id, "100")
		held[by] = append(held[by], id)
		for by, list := range held { // while the first server hands its part over, it still runs some
			held[by] = slices.DeleteFunc(list, func(id string) bool { return at(id, "0") != by })
		}
	}
	return first, second, held
}
