package caller

import "testing"

func TestSlots(t *testing.T) {
	s := slots{limit: 2}
	a, b, c := &Call{}, &Call{}, &Call{}
	idA, ok := s.put(a)
	idB, okB := s.put(b)
	if !ok || !okB || idA == idB {
		t.Fatal(idA, idB)
	}
	if _, ok := s.put(c); ok {
		t.Error("a third call in two places")
	}
	if s.get(idA) != a {
		t.Error("not the call of the ID")
	}
	if s.get(idA) != nil {
		t.Error("one ID, two replies")
	}
	idC, ok := s.put(c)
	if !ok || idC == idA {
		t.Error("an ID came again")
	}
	if s.get(idA) != nil {
		t.Error("an old ID is another call")
	}
	s.abandon(b.slot)
	if _, ok := s.put(a); ok {
		t.Error("the place of a call that left was taken before its reply")
	}
	if s.get(idB) != nil {
		t.Error("a call that left got a reply")
	}
	for _, id := range []uint64{0, 1 << 63, ^uint64(0), 5} {
		if s.get(id) != nil {
			t.Errorf("the ID %x is a call", id)
		}
	}
	if left := s.reset(); len(left) != 1 || left[0] != c {
		t.Errorf("left %v", left)
	}
	for range 2 {
		if _, ok := s.put(a); !ok {
			t.Error("no place after a reset")
		}
	}
}
