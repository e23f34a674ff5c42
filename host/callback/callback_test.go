package callback_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/activation"
	"github.com/greenroom-run/greenroom/host/call"
	"github.com/greenroom-run/greenroom/host/callback"
	"github.com/greenroom-run/greenroom/host/chain"
)

// TestFind: a call goes to the innermost of its waits whose chain has the actor, and to none if one of
// this process is over.
func TestFind(t *testing.T) {
	var graph chain.Graph[*activation.Activation]
	ws, others := callback.New(&graph, "here"), callback.New(&graph, "there")
	begin := func(ws *callback.Waits, of ...*activation.Activation) *callback.Wait {
		ch := &activation.Chain{Chain: graph.Begin(0)}
		for _, a := range of {
			ch.Hold(a)
		}
		return ws.Begin(ch)
	}
	a, b, c := new(activation.Activation), new(activation.Activation), new(activation.Activation)
	chainOf := graph.Begin(0)
	chainOf.Hold(a)
	outer, middle, inner := ws.Begin(&activation.Chain{Chain: chainOf}), begin(others, b), begin(ws, c)
	names := []string{outer.Name, middle.Name, inner.Name}
	for of, want := range map[*activation.Activation]*callback.Wait{a: outer, b: nil, c: inner, nil: nil} {
		if w, err := ws.Find(names, of); w != want || err != nil {
			t.Errorf("%p: %v, %v", of, w, err)
		}
	}
	if strings.HasPrefix(middle.Name, "here") || len(outer.Name) > actor.MaxWaitLen {
		t.Errorf("the waits are %q", names)
	}
	again := ws.Begin(&activation.Chain{Chain: chainOf})
	for w, want := range map[*callback.Wait]string{again: outer.Name, inner: inner.Name} {
		if name := ws.Outermost(append(names, again.Name), w); name != want {
			t.Errorf("the outermost wait of the chain of %s is %s, want %s", w.Name, name, want)
		}
	}
	middle.End()
	if w, err := ws.Find(names, a); w != outer || err != nil {
		t.Errorf("%v, %v, though a wait of another process has ended", w, err)
	}
	outer.End()
	for _, of := range []*activation.Activation{a, c, nil} {
		if _, err := ws.Find(names, of); !errors.Is(err, actor.ErrCanceled) {
			t.Errorf("%p: %v", of, err)
		}
	}
}

// TestCircle: a call in the name of a chain comes back to it while the chain waits for another host, and at no other time.
func TestCircle(t *testing.T) {
	var graph chain.Graph[*activation.Activation]
	ws := callback.New(&graph, "here")
	a, b := new(activation.Activation), new(activation.Activation)
	ch, other := &activation.Chain{Chain: graph.Begin(0)}, &activation.Chain{Chain: graph.Begin(0)}
	ch.NameAs("name")
	ch.Hold(a)
	other.Hold(b)
	ws.Begin(other)
	want := func(waits bool) {
		t.Helper()
		if ws.Circle("name", a) != waits || ws.Circle("another", a) || ws.Circle("name", b) {
			t.Errorf("Circle says %t, %t and %t", ws.Circle("name", a), ws.Circle("another", a), ws.Circle("name", b))
		}
	}
	want(false)
	w := ws.Begin(ch)
	want(true)
	w.End()
	want(false)
}

// TestQueue: a wait has a bounded number of calls. Each is taken, or left when it ends.
func TestQueue(t *testing.T) {
	var graph chain.Graph[*activation.Activation]
	w := callback.New(&graph, "here").Begin(&activation.Chain{Chain: graph.Begin(0)})
	var put []*call.Call
	for {
		c := new(call.Call)
		if err := w.Put(c); errors.Is(err, actor.ErrMailboxFull) {
			break
		} else if err != nil || len(put) > 1000 {
			t.Fatal(len(put), err)
		}
		put = append(put, c)
	}
	<-w.Arrived()
	if c := w.Take(); c != put[0] {
		t.Errorf("took %p", c)
	}
	if left := w.End(); len(left) != len(put)-1 || left[0] != put[1] {
		t.Errorf("%d are left", len(left))
	}
	if c := w.Take(); c != nil {
		t.Errorf("took %p after the end", c)
	}
	if err := w.Put(put[0]); !errors.Is(err, callback.ErrOver) {
		t.Error(err)
	}
}
