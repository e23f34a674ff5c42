package diagnosis

import (
	"strings"
	"testing"
)

// TestCalls: types are warned of whose transactions deadlock often, the worst first.
func TestCalls(t *testing.T) {
	findings := Calls(map[ActorType]Chains{
		{"shop", "Transfer"}: {100, 10},
		{"shop", "Often"}:    {1e6, 19999},
		{"shop", "Seldom"}:   {9, 9},
		{"shop", "Just"}:     {500, 10},
		{"zoo", "Transfer"}:  {500, 300},
	})
	var found []string
	for _, f := range findings {
		what, _, _ := strings.Cut(f.Found, ":")
		found = append(found, what)
		if f.Check != "calls" || f.Verdict != verdictWarn || f.Remedy == "" {
			t.Errorf("%+v", f)
		}
	}
	if got := strings.Join(found, ", "); got != "Transfer of app zoo, Just of app shop, Transfer of app shop" {
		t.Error(got)
	}
	if len(findings) == 3 && !strings.Contains(findings[2].Found, "of 100 turns that called others, 10 were taken back") {
		t.Error(findings[2].Found)
	}
}
