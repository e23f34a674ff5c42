package mailbox

import (
	"slices"
	"testing"

	"github.com/greenroom-run/greenroom/host/list"
)

// TestAgainBehind: a call goes behind the last one that matches, and before all others if none does.
func TestAgainBehind(t *testing.T) {
	for _, c := range []struct{ waiting, want string }{
		{"", "x"}, {"ab", "xab"}, {"aEb", "aExb"}, {"EaEb", "EaExb"}, {"aE", "aEx"},
	} {
		var m Mailbox[rune]
		for _, r := range c.waiting {
			m.Put(new(list.Place[rune]), r, 1)
		}
		m.AgainBehind(new(list.Place[rune]), 'x', func(r rune) bool { return r == 'E' })
		var got []rune
		for m.Len() > 0 {
			got = append(got, m.Take())
		}
		if !slices.Equal(got, []rune(c.want)) {
			t.Errorf("%q: %q, want %q", c.waiting, string(got), c.want)
		}
	}
}

// TestAgainAfter: a call comes before all others but the first one that matches, and the others keep their order.
func TestAgainAfter(t *testing.T) {
	enlists := func(r rune) bool { return r == 'E' || r == 'F' }
	for _, c := range []struct{ waiting, again, want string }{
		{"", "x", "x"}, {"ab", "x", "xab"}, {"aEbF", "x", "ExabF"}, {"aEbF", "xy", "EyxabF"}, {"aE", "xB", "EBxa"},
	} {
		var m Mailbox[rune]
		for _, r := range c.waiting {
			m.Put(new(list.Place[rune]), r, 1)
		}
		for _, r := range c.again {
			if r == 'B' { // the one that matches comes before all by then
				m.AgainBehind(new(list.Place[rune]), r, enlists)
			} else {
				m.AgainAfter(new(list.Place[rune]), r, enlists)
			}
		}
		if m.Has(enlists) != slices.ContainsFunc([]rune(c.want), enlists) {
			t.Errorf("%+v: Has says %t", c, m.Has(enlists))
		}
		var got []rune
		for m.Len() > 0 {
			got = append(got, m.Take())
		}
		if string(got) != c.want {
			t.Errorf("%+v: %q", c, string(got))
		}
	}
}
