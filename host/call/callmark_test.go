package call_test

import (
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/call"
)

// TestMarkOutlivesItsReply: an attempt that comes as late as replies are kept records its reply beside the mark, and a
// repetition finds that reply, for as long as it is kept, by the mark.
func TestMarkOutlivesItsReply(t *testing.T) {
	const ttl = time.Hour
	if m := call.NewMark(&call.Call{}, actor.KeyedCall{}, ttl); m.TTL < 2*ttl || m.Mark == nil {
		t.Errorf("%+v", m)
	}
}
