package routing

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/sync/errgroup"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
)

// Reach is what a host reports of its connections to other hosts.
type Reach struct {
	Host actor.HostID
	// Answered reports whether the host answered; otherwise the other fields are zero.
	Answered    bool
	Unreachable []Unreachable
	// ClockAhead is how far the host's clock is ahead of this process's, to within the time
	// that the answer took.
	ClockAhead time.Duration
}

// maxReach bounds how many hosts are tried at the same time.
const maxReach = 16

// Reach asks each of the hosts which of the hosts it cannot reach; the list may contain this host.
// The answers are in the order of the list. A host has [Config.PeerTimeout] to be reached, and
// three times as much for its answer.
func (r *Router) Reach(ctx context.Context, hosts []actor.HostID) []Reach {
	all := make([]Reach, len(hosts))
	each(len(hosts), func(i int) {
		all[i] = Reach{Host: hosts[i]}
		if hosts[i] == r.cfg.Placement.Self() {
			all[i].Unreachable, all[i].Answered = r.unreached(ctx, hosts), true
			return
		}
		ctx, cancel := context.WithTimeout(ctx, 3*r.cfg.PeerTimeout)
		defer cancel()
		p := r.peers.get(hosts[i])
		if p == nil || p.protocol < protocolCaller {
			return
		}
		asked := time.Now()
		res, err := ask(ctx, p, p.unary.Reach, p.reachRequest(hosts))
		if err != nil {
			return
		}
		all[i].ClockAhead, all[i].Answered = res.GetNow().AsTime().Sub(asked.Add(time.Since(asked)/2)), true
		for _, u := range res.GetUnreachable() {
			all[i].Unreachable = append(all[i].Unreachable, Unreachable{actor.HostID(u.GetHostId()), u.GetAddress(), u.GetWhy()})
		}
	})
	return all
}

// unreached tries to reach hosts, and returns those that this one cannot, in order of
// their addresses.
func (r *Router) unreached(ctx context.Context, hosts []actor.HostID) []Unreachable {
	var mu sync.Mutex
	var all []Unreachable
	each(len(hosts), func(i int) {
		if hosts[i] == r.cfg.Placement.Self() {
			return
		}
		if u, ok := r.try(ctx, hosts[i]); !ok {
			mu.Lock()
			defer mu.Unlock()
			all = append(all, u)
		}
	})
	slices.SortFunc(all, func(a, b Unreachable) int {
		return cmp.Or(strings.Compare(a.Address, b.Address), strings.Compare(string(a.Host), string(b.Host)))
	})
	return all
}

// try reports whether a host is reached; otherwise it says why not.
func (r *Router) try(ctx context.Context, id actor.HostID) (Unreachable, bool) {
	p := r.peers.get(id)
	if p == nil {
		return Unreachable{Host: id, Why: "it is not known as a member, or speaks no protocol in common"}, false
	}
	ctx, cancel := context.WithTimeout(ctx, r.cfg.PeerTimeout)
	defer cancel()
	_, err := ask(ctx, p, p.unary.Reach, p.reachRequest(nil))
	switch {
	case err == nil, connect.CodeOf(err) == connect.CodeUnimplemented: // an older one
		return Unreachable{}, true
	case ctx.Err() != nil:
		return Unreachable{id, p.address, "it does not answer within " + r.cfg.PeerTimeout.String()}, false
	}
	var wire *connect.Error
	why := explain(err, r.cfg.Cluster)
	if errors.As(why, &wire) {
		why = errors.Unwrap(wire) // without the code, which says nothing to people
	}
	return Unreachable{id, p.address, why.Error()}, false
}

func (p *peer) reachRequest(hosts []actor.HostID) *greenroomv1.ExchangeReachRequest {
	req := &greenroomv1.ExchangeReachRequest{Hello: p.hello()}
	for _, id := range hosts {
		req.HostIds = append(req.HostIds, string(id))
	}
	return req
}

// Unreached returns those of the hosts that this host cannot reach.
func (a *Accepted) Unreached(ctx context.Context, hosts []actor.HostID) []Unreachable {
	return a.r.unreached(ctx, hosts)
}

// each calls do with 0 to n-1, several at a time, and returns when all calls have.
func each(n int, do func(i int)) {
	var running errgroup.Group
	running.SetLimit(maxReach)
	for i := range n {
		running.Go(func() error {
			do(i)
			return nil
		})
	}
	_ = running.Wait() // no call has an error
}
