package reminder

import (
	"context"
	"time"
)

// run polls the store until ctx ends.
func (o *owner) run(ctx context.Context) {
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for ctx.Err() == nil {
		if err := o.poll(ctx); err != nil && ctx.Err() == nil {
			o.cfg.Logger.Warn("reminders: the store was not read", "error", err)
		}
		o.awaitPoll(ctx, ticker.C)
	}
}

// awaitPoll returns when it is time for the next poll, or ctx ends. Until then it reads what was left
// out whenever memory has space for it.
func (o *owner) awaitPoll(ctx context.Context, tick <-chan time.Time) {
	for {
		select {
		case <-o.pending.memory.space:
			if err := o.readAllLeftOut(ctx, o.polled); err != nil && ctx.Err() == nil {
				o.cfg.Logger.Warn("reminders: what was left out was not read", "error", err)
			}
		case <-tick:
			return
		case <-ctx.Done():
			return
		}
	}
}

// poll reads the rows of buckets, takes over and gives up buckets, reads ahead, and saves the
// progress.
func (o *owner) poll(ctx context.Context) error {
	o.tenure.valid()
	o.pending.countPoll()
	now, err := o.cfg.Store.Now(ctx)
	if err != nil {
		return err
	}
	o.clock.set(now)
	o.polled = now
	asked := time.Now()
	live, leading, err := o.members.Live(ctx)
	if err != nil {
		return err
	}
	self := o.members.Self()
	creates := o.become(self)
	rows, err := o.bucketRows(ctx)
	if err != nil {
		return err
	}
	creates.abandon(rows)
	valid, lapses := o.tenure.state()
	if !valid {
		if rows, err = o.reclaim(ctx, rows, self); err != nil {
			return err
		}
	}
	// What concerns shares is among those that can take part.
	connected := o.members.Connected(live)
	if leading {
		if rows, err = o.allocator.lead(ctx, rows, View{Now: now, Live: live, Connected: connected}, asked); err != nil {
			return err
		}
	} else {
		o.allocator.follow()
	}
	o.reconcile(rows, now, self)
	o.tenure.resume(lapses) // the rows say anew whose the buckets are
	o.subs.reconcile(now)
	o.table.publish(rows, connected)
	for _, r := range Retire(rows, connected, self, now) {
		o.creators.retire(ctx, r)
	}
	if err := o.leave(ctx, append(Surplus(rows, connected, self), o.sheds(rows, connected, self)...)); err != nil {
		return err
	}
	if err := o.readAllLeftOut(ctx, now); err != nil {
		return err
	}
	if err := o.readAllAhead(ctx, now); err != nil {
		return err
	}
	for _, b := range o.buckets() {
		if err := o.readRecent(ctx, b, now); err != nil {
			return err
		}
		if err := o.sweep(ctx, b, now); err != nil {
			return err
		}
	}
	return o.save(ctx)
}
