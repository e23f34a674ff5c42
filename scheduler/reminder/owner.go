package reminder

import (
	"context"
	"slices"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// owner takes over the buckets of this instance, reads them ahead, and gives up what another
// one is to have. Its methods are for the goroutine that polls the store.
type owner struct {
	cfg       *Config
	clock     *dbClock
	members   Members
	tenure    *tenure
	pending   *pending
	queue     *dispatch
	subs      *subscribers
	table     *bucketTable
	allocator *allocator
	creators  *creators
	// polled is the database time of the latest poll.
	polled time.Time
	// shed is the bucket that is being given up for its rate, if there is one.
	shed actor.Bucket
}

// sheds returns what this instance gives up for its rate, and remembers it until it has.
func (o *owner) sheds(rows []actor.BucketRow, live []actor.HostID, self actor.HostID) []actor.BucketRow {
	was := o.shed
	shed := Shed(rows, live, self, was)
	o.shed = actor.Bucket{}
	for _, r := range shed {
		if o.shed = r.Bucket; o.shed != was {
			o.cfg.Logger.Info("a busy bucket of reminders is given to another server", "bucket", r.Bucket.String(), "rate", r.Rate)
		}
	}
	return shed
}

// become takes over which member this process is, and returns what it creates from at this
// moment. One that was taken for gone begins anew, without any bucket: others may have those
// that it had by now.
func (o *owner) become(self actor.HostID) creations {
	if o.tenure.become(self) {
		o.creators.renew()
		left := o.pending.leaveAll()
		o.pending.mu.Lock()
		for b := range left {
			outcomes{o.pending}.dropLines(b)
		}
		o.pending.mu.Unlock()
	}
	creator := o.creators.current()
	return creations{creator, creator.used()}
}

func (o *owner) bucketRows(ctx context.Context) ([]actor.BucketRow, error) {
	var rows []actor.BucketRow
	after := actor.Bucket{}
	for {
		page, err := o.cfg.Store.Buckets(ctx, after, store.MaxList)
		if err != nil {
			return nil, err
		}
		rows = append(rows, page...)
		if len(page) < store.MaxList {
			return rows, nil
		}
		after = page[len(page)-1].Bucket
	}
}

// reconcile takes over what is this instance's by the rows, which were read in the latest
// poll, after now, and lets go of what is not.
func (o *owner) reconcile(rows []actor.BucketRow, now time.Time, self actor.HostID) {
	p := o.pending
	p.mu.Lock()
	defer p.mu.Unlock()
	mine := map[actor.Bucket]actor.BucketRow{}
	for _, r := range rows {
		if r.Owner == self {
			mine[r.Bucket] = r
		}
	}
	before := map[actor.Bucket]*ownedBucket{} // those that are this instance's at another time
	for bucket, b := range p.owned {
		// A bucket that was allocated since the rows were read is not among them.
		r, still := mine[bucket]
		if !still && b.adopted >= p.polls {
			continue
		}
		if !still || r.Epoch > b.row.Epoch {
			if still {
				before[bucket] = b
			}
			delete(p.owned, bucket)                   // what the wheel has of it is passed over
			for _, id := range o.queue.drop(bucket) { // nor does what waits begin
				p.forget(id)
			}
			outcomes{p}.dropLines(bucket)
		}
	}
	for _, r := range mine {
		known := p.owned[r.Bucket] != nil
		if !known && p.stopping {
			continue // a process that stops takes nothing over
		}
		p.adopt(r)
		if !known && o.cfg.Store.Shared() && !o.freed(&r, self) {
			p.owned[r.Bucket].inheritance = inheritance{dueBy: now, held: time.Now().Add(o.cfg.ExecutionTimeout)}
		}
		if was := before[r.Bucket]; was != nil {
			p.owned[r.Bucket].extend(&was.inheritance)
		}
	}
}

func (o *owner) buckets() []*ownedBucket {
	o.pending.mu.Lock()
	defer o.pending.mu.Unlock()
	list := make([]*ownedBucket, 0, len(o.pending.owned))
	for _, b := range o.pending.owned {
		if !b.leaving {
			list = append(list, b)
		}
	}
	return list
}

// leave gives up buckets that another instance is to have, once nothing of them is
// under way, nor may be with subscribers of a lost owner: who gets them would not know.
func (o *owner) leave(ctx context.Context, rows []actor.BucketRow) error {
	for _, r := range rows {
		o.pending.mu.Lock()
		b := o.pending.owned[r.Bucket]
		if b != nil && b.lasts() {
			o.pending.mu.Unlock()
			continue
		}
		if b != nil {
			b.leaving = true
		}
		o.pending.mu.Unlock()
		if b != nil { // what waits does not begin
			for _, id := range o.queue.drop(r.Bucket) {
				outcomes{o.pending}.done(id)
			}
		}
		o.pending.mu.Lock()
		// Those are counted as well that it had under way as another one's, or before it
		// was to stay after all.
		ready := b != nil && o.pending.underWay.buckets[r.Bucket] == 0
		o.pending.mu.Unlock()
		if !ready {
			continue
		}
		if _, _, err := o.cfg.Store.AssignBucket(ctx, r.Bucket, r.Epoch, ""); err != nil {
			return err
		}
		o.pending.mu.Lock()
		delete(o.pending.owned, r.Bucket)
		outcomes{o.pending}.dropLines(r.Bucket)
		o.pending.mu.Unlock()
	}
	o.pending.mu.Lock()
	defer o.pending.mu.Unlock()
	for bucket, b := range o.pending.owned {
		if b.leaving && !slices.ContainsFunc(rows, func(r actor.BucketRow) bool { return r.Bucket == bucket }) {
			// It may stay: it is read anew, with what was passed over.
			delete(o.pending.owned, bucket)
			outcomes{o.pending}.dropLines(bucket)
			o.pending.adopt(b.row)
			o.pending.owned[bucket].extend(&b.inheritance)
			o.pending.owned[bucket].deliveredBefore = o.clock.now().Add(clocksApart)
		}
	}
	return nil
}

// save writes down how far buckets are used and delivered, and how busy they are.
func (o *owner) save(ctx context.Context) error {
	var progress []store.BucketProgress
	local := time.Now()
	used := o.creators.current().report()
	o.pending.mu.Lock()
	for _, b := range o.pending.owned {
		if !b.leaving { // its next owner goes on from the rate that it had
			b.measure(local)
		}
		if b.deliveredTill.After(b.saved) || b.rateChanged() {
			progress = append(progress, store.BucketProgress{
				Bucket: b.row.Bucket, Epoch: b.row.Epoch, DeliveredTill: b.deliveredTill, Rate: uint32(b.rate),
			})
		}
	}
	o.pending.mu.Unlock()
	for bucket, n := range used {
		progress = append(progress, store.BucketProgress{Bucket: bucket, Used: n})
	}
	if len(progress) == 0 {
		return nil
	}
	// A bucket may be both created from and delivered here: one entry each.
	places := map[actor.Bucket]int{}
	var folded []store.BucketProgress
	for _, p := range progress {
		if at, there := places[p.Bucket]; there {
			folded[at].Used = p.Used
			continue
		}
		places[p.Bucket] = len(folded)
		folded = append(folded, p)
	}
	if err := o.cfg.Store.SaveBuckets(ctx, folded); err != nil {
		return err
	}
	o.pending.mu.Lock()
	defer o.pending.mu.Unlock()
	for _, p := range folded {
		if b := o.pending.owned[p.Bucket]; b != nil && p.Epoch == b.row.Epoch {
			b.saved, b.savedRate = p.DeliveredTill, p.Rate
		}
	}
	return nil
}

// reclaim gives this process's buckets new epochs, after it may have been taken for gone: so
// a leader that still takes it for that gives them to nobody. It returns the rows as they are
// then, without those for which somebody was quicker.
func (o *owner) reclaim(ctx context.Context, rows []actor.BucketRow, self actor.HostID) ([]actor.BucketRow, error) {
	var now []actor.BucketRow
	for _, r := range rows {
		done := true
		if r.Owner == self {
			var err error
			if r, done, err = o.cfg.Store.AssignBucket(ctx, r.Bucket, r.Epoch, self); err != nil {
				return rows, err
			}
		}
		if done {
			now = append(now, r)
		}
	}
	return now, nil
}

// freed reports whether the owner before has given up a bucket that this instance was given,
// by the rows as they were at the last poll; false also if that is not known. A bucket that is
// given up has an epoch without an owner, and a lost owner's has none.
func (o *owner) freed(r *actor.BucketRow, self actor.HostID) bool {
	if r.Epoch <= 2 {
		return true // it had none
	}
	was, read, known := o.table.row(r.Bucket)
	return known && time.Since(read) <= 2*pollEvery && (was.Owner == "" || was.Owner == self || r.Epoch >= was.Epoch+2)
}
