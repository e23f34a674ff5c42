package crash

import (
	"strings"
	"testing"
)

// TestBankCheck: books that contradict what the callers know are refused, each for its reason.
func TestBankCheck(t *testing.T) {
	atomic := transfer{Order: Order{Transfer: "t", From: "a", To: "b", Cents: 5}, desk: "Teller", effect: happened, outcome: "b"}
	with := func(t transfer, change func(*transfer)) transfer {
		change(&t)
		return t
	}
	unknown := with(atomic, func(t *transfer) { t.effect = unsure })
	cashier := with(atomic, func(t *transfer) { t.desk = "Cashier" })
	open := with(cashier, func(t *transfer) { t.effect = unsure })
	for _, c := range []struct {
		name string
		t    transfer
		// The entries of a and b, and the book of the desk, as in "-5 5", "5", "b".
		a, b, made string
		ok         bool
	}{
		{"all of it", atomic, "-5", "5", "b", true},
		{"nothing of what was acknowledged", atomic, "", "", "", false},
		{"nothing of what is not known", unknown, "", "", "", true},
		{"half", unknown, "-5", "", "b", false},
		{"the other half", unknown, "", "5", "b", false},
		{"twice", unknown, "-5 -5", "5 5", "b b", false},
		{"not in the desk's book", unknown, "-5", "5", "", false},
		{"refused, and made", with(atomic, func(t *transfer) { t.effect = prevented }), "-5", "5", "b", false},
		{"another amount", unknown, "-4", "4", "b", false},
		{"the desk's book alone", unknown, "", "", "b", false},
		{"forwarded", cashier, "-5", "5", "b", true},
		{"forwarded, on its way", open, "-5", "", "", true},
		{"forwarded, a debit twice", open, "-5 -5", "", "", false},
		{"forwarded, a credit of a turn that was not committed", open, "", "5", "", true},
		{"forwarded, a debit that is not there", open, "", "5", "b", false},
		{"forwarded, a credit twice", open, "-5", "5 5", "", false},
		{"forwarded, acknowledged, on its way", cashier, "-5", "", "", false},
		{"returned", with(cashier, func(t *transfer) { t.outcome = "returned" }), "-5 5", "", "returned", true},
		{"returned twice", open, "-5 5 5", "", "returned", false},
		{"refused, with a debit", open, "-5", "", "refused", false},
		{"answered with another outcome", with(cashier, func(t *transfer) { t.outcome = "refused" }), "-5", "5", "b", false},
	} {
		b := &Bank{transfers: map[string]*transfer{"t": &c.t}}
		problems := b.Check(map[string]BankBook{"a": written(c.a, 10), "b": written(c.b, 10), "desk": made(c.made)})
		if ok := len(problems) == 0; ok != c.ok {
			t.Errorf("%s: %v", c.name, problems)
		}
	}
	unbalanced := written("-5", 10)
	unbalanced.Balance = 6
	b := &Bank{transfers: map[string]*transfer{"t": &atomic}}
	if len(b.Check(map[string]BankBook{"a": unbalanced, "b": written("5", 10), "desk": made("b")})) == 0 {
		t.Error("a balance that its entries do not explain is not found")
	}
}

// written is the book of an account with entries of the transfer t.
func written(entries string, opened int64) BankBook {
	book := BankBook{Opened: opened, Balance: opened}
	for word := range strings.FieldsSeq(entries) {
		cents := map[string]int64{"5": 5, "-5": -5, "4": 4, "-4": -4}[word]
		book.Balance += cents
		book.Entries = append(book.Entries, BankEntry{"t", cents})
	}
	return book
}

func made(outcomes string) (book BankBook) {
	for outcome := range strings.FieldsSeq(outcomes) {
		book.Made = append(book.Made, BankMade{"t", outcome})
	}
	return book
}
