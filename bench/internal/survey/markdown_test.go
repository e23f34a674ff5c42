package survey

import (
	"strings"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/bench/internal/load"
)

func TestMarkdown(t *testing.T) {
	result := func(calls int64, cpu map[string]time.Duration) load.Result {
		return load.Result{Calls: calls, Seconds: 1, P50: 1234567, P99: 23456789, CPU: cpu}
	}
	second := func(n int) time.Duration { return time.Duration(n) * time.Second }
	r := &Report{
		Machine: Machine{Processors: 2, Model: "a model", System: "linux/amd64", Go: "go1.26", Postgres: "15.1", Sync: 81234,
			Day: time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)},
		Runs: 2,
		Calls: []Calls{
			{Store: postgres, Guest: "Rust", kind: some, Result: result(20_000, map[string]time.Duration{load.Self: second(1), "server": second(1), postgres: second(2)})},
			{Store: postgres, Guest: "Rust", kind: stream, Result: result(50_000, map[string]time.Duration{"server": second(1)})},
			{Store: postgres, Guest: "Rust", kind: keyed, Result: result(25_000, map[string]time.Duration{"server": second(1)})},
			{Store: embeddedStore, Guest: "standard Go", kind: single, Result: result(1_234_567, nil)},
		},
		Transactions: []Calls{
			{Store: postgres, kind: kind{Outstanding: 64, Actors: actors}, Result: result(5_000, map[string]time.Duration{load.Self: second(1)})},
			{Store: postgres, kind: kind{Outstanding: 64, Actors: 1}, Result: result(1_000, nil)},
		},
		Memory:  []Memory{{"an actor", 50_000, 250_000, 1234}},
		Missing: []string{"TinyGo is not installed here"},
	}
	text := r.Markdown("picture.svg", "go run ./bench -table x")
	for _, want := range []string{
		"Measured by `go run ./bench -table x` on 2026-01-02: 2 processors (a model), linux/amd64, go1.26, PostgreSQL 15.1",
		"a synced write takes 81 µs", "Not measured: TinyGo is not installed here.",
		"| PostgreSQL | Rust | Go client, stream | 64 | 20,000 | 1.23 ms | 23 ms | 50 µs | 100 µs |\n",
		"| embedded | standard Go | Go client, stream, one actor | 256 | 1,234,567 | 1.23 ms | 23 ms | – | – |\n",
		"| many actors: a transaction per turn, 64 connections | 5,000 | 1.23 ms | 200 µs | 1.0 |\n",
		"| many actors: Greenroom, 1,024 calls under way | 50,000 | 1.23 ms | 20 µs | 10.0 |\n",
		"| PostgreSQL | 50,000 | 25,000 | 20 µs | 40 µs |\n",
		"| an actor | 1.2 KB | growth from 50,000 to 250,000 actors |\n",
		"![Latency against load](picture.svg)",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if n := strings.Count(text, "| 25,000 |"); n != 1 {
		t.Errorf("calls with a key stand in %d tables, want their own alone", n)
	}
}

func TestShort(t *testing.T) {
	for d, want := range map[time.Duration]string{
		950: "0.95 µs", 81_234: "81 µs", 123_456: "123 µs", 234_567: "230 µs", 1_987_654: "1.99 ms", 2_345_678: "2.3 ms", 1_500_000_000: "1.5 s",
	} {
		if got := short(d); got != want {
			t.Errorf("short(%d) = %s, want %s", d, got, want)
		}
	}
}
