package node_test

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/internal/guestbuild"
	"github.com/greenroom-run/greenroom/internal/node"
	"github.com/greenroom-run/greenroom/internal/pgtest"
)

// TestTooLargeNamesLimitAndSetting: what is larger than a limit is refused with the limit
// and what sets it, over Connect and over plain HTTP, and in the same words by a node that
// passed the call on.
func TestTooLargeNamesLimitAndSetting(t *testing.T) {
	url := pgtest.URL(t)
	config := func() node.Config {
		return inCluster(url, func(c *node.Config) { c.Limits = host.Limits{StateBytes: 1000, PayloadBytes: 3000} })
	}
	first := start(t, config())
	first.deploy(t, "", build(t, filepath.Join("testdata", "template"), guestbuild.Go))
	second := start(t, config())
	first.mustCall(t, "", "Letter", "ann", "Write", `"{{printf \"%4000s\" \"x\"}}"`, ``)
	for name, tc := range map[string]struct {
		method, payload string
		status          int
		says            []string
	}{
		"payload": {"Write", strings.Repeat("x", 3001), http.StatusRequestEntityTooLarge, []string{"3000 are allowed", "--max-payload", "--limit default/Letter:max-payload=…"}},
		"reply":   {"Render", "", http.StatusTooManyRequests, []string{"4002 bytes", "3000 bytes", "--max-payload", "--limit default/Letter:max-payload=…"}},
		"state":   {"Write", `"` + strings.Repeat("x", 2000) + `"`, http.StatusConflict, []string{"1000 are allowed", "--max-state", "--limit default/Letter:max-state=…"}},
	} {
		messages := map[string]bool{}
		for _, n := range []*running{first, second} {
			res := put(t, n.URL+"/v2.0/actors/default/Letter/ann/method/"+tc.method, tc.payload)
			for _, part := range tc.says {
				if !strings.Contains(res.body, part) {
					t.Errorf("%s: %s %s lacks %q", name, res.Status, res.body, part)
				}
			}
			if res.StatusCode != tc.status {
				t.Errorf("%s: %s", name, res.Status)
			}
			_, err := n.call(t.Context(), "", "Letter", "ann", tc.method, tc.payload)
			messages[err.Error()] = true
		}
		if len(messages) != 1 {
			t.Errorf("%s: %v", name, messages)
		}
	}
}
