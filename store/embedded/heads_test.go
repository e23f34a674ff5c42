package embedded

import (
	"strconv"
	"testing"
)

func TestHeadsForgetTheOldest(t *testing.T) {
	var hs heads
	for i := range 3 * maxHeads {
		hs.set(strconv.Itoa(i), head{version: uint64(i) + 1})
		hs.set("used", head{version: uint64(i) + 1})
	}
	if n := len(hs.young) + len(hs.old); n > 2*maxHeads {
		t.Errorf("%d heads are kept, and %d are allowed", n, 2*maxHeads)
	}
	if h, ok := hs.get([]byte("used")); !ok || h.version != 3*maxHeads {
		t.Errorf("the head used last is %+v, %t", h, ok)
	}
	if _, ok := hs.get([]byte("0")); ok {
		t.Error("the oldest head is still there")
	}
	last := strconv.Itoa(3*maxHeads - 1)
	hs.set(last, head{})
	if _, ok := hs.get([]byte(last)); ok {
		t.Error("a head that was removed is still there")
	}
}
