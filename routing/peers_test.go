package routing

import "testing"

// TestReleasedOnce: a call counts off once of what its peer has, whoever ends it, and however
// often.
func TestReleasedOnce(t *testing.T) {
	ch := &channel{usage: usage{newAccount("calls", 100), newAccount("bytes", 1000)}}
	var calls [2]sentCall
	for i := range calls {
		calls[i].Inv.Payload.Data = make([]byte, 10)
		calls[i].Inv.Key.App = "app"
		calls[i].channel = ch
		if err := calls[i].reserve(); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		calls[0].release()
	}
	if n, bytes := ch.usage.count(); n != 1 || bytes != 10 {
		t.Errorf("of 2 calls of 10 bytes one has ended: %d with %d are left", n, bytes)
	}
}
