package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestJudgeCalls: types are warned of whose transactions deadlock often, the worst first.
func TestJudgeCalls(t *testing.T) {
	findings := judgeCalls(strings.NewReader(`# HELP greenroom_chains_total Turns that called other actors, by outcome.
greenroom_chains_total{app="shop",outcome="ok",type="Transfer"} 90
greenroom_chains_total{app="shop",outcome="canceled",type="Transfer"} 10
greenroom_chain_deadlocks_total{app="shop",type="Transfer"} 10
greenroom_chains_total{app="shop",outcome="ok",type="Often"} 1e+06
greenroom_chain_deadlocks_total{app="shop",type="Often"} 19999
greenroom_chains_total{app="shop",outcome="ok",type="Seldom"} 9
greenroom_chain_deadlocks_total{app="shop",type="Seldom"} 9
greenroom_chains_total{app="shop",outcome="ok",type="Just"} 500
greenroom_chain_deadlocks_total{app="shop",type="Just"} 10
greenroom_chains_total{app="zoo",outcome="ok",type="Transfer"} 500
greenroom_chain_deadlocks_total{app="zoo",type="Transfer"} 300
`))
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

// TestDoctorReadsMetrics with the token, and takes nothing from a page that is not the metrics.
func TestDoctorReadsMetrics(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics" {
			return
		}
		if r.Header.Get("Authorization") != "Bearer secret" {
			w.WriteHeader(http.StatusForbidden)
		}
		_, _ = io.WriteString(w, "greenroom_chains_total{app=\"shop\",outcome=\"ok\",type=\"Transfer\"} 90\ngreenroom_chain_deadlocks_total{app=\"shop\",type=\"Transfer\"} 10\n")
	}))
	defer server.Close()
	for token, want := range map[string]bool{"secret": true, "other": false} {
		env := map[string]string{"GREENROOM_TOKEN": token}
		var stdout, stderr bytes.Buffer
		run(t.Context(), []string{"doctor", "--server", server.URL}, strings.NewReader(""), &stdout, &stderr, func(name string) string { return env[name] })
		if got := strings.Contains(stdout.String(), "Transfer of app shop"); got != want {
			t.Errorf("with the token %s: %s%s", token, stdout.String(), stderr.String())
		}
	}
}
