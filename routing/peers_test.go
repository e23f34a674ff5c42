package routing

import "testing"

// TestReleasedOnce: a call counts off once of what its peer has, whoever ends it, and however
// often.
func TestReleasedOnce(t *testing.T) {
	r := &Router{cfg: Config{}.WithDefaults()}
	p := &peer{ps: &peers{cfg: &r.cfg}}
	var calls [2]sentCall
	for i := range calls {
		calls[i].Inv.Payload.Data = make([]byte, 10)
		calls[i].peer = p
		if !p.reserve(calls[i].size()) {
			t.Fatal("there is no place for it")
		}
	}
	for range 3 {
		calls[0].release()
	}
	if n, bytes := p.calls.Load(), p.bytes.Load(); n != 1 || bytes != 10 {
		t.Errorf("of 2 calls of 10 bytes one has ended: %d with %d are left", n, bytes)
	}
}
