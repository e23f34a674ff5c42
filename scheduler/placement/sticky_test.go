package placement

import "testing"

func TestStickyNext(t *testing.T) {
	wait, here, acquire := StickyStep{Wait: true}, StickyStep{Here: true}, StickyStep{Acquire: true}
	for name, tt := range map[string]struct {
		knows Sticky
		want  StickyStep
	}{
		"its own":                               {Sticky{Self: "a", Owns: true, Current: true, Ring: "a", Holds: true}, here},
		"its own, which the ring has elsewhere": {Sticky{Self: "a", Owns: true, Current: true, Ring: "b"}, here},
		"its own, while the ring moves":         {Sticky{Self: "a", Owns: true, Current: true}, here},
		"its own, and its lease is over":        {Sticky{Self: "a", Owns: true, Ring: "a", Holds: true}, wait},
		"its own, which is handed over":         {Sticky{Self: "a", Owns: true, Current: true, Handing: true, Ring: "a", Holds: true}, wait},
		"another's":                             {Sticky{Self: "a", Current: true, Owner: "b", Ring: "c"}, StickyStep{Host: "b"}},
		"another's, where the ring names it":    {Sticky{Self: "a", Current: true, Owner: "b", Ring: "a", Holds: true}, StickyStep{Host: "b"}},
		"another's, without a lease":            {Sticky{Self: "a", Owner: "b"}, StickyStep{Host: "b"}},
		"unknown: the ring's host acquires":     {Sticky{Self: "a", Current: true, Ring: "a", Holds: true}, acquire},
		"unknown: another one asks that host":   {Sticky{Self: "a", Current: true, Ring: "b"}, StickyStep{Host: "b"}},
		"unknown, and not held yet":             {Sticky{Self: "a", Current: true, Ring: "a"}, wait},
		"unknown, while the ring moves":         {Sticky{Self: "a", Current: true}, wait},
		"unknown, while all is handed over":     {Sticky{Self: "a", Current: true, Handing: true, Ring: "a", Holds: true}, wait},
		"another's, while all is handed over":   {Sticky{Self: "a", Current: true, Handing: true, Owner: "b"}, wait},
	} {
		if got := tt.knows.Next(); got != tt.want {
			t.Errorf("%s: %+v, want %+v", name, got, tt.want)
		}
	}
}
