package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/internal/guestbuild"
	"github.com/greenroom-run/greenroom/server/diagnosis"
)

// verdict is how a check of doctor ended.
type verdict string

const (
	verdictOK   verdict = "OK"
	verdictWarn verdict = "WARN" // something that not everybody needs
	verdictFail verdict = "FAIL"
)

type finding struct {
	Check   string  `json:"check"`
	Verdict verdict `json:"verdict"`
	Found   string  `json:"found"`
	Remedy  string  `json:"remedy,omitempty"`
}

const (
	// clockWarn is a difference of clocks that disturbs the order of logs of client and server.
	clockWarn = 2 * time.Second
	// diskWarn and diskFail leave room for the store's compactions.
	diskWarn = 2 << 30
	diskFail = 256 << 20
)

func doctorCommand(c *cli) *cobra.Command {
	var dataDir string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check the toolchains and the server",
		Long: `Check that guests can be built here, and that the server answers, lets you in, can
reach its store and has the right time; in a cluster, also that all servers keep
their leases and reach the leader and each other. It warns of types whose
transactions often wait for each other. FAIL marks something that you need
and that does not work, WARN something that only some users need. The exit status is
1 if anything failed.`,
		Example: `  greenroom doctor
  greenroom doctor --server https://greenroom.example.com --data-dir /var/lib/greenroom`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			findings := toolchainFindings(guestbuild.Probe(cmd.Context()))
			server, err := serverFindings(cmd.Context(), c)
			if err != nil {
				return err
			}
			findings = append(findings, server...)
			if server[0].Verdict == verdictOK {
				findings = append(findings, diagnosisOf(cmd.Context(), c)...)
			}
			findings = append(findings, diskFinding(dataDir))
			return showFindings(c, findings)
		},
	}
	cmd.Flags().StringVar(&dataDir, "data-dir", ".", "`folder` whose disk is checked")
	return cmd
}

func showFindings(c *cli, findings []finding) error {
	failed := 0
	for _, f := range findings {
		if f.Verdict == verdictFail {
			failed++
		}
	}
	if c.wantsJSON() {
		if err := writeJSON(c.stdout, map[string][]finding{"checks": findings}); err != nil {
			return err
		}
	} else {
		colours := map[verdict]style{verdictOK: green, verdictWarn: yellow, verdictFail: red}
		for _, f := range findings {
			c.printf(c.stdout, "%s  %-9s %s\n", c.paint(c.stdout, colours[f.Verdict], fmt.Sprintf("%-4s", f.Verdict)), f.Check, f.Found)
			if f.Remedy != "" {
				c.printf(c.stdout, "                %s\n", c.paint(c.stdout, dim, f.Remedy))
			}
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d checks failed", failed, len(findings))
	}
	return nil
}

// toolchainFindings judges what can be built: a missing toolchain is fine as
// long as another one builds guests.
func toolchainFindings(found []guestbuild.Status) []finding {
	var out []finding
	usable := false
	for _, st := range found {
		f := finding{Check: st.Toolchain, Verdict: verdictOK, Found: st.Version}
		if st.Err != nil {
			f.Verdict, f.Found = verdictWarn, st.Err.Error()
			var tool *guestbuild.ToolchainError
			if errors.As(st.Err, &tool) {
				f.Found, f.Remedy = tool.Problem, tool.Remedy
			}
		} else {
			usable = true
			if st.Why != "" {
				f.Found += ": " + st.Why
			}
			if st.Note != "" {
				f.Verdict, f.Remedy = verdictWarn, st.Note
			}
		}
		out = append(out, f)
	}
	if !usable {
		for i := range out {
			out[i].Verdict = verdictFail
		}
	}
	return out
}

// serverFindings looks at the server from the outside in, and stops where
// nothing further can be seen.
func serverFindings(ctx context.Context, c *cli) ([]finding, error) {
	a, err := c.api()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()

	live, clock, _, err := get(ctx, a, "/healthz")
	server := finding{Check: "server", Verdict: verdictOK, Found: a.url}
	if err != nil || live != http.StatusOK {
		server.Verdict, server.Remedy = verdictFail, "start one with `greenroom dev` or `greenroom serve`, or name another with --server"
		server.Found = fmt.Sprintf("%s answers %s", a.url, http.StatusText(live))
		if err != nil {
			server.Found = describeError(c, connect.NewError(connect.CodeUnavailable, err)).Message
		}
		return []finding{server}, nil
	}
	out := []finding{server, authFinding(ctx, c, a)}

	ready, _, reason, err := get(ctx, a, "/readyz")
	store := finding{Check: "store", Verdict: verdictOK, Found: "the server reaches its store"}
	if err != nil || ready != http.StatusOK {
		store.Verdict, store.Found, store.Remedy = verdictFail, "the server is not ready", "look into the server's log, and check that its database is there and takes writes (it may be read-only, or its disk full), and that it reaches the other servers of its cluster"
		if reason != "" {
			store.Found += ": " + reason
		}
	}
	return append(out, store, clock), nil
}

func authFinding(ctx context.Context, c *cli, a *api) finding {
	f := finding{Check: "auth", Verdict: verdictOK, Found: "the API lets you in"}
	_, err := unary(ctx, a.modules.ListTypes, &greenroomv1.ListTypesRequest{App: c.app})
	if err != nil {
		s := describeError(c, err)
		f.Verdict, f.Found, f.Remedy = verdictFail, s.Message, s.Remedy
	}
	return f
}

// get fetches one of the server's own pages, the beginning of it. The second
// result compares the clocks by the Date header, which counts whole seconds.
func get(ctx context.Context, a *api, path string) (status int, clock finding, text string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.url+path, nil)
	if err != nil {
		return 0, clock, "", err
	}
	sent := time.Now()
	resp, err := a.http.Do(req)
	if err != nil {
		return 0, clock, "", err
	}
	received := time.Now()
	const most = 2 << 10
	body, err := io.ReadAll(io.LimitReader(resp.Body, most))
	_ = resp.Body.Close()
	return resp.StatusCode, clockFinding(resp.Header.Get("Date"), sent, received), strings.TrimSpace(string(body)), err
}

// clockFinding judges the server's time, given when the answer was asked for
// and when it came.
func clockFinding(date string, sent, received time.Time) finding {
	f := finding{Check: "clock", Verdict: verdictOK, Found: "the server's clock agrees with this one"}
	t, err := http.ParseTime(date)
	if err != nil {
		return finding{Check: "clock", Verdict: verdictWarn, Found: "the server does not say what time it is"}
	}
	behind, ahead := sent.Sub(t.Add(time.Second)), t.Sub(received)
	switch {
	case behind > clockWarn:
		f.Found = fmt.Sprintf("the server's clock is behind by about %s", behind.Round(time.Second))
	case ahead > clockWarn:
		f.Found = fmt.Sprintf("the server's clock is ahead by about %s", ahead.Round(time.Second))
	default:
		return f
	}
	f.Verdict, f.Remedy = verdictWarn, "set the clocks of both machines by NTP"
	return f
}

// diskFinding judges the free space where dir is or would be.
func diskFinding(dir string) finding {
	f := finding{Check: "disk", Verdict: verdictOK}
	abs, err := filepath.Abs(dir)
	for err == nil {
		if _, statErr := os.Stat(abs); !errors.Is(statErr, os.ErrNotExist) || abs == filepath.Dir(abs) {
			break
		}
		abs = filepath.Dir(abs)
	}
	free, ok := int64(0), false
	if err == nil {
		free, ok = freeSpace(abs)
	}
	if !ok {
		return finding{Check: "disk", Verdict: verdictWarn, Found: fmt.Sprintf("the free space of %s cannot be told", dir)}
	}
	f.Found = fmt.Sprintf("%s free for %s", size(free), dir)
	switch {
	case free < diskFail:
		f.Verdict = verdictFail
	case free < diskWarn:
		f.Verdict = verdictWarn
	}
	if f.Verdict != verdictOK {
		f.Remedy = "free some space, or put the data on another disk with --data-dir"
	}
	return f
}

// diagnosisOf returns what the server finds about itself, its cluster and the calls of actors.
func diagnosisOf(ctx context.Context, c *cli) []finding {
	a, err := c.api()
	if err != nil {
		return nil // said before
	}
	resp, err := unary(ctx, a.status.Diagnose, &greenroomv1.DiagnoseRequest{Reach: true})
	switch connect.CodeOf(err) {
	case connect.CodeUnimplemented, connect.CodeNotFound: // a server of an earlier version
		resp = olderDiagnosis(ctx, a)
	case connect.CodeUnauthenticated, connect.CodePermissionDenied:
		return nil // the check of the token says so
	default:
		if err != nil {
			return []finding{{Check: "diagnosis", Verdict: verdictFail, Found: err.Error(), Remedy: "ask the server's log"}}
		}
	}
	judged := slices.DeleteFunc(resp.GetFindings(), func(f *greenroomv1.Finding) bool { return f.Check == "store" }) // as /readyz says to everybody
	return mapped(judged, func(f *greenroomv1.Finding) finding {
		return finding{Check: f.Check, Verdict: verdict(strings.TrimPrefix(f.Verdict.String(), "VERDICT_")), Found: f.Found, Remedy: f.Remedy}
	})
}

// olderDiagnosis judges the cluster of a server that does not judge it itself.
func olderDiagnosis(ctx context.Context, a *api) *greenroomv1.DiagnoseResponse {
	hosts, err := unary(ctx, a.cluster.ListHosts, &greenroomv1.ListHostsRequest{})
	if err != nil {
		return nil // on an embedded store, or not for this token
	}
	return &greenroomv1.DiagnoseResponse{Findings: diagnosis.Cluster(hosts)}
}
