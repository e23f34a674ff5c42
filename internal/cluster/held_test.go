//go:build unix

package cluster_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
	"github.com/greenroom-run/greenroom/client"
	"github.com/greenroom-run/greenroom/internal/crash"
	"github.com/greenroom-run/greenroom/internal/pgtest"
)

// heldCalls holds single calls of actors between three servers.
type heldCalls struct {
	t        *testing.T
	members  []*member
	database string
	bank     *crash.Bank
	ids      int // given so far
}

// newHeldCalls starts the servers. Calls of cashiers are repeated after attempt.
func newHeldCalls(t *testing.T, attempt time.Duration) *heldCalls {
	t.Helper()
	h := &heldCalls{t: t, database: pgtest.Start(t).Database(t)}
	h.members = startCluster(t, h.database, nil)
	deployBank(t, h.members[0])
	h.bank = &crash.Bank{Client: newClient(t, h.members, 0), Once: newClient(t, h.members, 1), Attempt: attempt}
	return h
}

// holder returns the member that holds an actor, nil if none does at the moment.
func (h *heldCalls) holder(typ, id string) *member {
	h.t.Helper()
	conn := &http.Client{Timeout: attemptTime}
	defer conn.CloseIdleConnections()
	for _, m := range h.members {
		c := greenroomv1connect.NewClusterServiceClient(conn, m.process.URL)
		resp, err := c.Where(h.t.Context(), connect.NewRequest(&greenroomv1.WhereRequest{App: "default", Type: typ, Id: id}))
		if err != nil {
			continue
		}
		if n, err := strconv.Atoi(strings.TrimPrefix(resp.Msg.Name, "host-")); err == nil && resp.Msg.HostId != "" {
			return h.members[n]
		}
	}
	return nil
}

// call calls an account or a cashier, and repeats the call until it is answered.
func (h *heldCalls) call(req client.Request) string {
	h.t.Helper()
	r := &run{client: h.bank.Client}
	data, err := r.reply(h.t.Context(), req)
	if err != nil {
		h.t.Fatalf("%s of %s: %v", req.Method, req.ID, err)
	}
	return string(data)
}

// heldCall is one call of an account by a cashier, at another server.
type heldCall struct {
	*hold
	cashier        string
	order          crash.Order
	caller, callee *member
	outcome        chan string
}

// begin has a cashier debit an account at another server. It returns once the call is held, or the
// answer if call is false.
func (h *heldCalls) begin(call bool, change func(*crash.Order)) *heldCall {
	h.t.Helper()
	for deadline := time.Now().Add(stalled); time.Now().Before(deadline); {
		h.ids++
		name := fmt.Sprint("held-", h.ids)
		c := &heldCall{cashier: name, outcome: make(chan string, 1)}
		c.order = crash.Order{Transfer: name + "-transfer", From: name + "-from", To: name + "-to", Cents: 30}
		if change != nil {
			change(&c.order)
		}
		c.caller, c.callee = h.holder("Cashier", name), h.holder("Account", c.order.From)
		if c.caller == nil || c.callee == nil || c.caller == c.callee {
			continue
		}
		h.call(client.Request{Type: "Cashier", ID: name, Method: "Book", ReadOnly: true}) // the module is compiled
		for _, id := range []string{c.order.From, c.order.To} {
			h.call(client.Request{Type: "Account", ID: id, Method: "Open", Payload: []byte(`{"cents":100}`), IdempotencyKey: "open"})
		}
		c.hold = c.callee.proxy.holdNext(call, c.order.Transfer)
		go func() {
			outcome, err := h.bank.Make(h.t.Context(), c.cashier, c.order)
			if err != nil {
				h.t.Errorf("%s: %v", c.order.Transfer, err)
			}
			c.outcome <- outcome
		}()
		select {
		case <-c.found:
			return c
		case <-c.outcome: // one of the two has moved
		case <-time.After(stalled):
			h.t.Fatal("the call was not made")
		}
	}
	h.t.Fatal("no cashier and account are at two servers")
	return nil
}

// want waits for the outcome of a call.
func (h *heldCalls) want(c *heldCall, outcome string) {
	h.t.Helper()
	if got := h.result(c); got != outcome {
		h.t.Errorf("%s came to %q, want %q", c.order.Transfer, got, outcome)
	}
}

// result waits for the outcome of a call, and returns it.
func (h *heldCalls) result(c *heldCall) string {
	h.t.Helper()
	select {
	case got := <-c.outcome:
		return got
	case <-time.After(stalled):
		h.t.Fatalf("%s has no outcome", c.order.Transfer)
		return ""
	}
}

// await waits until a channel of a hold is closed.
func (h *heldCalls) await(c <-chan struct{}, what string) {
	h.t.Helper()
	select {
	case <-c:
	case <-time.After(stalled):
		h.t.Fatalf("never: %s", what)
	}
}

// end stops the servers and checks all books.
func (h *heldCalls) end() {
	h.t.Helper()
	for _, m := range h.members {
		if err := m.process.Stop(h.t.Context()); err != nil {
			h.t.Errorf("stop: %v", err)
		}
	}
	for _, problem := range h.bank.Check(storedBooks(h.t, h.database)) {
		h.t.Error(problem)
	}
}

// TestLostBetweenTwoCommits: a server is killed, or frozen for longer than its lease, while a call
// between two servers, or its answer, is on its way. In the case of the answer, the callee has
// committed and the caller has not. The repeated call finds the record of the commit, wherever the
// actors are by then, and nothing is applied twice: neither when the held call or answer arrives
// late, nor when the frozen server wakes up and continues. GREENROOM_KILL_ROUNDS sets the number of
// rounds (make soak).
func TestLostBetweenTwoCommits(t *testing.T) {
	h := newHeldCalls(t, attemptTime)
	const ways = 8
	for n := range crash.Rounds(t, ways) {
		held, lost, frozen := n&1 == 0, n&2 == 0, n&4 == 0
		began := time.Now()
		h.lose(held, lost, frozen)
		t.Logf("the call held: %v, its caller lost: %v, frozen: %v; %v", held, lost, frozen, time.Since(began).Round(time.Millisecond))
	}
	h.end()
}

// lose holds a call of an account, or its answer if call is false. Until the call has its outcome,
// the server of the caller is lost, or the account's if caller is false.
func (h *heldCalls) lose(call, caller, frozen bool) {
	h.t.Helper()
	c := h.begin(call, nil)
	lost := c.callee
	if caller {
		lost = c.caller
	}
	if frozen {
		lost.signal(h.t, syscall.SIGSTOP)
	} else if err := lost.process.Kill(); err != nil {
		h.t.Fatal(err)
	}
	switch {
	case caller: // what is held arrives late
	case call && frozen:
		c.deliver() // to where it is found when the server wakes up
	default:
		c.drop()
	}
	h.want(c, c.order.To)
	if c.deliver(); call && caller {
		h.await(c.answered, "the answer to a call of a server that is lost")
	}
	if frozen {
		lost.signal(h.t, syscall.SIGCONT)
		return
	}
	c.drop()
	lost.start(h.t)
}

// TestCallArrivesAfterItWasGivenUp: a call that its caller has given up, and whose caller has
// committed since, may still take effect. The caller knows: it gets the code timeout, which says
// that the callee perhaps ran.
func TestCallArrivesAfterItWasGivenUp(t *testing.T) {
	h := newHeldCalls(t, stalled)
	for range 10 {
		// Pings show that the connection is held after two thirds of a lease, or sooner where the
		// last one was answered late: then the call is sent again, and succeeds.
		c := h.begin(true, func(o *crash.Order) { o.GiveUp = lease.Milliseconds() / 2 })
		switch outcome := h.result(c); outcome {
		case "doubtful": // the code is timeout
			c.deliver()
			h.await(c.answered, "the answer to a late call")
			h.end()
			return
		case c.order.To:
			c.drop()
		default:
			t.Fatalf("%s came to %q", c.order.Transfer, outcome)
		}
	}
	t.Fatal("every call was sent again before its caller gave it up")
}

// TestLateCopyOfARefusedCall: the connection breaks under a call, for its caller alone. The callee
// refuses the repetition, and the caller commits that. The first copy arrives after that, when the
// callee would not refuse it any more. It has no effect, since the refusal that the caller got says
// that nothing of the call remains.
func TestLateCopyOfARefusedCall(t *testing.T) {
	h := newHeldCalls(t, stalled)
	c := h.begin(true, func(o *crash.Order) { o.Cents = 130 })
	c.leave()
	h.want(c, "refused")
	h.call(client.Request{Type: "Account", ID: c.order.From, Method: "Open", Payload: []byte(`{"cents":100}`), IdempotencyKey: "more"})
	c.deliver()
	h.await(c.answered, "the answer to a late copy")
	if book := h.call(client.Request{Type: "Account", ID: c.order.From, Method: "Book", ReadOnly: true, Strong: true}); strings.Contains(book, c.order.Transfer) {
		t.Errorf("the late copy took effect: %s", book)
	}
	h.end()
}
