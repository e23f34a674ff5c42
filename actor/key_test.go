package actor

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestKeyValidate(t *testing.T) {
	tests := []struct {
		name string
		key  Key
		want string // part of the error; empty: valid
	}{
		{"plain", Key{"default", "Cart", "u1"}, ""},
		{"every name byte", Key{"aZ09._-", "a.b-c_d", "x"}, ""},
		{"bars", Key{"a", "t", "x||y||state"}, ""},
		{"slash, space, emoji", Key{"a", "t", "a/b c/../🛒"}, ""},
		{"longest id", Key{"a", "t", strings.Repeat("x", 512)}, ""},
		{"longest name", Key{strings.Repeat("x", 64), "t", "i"}, ""},
		{"no app", Key{"", "t", "i"}, "app is empty"},
		{"bar in app", Key{"a|b", "t", "i"}, `app has the character "|" at byte 1`},
		{"name too long", Key{"a", strings.Repeat("x", 65), "i"}, "actor type has 65 bytes"},
		{"accent in type", Key{"a", "é", "i"}, "actor type has the character"},
		{"no id", Key{"a", "t", ""}, "actor id is empty"},
		{"id too long", Key{"a", "t", strings.Repeat("x", 513)}, "actor id has 513 bytes"},
		{"newline", Key{"a", "t", "x\ny"}, "control character U+000A at byte 1"},
		{"nul", Key{"a", "t", "\x00"}, "control character U+0000"},
		{"delete", Key{"a", "t", "\x7f"}, "control character U+007F"},
		{"C1 control", Key{"a", "t", "\u0085"}, "control character U+0085"},
		{"not UTF-8", Key{"a", "t", "\xff"}, "not valid UTF-8"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.key.Validate()
			if tt.want == "" {
				if err != nil {
					t.Fatalf("refused: %v", err)
				}
				return
			}
			var arg *ArgumentError
			if !errors.As(err, &arg) || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got %v, want an ArgumentError with %q", err, tt.want)
			}
		})
	}
}

func FuzzParseKey(f *testing.F) {
	f.Add("default||Cart||u1")
	f.Add("a||b||c||d||")
	f.Add("||||")
	f.Fuzz(func(t *testing.T, s string) {
		k, err := ParseKey(s)
		if err != nil {
			return
		}
		if k.String() != s {
			t.Fatalf("%q read as %q", s, k.String())
		}
	})
}

// TestFirstVersionComesLater: a row that is made later starts above all versions that an earlier one
// has counted up to, and no two rows that are made at once start at the same version.
func TestFirstVersionComesLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := make(map[uint64]bool)
		highest := uint64(0)
		for range 100 {
			v := FirstVersion()
			highest, now[v] = max(highest, v), true
		}
		if len(now) < 99 {
			t.Errorf("100 rows start at %d versions", len(now))
		}
		const turns = 3600 * 1e7 // within the hour that a tombstone stays
		<-time.After(time.Hour)
		for range 100 {
			if v := FirstVersion(); v <= highest+turns {
				t.Errorf("a row that is made an hour later starts at %d, and the earlier one may have come to %d", v, highest+uint64(turns))
			}
		}
	})
}

func TestFirstVersionLeavesRoom(t *testing.T) {
	for range 1000 {
		if v := FirstVersion(); v == 0 || v >= 1<<62 {
			t.Fatalf("version %d is outside [1, 2^62)", v)
		}
	}
}

func TestConditionsHaveDistinctKinds(t *testing.T) {
	seen := map[Kind]bool{}
	for _, c := range Conditions() {
		if seen[c.Kind()] {
			t.Errorf("kind %s is defined twice", c.Kind())
		}
		seen[c.Kind()] = true
	}
}
