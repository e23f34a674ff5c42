package edge

import "testing"

// TestMessageCountsForOneOwner: the app of a stream's first message is known only once the
// message was read; what the message counted goes back to whom it counted for.
func TestMessageCountsForOneOwner(t *testing.T) {
	e, err := New(Config{MaxStreamsBytes: 1 << 20}.WithDefaults())
	if err != nil {
		t.Fatal(err)
	}
	x := &Exchange{Edge: e, Route: &Route{}}
	const most = 800 << 10
	if err := x.messageBytes(most); err != nil {
		t.Fatal(err)
	}
	if err := x.ForApp("foo"); err != nil {
		t.Fatal(err)
	}
	x.MessageReceived()
	for _, owner := range []string{"", "foo"} {
		if err := e.StreamMemory.Receive(owner, most, most); err != nil {
			t.Errorf("%q has something left: %v", owner, err)
		}
		if err := e.StreamMemory.Receive(owner, most, most); err == nil {
			t.Errorf("%q may have more than others leave it", owner)
		}
		e.StreamMemory.Release(owner, 2*most)
	}
	if n := e.StreamMemory.Used(); n != 0 {
		t.Errorf("%d bytes are left", n)
	}
}
