package call_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/abi"
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

// keyed returns a call with a key that is made.
func keyed(key string) actor.KeyedCall {
	return actor.KeyedCall{Actor: actor.Key{App: "app", Type: "T", ID: "b"}, Method: "Do", Key: key}
}

// TestCheckMark: a run that has not made the call that a mark names is refused, and says that something was committed; one
// that has made it, before or after the mark was found, is not. The next run has made nothing.
func TestCheckMark(t *testing.T) {
	for name, tt := range map[string]struct {
		run  func(c *call.Call, mark *actor.KeyedCall)
		held bool // to the mark
	}{
		"no mark":        {func(*call.Call, *actor.KeyedCall) {}, false},
		"nothing made":   {func(c *call.Call, m *actor.KeyedCall) { c.Mark = m }, true},
		"another made":   {func(c *call.Call, m *actor.KeyedCall) { c.Mark = m; call.NoteMade(c, keyed("other")) }, true},
		"made before":    {func(c *call.Call, m *actor.KeyedCall) { call.NoteMade(c, *m); c.Mark = m }, false},
		"made after":     {func(c *call.Call, m *actor.KeyedCall) { c.Mark = m; call.NoteMade(c, *m) }, false},
		"in another run": {func(c *call.Call, m *actor.KeyedCall) { c.Mark = m; call.NoteMade(c, *m); c.BeginRun() }, true},
		"behind too many others": {func(c *call.Call, m *actor.KeyedCall) {
			for i := range 4096 {
				call.NoteMade(c, keyed(fmt.Sprint(i)))
			}
			call.NoteMade(c, *m)
			c.Mark = m
		}, true},
	} {
		mark := keyed("k")
		var c call.Call
		tt.run(&c, &mark)
		err := c.CheckMark()
		if errors.Is(err, actor.ErrLeft) != tt.held || c.Stats.Committed != tt.held {
			t.Errorf("%s: %v; committed: %v", name, err, c.Stats.Committed)
		}
		if err := call.CheckFailure(&c, &actor.GuestError{Status: actor.Status(abi.StatusUnavailable)}); err != nil {
			t.Errorf("%s: a failure that passes: %v", name, err)
		}
		if err := call.CheckFailure(&c, &actor.GuestError{Status: actor.Status(abi.StatusInvalidArgument)}); (err != nil) != tt.held {
			t.Errorf("%s: a failure that stays: %v", name, err)
		}
	}
}

// TestPassingFailures: a failure passes if its condition may be tried again, or if the status of a guest seems to.
func TestPassingFailures(t *testing.T) {
	for _, status := range []uint16{abi.StatusUnavailable, abi.StatusDeadlineExceeded, abi.StatusAborted, abi.StatusResourceExhausted} {
		if !call.Passing(&actor.GuestError{Status: actor.Status(status)}) {
			t.Errorf("the status %d does not pass", status)
		}
	}
	for _, err := range []error{&actor.GuestError{Status: actor.Status(abi.StatusInvalidArgument)}, &actor.GuestError{}, actor.ErrLeft, errors.New("other")} {
		if call.Passing(err) {
			t.Errorf("%v passes", err)
		}
	}
	if !call.Passing(actor.ErrOverloaded) {
		t.Error("what is overloaded stays so")
	}
}
