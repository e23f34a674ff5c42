package survey

import (
	"fmt"
	"strings"
	"time"

	"github.com/greenroom-run/greenroom/bench/internal/load"
	"github.com/greenroom-run/greenroom/bench/internal/wire"
)

// Markdown writes the report for docs/performance.md; picture is the name of the
// file with the curves, and command what measured it all.
func (r *Report) Markdown(picture, command string) string {
	var b strings.Builder
	m := r.Machine
	fmt.Fprintf(&b, "Measured by `%s` on %s: %d processors", command, m.Day.Format(time.DateOnly), m.Processors)
	if m.Model != "" {
		fmt.Fprintf(&b, " (%s)", m.Model)
	}
	fmt.Fprintf(&b, ", %s, %s", m.System, m.Go)
	if m.Postgres != "" {
		fmt.Fprintf(&b, ", PostgreSQL %s", m.Postgres)
	}
	fmt.Fprintf(&b, ", on a disk where a synced write takes %s. ", short(m.Sync))
	if r.Runs == 1 {
		b.WriteString("One run of each.")
	} else {
		fmt.Fprintf(&b, "Of %d runs of each the one with the median rate.", r.Runs)
	}
	for _, what := range r.Missing {
		fmt.Fprintf(&b, " Not measured: %s.", what)
	}
	b.WriteString("\n\n### Calls\n\n")
	r.calls(&b)
	b.WriteString("\n### Against a transaction per turn\n\n")
	r.transactions(&b)
	b.WriteString("\n### What an idempotency key costs\n\n")
	r.keys(&b)
	b.WriteString("\n### Memory\n\n| for each | resident | measured |\n|---|---|---|\n")
	for _, line := range r.Memory {
		fmt.Fprintf(&b, "| %s | %.1f KB | growth from %s to %s actors |\n", line.What, line.Bytes/1e3, count(line.From), count(line.To))
	}
	fmt.Fprintf(&b, "\n### Latency against load\n\n![Latency against load](%s)\n", picture)
	return b.String()
}

func (r *Report) calls(b *strings.Builder) {
	b.WriteString("| store | guest | called by | under way | calls/s | p50 | p99 | server | database |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, c := range r.Calls {
		if c.Keys {
			continue // has a table of its own
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", c.Store, c.Guest, c.kind, count(c.Outstanding),
			count(int(c.Result.Rate())), short(c.Result.P50), short(c.Result.P99), share(c.Result, "server"), share(c.Result, postgres))
	}
}

// transactions compares Greenroom on PostgreSQL with a transaction per turn there.
func (r *Report) transactions(b *strings.Builder) {
	b.WriteString("| on PostgreSQL | calls/s | p50 | processor time of all per call | times the calls |\n|---|---|---|---|---|\n")
	line := func(what string, res load.Result, base load.Result) {
		fmt.Fprintf(b, "| %s | %s | %s | %s | %.1f |\n", what, count(int(res.Rate())), short(res.P50), short(res.CPUPerCall()), res.Rate()/base.Rate())
	}
	for _, t := range r.Transactions {
		many, kinds := "many actors", []kind{some, stream}
		if t.Actors == 1 {
			many, kinds = "one actor", []kind{single}
		}
		line(fmt.Sprintf("%s: a transaction per turn, %d connections", many, t.Outstanding), t.Result, t.Result)
		for _, k := range kinds {
			if c := r.find(postgres, "Rust", k); c.Result.Calls > 0 {
				line(fmt.Sprintf("%s: Greenroom, %s calls under way", many, count(k.Outstanding)), c.Result, t.Result)
			}
		}
	}
}

// keys compares calls with a key and without.
func (r *Report) keys(b *strings.Builder) {
	b.WriteString("| store | calls/s without | with | processor time of all per call without | with |\n|---|---|---|---|---|\n")
	for _, c := range r.Calls {
		if !c.Keys {
			continue
		}
		plain := c.kind
		plain.Keys = false
		without := r.find(c.Store, c.Guest, plain).Result
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s |\n", c.Store, count(int(without.Rate())), count(int(c.Result.Rate())),
			short(without.CPUPerCall()), short(c.Result.CPUPerCall()))
	}
}

// String says how calls are made, for people.
func (k kind) String() string {
	name := map[wire.Protocol]string{wire.HTTP: "HTTP", wire.Connect: "Connect, unary", wire.Stream: "Go client, stream"}[k.Protocol]
	if k.Reads {
		name += ", read-only"
	}
	if k.Actors == 1 {
		name += ", one actor"
	}
	return name
}

// share is what a process took for a call, a dash if it was not watched.
func share(res load.Result, name string) string {
	used, ok := res.CPU[name]
	if !ok || res.Calls == 0 {
		return "–"
	}
	return short(used / time.Duration(res.Calls))
}

// short rounds to two digits, or three where the first is a 1: there are no more
// in such figures.
func short(d time.Duration) string {
	unit := time.Nanosecond
	for d/unit >= 200 {
		unit *= 10
	}
	d = d.Round(unit)
	switch {
	case d >= time.Second:
		return fmt.Sprintf("%.3g s", d.Seconds())
	case d >= time.Millisecond:
		return fmt.Sprintf("%.3g ms", float64(d)/float64(time.Millisecond))
	}
	return fmt.Sprintf("%.3g µs", float64(d)/float64(time.Microsecond))
}

// count writes a number with commas.
func count(n int) string {
	s := fmt.Sprint(n)
	for at := len(s) - 3; at > 0; at -= 3 {
		s = s[:at] + "," + s[at:]
	}
	return s
}
