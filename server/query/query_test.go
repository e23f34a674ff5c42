package query_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/server/query"
	"github.com/greenroom-run/greenroom/store"
)

// memory is a scanner of states by IDs, in order. It leaves nothing out.
type memory struct {
	ids    []string
	states map[string]actor.EncodedState
	scans  []store.ActorScan
}

func newMemory(states map[string]string) *memory {
	m := &memory{states: map[string]actor.EncodedState{}}
	for id, state := range states {
		m.states[id] = encoded(state)
		m.ids = append(m.ids, id)
	}
	slices.Sort(m.ids)
	return m
}

// encoded is a state: of JSON, unless its text is no object.
func encoded(state string) actor.EncodedState {
	switch {
	case state == "":
		return actor.EncodedState{}
	case state[0] != '{':
		return actor.EncodedState{Format: actor.FormatEnvelope, Data: []byte(state)}
	}
	return actor.EncodedState{Format: actor.FormatJSON, Data: []byte(state)}
}

func (m *memory) ScanActors(_ context.Context, q store.ActorScan, visit func(*store.ScannedActor) bool) (examined int, next string, err error) {
	m.scans = append(m.scans, q)
	for _, id := range m.ids {
		if id <= q.After || id < q.From || q.Before != "" && id >= q.Before {
			continue
		}
		examined++
		row := store.ScannedActor{ActorInfo: store.ActorInfo{Key: actor.Key{App: q.App, Type: q.Type, ID: id}, Version: 5, UpdatedAt: noon, StateSize: 9}, MethodSet: "open"}
		if q.States {
			row.State = m.states[id]
		}
		if !visit(&row) || examined == q.Limit {
			return examined, id, nil
		}
	}
	return examined, "", nil
}

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

func page() query.Page {
	return query.Page{App: "shop", Type: "Cart", Size: 1000, Now: func() time.Time { return noon.Add(time.Hour) }}
}

func compile(t *testing.T, filter string, selects ...string) *query.Query {
	t.Helper()
	q, err := query.NewCompiler().Compile(filter, selects)
	if err != nil {
		t.Fatalf("%s: %v", filter, err)
	}
	return q
}

func run(t *testing.T, q *query.Query, s query.Scanner, p query.Page) *query.Result {
	t.Helper()
	r, err := q.Run(t.Context(), s, p)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func ids(r *query.Result) (all []string) {
	for _, f := range r.Found {
		all = append(all, f.Key.ID)
	}
	return all
}

// deep is a value deeper in lists than one is read.
func deep(value string) string { return strings.Repeat("[", 120) + value + strings.Repeat("]", 120) }

// The answer of a filter for one actor.
func TestAnswersOfFilters(t *testing.T) {
	const yes, no, failed, notJSON = "yes", "no", "failed", "not JSON"
	for _, tt := range []struct{ state, filter, want string }{
		{`{"total":101}`, `state.total > 100 && id.startsWith("eu/")`, yes},
		{`{"total":100}`, `state.total > 100 && id.startsWith("eu/")`, no},
		{`{"total":101}`, `state.total > 100 && id.startsWith("us/")`, no},
		{`{"total":1}`, `state.total == 1.0`, yes},
		{`{"total":1.0}`, `state.total == 1`, yes},
		{`{"total":"1"}`, `state.total == 1`, no},
		{`{"total":"1"}`, `state.total != 1`, yes},
		{`{"total":"1"}`, `state.total > 0`, failed},
		{`{"total":null}`, `state.total == null`, yes},
		{`{"total":null}`, `state.total > 0`, failed},
		{`{}`, `state.total > 0`, failed},
		{`{}`, `has(state.total) && state.total > 0`, no},
		{`{}`, `state.total > 0 || id == "eu/1"`, yes},
		{`{}`, `state.total > 0 && id == "eu/2"`, no},
		{`{"n":9007199254740993}`, `state.n == 9007199254740993`, yes},
		{`{"n":9007199254740993}`, `state.n == 9007199254740992`, no},
		{`{"n":18446744073709551615}`, `state.n == 18446744073709551615u`, yes},
		{`{"n":18446744073709551616}`, `state.n >= 18446744073709551615u`, yes},
		{`{"n":1e999}`, `state.n > 1e300`, yes},
		{`{"n":-0}`, `state.n == 0`, yes},
		{`{"s":"\u00e4\ud83d\ude00\n"}`, `state.s == "ä😀\n"`, yes},
		{`{"s":"\ud800"}`, `state.s == "\uFFFD"`, yes},
		{`{"s":"a\\"}`, `state.s == "a\\" && size(state) == 1`, yes},
		{`{"\u0061":1}`, `state.a == 1`, yes},
		{`{"a":1,"x":{"a":1,"a":2}}`, `state.x.a == 2 && size(state.x) == 1`, yes},
		{`{"x":[1,"b",{"c":[true]}]}`, `state.x[2].c[0] && state.x[1] == "b" && size(state.x) == 3`, yes},
		{`{"x":[1]}`, `state.x["0"] == 1`, failed},
		{`{"x":[1]}`, `state.x[1] == 1`, failed},
		{`{"x":[1,2,3]}`, `state.x.exists(n, n == 3) && !state.x.all(n, n < 3) && 2 in state.x`, yes},
		{`{"x":{"a":1,"b":2}}`, `state.x.all(k, state.x[k] > 0) && "a" in state.x && state.x == {"b": 2.0, "a": 1}`, yes},
		{`{"x":[1,{"a":[]}]}`, `state.x == [1, {"a": []}] && state == {"x": state.x}`, yes},
		{`{ "x" : [ 1 , 2 ] , "y" : { } }`, `state.x == [1, 2] && state.y == {}`, yes},
		{`{"paid":true}`, `state.paid`, yes},
		{`{"paid":"true"}`, `state.paid`, failed},
		{`{"day":"2026-05-04T00:00:00Z"}`, `timestamp(state.day) < now && updated_at == timestamp("2026-05-04T12:00:00Z")`, yes},
		{`{"x":1}`, `type(state.x) == int && type(state) == map`, yes},
		{`{"x":1}`, `version == 5 && generation == 0 && method_set == "open" && !spawned && life == 0 && state_size == 9 && state_schema == 0`, yes},
		{`{"s":"eu"}`, "state.`s`.matches('^e[u]$')", yes},
		{``, `!has(state.total)`, yes},
		{"GRE1", `!has(state.total)`, notJSON},
		{"GRE1", `version == 5`, yes},
		{`{"x":` + deep("1") + `,"y":` + deep("2") + `}`, `state.x == state.y`, failed},
		{`{"x":{"a":` + deep("1") + `},"y":{"a":` + deep("2") + `}}`, `state.x == state.y`, failed},
		{`{"x":[` + strings.Repeat("0,", 200_000) + `1]}`, `state.x.all(n, n >= 0)`, failed},
	} {
		r := run(t, compile(t, tt.filter), newMemory(map[string]string{"eu/1": tt.state}), page())
		got := no
		switch {
		case r.Matched == 1:
			got = yes
		case r.Failed == 1:
			got = failed
		case r.NotJSON == 1:
			got = notJSON
		}
		if got != tt.want {
			t.Errorf("%.60s: %s: %s, want %s (%s)", tt.state, tt.filter, got, tt.want, r.Failure)
		}
		if got == failed && !strings.HasPrefix(r.Failure, `actor "eu/1": `) {
			t.Errorf("%s: the failure is %q", tt.filter, r.Failure)
		}
	}
}

func TestWhatIsWrongWithAnExpression(t *testing.T) {
	loop := "[0,1,2,3,4,5,6,7,8,9].all(a, "
	for _, tt := range []struct{ filter, want string }{
		{`stat.total > 100`, `filter is wrong at line 1, column 1: undeclared reference to 'stat' (in container ''); the names are id, `},
		{"true &&\n  totl > 1", `filter is wrong at line 2, column 3: undeclared reference to 'totl'`},
		{`id > 5`, `filter is wrong at line 1, column 4: found no matching overload for '_>_' applied to '(string, int)'; convert one side`},
		{`state.total = 5`, `filter is wrong at line 1, column 13: Syntax error: token recognition error at: '= '; CEL has == for equal`},
		{`state.a and state.b`, `filter is wrong at line 1, column 9: Syntax error: mismatched input 'and' expecting <EOF>; CEL has == for equal, && for and`},
		{`now > updated_at + duration("1d")`, `filter is wrong: type conversion error from 'string' to 'google.protobuf.Duration'; durations are such as duration("24h")`},
		{`updated_at > timestamp("2026-12-24")`, `filter is wrong: invalid RFC 3339 timestamp "2026-12-24"; times are such as timestamp("2026-12-24T18:00:00Z")`},
		{`state.total >`, `filter is wrong at line 1, column 14: Syntax error`},
		{`id`, `filter is a string; a filter is true or false: compare it with something`},
		{`1 + 1`, `filter is a int`},
		{strings.Repeat(loop, 6) + "a == a" + strings.Repeat(")", 6), `filter may cost `},
		{strings.Repeat("(", 300) + "true" + strings.Repeat(")", 300), `filter is wrong`},
		{"id in [" + strings.Repeat("'x',", 1001) + "'y']", `filter is wrong`},
		{`id.matches("(")`, `filter is wrong`},
	} {
		_, err := query.NewCompiler().Compile(tt.filter, nil)
		var argument *actor.ArgumentError
		if !errors.As(err, &argument) || !strings.HasPrefix(err.Error(), tt.want) || !strings.Contains(err.Error(), ";") {
			t.Errorf("%.60s: %v, want %s", tt.filter, err, tt.want)
		}
	}
	_, err := query.NewCompiler().Compile("", []string{"id", "sate.x"})
	if err == nil || !strings.HasPrefix(err.Error(), "select[1] is wrong at line 1, column 1") {
		t.Errorf("of a wrong expression: %v", err)
	}
}

func TestSelectedValues(t *testing.T) {
	m := newMemory(map[string]string{"a": `{"n":18446744073709551616, "o":{"b": [1.50, "<ä\u0000>"]}, "s":"<x>"}`})
	for expression, want := range map[string]string{
		`id`: `"a"`, `state.n`: `18446744073709552000`, `state.o`: `{"b":[1.50,"<ä\u0000>"]}`, `state.o.b`: `[1.50,"<ä\u0000>"]`, `state.s`: `"<x>"`,
		`state.missing`: ``, `1u`: `1`, `-5`: `-5`, `2.5`: `2.5`, `1.0/0.0`: `"+Inf"`, `null`: `null`, `version > 1`: `true`, `b"ab"`: `"YWI="`,
		`{"b": [state.s], "a": {1: 2}}`: `{"a":{"1":2},"b":["<x>"]}`, `updated_at`: `"2026-05-04T12:00:00Z"`, `now - updated_at`: `"1h0m0s"`, `type(1)`: `"int"`,
		`[1, 2].map(n, n * 2)`: `[2,4]`, `size(state)`: `3`,
	} {
		r := run(t, compile(t, "", expression), m, page())
		if got := r.Found[0].Selected[0]; got != want {
			t.Errorf("%s is %s, want %s", expression, got, want)
		}
	}
}

// What is known of IDs becomes a range, which the rest of the filter does not widen.
func TestRangesOfIDs(t *testing.T) {
	for _, tt := range []struct{ filter, prefix, from, before string }{
		{filter: `id.startsWith("eu/")`, from: "eu/", before: "eu0"},
		{filter: `id.startsWith("eu/") && (state.a == 1 || id == "x")`, from: "eu/", before: "eu0"},
		{filter: `id.startsWith("eu/") || id == "x"`},
		{filter: `!id.startsWith("eu/")`},
		{filter: `id == "x"`, from: "x", before: "x\x01"},
		{filter: `"x" == id`, from: "x", before: "x\x01"},
		{filter: `id >= "b" && id < "d"`, from: "b", before: "d"},
		{filter: `"b" < id && "d" >= id`, from: "b\x01", before: "d\x01"},
		{filter: `id > "b" && id > "c" && id < "x" && id < "d"`, from: "c\x01", before: "d"},
		{filter: `id.startsWith("ü")`, from: "ü", before: "ý"},
		{filter: `id.startsWith("b")`, prefix: "bc", from: "bc", before: "bd"},
		{filter: `state.a == "x"`, prefix: "q", from: "q", before: "r"},
		{filter: `id != "x"`},
		{filter: `id == "a\x00"`},
		{filter: `[1].exists(id, id == 1)`},
	} {
		m := newMemory(nil)
		p := page()
		p.Prefix = tt.prefix
		run(t, compile(t, tt.filter), m, p)
		if got := m.scans[0]; got.From != tt.from || got.Before != tt.before {
			t.Errorf("%s: from %q before %q, want %q and %q", tt.filter, got.From, got.Before, tt.from, tt.before)
		}
	}
	for _, filter := range []string{`id < ""`, `id == "a" && id == "b"`, `id.startsWith("a") && id > "b"`} {
		m := newMemory(map[string]string{"a": `{}`})
		if r := run(t, compile(t, filter), m, page()); len(m.scans) > 0 || r.Examined != 0 || r.Next != "" {
			t.Errorf("%s: %d scans", filter, len(m.scans))
		}
	}
}

func TestExclusionsOfFilters(t *testing.T) {
	number := func(low, high string) store.Exclusion {
		return store.Exclusion{Path: []string{"a", "b"}, Test: store.NumberBetween, Low: low, High: high}
	}
	at := func(test store.ExclusionTest, text string) store.Exclusion {
		return store.Exclusion{Path: []string{"a"}, Test: test, Text: text}
	}
	for filter, want := range map[string][]store.Exclusion{
		`state.a.b > 100`:                      {number("", "100")},
		`100 < state["a"].b`:                   {number("", "100")},
		`state.a.b >= 1`:                       {number("", "0.9999999999999999")},
		`state.a.b < 1.5 && id == "x"`:         {number("1.5", "")},
		`state.a.b <= 1`:                       {number("1.0000000000000002", "")},
		`state.a.b == 1`:                       {number("", "0.9999999999999999"), number("1.0000000000000002", "")},
		`state.a.b != 1`:                       {number("1", "1")},
		`state.a == "x"`:                       {at(store.StringOtherThan, "x")},
		`state.a != "x"`:                       {at(store.StringIs, "x")},
		`state.a && has(state.a)`:              {at(store.BoolFalse, ""), at(store.Absent, "")},
		`!state.a`:                             {at(store.BoolTrue, "")},
		`state.a == false`:                     {at(store.BoolTrue, "")},
		`state.a != false`:                     {at(store.BoolFalse, "")},
		`has(state.a) == true`:                 nil,
		`!has(state.a)`:                        nil,
		`state.a.b > 9007199254740993`:         nil, // rounded when it is compared with a double
		`state.a > 1 || state.a == "x"`:        nil,
		`state.a < "x"`:                        nil,
		`state.a[0] > 1`:                       nil,
		`state.a == "\x00"`:                    nil,
		`[state].exists(s, s.a == 1)`:          nil,
		`[1].exists(state, state == 1)`:        nil,
		`state.a == null`:                      nil,
		`state == {"a": 1}`:                    nil,
		`(state.a > 1 ? true : false) == true`: nil,
	} {
		m := newMemory(nil)
		run(t, compile(t, filter), m, page())
		if got := m.scans[0].Exclusions; !slices.EqualFunc(got, want, func(a, b store.Exclusion) bool { return fmt.Sprint(a) == fmt.Sprint(b) }) {
			t.Errorf("%s: %+v, want %+v", filter, got, want)
		}
	}
}

// many are as many actors, of which each tenth has the total 1.
func many(n int) *memory {
	states := map[string]string{}
	for i := range n {
		states[fmt.Sprintf("%05d", i)] = fmt.Sprintf(`{"total":%d}`, min(i%10, 1))
	}
	return newMemory(states)
}

func TestPagesGoOn(t *testing.T) {
	m := many(100)
	q := compile(t, `state.total == 0`, "id")
	p := page()
	p.Size = 3
	var got []string
	for {
		r := run(t, q, m, p)
		got = append(got, ids(r)...)
		if p.After = r.Next; r.Next == "" {
			break
		}
		if len(r.Found) != 3 {
			t.Fatalf("a page has %q, and goes on", ids(r))
		}
	}
	if len(got) != 10 || got[9] != "00090" {
		t.Fatalf("the pages have %q", got)
	}
}

// Each bound ends a run, which says where to go on, also with an empty page.
func TestBounds(t *testing.T) {
	none := compile(t, `state.total == 7`, "state")
	for name, tt := range map[string]struct {
		q        *query.Query
		bounds   query.Bounds
		perLook  time.Duration // what passes whenever the time is looked at
		examined int
	}{
		"rows":           {q: none, bounds: query.Bounds{Rows: 20}, examined: 20},
		"time":           {q: none, bounds: query.Bounds{Time: time.Second}, perLook: 400 * time.Millisecond, examined: 64},
		"bytes":          {q: compile(t, "", "state"), bounds: query.Bounds{ValueBytes: 50}, examined: 5},
		"rows of a loop": {q: compile(t, `[1].all(n, n > state.total + 9)`), bounds: query.Bounds{Time: time.Second}, perLook: 300 * time.Millisecond, examined: 3},
	} {
		t.Run(name, func(t *testing.T) {
			p := page()
			now := noon
			p.Bounds, p.Now = tt.bounds, func() time.Time { now = now.Add(tt.perLook); return now }
			r := run(t, tt.q, many(1000), p)
			if r.Examined != tt.examined || r.Next != fmt.Sprintf("%05d", tt.examined-1) {
				t.Fatalf("%d rows examined, and it goes on after %q", r.Examined, r.Next)
			}
		})
	}
}

// A store that leaves rows out works for the query as well: the query rests for half as long, and not
// after its last step.
func TestRestsBetweenSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := page()
		p.Now, p.Bounds.Rows = time.Now, 3
		began := time.Now()
		r := run(t, compile(t, `state.total == 0`), slow{}, p)
		if took := time.Since(began); r.Examined != 3 || took != (3*60+2*30)*time.Millisecond {
			t.Fatalf("%d rows in %v", r.Examined, took)
		}
	})
}

// slow is a store that takes 60 ms for a row, and leaves it out.
type slow struct{}

func (slow) ScanActors(_ context.Context, q store.ActorScan, _ func(*store.ScannedActor) bool) (examined int, next string, err error) {
	<-time.After(60 * time.Millisecond)
	return 1, q.After + "a", nil
}

func TestCountsFindNothing(t *testing.T) {
	p := page()
	p.Size = 0
	r := run(t, compile(t, `state.total == 0`), many(100), p)
	if r.Matched != 10 || r.Examined != 100 || len(r.Found) != 0 || r.Next != "" {
		t.Fatalf("%+v", r)
	}
}

// A caller who goes away ends a run, also within an expression.
func TestContextEndsARun(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	p := page()
	p.Now = func() time.Time { cancel(); return noon }
	for _, filter := range []string{`state.total == 0`, `[1].all(n, n == state.total)`} {
		if _, err := compile(t, filter).Run(ctx, many(1000), p); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", filter, err)
		}
	}
}

func TestStateIsReadOnlyWhereItIsUsed(t *testing.T) {
	for filter, want := range map[string]bool{`version > 1`: false, `has(state.x)`: true, `[1].all(n, state.x == n)`: true} {
		m := newMemory(nil)
		run(t, compile(t, filter), m, page())
		if m.scans[0].States != want {
			t.Errorf("%s: states are read: %t", filter, !want)
		}
	}
}
