package scheduler

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
)

// drainer hands over everything that this host holds.
type drainer struct {
	*member
	sticky    *sticky
	checkouts *checkouts
	once      sync.Once // reports once that the host has drained
}

// maxDrained is how many sticky actors are handed over together: those pause for the
// hand-over of as many others.
const maxDrained = 1024

// Drain hands over all that this host holds, to hosts that are not draining, and gets
// nothing new until the process ends. It returns when nothing is left here and others have
// it, by the leader's word, for which it waits as long as a lease at most; at once if there
// is no other host to take it. Calls go on to be routed. It is safe to call twice: both
// wait.
func (d *drainer) Drain(ctx context.Context, reason string) error {
	began := d.now()
	var late <-chan time.Time // has a value a lease after nothing was left here
	tooLate := false
	d.mu.Lock()
	if d.draining == "" {
		d.draining = reason
		d.checkouts.kick()
		d.cfg.Logger.Info("draining", "host", d.self.ID, "reason", reason)
		d.session.put(&greenroomv1.ReportActorTypesRequest{Message: &greenroomv1.ReportActorTypesRequest_Drain{Drain: &greenroomv1.DrainRequest{}}})
	}
	d.mu.Unlock()
	for {
		d.mu.Lock()
		changed := d.view.Load().changed
		alone, holding, owns := d.noOtherHost(), d.holdings.Holding() || d.heldPartitions() > 0, d.owned.count.Load() > 0
		underWay := d.holdings.UnderWay()
		if !alone && !holding && owns && d.session != nil && !d.sticky.releasing {
			d.sticky.releasing = true
			leaving := d.owned.leave(maxDrained, func(actor.Key, *ownedActor) bool { return true })
			d.sticky.giveUp(d.session, leaving, func() { d.sticky.releasing = false })
		}
		d.mu.Unlock()
		if !holding && !owns && late == nil {
			late = time.After(d.cfg.Lease)
		}
		if alone || !holding && !owns && (!underWay || tooLate || ctx.Err() != nil) {
			d.once.Do(func() {
				d.cfg.Logger.Info("drained", "host", d.Self(), "reason", reason, "alone", alone, "took", (d.now() - began).Round(time.Millisecond).String())
				if !alone && underWay {
					d.cfg.Logger.Warn("the leader did not say who has all that this host handed over", "waited", d.cfg.Lease.String())
				}
				if d.cfg.Events.Drained != nil {
					d.cfg.Events.Drained(reason)
				}
			})
			return nil //nolint:nilerr // it has handed over all that it had
		}
		select {
		case <-changed:
		case <-late:
			tooLate = true
		case <-ctx.Done():
			return fmt.Errorf("drain: not all was handed over: %w", ctx.Err())
		}
	}
}

// Draining reports whether this host hands over what it holds, or has.
func (d *drainer) Draining() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.draining != ""
}

// DrainHost has another host, or this one, drain; it does not wait for the end.
// [actor.ErrHostGone] if there is no such host, and [actor.ErrUnavailable] while there
// is no leader to tell.
func (d *drainer) DrainHost(id actor.HostID) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, there := d.members[id]; !there {
		return fmt.Errorf("host %s: %w", id, actor.ErrHostGone)
	}
	if d.session == nil {
		return fmt.Errorf("no session with the leader of the cluster: %w", actor.ErrUnavailable)
	}
	if id == d.self.ID {
		d.loops.Go(func() { _ = d.Drain(d.ctx, "asked") })
		return nil
	}
	d.session.put(&greenroomv1.ReportActorTypesRequest{Message: &greenroomv1.ReportActorTypesRequest_Drain{Drain: &greenroomv1.DrainRequest{HostId: string(id)}}})
	return nil
}
