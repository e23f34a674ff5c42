package query_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/internal/pgtest"
	"github.com/greenroom-run/greenroom/server/query"
	"github.com/greenroom-run/greenroom/store"
	"github.com/greenroom-run/greenroom/store/embedded"
	"github.com/greenroom-run/greenroom/store/sqlstore"
)

// values are JSON that stores, programs and people take for each other.
var values = []string{
	`null`, `true`, `false`, `0`, `-0`, `-0.0`, `1`, `1.0`, `1e0`, `10e-1`, `"1"`, `"1.0"`, `"true"`, `"null"`, `2`, `0.1`, `0.10`, `0.1000000000000000055511151231257827`,
	`9007199254740991`, `9007199254740992`, `9007199254740993`, `9007199254740993.0`, `-9007199254740993`, `9223372036854775807`, `9223372036854775808`, `18446744073709551615`,
	`18446744073709551616`, `1e308`, `1.7976931348623157e308`, `1.7976931348623159e308`, `2e308`, `1e400`, `-1e400`, `5e-324`, `2e-324`, `1e-400`, `-1e-400`,
	`0.99999999999999999999`, `1.00000000000000000001`, `1.0000000000000001`, `1.0000000000000002`,
	`""`, `" "`, `"a"`, `"A"`, `"ä"`, `"a\u0308"`, `"\u00e4"`, `"\ud83d\ude00"`, `"😀"`, `"a\\"`, `"\""`, `"'"`, `"\u200b"`, `"ﬀ"`, `"a b"`, `"a%"`, `"\n"`, `"\u007f"`,
	`[]`, `[1]`, `["b"]`, `[{"b":1}]`, `{}`, `{"b":1}`, `{"b":1.0}`, `{"b":"1"}`, `{"b":null}`, `{"b":true}`, `{"b":{"b":1}}`, `{"b":1,"b":2}`, `{"b":2,"\u0062":1}`, `{"0":1}`, `{"":1}`,
}

// refused are those that PostgreSQL's jsonb does not take.
var refused = []string{`"\u0000"`, `"a\u0000b"`, `"\ud800"`, `"\udc00\ud800"`, `1e200000`, `-1e-20000`, strings.Repeat("[", 9000) + strings.Repeat("]", 9000)}

// literals are what filters compare with.
var literals = []string{
	`0`, `1`, `-1`, `2`, `1.0`, `0.1`, `0.30000000000000004`, `1e308`, `1.7976931348623157e308`, `5e-324`, `-5e-324`, `1.0000000000000002`, `9007199254740991`, `9007199254740992`,
	`9007199254740993`, `9223372036854775807`, `9007199254740992.0`, `18446744073709551615u`, `9.3e18`, `true`, `false`, `null`, `"1"`, `""`, `"a"`, `"ä"`, `"a\u0308"`, `"😀"`, `"a\\"`, `"\x00"`, `"'"`, `"a%"`, `" "`,
}

var members = []string{`state.a`, `state["a"]`, `state.b`, `state.a.b`, `state["a"]["b"]`, `state.a.b.b`, `state.a["0"]`, `state.a[""]`, `state.a[0]`, `state.missing`}

// randomFilter is one of the forms that are pushed down, or nearly.
func randomFilter(r *rand.Rand) string {
	pick := func(of []string) string { return of[r.IntN(len(of))] }
	switch r.IntN(12) {
	case 0:
		return randomFilter(r) + " && " + randomFilter(r)
	case 1:
		return "(" + randomFilter(r) + " || " + randomFilter(r) + ")"
	case 2:
		return "!(" + randomFilter(r) + ")"
	case 3:
		return pick(members)
	case 4:
		return "!" + pick(members)
	case 5:
		return "has(" + pick([]string{`state.a`, `state.b`, `state.a.b`, `state.missing`, `state.missing.b`}) + ")"
	case 6:
		return "id >= " + fmt.Sprintf("%q", fmt.Sprintf("%04d", r.IntN(300)))
	}
	left, right := pick(members), pick(literals)
	if r.IntN(4) == 0 {
		left, right = right, left
	}
	return left + " " + pick([]string{"==", "!=", "<", "<=", ">", ">="}) + " " + right
}

// leaving counts what a store leaves out.
type leaving struct {
	query.Scanner
	left int
}

func (l *leaving) ScanActors(ctx context.Context, q store.ActorScan, visit func(*store.ScannedActor) bool) (int, string, error) {
	visited := 0
	examined, next, err := l.Scanner.ScanActors(ctx, q, func(row *store.ScannedActor) bool { visited++; return visit(row) })
	l.left += examined - visited
	return examined, next, err
}

// TestPushedDownIsTheSame compares answers and counts of random filters on stores, which may leave out
// rows, with those of the same states in memory.
func TestPushedDownIsTheSame(t *testing.T) {
	urls := map[string]string{"postgresql": pgtest.URL(t), "embedded": ""}
	if url, ok := pgtest.CockroachURL(t); ok {
		urls["cockroachdb"] = url
	}
	for name, url := range urls {
		t.Run(name, func(t *testing.T) {
			var s store.Store
			var err error
			if url == "" {
				s, err = embedded.Open(t.Context(), embedded.Config{Dir: t.TempDir(), Logger: slog.New(slog.DiscardHandler)})
			} else {
				s, err = sqlstore.Open(t.Context(), sqlstore.Config{URL: url, Logger: slog.New(slog.DiscardHandler)})
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
			for app, all := range map[string][]string{"tame": values, "wild": append(slices.Clone(values), refused...)} {
				t.Run(app, func(t *testing.T) { samePushedDown(t, s, app, all, url != "" && app == "tame" && name == "postgresql") })
			}
		})
	}
}

func samePushedDown(t *testing.T, s store.Store, app string, all []string, leaves bool) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	states := map[string]string{}
	for i, v := range all {
		states[fmt.Sprintf("%04d", i)] = `{"a":` + v + `}`
		states[fmt.Sprintf("%04db", i)] = `{"a":` + v + `,"b":` + all[r.IntN(len(all))] + `}`
	}
	states["none"], states["bytes"], states["empty"] = "", "GRE1", `{}`
	m := newMemory(states)
	for id, state := range m.states {
		w := actor.RowWrite{Key: actor.Key{App: app, Type: "Cart", ID: id}, NewVersion: actor.FirstVersion(), State: &state}
		if err := s.Commit(t.Context(), []actor.Commit{actor.CommitOf(w)})[0]; err != nil {
			t.Fatalf("write %s: %v", states[id], err)
		}
	}
	counting, compiler := &leaving{Scanner: s}, query.NewCompiler()
	for range 200 {
		filter := randomFilter(r)
		q, err := compiler.Compile(filter, nil)
		if err != nil { // of types that do not fit, which a random filter may have
			continue
		}
		p := page()
		p.App = app
		got, want := run(t, q, counting, p), run(t, q, m, p)
		if !slices.Equal(ids(got), ids(want)) || got.Failed != want.Failed || got.NotJSON != want.NotJSON || got.Matched != want.Matched || got.Examined != want.Examined || got.Failure != want.Failure {
			t.Fatalf("seed %d: %s\nfinds %q, %d failed, %d not JSON, %d examined\n want %q, %d failed, %d not JSON, %d examined", seed, filter,
				ids(got), got.Failed, got.NotJSON, got.Examined, ids(want), want.Failed, want.NotJSON, want.Examined)
		}
	}
	if leaves && counting.left == 0 {
		t.Error("the store left nothing out")
	}
}
