package crash

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/greenroom-run/greenroom/client"
)

// Bank makes transfers between the accounts of testdata/bank-rust, and records each request and
// its answer. It outlives the servers. Its accounts come in waves, so that no ledger of an account
// becomes long.
//
// A transfer is atomic, by a teller of testdata/bank or by InvokeAll, between purses of one
// group; or it is by a cashier, whose calls commit on their own where another server holds the
// account. Most have an idempotency key and are repeated until they have an outcome. The others
// are tried once.
type Bank struct {
	// Client makes the calls; Once makes one attempt of each.
	Client, Once *client.Client
	// Attempt bounds one call, after which it is repeated.
	Attempt time.Duration

	wave      atomic.Int64
	snapshots atomic.Int64
	attempts  atomic.Int64

	mu        sync.Mutex
	transfers map[string]*transfer
}

// The actors of one wave.
const (
	bankGroups     = 3
	bankPurses     = 3 // of each group, beside one that is closed
	bankAccounts   = 6 // beside one that is closed
	bankCashiers   = 3
	bankMoney      = 100 // of each that is not closed
	mostCents      = 40
	snapshotsEvery = 16 // one call in so many reads a whole group
	// BankDesks is how many tellers and cashiers one wave has; see [Bank.Call].
	BankDesks = bankGroups + bankCashiers
)

// Order is one transfer, the input of both Make methods of testdata/bank.
type Order struct {
	Transfer string `json:"transfer"`
	From     string `json:"from"`
	To       string `json:"to"`
	Cents    int64  `json:"cents"`
	Else     string `json:"else,omitzero"`
	Nested   bool   `json:"nested,omitzero"`
	Late     bool   `json:"late,omitzero"`
	GiveUp   int64  `json:"give_up_ms,omitzero"`
}

// transfer is one order, and what its caller knows of it.
type transfer struct {
	Order
	desk    string // "Teller", "Cashier", or "InvokeAll"
	id      string // of the desk
	keyed   bool
	effect  effect
	outcome string // of one that happened
}

// effect is what a caller knows of a transfer.
type effect int

const (
	unsure    effect = iota // it may have happened, or may happen yet
	happened                // it was acknowledged
	prevented               // it was refused, and has no effect
)

// BankBook is the state of an account, teller or cashier.
type BankBook struct {
	Balance int64
	Opened  int64
	Entries []BankEntry
	Made    []BankMade
}

// BankEntry is what moved the money of an account.
type BankEntry struct {
	Transfer string
	Cents    int64
}

// BankMade is a transfer that a desk has made.
type BankMade struct{ Transfer, Outcome string }

func purse(wave int64, group, n int) string {
	if n == bankPurses {
		return fmt.Sprintf("w%d-g%d/shut", wave, group)
	}
	return fmt.Sprintf("w%d-g%d/p%d", wave, group, n)
}

func account(wave int64, n int) string {
	if n == bankAccounts {
		return fmt.Sprintf("w%d-shut", wave)
	}
	return fmt.Sprintf("w%d-a%d", wave, n)
}

func teller(wave int64, group int) string { return fmt.Sprintf("w%d-g%d/teller", wave, group) }
func cashier(wave int64, n int) string    { return fmt.Sprintf("w%d-c%d", wave, n) }

// Open opens the accounts of one more wave. Calls that begin later use them.
func (b *Bank) Open(ctx context.Context) error {
	wave := b.wave.Load() + 1
	var all sync.WaitGroup
	errs := make(chan error, bankGroups*(bankPurses+1)+bankAccounts+1)
	open := func(typ, id string, closed bool) {
		in := fmt.Sprintf(`{"cents":%d}`, bankMoney)
		if closed {
			in = `{"cents":0,"closed":true}`
		}
		all.Go(func() {
			_, err := b.repeat(ctx, func(ctx context.Context) ([]byte, error) {
				r, err := b.Client.Do(ctx, client.Request{Type: typ, ID: id, Method: "Open", Payload: []byte(in), IdempotencyKey: "open"})
				return r.Payload, err
			})
			if err != nil {
				errs <- fmt.Errorf("open %s: %w", id, err)
			}
		})
	}
	for g := range bankGroups {
		for n := range bankPurses + 1 {
			open("Purse", purse(wave, g, n), n == bankPurses)
		}
	}
	for n := range bankAccounts + 1 {
		open("Account", account(wave, n), n == bankAccounts)
	}
	all.Wait()
	close(errs)
	if err := <-errs; err != nil {
		return err
	}
	b.wave.Store(wave)
	return nil
}

// repeat repeats a call until it is answered, even if an attempt may have taken effect.
func (b *Bank) repeat(ctx context.Context, do func(context.Context) ([]byte, error)) ([]byte, error) {
	for {
		b.attempts.Add(1)
		attempt, cancel := context.WithTimeout(ctx, b.Attempt)
		data, err := do(attempt)
		cancel()
		if err == nil || ctx.Err() != nil || !mayRepeat(err) {
			return data, err
		}
	}
}

// mayRepeat reports whether an error says nothing about the transfer, which has a key.
func mayRepeat(err error) bool {
	var e *client.Error
	if !errors.As(err, &e) {
		return false
	}
	if e.Guest != nil {
		// A call that the guest made failed. These codes, from docs/calls.md, are not refusals.
		// not_atomic is not among them, since a group is always at one host.
		switch e.Guest.Code {
		case "timeout", "unavailable", "no_owner", "busy", "deadline_exceeded", "stopping", "store_unavailable", "overloaded", "conflict":
			return true
		}
		return false
	}
	return e.Retryable || e.OutcomeUnknown || e.Kind == client.KindDeadline
}

// Call makes one transfer, or reads a group. It returns the number of the desk, which is below
// [BankDesks], and an error if no fault of a server explains the answer.
func (b *Bank) Call(ctx context.Context, random *rand.Rand) (desk int, err error) {
	wave := b.wave.Load()
	if random.IntN(snapshotsEvery) == 0 {
		g := random.IntN(bankGroups)
		return g, b.snapshot(ctx, wave, g)
	}
	t := &transfer{keyed: random.IntN(4) > 0}
	t.Cents = 1 + random.Int64N(mostCents)
	if desk = random.IntN(BankDesks); desk < bankGroups {
		t.desk, t.id = "Teller", teller(wave, desk)
		if t.Nested = random.IntN(2) == 0; random.IntN(4) == 0 {
			t.desk, t.Nested = "InvokeAll", false
		}
		t.Late = t.Nested && random.IntN(3) == 0
		ids := random.Perm(bankPurses)
		t.From, t.To = purse(wave, desk, ids[0]), purse(wave, desk, ids[1])
		if random.IntN(6) == 0 {
			t.To = purse(wave, desk, bankPurses)
			if t.desk == "Teller" && random.IntN(2) == 0 {
				t.Else = purse(wave, desk, ids[1])
			}
		}
	} else {
		t.desk, t.id = "Cashier", cashier(wave, desk-bankGroups)
		// Accounts are called in one order, since chains of two servers that wait for each other
		// only end at their deadlines.
		ids := random.Perm(bankAccounts)[:2]
		slices.Sort(ids)
		t.From, t.To = account(wave, ids[0]), account(wave, ids[1])
		if random.IntN(8) == 0 {
			t.To = account(wave, bankAccounts)
		}
	}
	b.add(t)
	return desk, b.make(ctx, t)
}

// add records a transfer that is about to be made, and names it if it has no name.
func (b *Bank) add(t *transfer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.transfers == nil {
		b.transfers = map[string]*transfer{}
	}
	if t.Transfer == "" {
		t.Transfer = fmt.Sprintf("t%d", len(b.transfers))
	}
	b.transfers[t.Transfer] = t
}

// Make has a cashier make a transfer, with an idempotency key, until it has an outcome.
func (b *Bank) Make(ctx context.Context, cashier string, o Order) (outcome string, err error) {
	t := &transfer{Order: o, desk: "Cashier", id: cashier, keyed: true}
	b.add(t)
	err = b.make(ctx, t)
	b.mu.Lock()
	defer b.mu.Unlock()
	return t.outcome, err
}

// make makes a transfer, and records its outcome, which may be unknown.
func (b *Bank) make(ctx context.Context, t *transfer) error {
	lost := false // an attempt may have taken effect
	once := func(ctx context.Context) ([]byte, error) {
		data, err := b.send(ctx, t)
		var e *client.Error
		lost = lost || errors.As(err, &e) && e.OutcomeUnknown
		return data, err
	}
	var data []byte
	var err error
	if t.keyed {
		data, err = b.repeat(ctx, once)
	} else {
		attempt, cancel := context.WithTimeout(ctx, b.Attempt)
		data, err = once(attempt)
		cancel()
	}
	outcome := t.To
	if err == nil && t.desk != "InvokeAll" {
		if err := json.Unmarshal(data, &outcome); err != nil {
			return fmt.Errorf("%s was answered with %q", t.Transfer, data)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	var e *client.Error
	switch {
	case err == nil:
		t.effect, t.outcome = happened, outcome
		return nil
	case !errors.As(err, &e):
		return err
	case ctx.Err() != nil:
		return nil
	}
	refused := e.Guest != nil && (e.Guest.Code == "insufficient" || e.Guest.Code == "closed")
	switch {
	case t.keyed && !refused && e.Kind != "request_sent", !t.keyed && !refused && !mayRepeat(err) && e.Kind != "request_sent":
		return fmt.Errorf("%+v: %w", t, err)
	case lost:
	case t.desk != "Cashier", e.Retryable: // a cashier's calls may have been committed before it failed
		t.effect = prevented
	}
	return nil
}

// send makes one attempt of a transfer.
func (b *Bank) send(ctx context.Context, t *transfer) ([]byte, error) {
	cl, key := b.Client, t.Transfer
	if !t.keyed {
		cl, key = b.Once, ""
	}
	if t.desk == "InvokeAll" {
		in := fmt.Appendf(nil, `{"transfer":%q,"cents":%d}`, t.Transfer, t.Cents)
		_, err := cl.InvokeAll(ctx, key,
			client.Request{Type: "Purse", ID: t.From, Method: "Debit", Payload: in},
			client.Request{Type: "Purse", ID: t.To, Method: "Credit", Payload: in})
		return nil, err
	}
	in, err := json.Marshal(t.Order)
	if err != nil {
		return nil, err
	}
	r, err := cl.Do(ctx, client.Request{Type: t.desk, ID: t.id, Method: "Make", Payload: in, IdempotencyKey: key})
	return r.Payload, err
}

// snapshot reads all actors of a group in one transaction, and checks what they have if it is
// answered.
func (b *Bank) snapshot(ctx context.Context, wave int64, group int) error {
	calls := []client.Request{{Type: "Teller", ID: teller(wave, group), Method: "Book"}}
	for n := range bankPurses + 1 {
		calls = append(calls, client.Request{Type: "Purse", ID: purse(wave, group, n), Method: "Book"})
	}
	attempt, cancel := context.WithTimeout(ctx, b.Attempt)
	defer cancel()
	replies, err := b.Once.InvokeAll(attempt, "", calls...)
	if err != nil {
		if ctx.Err() != nil || mayRepeat(err) {
			return nil
		}
		return fmt.Errorf("read group %d: %w", group, err)
	}
	books := map[string]BankBook{}
	for i, r := range replies {
		var book BankBook
		if i == 0 {
			err = json.Unmarshal(r.Payload, &book.Made)
		} else {
			err = json.Unmarshal(r.Payload, &book)
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", calls[i].ID, err)
		}
		books[calls[i].ID] = book
	}
	b.snapshots.Add(1)
	if problems := b.check(books, false); len(problems) > 0 {
		return fmt.Errorf("a transaction saw: %v", problems)
	}
	return nil
}

// Check compares the books of all accounts and desks, by their IDs, with what the callers know
// after the last call. It returns each contradiction.
func (b *Bank) Check(books map[string]BankBook) (problems []string) {
	b.mu.Lock()
	for _, t := range b.transfers { // also those that are in no book
		for _, id := range []string{t.From, t.To} {
			if _, ok := books[id]; !ok {
				problems = append(problems, fmt.Sprintf("%s: there is no account %s", t.Transfer, id))
			}
		}
	}
	b.mu.Unlock()
	if b.snapshots.Load() == 0 && b.wave.Load() > 0 {
		problems = append(problems, "no transaction has read a group")
	}
	return append(problems, b.check(books, true)...)
}

// moved is what the books have of one transfer.
type moved struct {
	cents map[string][]int64 // by account
	made  []string           // the outcomes, in the book of the desk
}

// check checks books. They are those of one group, or with final those of all actors after the
// last call.
func (b *Bank) check(books map[string]BankBook, final bool) (problems []string) {
	by := map[string]*moved{}
	of := func(transfer string) *moved {
		if by[transfer] == nil {
			by[transfer] = &moved{cents: map[string][]int64{}}
		}
		return by[transfer]
	}
	for id, book := range books {
		sum := book.Opened
		for _, e := range book.Entries {
			sum += e.Cents
			m := of(e.Transfer)
			m.cents[id] = append(m.cents[id], e.Cents)
		}
		if sum != book.Balance || sum < 0 {
			problems = append(problems, fmt.Sprintf("%s has %d, by its entries %d", id, book.Balance, sum))
		}
		for _, made := range book.Made {
			m := of(made.Transfer)
			m.made = append(m.made, made.Outcome)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, m := range by {
		t := b.transfers[name]
		if t == nil {
			problems = append(problems, fmt.Sprintf("%s was not asked for: %+v", name, *m))
			continue
		}
		if !t.explains(m) {
			problems = append(problems, fmt.Sprintf("%+v does not explain %+v", *t, *m))
		}
	}
	if final {
		for name, t := range b.transfers {
			if m := of(name); !t.fits(m) {
				problems = append(problems, fmt.Sprintf("the answer to %+v contradicts %+v", *t, *m))
			}
		}
	}
	slices.Sort(problems)
	return problems
}

// explains reports whether the books may have m of the transfer at some moment.
func (t *transfer) explains(m *moved) bool {
	out, in := m.cents[t.From], m.cents[t.To]
	if t.desk != "Cashier" {
		paid := t.To
		if len(in) == 0 && t.Else != "" {
			paid, in = t.Else, m.cents[t.Else]
		}
		made := []string{paid}
		if t.desk == "InvokeAll" {
			made = nil
		}
		return len(m.cents) == 2 && slices.Equal(out, []int64{-t.Cents}) && slices.Equal(in, []int64{t.Cents}) && slices.Equal(m.made, made)
	}
	made := "" // not by the desk's book
	switch len(m.made) {
	case 0:
	case 1:
		made = m.made[0]
	default:
		return false
	}
	took := slices.Equal(out, []int64{-t.Cents})
	gaveBack := slices.Equal(out, []int64{-t.Cents, t.Cents})
	paid := slices.Equal(in, []int64{t.Cents})
	none := len(out) == 0 && len(in) == 0
	switch {
	case len(out)+len(in) > 2, len(in) > 0 && !paid, len(out) > 0 && !took && !gaveBack:
		return false // something is there twice, or is of another amount
	case made == t.To:
		return took && paid
	case made == "returned":
		return gaveBack
	case made == "refused":
		return none
	case made == "doubtful":
		return none || took && !paid
	}
	// The cashier's turn was not committed. Without a key its credit may have been, even if the debit,
	// of a payer at the cashier's own server, was not.
	return made == "" && (!gaveBack || !paid)
}

// fits reports whether the books have, after the last call, what the caller of the transfer
// knows.
func (t *transfer) fits(m *moved) bool {
	none := len(m.cents) == 0 && len(m.made) == 0
	switch t.effect {
	case prevented:
		return none
	case happened:
		return !none && (t.desk != "Cashier" || slices.Equal(m.made, []string{t.outcome}))
	default:
		return true
	}
}

// Summary counts the transfers by outcome.
func (b *Bank) Summary() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var known [prevented + 1]int
	for _, t := range b.transfers {
		known[t.effect]++
	}
	return fmt.Sprintf("%d transfers, %d acknowledged, %d refused, %d of unknown outcome; %d attempts with keys, %d reads of a group",
		len(b.transfers), known[happened], known[prevented], known[unsure], b.attempts.Load(), b.snapshots.Load())
}
