package protocol

import (
	"testing"
)

// TestUngroupedAnswers: a host without groups gets no order to form one, and its answer is
// there once, with that of the last type that was asked.
func TestUngroupedAnswers(t *testing.T) {
	u := NewUngrouped()
	types := []TypeName{{App: "a", Type: "S"}, {App: "a", Type: "T"}}
	if got := u.Orders(Order{Kind: Form, Types: types}); len(got) != 0 {
		t.Errorf("to form a group: %v", got)
	}
	if got := u.Orders(Order{Kind: Lock, Version: 7, Types: types}); len(got) != 2 {
		t.Fatalf("to lock: %v", got)
	}
	for i, name := range []TypeName{types[0], types[0], {App: "a", Type: "other"}, types[1], types[1]} {
		if answers, all := u.Answered(name, 7, nil); all != (i == 3) || all && len(answers) != 2 {
			t.Errorf("answer %d: %v, %t", i, answers, all)
		}
	}
	if len(u.waits) != 0 {
		t.Errorf("%d orders wait", len(u.waits))
	}
}
