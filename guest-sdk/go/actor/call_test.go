package actor

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/abi"
)

func TestPerhapsRan(t *testing.T) {
	for err, want := range map[error]bool{
		nil: false, errors.New("timeout"): false, ErrCallTimeout: false, Errorf("timeout", ""): true,
		fmt.Errorf("pay: %w", NewError(StatusUnavailable, "unavailable", "")): true,
	} {
		if got := PerhapsRan(err); got != want {
			t.Errorf("%v: %v", err, got)
		}
	}
}

func TestTimeout(t *testing.T) {
	for d, want := range map[time.Duration]uint32{
		0: 0, -time.Hour: 1, math.MinInt64: 1, 1: 1, time.Millisecond: 1, time.Millisecond + 1: 2,
		time.Second: 1000, math.MaxInt64: math.MaxUint32,
	} {
		m := message{Message: abi.Message{LimitMillis: 7}}
		Timeout(d)(&m)
		if m.LimitMillis != want {
			t.Errorf("Timeout(%v) is %d ms, want %d", d, m.LimitMillis, want)
		}
	}
}
