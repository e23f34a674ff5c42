package overlay_test

import (
	"bytes"
	"fmt"
	"runtime"
	"testing"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/overlay"
)

// large returns a state of a thousand keys and a megabyte.
func large(tb testing.TB, format abi.Format) *overlay.State {
	tb.Helper()
	var o overlay.Overlay
	o.Reset(&overlay.State{}, new(overlay.Revisions), 1, 2<<20)
	value := fmt.Appendf(nil, "%q", bytes.Repeat([]byte("x"), 1000))
	for i := range 1000 {
		if code := o.Set(fmt.Appendf(nil, "key%03d", i), value, format); code != 0 {
			tb.Fatalf("code %d", code)
		}
	}
	s, changed, err := o.Seal()
	if err != nil || !changed {
		tb.Fatal(changed, err)
	}
	return s
}

// TestSmallRestOfALargeState: what is left of a state does not keep all of it in
// memory, however it got small.
func TestSmallRestOfALargeState(t *testing.T) {
	for _, format := range []abi.Format{abi.FormatJSON, abi.FormatBytes} {
		s, err := overlay.Decode(large(t, format).Encoded())
		if err != nil {
			t.Fatal(err)
		}
		freed := make(chan struct{})
		runtime.AddCleanup(&s.Encoded().Data[0], func(struct{}) { close(freed) }, struct{}{})
		var o overlay.Overlay
		revs := new(overlay.Revisions)
		for i := range 999 {
			o.Reset(s, revs, revs.Next(), 2<<20)
			o.Delete(fmt.Appendf(nil, "key%03d", i))
			if s, _, err = o.Seal(); err != nil {
				t.Fatal(err)
			}
		}
		o.Reset(&overlay.State{}, revs, revs.Next(), 2<<20)
		for collected := false; !collected; { // until the test's own deadline
			runtime.GC()
			select {
			case <-freed:
				collected = true
			default:
			}
		}
		if again, err := overlay.Decode(s.Encoded()); err != nil || len(again.Entries()) != 1 || len(s.Entries()[0].Value) != 1002 {
			t.Errorf("the rest is %d entries, %v", len(s.Entries()), err)
		}
	}
}

// TestUnchangedAsItWas: a state that others have written in their own way is not
// written anew by a turn that leaves it as it was.
func TestUnchangedAsItWas(t *testing.T) {
	s, err := overlay.Decode(actor.EncodedState{Format: actor.FormatJSON, Data: []byte(`{ "b" : 2, "a":1 }`)})
	if err != nil {
		t.Fatal(err)
	}
	var o overlay.Overlay
	o.Reset(s, new(overlay.Revisions), 1, 1000)
	o.Set([]byte("a"), []byte("3"), abi.FormatJSON)
	o.Set([]byte("a"), []byte("1"), abi.FormatJSON)
	if same, changed, err := o.Seal(); same != s || changed || err != nil {
		t.Errorf("changed: %t, %v", changed, err)
	}
	o.DeleteAll()
	o.Set([]byte("b"), []byte("2"), abi.FormatJSON)
	o.Set([]byte("a"), []byte("1"), abi.FormatJSON)
	if same, changed, err := o.Seal(); same != s || changed || err != nil {
		t.Errorf("changed by writing all anew: %t, %v", changed, err)
	}
}

// BenchmarkLarge is a turn that changes one of a thousand keys, beside what
// encoding all of them costs, which a commit does once for all its turns, and what
// copying as many bytes costs, which no store can do without.
func BenchmarkLarge(b *testing.B) {
	s := large(b, abi.FormatJSON)
	b.Run("turn", func(b *testing.B) {
		b.ReportAllocs()
		var o overlay.Overlay
		revs := new(overlay.Revisions)
		for i := 0; b.Loop(); i++ {
			o.Reset(s, revs, 1, 2<<20)
			o.Set([]byte("key500"), fmt.Appendf(nil, "%d", i), abi.FormatJSON)
			var err error
			if s, _, err = o.Seal(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("encode", func(b *testing.B) {
		b.ReportAllocs()
		var buffer []byte
		for b.Loop() {
			buffer = s.AppendEncoded(buffer[:0])
		}
	})
	b.Run("copy", func(b *testing.B) {
		encoded := s.Encoded().Data
		buffer := make([]byte, len(encoded))
		for b.Loop() {
			copy(buffer, encoded)
		}
	})
}
