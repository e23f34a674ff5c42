package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
)

// A type whose transactions deadlock at least so often, and in one of so many cases, is worth a
// warning.
const (
	deadlocksWarn = 10
	deadlocksIn   = 50
)

// calls counts the transactions that turns of one type began.
type calls struct{ began, deadlocks float64 }

// callFindings say whether turns that call other actors often wait for each other, by what the server
// has counted since it started. A server that shows its metrics to others only has none.
func callFindings(ctx context.Context, c *cli) []finding {
	a, err := c.api()
	if err != nil {
		return nil // said before
	}
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.url+"/metrics", nil)
	if err != nil {
		return nil
	}
	bearer(c.token).header(req.Header)
	resp, err := a.http.Do(req)
	if err != nil {
		return nil
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil
	}
	const most = 64 << 20
	return judgeCalls(io.LimitReader(resp.Body, most))
}

// chainMetric is a line of metrics that counts what turns of a type began.
var chainMetric = regexp.MustCompile(`^greenroom_(chains|chain_deadlocks)_total\{app="([^"]*)",(?:outcome="[^"]*",)?type="([^"]*)"\} (\S+)$`)

// judgeCalls reads the metrics of a server.
func judgeCalls(metrics io.Reader) []finding {
	byType := map[[2]string]calls{} // by app and type
	for lines := bufio.NewScanner(metrics); lines.Scan(); {
		found := chainMetric.FindStringSubmatch(lines.Text())
		if found == nil {
			continue
		}
		n, _ := strconv.ParseFloat(found[4], 64)
		of := [2]string{found[2], found[3]}
		count := byType[of]
		if found[1] == "chains" {
			count.began += n
		} else {
			count.deadlocks += n
		}
		byType[of] = count
	}
	var findings []finding
	for _, of := range slices.SortedFunc(maps.Keys(byType), func(a, b [2]string) int {
		return cmp.Or(cmp.Compare(byType[b].deadlocks, byType[a].deadlocks), slices.Compare(a[:], b[:]))
	}) {
		n := byType[of]
		if n.deadlocks < deadlocksWarn || n.deadlocks*deadlocksIn < n.began {
			continue
		}
		findings = append(findings, finding{
			Check: "calls", Verdict: verdictWarn,
			Found:  fmt.Sprintf("%s of app %s: of %.0f turns that called others, %.0f were taken back and ran again, since they and others waited for each other's actors (counted since the server started)", of[1], of[0], n.began, n.deadlocks),
			Remedy: "call actors in one order from all methods, the smaller ID first, and those that many call last (docs/calls.md)",
		})
	}
	return findings
}
