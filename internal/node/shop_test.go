package node_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"testing"

	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/internal/chromium"
	"github.com/greenroom-run/greenroom/internal/guestbuild"
	"github.com/greenroom-run/greenroom/internal/node"
)

// TestShopExample runs examples/shop: carts and orders in Go, stock and wallets in Rust. Orders
// are spawned, billed by messages, and shipped by reminders.
func TestShopExample(t *testing.T) {
	withGoToolchains(t, func(t *testing.T, toolchain string) {
		turns := watchTurns()
		r := start(t, node.Config{TurnEnd: turns.add})
		r.deploy(t, "", example(t, filepath.Join("shop", "goods"), guestbuild.Cargo))
		r.deploy(t, "", example(t, filepath.Join("shop", "orders"), toolchain))
		const tea, cup = `{"item":"tea","count":2,"cents":300}`, `{"item":"cup","count":1,"cents":1000}`
		checkout := func(customer string, lines ...string) (id string, err error) {
			t.Helper()
			for _, line := range lines {
				if _, err := r.call(t.Context(), "", "Cart", customer, "Add", line); err != nil {
					t.Fatal(err, detail(err))
				}
			}
			reply, err := r.call(t.Context(), "", "Cart", customer, "Checkout", ``)
			if err == nil {
				err = json.Unmarshal([]byte(reply), &id)
			}
			return id, err
		}
		committed := func(n int, typ, method string) {
			t.Helper()
			turns.awaitAll(t, n, func(e *host.TurnEnd) bool { return e.Key.Type == typ && e.Method == method && e.Err == nil })
		}
		order := func(id, status, why string) {
			t.Helper()
			reply, err := r.call(context.Background(), "", "Order", id, "View", ``)
			var got struct{ Status, Why string }
			if err != nil || json.Unmarshal([]byte(reply), &got) != nil || got.Status != status || got.Why != why {
				t.Errorf("the order is %s, %v; want %q, %q", reply, err, status, why)
			}
		}
		r.mustCall(t, "", "Stock", "tea", "Supply", `5`, `5`)
		r.mustCall(t, "", "Stock", "cup", "Supply", `1`, `1`)
		r.mustCall(t, "", "Wallet", "ann", "Deposit", `2000`, `2000`)

		paid, err := checkout("ann", tea, cup)
		if err != nil {
			t.Fatal(err, detail(err))
		}
		committed(1, "Order", "Ship")
		order(paid, "shipped", "")
		r.mustCall(t, "", "Wallet", "ann", "Balance", ``, `400`)
		r.mustCall(t, "", "Cart", "ann", "View", ``, `{}`)

		// Nothing of a checkout remains if an item is sold out.
		if _, err := checkout("ann", tea, cup); detail(err).GetGuest().GetCode() != "sold_out" {
			t.Errorf("error %v", err)
		}
		r.mustCall(t, "", "Stock", "tea", "Left", ``, `3`)

		// The bill comes back that nobody can pay, and the items with it.
		unpaid, err := checkout("bob", tea)
		if err != nil {
			t.Fatal(err, detail(err))
		}
		committed(1, "Stock", "PutBack")
		order(unpaid, "unpaid", "insufficient_funds")
		r.mustCall(t, "", "Stock", "tea", "Left", ``, `3`)

		// What only the shop itself does, nobody outside can.
		for _, refused := range [][3]string{{"Order", paid, "Paid"}, {"Wallet", "ann", "Charge"}, {"Order", "made-up", "View"}} {
			if reply, err := r.call(t.Context(), "", refused[0], refused[1], refused[2], `{}`); err == nil {
				t.Errorf("%v: %s", refused, reply)
			}
		}
	})
}

// TestShopPage: a browser page of another origin checks out, and shows what becomes of the order
// as its events come.
func TestShopPage(t *testing.T) {
	page := httptest.NewServer(http.FileServer(http.Dir(filepath.Join("..", "..", "examples", "shop", "page"))))
	defer page.Close()
	cfg := node.Config{}
	cfg.Server.AllowedOrigins = []string{page.URL}
	r := start(t, cfg)
	r.deploy(t, "", example(t, filepath.Join("shop", "goods"), guestbuild.Cargo))
	r.deploy(t, "", example(t, filepath.Join("shop", "orders"), guestbuild.Go))
	r.mustCall(t, "", "Stock", "tea", "Supply", `3`, `3`)
	r.mustCall(t, "", "Wallet", "ann", "Deposit", `600`, `600`)

	p := chromium.Start(t).Open()
	p.Go(page.URL + "?server=" + url.QueryEscape(r.URL))
	steps := func(last string) (steps []string) {
		t.Helper()
		const items = `[...document.querySelectorAll("li")].map(li => li.lastChild.data)`
		p.Until(items + `.at(-1) == ` + last)
		p.Eval(items, &steps)
		return steps
	}
	const checkout = `document.querySelector("button").click()`
	p.Eval(checkout, nil)
	if got := steps(`"shipped"`); !slices.Equal(got, []string{"placed", "paid", "shipped"}) {
		t.Errorf("the page shows %q", got)
	}
	p.Eval(checkout, nil)
	p.Until(`document.querySelector("[role=status]").textContent == "1 of tea are left"`)
	p.Eval(`document.querySelector("[name=customer]").value = "bob"; document.querySelector("[name=count]").value = 1; `+checkout, nil)
	if got := steps(`"unpaid: insufficient_funds"`); !slices.Equal(got, []string{"placed", "unpaid: insufficient_funds"}) {
		t.Errorf("the page shows %q", got)
	}
}
