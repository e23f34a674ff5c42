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
