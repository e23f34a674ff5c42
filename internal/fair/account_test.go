package fair

import (
	"errors"
	"testing"

	"pgregory.net/rapid"
)

// Whatever apps take and give in whatever order, the account knows what each has, keeps to
// its bounds, and leaves a part for an app that has nothing.
func TestAccountLeavesAShare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := Bounds{
			Name: "bytes", Total: rapid.Int64Range(50, 1000).Draw(t, "total"),
			PerApp: rapid.SampledFrom([]int64{0, 100}).Draw(t, "perApp"), Always: rapid.SampledFrom([]int64{0, 10}).Draw(t, "always"),
		}
		a := NewAccount(b)
		has := map[string]int64{}
		used := int64(0)
		t.Repeat(map[string]func(*rapid.T){
			"take": func(t *rapid.T) {
				app := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "app")
				n := rapid.Int64Range(1, 60).Draw(t, "n")
				fits := a.Check(app, n) == nil
				err := a.Take(app, n)
				if full := (*FullError)(nil); fits != (err == nil) || err != nil && (!errors.As(err, &full) || full.Has != has[app] || full.Used != used) {
					t.Fatalf("%s with %d of %d takes %d: %v, though it fits: %v", app, has[app], used, n, err, fits)
				}
				will, free := has[app]+n, b.Total-used-n
				switch {
				case will <= b.Always && !fits:
					t.Fatal("refused what it always may have")
				case will > b.Always && fits && (free < 0 || b.PerApp > 0 && will > b.PerApp):
					t.Fatal("took more than there is")
				case will > b.Always && fits && has[app] > 0 && will > 7*(free+1):
					t.Fatalf("left %d, and has %d", free, will)
				case !fits && free >= 0 && will <= min(7*free, b.Total*7/8) && (b.PerApp == 0 || will <= b.PerApp):
					t.Fatalf("refused %d where %d stay free", will, free)
				}
				if fits {
					has[app] += n
					used += n
				}
			},
			"give": func(t *rapid.T) {
				app := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "app")
				if has[app] == 0 {
					return
				}
				n := rapid.Int64Range(1, has[app]).Draw(t, "n")
				a.Give(app, n)
				has[app] -= n
				used -= n
			},
			"": func(t *rapid.T) {
				if a.Used() != used || a.Has("a") != has["a"] {
					t.Fatalf("the account says %d of %d, want %d of %d", a.Has("a"), a.Used(), has["a"], used)
				}
				if used == 0 && len(a.apps) > 0 {
					t.Fatal("nothing is taken, and an app is kept")
				}
			},
		})
	})
}

// Apps that take all that they can, one after the other, leave each other equal parts once
// those that have more than that have given something back.
func TestAccountIsSharedEqually(t *testing.T) {
	a := NewAccount(Bounds{Total: 7000})
	apps := []string{"a", "b", "c"}
	for _, app := range apps {
		for a.Take(app, 1) == nil {
		}
	}
	if got := a.Has("a"); got < 6100 || got > 6150 {
		t.Errorf("the first app has %d of 7000, want seven eighths", got)
	}
	if a.Has("c") == 0 {
		t.Error("the last app has nothing")
	}
	for range 7000 { // each gives in turn, and takes what it can
		for _, app := range apps {
			a.Give(app, 1)
			for a.Take(app, 1) == nil {
			}
		}
	}
	for _, app := range apps {
		if got := a.Has(app); got < 2150 || got > 2300 {
			t.Errorf("%s has %d of 7000, want 7 of 22 parts", app, got)
		}
	}
}

// Of a few places, an app that is alone may have all.
func TestAccountOfAFewPlaces(t *testing.T) {
	for total := int64(1); total <= 8; total++ {
		a := NewAccount(Bounds{Total: total})
		n := int64(0)
		for a.Take("a", 1) == nil {
			n++
		}
		if want := min(total, 7); n != want {
			t.Errorf("of %d places an app may have %d, want %d", total, n, want)
		}
	}
}

// What an app has beyond its bounds, since it was there already, leaves others their share.
// TestAlwaysIsLeftToOthers: two apps that pass their bounds together take all there is, but
// for what each app may always have.
func TestAlwaysIsLeftToOthers(t *testing.T) {
	a := NewAccount(Bounds{Total: 800, Always: 10})
	for _, app := range []string{"a", "b"} {
		if err := a.Take(app, 80); err != nil {
			t.Fatal(err)
		}
		a.Add(app, 700)
	}
	if err := a.Take("c", 10); err != nil {
		t.Error(err)
	}
	if err := a.Over("c"); err != nil {
		t.Error(err)
	}
	if a.Take("c", 1) == nil || a.Over("a") == nil || a.Over("b") == nil {
		t.Error("more than there is")
	}
	if err := a.Take("a", 0); err != nil {
		t.Errorf("nothing is refused: %v", err)
	}
}

// TestMostBoundsWhatAppsAlwaysHave: while nothing is left of Total, the apps that come first have
// what they may always have, up to Most; others have what is left of Total.
func TestMostBoundsWhatAppsAlwaysHave(t *testing.T) {
	a := NewAccount(Bounds{Name: "places", Total: 8, Always: 2, Most: 5})
	take := func(app string, n int64, fits bool) {
		t.Helper()
		if err := a.Take(app, n); (err == nil) != fits {
			t.Errorf("%s takes %d more: %v", app, n, err)
		}
	}
	a.Add("x", 100) // beyond all bounds
	a.Add("y", 100)
	take("b", 1, true)
	take("b", 1, false)
	take("c", 1, false)
	a.Give("y", 100)
	take("c", 2, true)
	take("d", 1, false)
	a.Give("x", 100)
	take("d", 2, true)
	take("e", 1, true)
	for app, n := range map[string]int64{"b": 1, "c": 2, "d": 2, "e": 1} {
		a.Give(app, n)
	}
	if a.Used() != 0 || a.always != 0 {
		t.Errorf("left %+v", a)
	}
}

func TestAccountBeyondItsBounds(t *testing.T) {
	a := NewAccount(Bounds{Total: 800})
	for range 10 {
		_ = a.Count("a", 400)
	}
	if err := a.Count("a", 1); err == nil {
		t.Error("an app beyond its bounds is not refused")
	}
	n := int64(0)
	for a.Take("b", 1) == nil {
		n++
	}
	if a.Over("a") == nil || a.Over("b") != nil {
		t.Errorf("over its bounds: a %v, b %v", a.Over("a"), a.Over("b"))
	}
	if n < 80 || a.Used() != 4001+n {
		t.Errorf("the other app may have %d of 800, and %d are used", n, a.Used())
	}
	a.Give("a", 4001)
	a.Give("b", n)
	if a.used.Load() != 0 || a.charged != 0 || len(a.apps) != 0 {
		t.Errorf("left %+v", a)
	}
}
