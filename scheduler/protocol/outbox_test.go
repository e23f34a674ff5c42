package protocol

import (
	"context"
	"testing"
)

// TestOutboxFlushed: what was put is waited for, not what is put later.
func TestOutboxFlushed(t *testing.T) {
	o := NewOutbox[int]()
	<-o.Flushed() // nothing to send
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	o.Put(1)
	o.Put(2)
	flushed := o.Flushed()
	sent := make(chan int)
	go func() {
		_ = o.Send(ctx, func(m int) error { sent <- m; return nil })
	}()
	for want := range 2 {
		select {
		case <-flushed:
			t.Errorf("flushed before %d was sent", want+1)
		case m := <-sent:
			if m != want+1 {
				t.Errorf("sent %d, want %d", m, want+1)
			}
		}
	}
	<-flushed
}
