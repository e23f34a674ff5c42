package actor

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// TestParseTrace: what is a traceparent, and what is passed over, as W3C Trace Context
// has it.
func TestParseTrace(t *testing.T) {
	for name, tt := range map[string]struct {
		parent string
		state  []string
		want   string // the header that carries it on; empty: none
		states string
	}{
		"none":                      {},
		"as it should be":           {parent, nil, parent, ""},
		"not sampled":               {strings.TrimSuffix(parent, "1") + "0", nil, strings.TrimSuffix(parent, "1") + "0", ""},
		"a later version":           {"cc" + parent[2:] + "-what-the-future-will-be", nil, parent, ""},
		"a later version, as now":   {"cc" + parent[2:], nil, parent, ""},
		"later, without its hyphen": {"cc" + parent[2:] + ".what", nil, "", ""},
		"the version that is none":  {"ff" + parent[2:], nil, "", ""},
		"too long for its version":  {parent + "-more", nil, "", ""},
		"upper case":                {strings.ToUpper(parent), nil, "", ""},
		"too short":                 {parent[:54], nil, "", ""},
		"no hex":                    {strings.Replace(parent, "0af7", "0ag7", 1), nil, "", ""},
		"no trace":                  {"00-00000000000000000000000000000000-b7ad6b7169203331-01", nil, "", ""},
		"no span":                   {"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01", nil, "", ""},
		"a state":                   {parent, []string{"rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"}, parent, "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"},
		"a state in parts":          {parent, []string{"a=1", "b=2,c=3"}, parent, "a=1,b=2,c=3"},
		"no state":                  {parent, []string{"a=1,a=2"}, parent, ""},
		"a state of nothing":        {"", []string{"a=1"}, "", ""},
		"a state of a bad parent":   {"nonsense", []string{"a=1"}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, states := ParseTrace(tt.parent, tt.state...).Headers()
			if got != tt.want || states != tt.states {
				t.Errorf("got %q with %q, want %q with %q", got, states, tt.want, tt.states)
			}
		})
	}
}

// TestLongTraceState: of more than is kept, long entries go first, and then the last.
func TestLongTraceState(t *testing.T) {
	var all []string
	for i := range 30 {
		all = append(all, fmt.Sprintf("key%02d=%s", i, strings.Repeat("x", 20)))
	}
	long := "long=" + strings.Repeat("y", maxTraceEntry)
	_, got := ParseTrace(parent, long+","+strings.Join(all, ",")).Headers()
	if len(got) > maxTraceState || len(got) < maxTraceState-len(all[0])-1 || !strings.HasPrefix(got, all[0]+","+all[1]) || strings.Contains(got, "long") {
		t.Errorf("kept %d bytes: %s", len(got), got)
	}
	if _, whole := ParseTrace(parent, long).Headers(); whole != long {
		t.Errorf("what is not too long became %q", whole)
	}
}

func TestTraceChild(t *testing.T) {
	of := ParseTrace(parent, "a=1")
	child := of.Child()
	if child.TraceID() != of.TraceID() || child.SpanID() == of.SpanID() || !child.SpanID().IsValid() || !child.IsSampled() || child.TraceState().String() != "a=1" {
		t.Errorf("%v has the child %v", of, child)
	}
	if of.SpanID().String() != "b7ad6b7169203331" {
		t.Error("it is another one than it was")
	}
	got := fmt.Sprint(child.AppendLog(nil))
	for _, want := range []string{"trace_id=0af7651916cd43dd8448eb211c80319c", "span_id=" + child.SpanID().String(), "parent_span_id=b7ad6b7169203331"} {
		if !strings.Contains(got, want) {
			t.Errorf("its log %s does not have %s", got, want)
		}
	}
	if a, b := NewTrace(), NewTrace(); !a.IsValid() || a.TraceID() == b.TraceID() || a.IsSampled() {
		t.Errorf("new traces: %v, %v", a, b)
	}
	if back := TraceOf(of.Context(t.Context())); back.TraceID() != of.TraceID() || back.SpanID() != of.SpanID() {
		t.Errorf("of its context: %v", back)
	}
}

// TestNoTraceCostsNothing: calls of no trace allocate nothing for it.
func TestNoTraceCostsNothing(t *testing.T) {
	ctx := t.Context()
	attrs := make([]slog.Attr, 0, 4)
	if n := testing.AllocsPerRun(100, func() {
		none := ParseTrace("").Child()
		if parent, _ := none.Headers(); parent != "" || TraceOf(none.Context(ctx)) != nil || len(none.AppendLog(attrs)) != 0 {
			t.Error("no trace is one")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzParseTrace: whatever comes in a request, what goes on is read the same by whoever
// gets it.
func FuzzParseTrace(f *testing.F) {
	f.Add(parent, "a=1")
	f.Add("cc"+parent[2:]+"-x", "a@b= 1 ,\tc=d")
	f.Fuzz(func(t *testing.T, parent, state string) {
		first := ParseTrace(parent, state)
		p, s := first.Headers()
		if p2, s2 := ParseTrace(p, s).Headers(); p2 != p || s2 != s {
			t.Errorf("%q, %q became %q, %q", p, s, p2, s2)
		}
	})
}
