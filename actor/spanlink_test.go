package actor

import "testing"

// TestSpanLink: the link to a sampled span survives its text; a trace that is not sampled has none,
// and neither has a text that is no link.
func TestSpanLink(t *testing.T) {
	const parent, text = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331"
	sampled := ParseTrace(parent)
	l := sampled.Link()
	if sc := l.SpanContext(); sc.TraceID() != sampled.TraceID() || sc.SpanID() != sampled.SpanID() || !sc.IsSampled() || !sc.IsRemote() {
		t.Errorf("the link is %v", sc)
	}
	got, err := l.MarshalText()
	if err != nil || string(got) != text {
		t.Errorf("its text is %s, %v", got, err)
	}
	var read SpanLink
	if err := read.UnmarshalText(got); err != nil || read != l {
		t.Errorf("read again it is %v, %v", read, err)
	}
	for name, tr := range map[string]*Trace{"no trace": nil, "a trace that is not sampled": ParseTrace(parent[:len(parent)-1] + "0")} {
		none := tr.Link()
		if got, err := none.MarshalText(); none != (SpanLink{}) || none.SpanContext().IsValid() || len(got) > 0 || err != nil {
			t.Errorf("%s has the link %v", name, none)
		}
	}
	for _, bad := range []string{"", "x", text[:40], text + "0", text[:33], "-" + text, "00000000000000000000000000000000-b7ad6b7169203331"} {
		read = l
		if err := read.UnmarshalText([]byte(bad)); err != nil || read != (SpanLink{}) {
			t.Errorf("%q is the link %v, %v", bad, read, err)
		}
	}
}
