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
	if h := hs.get([]byte("used")); h == nil || h.version != 3*maxHeads {
		t.Errorf("the head used last is %+v", h)
	}
	if hs.get([]byte("0")) != nil {
		t.Error("the oldest head is still there")
	}
	last := strconv.Itoa(3*maxHeads - 1)
	hs.set(last, head{})
	if hs.get([]byte(last)) != nil {
		t.Error("a head that was removed is still there")
	}
}

// A row that was swept is remembered in neither generation.
func TestHeadsForgetWhatIsGone(t *testing.T) {
	var hs heads
	hs.set("gone", head{version: 1})
	hs.old, hs.young = hs.young, nil
	hs.set("gone", head{})
	if h := hs.get([]byte("gone")); h != nil {
		t.Errorf("a row that is gone is remembered as %+v", h)
	}
}
