package store

import (
	"slices"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// Modules make room by when they last served or were uploaded. What serves, what a rollback
// goes back to and what has just ceased to serve makes none.
func TestModulesMakeRoomByTheirLastUse(t *testing.T) {
	start := time.Unix(1_000_000, 0)
	at := func(minutes int) time.Time { return start.Add(time.Duration(minutes) * time.Minute) }
	history := func(typ string, deployed ...any) (ds []actor.Deployment) { // minute, digest
		for i := 0; i < len(deployed); i += 2 {
			ds = append(ds, actor.Deployment{
				App: "shop", Type: typ, Generation: uint64(i/2 + 1), Digest: actor.Digest(deployed[i+1].(string)), CreatedAt: at(deployed[i].(int)),
			})
		}
		slices.Reverse(ds)
		return ds
	}
	for name, tc := range map[string]struct {
		history []actor.Deployment
		kept    string // of a to e, uploaded in this order
		order   string // in which the others make room
	}{
		"nothing deployed":            {nil, "", "abcde"},
		"the previous one is kept":    {history("T", 10, "a", 20, "b", 30, "a", 40, "c"), "ac", "deb"},
		"an undeployment in between":  {history("T", 10, "a", 20, "b", 30, "", 40, "b"), "ab", "cde"},
		"undeployed":                  {history("T", 10, "a", 20, "b", 30, ""), "b", "cdea"},
		"the same module again":       {history("T", 10, "a", 20, "b", 30, "b", 40, "b"), "ab", "cde"},
		"served until a minute ago":   {history("T", 10, "a", 20, "b", 99, "c", 99, "d"), "bcd", "ea"},
		"the end of service counts":   {history("T", 10, "a", 20, "b", 30, "c", 40, "d"), "cd", "eab"},
		"each type has its own":       {slices.Concat(history("T", 10, "a", 20, "b", 30, "c"), history("U", 10, "d", 20, "e", 30, "a")), "abce", "d"},
		"one that serves another too": {slices.Concat(history("T", 10, "a", 20, "b", 30, "c"), history("U", 10, "a")), "abc", "de"},
	} {
		t.Run(name, func(t *testing.T) {
			var stored []StoredModule
			for i, d := range "abcde" {
				stored = append(stored, StoredModule{Digest: actor.Digest(d), Bytes: 1, UsedAt: at(i)})
			}
			MarkUse(stored, tc.history, at(100))
			kept, order := "", ""
			for _, m := range stored {
				if m.Kept {
					kept += string(m.Digest)
				}
			}
			free := int64(len(stored) - len(kept))
			gone, err := MakeRoom("shop", stored, free, int64(len(stored)))
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range gone {
				order += string(d)
			}
			if kept != tc.kept || order != tc.order {
				t.Errorf("kept %q, order %q; want %q, %q", kept, order, tc.kept, tc.order)
			}
		})
	}
}
