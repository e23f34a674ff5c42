//go:build unix

package cluster_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/greenroom-run/greenroom/client"
	"github.com/greenroom-run/greenroom/internal/guestbuild"
	"github.com/greenroom-run/greenroom/internal/pgtest"
)

// TestFamilies: whatever breaks, a parent that calls its volatile child finds what both have counted in
// the turns that were committed, or finds the child gone; and each call takes effect once. Each caller
// has a parent of its own, so it knows what the parent has counted.
func TestFamilies(t *testing.T) {
	db := pgtest.Start(t)
	members := startCluster(t, db.Database(t), nil)
	deployGuest(t, members[0], "../crash/testdata/families", guestbuild.Go)
	r := &run{members: members, client: newClient(t, members, 0), names: callers}
	var mu sync.Mutex
	together, failed, gone := 0, 0, 0
	random := r.begin(t, func(ctx context.Context, t *testing.T, caller int, random *rand.Rand) {
		id, want := fmt.Sprint("k", caller), family{}
		for n := 0; ctx.Err() == nil; n++ {
			select {
			case <-r.stop:
				mu.Lock()
				defer mu.Unlock()
				together += want.Children[0].Counted + want.Children[1].Counted
				gone += want.Children[0].Gone + want.Children[1].Gone
				return
			default:
			}
			child, fail := random.IntN(2), random.IntN(4) == 0
			payload := fmt.Appendf(nil, `{"child":%d,"fail":%t}`, child, fail)
			text, err := r.reply(ctx, client.Request{Type: "Parent", ID: id, Method: "Count", Payload: payload, IdempotencyKey: fmt.Sprint(id, " ", n)})
			if refused := (*client.Error)(nil); fail && errors.As(err, &refused) && refused.Guest != nil && refused.Guest.Code == "told_to" {
				mu.Lock()
				failed++
				mu.Unlock()
				continue
			}
			total := want.Total + 1
			if err == nil {
				want = family{}
				err = json.Unmarshal(text, &want)
			}
			if err != nil || fail || want.Total != total {
				if ctx.Err() == nil {
					t.Errorf("%s: %+v, %v; want the total %d", id, want, err, total)
				}
				return
			}
			select {
			case r.acks <- id:
			default:
			}
		}
	})
	r.breakAll(t, random, faults(db), func() {})
	r.finish()
	t.Logf("the children that live have counted %d; %d were found gone; %d turns failed as they were told", together, gone, failed)
	if together == 0 || gone == 0 || failed == 0 {
		t.Error("one of these never happened")
	}
}

// family is what a parent has counted.
type family struct {
	Total    int
	Children [2]struct{ Counted, Gone int }
}
