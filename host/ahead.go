package host

import (
	"context"
	"errors"
	"sync"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine"
)

// Dedicated instances are made ahead of need, so that a cold activation does not
// pay for making one. How many wait in a pool follows how fast they are taken: a
// taker that finds none doubles the number, a sweep brings it down to what was
// taken since the last one. A pool that nobody takes from has none.
//
// They are the first to go when memory or the engine's room runs out, and none is
// made from the last eighth of the guests' memory.

// ahead makes instances for the pools that ask, on one goroutine.
type ahead struct {
	most int // for each pool; 0: none

	mu   sync.Mutex
	ask  []*pool
	wake chan struct{} // holds one; somebody asks
}

func newAhead(most int) *ahead {
	return &ahead{most: max(most, 0), wake: make(chan struct{}, 1)}
}

// asks puts a pool on the list. It must not be there.
func (a *ahead) asks(p *pool) {
	a.mu.Lock()
	a.ask = append(a.ask, p)
	a.mu.Unlock()
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// run serves the pools that ask until ctx ends.
func (a *ahead) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.wake:
		}
		a.mu.Lock()
		asking := a.ask
		a.ask = nil
		a.mu.Unlock()
		for _, p := range asking {
			p.makeAhead(ctx)
		}
	}
}

// takeDedicated takes an instance that was made ahead, or makes one.
func (p *pool) takeDedicated(ctx context.Context) (*instance, error) {
	p.mu.Lock()
	var in *instance
	p.taken++
	if n := len(p.waiting); n > 0 {
		in = p.waiting[n-1] // the newest: its memory is in the processor's caches
		p.waiting[n-1] = nil
		p.waiting = p.waiting[:n-1]
	} else {
		p.wanted = min(max(1, 2*p.wanted), p.pools.ahead.most)
	}
	ask := !p.asked && len(p.waiting) < p.wanted
	p.asked = p.asked || ask
	p.mu.Unlock()
	if ask {
		p.pools.ahead.asks(p)
	}
	if in != nil {
		return in, nil
	}
	return p.make(ctx, true, p.pools.reclaim)
}

// makeAhead makes as many instances as are wanted.
func (p *pool) makeAhead(ctx context.Context) {
	for p.lacks() {
		in, err := p.makeSpare(ctx)
		p.mu.Lock()
		if err != nil {
			// No room, or a guest that does not start: whoever needs one will be
			// told, and asks again.
			p.wanted = 0
			p.mu.Unlock()
			continue
		}
		kept := len(p.waiting) < p.wanted
		if kept {
			p.waiting = append(p.waiting, in)
		}
		p.mu.Unlock()
		if !kept {
			in.discard()
		}
	}
}

// lacks reports whether there are fewer instances than wanted; if not, the pool
// is off the list.
func (p *pool) lacks() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = len(p.waiting) < p.wanted
	return p.asked
}

var errNoSpare = errors.New("the guests' memory is nearly used up")

func (p *pool) makeSpare(ctx context.Context) (*instance, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	budget := p.pools.cfg.GuestMemory
	if p.pools.memory.Load()+p.typical.Load() > budget-budget/8 {
		return nil, errNoSpare
	}
	return p.make(ctx, true, func() bool { return false })
}

// dropAhead closes instances that wait, down to a number, and wants no more than
// that. It reports whether there were any.
func (p *pool) dropAhead(keep int) bool {
	p.mu.Lock()
	p.wanted = min(p.wanted, keep)
	n := min(len(p.waiting), keep)
	drop := append([]*instance(nil), p.waiting[n:]...)
	clear(p.waiting[n:])
	p.waiting = p.waiting[:n]
	p.mu.Unlock()
	for _, in := range drop {
		in.discard()
	}
	return len(drop) > 0
}

// settleAhead brings the number that wait to what was taken since the last time.
func (p *pool) settleAhead() {
	p.mu.Lock()
	taken := p.taken
	p.taken = 0
	p.mu.Unlock()
	p.dropAhead(taken)
}

// reclaimAhead closes what one of the pools has ahead of need.
func (ps *pools) reclaimAhead() bool {
	for _, p := range ps.all() {
		if p.dropAhead(0) {
			return true
		}
	}
	return false
}

// newGuest makes an instance; where the engine has no room, instead of those
// that were made ahead.
func (p *pool) newGuest(ctx context.Context, program engine.Program, reclaim func() bool) (engine.Instance, error) {
	for {
		guest, err := program.NewInstance(ctx, p.key.memoryBytes)
		if err == nil || !errors.Is(err, actor.ErrOverloaded) || !reclaim() {
			return guest, err
		}
	}
}
