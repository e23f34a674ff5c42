package node_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/greenroom-run/greenroom/internal/guestbuild"
	"github.com/greenroom-run/greenroom/internal/node"
)

// TestGuestsCallEachOther transfers between accounts of a guest: all of it happens, or
// nothing, and what a callee has refused its caller can do otherwise.
func TestGuestsCallEachOther(t *testing.T) {
	withGoToolchains(t, func(t *testing.T, toolchain string) {
		r := start(t, node.Config{})
		r.deploy(t, "", build(t, filepath.Join("testdata", "bank"), toolchain))
		call := func(id, method, in, want string) {
			t.Helper()
			r.mustCall(t, "", "Account", id, method, in, want)
		}
		refused := func(id, method, in, code string) {
			t.Helper()
			if _, err := r.call(t.Context(), "", "Account", id, method, in); detail(err).GetGuest().GetCode() != code {
				t.Errorf("%s.%s(%s): %v, want %s", id, method, in, err, code)
			}
		}
		call("ann", "Deposit", `100`, `100`)
		call("ann", "Transfer", `{"to":"bob","amount":30}`, `70`)
		call("bob", "Transfer", `{"to":"ann","amount":10}`, `20`)
		refused("bob", "Transfer", `{"to":"ann","amount":21}`, "insufficient")
		refused("bob", "Transfer", `{"to":"ann","amount":13}`, "unlucky")
		refused("ann", "Transfer", `{"to":"ann","amount":1}`, "not_reentrant")
		call("ann", "Transfer", `{"to":"bob","amount":13,"retry":"bob"}`, `66`)
		call("ann", "CallTrap", `"bob"`, `"trap"`)
		for id, want := range map[string]string{"ann": `66`, "bob": `34`} {
			call(id, "Get", ``, want)
			call(id, "Deposit", `0`, want)
		}

		// bob calls ann back, who waits for him.
		call("ann", "PayBack", `{"to":"bob","amount":10}`, `[66,66]`)
		call("ann", "Reconsider", `"bob"`, `63`)
		for id, want := range map[string]string{"ann": `63`, "bob": `35`} {
			call(id, "Get", ``, want)
			call(id, "Deposit", `0`, want)
		}
		call("ann", "Worth", `"bob"`, `98`)
		for i := range 4 {
			call(fmt.Sprint("acc", i), "Deposit", `50`, `50`)
		}
		var all sync.WaitGroup
		for caller := range 8 {
			all.Go(func() {
				rng := rand.New(rand.NewPCG(7, uint64(caller)))
				for range 20 {
					from, to := rng.IntN(4), rng.IntN(4)
					in := fmt.Sprintf(`{"to":"acc%d","amount":%d}`, to, rng.IntN(20))
					_, err := r.call(t.Context(), "", "Account", fmt.Sprint("acc", from), "Transfer", in)
					switch kind := detail(err).GetKind(); {
					case err == nil, kind == "deadlock", kind == "guest_error":
					default:
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		sum := 0
		for i := range 4 {
			data, err := r.call(t.Context(), "", "Account", fmt.Sprint("acc", i), "Get", ``)
			if err != nil {
				t.Fatal(err)
			}
			n, err := strconv.Atoi(data)
			if err != nil {
				t.Fatal(err)
			}
			sum += n
		}
		if sum != 200 {
			t.Errorf("the sum is %d, want 200", sum)
		}
	})
}

// TestGuestsCallAcrossServers transfers between accounts of two servers: a call of an account
// that the other one holds is committed there, on its own.
func TestGuestsCallAcrossServers(t *testing.T) {
	const accounts = 6
	call := func(n *running, id, method, in string) answer {
		t.Helper()
		return put(t, n.URL+"/v2.0/actors/default/Account/"+id+"/method/"+method, in)
	}
	first, second, ids := twoBanks(t, accounts)
	here, there := ids[first.URL], ids[second.URL]
	for i, n := range []*running{first, second} {
		res := call(n, here[i], "Transfer", fmt.Sprintf(`{"to":%q,"amount":30}`, there[i]))
		if res.StatusCode != http.StatusOK || res.body != "70" {
			t.Errorf("%s %s", res.Status, res.body)
		}
		if res := call(n, there[i], "Deposit", "0"); res.body != "130" {
			t.Errorf("the payee has %s", res.body)
		}
	}
	// What the callee refuses, and a call that comes back.
	if res := call(second, here[2], "Transfer", fmt.Sprintf(`{"to":%q,"amount":13}`, there[2])); !strings.Contains(res.body, "unlucky") {
		t.Errorf("%s %s", res.Status, res.body)
	}
	if res := call(first, here[2], "CallTrap", fmt.Sprintf("%q", there[2])); res.body != `"trap"` {
		t.Errorf("%s %s", res.Status, res.body)
	}
	for _, id := range []string{here[2], there[2]} {
		if res := call(first, id, "Deposit", "0"); res.body != "100" {
			t.Errorf("%s has %s", id, res.body)
		}
	}
}

// TestBankExample runs examples/bank: accounts in Rust, transfers in Go.
func TestBankExample(t *testing.T) {
	withGoToolchains(t, func(t *testing.T, toolchain string) {
		r := start(t, node.Config{})
		r.deploy(t, "", example(t, filepath.Join("bank", "accounts"), guestbuild.Cargo))
		r.deploy(t, "", example(t, filepath.Join("bank", "transfers"), toolchain))
		refused := func(typ, id, method, in, want string) {
			t.Helper()
			_, err := r.call(t.Context(), "", typ, id, method, in)
			if d := detail(err); want != d.GetKind() && want != d.GetGuest().GetCode() {
				t.Errorf("%s %s.%s(%s): %v, want %s", typ, id, method, in, err, want)
			}
		}
		balances := func(want map[string]string) {
			t.Helper()
			for id, cents := range want {
				r.mustCall(t, "", "Account", id, "Balance", ``, cents)
			}
		}
		r.mustCall(t, "", "Account", "ann", "Deposit", `500`, `500`)
		for range 2 {
			r.mustCall(t, "", "Transfer", "rent-11", "Make", `{"from":"ann","to":"bob","cents":300}`, `{"from":"ann","to":"bob","cents":300,"paid":"bob"}`)
		}
		refused("Transfer", "rent-11", "Make", `{"from":"bob","to":"ann","cents":300}`, "reference_used")
		refused("Transfer", "rent-12", "Make", `{"from":"ann","to":"bob","cents":300}`, "insufficient_funds")
		refused("Account", "ann", "Debit", `1`, "method_private")
		balances(map[string]string{"ann": `200`, "bob": `300`})
		r.mustCall(t, "", "Account", "bob", "Close", ``, `300`)
		refused("Account", "bob", "Withdraw", `1`, "account_closed")
		refused("Transfer", "rent-13", "Make", `{"from":"ann","to":"bob","cents":100}`, "account_closed")
		balances(map[string]string{"ann": `200`, "bob": `0`})
		r.mustCall(t, "", "Transfer", "rent-14", "Make", `{"from":"ann","to":"bob","cents":100,"else":"carl"}`, `{"from":"ann","to":"bob","cents":100,"else":"carl","paid":"carl"}`)
		balances(map[string]string{"ann": `100`, "bob": `0`, "carl": `100`})
	})
}

// TestPhilosophersExample has philosophers eat at once: a deadlock is no caller's problem.
func TestPhilosophersExample(t *testing.T) {
	withGoToolchains(t, func(t *testing.T, toolchain string) {
		r := start(t, node.Config{})
		r.deploy(t, "", example(t, "philosophers", toolchain))
		const seats, meals = 5, 20
		for round, method := range []string{"Eat", "EatInOrder"} {
			var all sync.WaitGroup
			for seat := range seats {
				all.Go(func() {
					for range meals {
						if _, err := r.call(t.Context(), "", "Philosopher", strconv.Itoa(seat), method, `{"seats":5}`); err != nil {
							t.Error(err)
						}
					}
				})
			}
			all.Wait()
			for seat := range seats {
				r.mustCall(t, "", "Philosopher", strconv.Itoa(seat), "View", ``, fmt.Sprintf(`{"meals":%d}`, (round+1)*meals))
				fork, err := r.call(t.Context(), "", "Fork", strconv.Itoa(seat), "View", ``)
				if used := fmt.Sprintf(`{"used":%d,`, 2*(round+1)*meals); err != nil || !strings.HasPrefix(fork, used) {
					t.Errorf("fork %d: %s, %v, want %s", seat, fork, err, used)
				}
			}
		}
	})
}

// TestRustGuestCallsGo has chains over actors of two modules, in Rust and in Go.
func TestRustGuestCallsGo(t *testing.T) {
	r := start(t, node.Config{})
	r.deploy(t, "", build(t, filepath.Join("testdata", "bank"), guestbuild.Go))
	r.deploy(t, "", build(t, filepath.Join("testdata", "bank-rust"), guestbuild.Cargo))
	call := func(typ, id, method, in, want string) {
		t.Helper()
		r.mustCall(t, "", typ, id, method, in, want)
	}
	refused := func(typ, id, method, in, code string) {
		t.Helper()
		if _, err := r.call(t.Context(), "", typ, id, method, in); detail(err).GetGuest().GetCode() != code {
			t.Errorf("%s %s.%s(%s): %v, want %s", typ, id, method, in, err, code)
		}
	}
	call("Purse", "p", "Deposit", `100`, `100`)
	call("Purse", "p", "Transfer", `{"type":"Purse","to":"q","amount":20}`, `80`)
	call("Purse", "p", "Transfer", `{"type":"Account","to":"ann","amount":30}`, `50`)
	refused("Purse", "p", "Transfer", `{"type":"Account","to":"ann","amount":13}`, "unlucky")
	refused("Purse", "p", "Transfer", `{"type":"Account","to":"ann","amount":51}`, "insufficient")
	refused("Purse", "p", "Transfer", `{"type":"Purse","to":"p","amount":1}`, "not_reentrant")
	call("Purse", "p", "Transfer", `{"type":"Account","to":"ann","amount":13,"retry":"ann"}`, `36`)
	call("Account", "ann", "Transfer", `{"type":"Purse","to":"q","amount":4}`, `40`)
	refused("Account", "ann", "Transfer", `{"type":"Purse","to":"q","amount":13}`, "unlucky")
	call("Purse", "p", "Order", `{"retry":"ann","type":"Purse","to":"q","amount":1}`, `39`)
	refused("Purse", "p", "Order", `{"retry":"ann","type":"Purse","to":"p","amount":1}`, "not_reentrant")
	call("Purse", "p", "CallTrap", `"ann"`, `"trap"`)
	call("Purse", "p", "Worth", `{"type":"Account","to":"ann"}`, `76`)
	for _, of := range [][3]string{{"Purse", "p", `37`}, {"Purse", "q", `25`}, {"Account", "ann", `39`}} {
		call(of[0], of[1], "Get", ``, of[2])
		call(of[0], of[1], "Deposit", `0`, of[2])
	}
}
