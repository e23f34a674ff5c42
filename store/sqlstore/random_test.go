package sqlstore_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/internal/pgtest"
	"github.com/greenroom-run/greenroom/store"
	"github.com/greenroom-run/greenroom/store/sqlstore/internal/pgproxy"
	"github.com/greenroom-run/greenroom/store/storetest"
)

// sometimes fails one unit of twenty with 40001, and answers one commit of ten that
// held with 40003.
func sometimes(rng *rand.Rand, u pgproxy.Unit) *pgproxy.Fault {
	n := rng.IntN(20)
	switch group := strings.Contains(u.SQL, writeStatement) || strings.HasPrefix(u.SQL, "INSERT INTO greenroom_actor"); {
	case strings.HasPrefix(strings.ToLower(u.SQL), "rollback"), strings.Contains(u.SQL, "SAVEPOINT"),
		strings.Contains(u.SQL, "set_config"), strings.Contains(u.SQL, "pg_stat_activity"):
		return nil // nothing that a database could refuse
	case n == 0:
		return &pgproxy.Fault{Do: pgproxy.Refuse, Code: "40001"}
	case n <= 2 && (group && !u.Transaction || strings.EqualFold(u.SQL, pgproxy.Commit)):
		return &pgproxy.Fault{Do: pgproxy.DenyHeld, Code: "40003"}
	}
	return nil
}

// knowing is a store whose every ambiguous commit was applied, as only those are
// made ambiguous here, with all that were in their groups: of one without a row, which may
// have been refused there, its records tell. A store that was wrong about one loses an
// effect that the contract's tests count.
type knowing struct {
	store.Store
	ambiguous atomic.Int64 // answers
}

func (k *knowing) Commit(ctx context.Context, commits []actor.Commit) []error {
	errs := k.Store.Commit(ctx, commits)
	if i := slices.IndexFunc(errs, isAmbiguous); i >= 0 {
		k.ambiguous.Add(1)
	}
	for i, err := range errs {
		if isAmbiguous(err) {
			errs[i] = k.became(ctx, &commits[i])
		}
	}
	return errs
}

// became is what became of an ambiguous commit.
func (k *knowing) became(ctx context.Context, c *actor.Commit) error {
	if len(c.Rows)+len(c.Fences) > 0 {
		return nil
	}
	for _, want := range c.Records {
		found, err := k.LoadIdempotency(ctx, []actor.KeyedCall{want.Call()})
		if err != nil {
			return err
		}
		if got := found[0].Record; !found[0].Found || got.Payload != want.Payload || !reflect.DeepEqual(got.Reply, want.Reply) {
			return actor.ErrKeyExists
		}
	}
	return nil
}

func (k *knowing) LockedTurn(ctx context.Context, key actor.Key, fn func(context.Context, actor.Row) (*actor.Commit, error)) (*actor.Commit, error) {
	c, err := k.Store.LockedTurn(ctx, key, fn)
	if isAmbiguous(err) {
		k.ambiguous.Add(1)
		err = nil
	}
	return c, err
}

func isAmbiguous(err error) bool { return errors.Is(err, actor.ErrAmbiguous) }

// The contract holds at SERIALIZABLE under serialization failures and ambiguous
// answers at random.
func TestContractUnderInjectedFailures(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	var proxies []*pgproxy.Proxy
	storetest.Run(t, func(t *testing.T) store.Store {
		proxy, url := pgproxy.Before(t, with(pgtest.URL(t), "default_transaction_isolation=serializable"))
		s := &knowing{Store: open(t, url)}
		proxy.Random(seed, sometimes)
		t.Cleanup(func() {
			if n := s.ambiguous.Load(); n > int64(proxy.Fired("40003")) {
				t.Errorf("%d answers were ambiguous, and %d made so", n, proxy.Fired("40003"))
			}
		})
		proxies = append(proxies, proxy)
		return s
	})
	for _, code := range []string{"40001", "40003"} {
		fired := 0
		for _, proxy := range proxies {
			fired += proxy.Fired(code)
		}
		if fired < 20 {
			t.Errorf("%s was injected %d times only", code, fired)
		}
		t.Logf("%s injected %d times", code, fired)
	}
}
