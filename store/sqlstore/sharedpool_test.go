package sqlstore

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/internal/fair"
)

func TestShares(t *testing.T) {
	for want, apps := range map[share][]string{
		"shop":      {"shop", "shop"},
		severalApps: {"shop", "shop", "third"},
		hostItself:  {""},
	} {
		keys := make([]actor.Key, len(apps))
		for i, app := range apps {
			keys[i].App = app
		}
		if got := shareOfKeys(keys); got != want {
			t.Errorf("%v: %q, want %q", apps, got, want)
		}
	}
	if got := shareOfKeys(nil); got != hostItself {
		t.Errorf("nothing: %q", got)
	}
	if a, b := shareOfPrefix(1), shareOfPrefix(2); a == b {
		t.Errorf("two prefixes have the share %q", a)
	}
}

// TestPlaceWithoutAConnectionIsGivenBack: a caller that gets no connection gives its place back.
func TestPlaceWithoutAConnectionIsGivenBack(t *testing.T) {
	cfg, err := pgxpool.ParseConfig("postgres://localhost:1/nothing")
	if err != nil {
		t.Fatal(err)
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	p := sharedPool{pool: pool, places: fair.NewPlaces(1)}
	for range 2 {
		if _, err := p.acquire(t.Context(), hostItself); err == nil {
			t.Fatal("there is a connection to nothing")
		}
	}
}
