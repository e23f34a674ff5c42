package main

import (
	"bytes"
	"strings"
	"testing"
)

// TestCallAllChecks: what cannot be is refused before a server is asked.
func TestCallAllChecks(t *testing.T) {
	for _, tt := range []struct {
		args  []string
		stdin string
		want  string
	}{
		{[]string{"--all", "-", "Counter"}, "[]", "unexpected argument"},
		{[]string{"--all", "-", "--query"}, "[]", "--query and --strong are for one call"},
		{[]string{"--all", "-", "--timeout", "0s"}, "[]", "give a time above 0"},
		{[]string{"--all", "-", "--content-type", "text/plain"}, "[]", "--content-type is for one call"},
		{[]string{"--all", "-"}, `{"app":"x","calls":[]}`, `standard input has the unknown member "app"; known are calls, and in each call type, id, method and data`},
		{[]string{"--all", "-"}, `[{"type":"T","id":"a","method":"M","payload":1}]`, `has the unknown member "payload"`},
		{[]string{"--all", "-"}, `{"calls":{}}`, "is not the JSON of calls"},
		{[]string{"--all", "-"}, "x", "standard input is not the JSON of calls"},
		{[]string{"--all", "no-such-file"}, "", "no such file"},
	} {
		var stdout, stderr bytes.Buffer
		args := append([]string{"call", "--server", "http://127.0.0.1:1"}, tt.args...)
		if status := run(t.Context(), args, strings.NewReader(tt.stdin), &stdout, &stderr, noEnv); status == exitOK || !strings.Contains(stderr.String(), tt.want) {
			t.Errorf("%q: status %d, %s", tt.args, status, stderr.String())
		}
	}
}
