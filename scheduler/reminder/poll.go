package reminder

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// poll looks at the buckets, reads ahead, and writes down how far it is.
func (s *Service) poll(ctx context.Context) {
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		if err := s.look(ctx); err != nil && ctx.Err() == nil {
			s.cfg.Logger.Warn("reminders: the store was not read", "error", err)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

func (s *Service) look(ctx context.Context) error {
	s.mayDeliver()
	s.mu.Lock()
	s.looks++
	s.mu.Unlock()
	now, err := s.cfg.Store.Now(ctx)
	if err != nil {
		return err
	}
	s.clock.set(now)
	asked := time.Now()
	live, leading, err := s.members.Live(ctx)
	if err != nil {
		return err
	}
	self, creates := s.become(s.members.Self())
	rows, err := s.bucketRows(ctx)
	if err != nil {
		return err
	}
	creates.abandon(rows)
	s.mu.Lock()
	may, lapses := !s.elsewhere(), s.lapses
	s.mu.Unlock()
	if !may {
		if rows, err = s.reclaim(ctx, rows, self); err != nil {
			return err
		}
	}
	// What concerns shares is among those that can take part.
	connected := s.members.Connected(live)
	if leading {
		if rows, err = s.lead(ctx, rows, View{Now: now, Live: live, Connected: connected}, asked); err != nil {
			return err
		}
	} else { // what was seen then says nothing about later
		clear(s.gone)
		clear(s.closed)
	}
	s.reconcile(rows, now, lapses)
	s.publish(rows, connected)
	for _, r := range Retire(rows, connected, self, now) {
		s.retire(ctx, r)
	}
	if err := s.leave(ctx, append(Surplus(rows, connected, self), s.sheds(rows, connected, self)...)); err != nil {
		return err
	}
	if err := s.readAllAhead(ctx, now); err != nil {
		return err
	}
	for _, b := range s.buckets() {
		if err := s.readRecent(ctx, b, now); err != nil {
			return err
		}
		if err := s.sweep(ctx, b, now); err != nil {
			return err
		}
	}
	return s.save(ctx)
}

// sheds returns what this instance gives up for its rate, and remembers it until it has.
func (s *Service) sheds(rows []actor.BucketRow, live []actor.HostID, self actor.HostID) []actor.BucketRow {
	was := s.shed
	shed := Shed(rows, live, self, was)
	s.shed = actor.Bucket{}
	for _, r := range shed {
		if s.shed = r.Bucket; s.shed != was {
			s.cfg.Logger.Info("a busy bucket of reminders is given to another server", "bucket", r.Bucket.String(), "rate", r.Rate)
		}
	}
	return shed
}

// become takes over which member this process is, and returns that and what it creates
// from at this moment. One that was taken for gone begins anew, without any bucket: others
// may have those that it had by now.
func (s *Service) become(self actor.HostID) (actor.HostID, creations) {
	s.mu.Lock()
	if self != s.self {
		s.cfg.Logger.Warn("this host was taken for gone: it delivers and creates reminders anew", "host", s.self, "as", self)
		s.self, s.creator, s.owned = self, newCreator(s.allocate), map[actor.Bucket]*ownedBucket{}
	}
	s.mu.Unlock()
	creator := s.createsFrom()
	return self, creations{creator, creator.used()}
}

func (s *Service) bucketRows(ctx context.Context) ([]actor.BucketRow, error) {
	var rows []actor.BucketRow
	after := actor.Bucket{}
	for {
		page, err := s.cfg.Store.Buckets(ctx, after, store.MaxList)
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

// lead performs what [Allocate] says, and returns the rows as they are then. asked is when
// it was asked who is there, by the local clock.
func (s *Service) lead(ctx context.Context, rows []actor.BucketRow, v View, asked time.Time) ([]actor.BucketRow, error) {
	v.Gone, v.OwnerTimeout, v.Alone = s.watch(rows, v.Live, asked), ownerTimeout, !s.cfg.Store.Shared()
	removals := 0
	for _, a := range Allocate(rows, v) {
		at := slices.IndexFunc(rows, func(r actor.BucketRow) bool { return r.Bucket == a.Row.Bucket })
		if time.Since(asked) > pollEvery {
			return rows, nil // who was gone then may be back: see again
		}
		var err error
		switch a.Kind {
		case AssignBucket:
			var row actor.BucketRow
			var done bool
			if row, done, err = s.cfg.Store.AssignBucket(ctx, a.Row.Bucket, a.Row.Epoch, a.Owner); done {
				rows[at] = row
			}
		case CloseBucket:
			err = s.cfg.Store.CloseBucket(ctx, a.Row.Bucket)
		case RemoveBucket:
			if time.Since(s.closed[a.Row.Bucket]) < closedFor {
				continue // the database's clock may have been set
			}
			if removals++; removals > 4 {
				continue // the others later: it is a search each
			}
			var gone bool
			if gone, err = s.cfg.Store.RemoveBucket(ctx, a.Row.Bucket, v.Now.Add(-RemoveAfter)); gone {
				rows = slices.Delete(rows, at, at+1)
			}
		}
		if err != nil {
			return rows, err
		}
	}
	return rows, nil
}

// closedFor is how long a leader has seen a bucket closed when it removes it.
const closedFor = 5 * time.Minute

// watch returns for how long owners that are not live have been gone at a time, and remembers
// since when buckets are closed, by the local clock: that of the database may be set.
func (s *Service) watch(rows []actor.BucketRow, live []actor.HostID, now time.Time) map[actor.HostID]time.Duration {
	gone, closed := map[actor.HostID]time.Time{}, map[actor.Bucket]time.Time{}
	since := map[actor.HostID]time.Duration{}
	for _, r := range rows {
		if r.Closed {
			if closed[r.Bucket] = now; !s.closed[r.Bucket].IsZero() {
				closed[r.Bucket] = s.closed[r.Bucket]
			}
		}
		if slices.Contains(live, r.Owner) {
			continue
		}
		if gone[r.Owner] = now; !s.gone[r.Owner].IsZero() {
			gone[r.Owner] = s.gone[r.Owner]
		}
		since[r.Owner] = now.Sub(gone[r.Owner])
	}
	s.gone, s.closed = gone, closed
	return since
}

// reconcile takes over what is this instance's by the rows, which were read in the latest
// look, after now, and lets go of what is not. Whether this process may have been taken for
// gone is settled by them for the first lapses times that it was found so.
func (s *Service) reconcile(rows []actor.BucketRow, now time.Time, lapses uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	mine := map[actor.Bucket]actor.BucketRow{}
	for _, r := range rows {
		if r.Owner == s.self {
			mine[r.Bucket] = r
		}
	}
	before := map[actor.Bucket]*ownedBucket{} // those that are this instance's at another time
	for bucket, b := range s.owned {
		// A bucket that was allocated since the rows were read is not among them.
		r, still := mine[bucket]
		if !still && b.adopted >= s.looks {
			continue
		}
		if !still || r.Epoch > b.row.Epoch {
			if still {
				before[bucket] = b
			}
			delete(s.owned, bucket)                   // what the wheel has of it is passed over
			for _, id := range s.queue.drop(bucket) { // nor does what waits begin
				s.forget(id)
			}
		}
	}
	for _, r := range mine {
		known := s.owned[r.Bucket] != nil
		if !known && s.stopping {
			continue // a process that stops takes nothing over
		}
		s.adopt(r)
		if !known && s.cfg.Store.Shared() && !s.freed(&r) {
			s.owned[r.Bucket].inherited(now, s.cfg.ExecutionTimeout)
		}
		if was := before[r.Bucket]; was != nil {
			s.owned[r.Bucket].holdsOn(was)
		}
	}
	if s.lapses == lapses {
		s.lapsed = false
	}
	s.dropWaiting()
	s.readOverflowed(now)
	for _, sub := range s.subs.byKey {
		s.resume([]*subscription{sub}) // which may have stopped meanwhile
	}
}

// epochOfFirstOwner is the epoch of a bucket's row under its first owner: that of one that
// was just allocated, which has none, and one more.
const epochOfFirstOwner = 2

// clocksApart is by how much one process may take database time for earlier than another
// does: as long as the database takes to say it.
const clocksApart = 10 * time.Second

// adopt begins to deliver a bucket, or takes its row's news; s.mu is held.
func (s *Service) adopt(r actor.BucketRow) {
	if b := s.owned[r.Bucket]; b != nil {
		if r.Epoch >= b.row.Epoch {
			b.row = r
		}
		return
	}
	b := &ownedBucket{
		bucket: r.Bucket, row: r, high: int64(r.Used) - 1, adopted: s.looks,
		rate: float64(r.Rate), savedRate: r.Rate, measured: time.Now(),
	}
	// If the database's clock was set back, it begins at the beginning.
	if till := r.DeliveredTill; !till.IsZero() && !till.After(s.clock.now()) {
		b.at, b.deliveredTill = till.Add(-startMargin), till
	}
	b.highest = []sample{{time.Now(), b.high}}
	if !r.Closed || s.clock.now().Sub(r.ClosedAt) <= recentFor {
		b.seen = new(bitmap)
	}
	if r.Epoch > epochOfFirstOwner {
		b.deliveredBefore = s.clock.now().Add(clocksApart)
	}
	s.owned[r.Bucket] = b
	s.rouse()
}

func (s *Service) buckets() []*ownedBucket {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*ownedBucket, 0, len(s.owned))
	for _, b := range s.owned {
		if !b.leaving {
			list = append(list, b)
		}
	}
	return list
}

// leave gives up buckets that another instance is to have, once nothing of them is
// under way, nor may be with subscribers of a lost owner: who gets them would not know.
func (s *Service) leave(ctx context.Context, rows []actor.BucketRow) error {
	for _, r := range rows {
		s.mu.Lock()
		b := s.owned[r.Bucket]
		if b != nil && b.holds() {
			s.mu.Unlock()
			continue
		}
		if b != nil {
			b.leaving = true
		}
		s.mu.Unlock()
		if b != nil { // what waits does not begin
			for _, id := range s.queue.drop(r.Bucket) {
				s.done(id)
			}
		}
		s.mu.Lock()
		// Those are counted as well that it had under way as another one's, or before it
		// was to stay after all.
		ready := b != nil && s.under[r.Bucket] == 0
		s.mu.Unlock()
		if !ready {
			continue
		}
		if _, _, err := s.cfg.Store.AssignBucket(ctx, r.Bucket, r.Epoch, ""); err != nil {
			return err
		}
		s.mu.Lock()
		delete(s.owned, r.Bucket)
		s.mu.Unlock()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for bucket, b := range s.owned {
		if b.leaving && !slices.ContainsFunc(rows, func(r actor.BucketRow) bool { return r.Bucket == bucket }) {
			// It may stay: it is read anew, with what was passed over.
			delete(s.owned, bucket)
			s.adopt(b.row)
			s.owned[bucket].holdsOn(b)
			s.owned[bucket].deliveredBefore = s.clock.now().Add(clocksApart)
		}
	}
	return nil
}

// readAllAhead reads what is due within the window and was not read yet, as long as there
// is space in memory: a page of each bucket in turn, so that none waits for another one's
// backlog.
func (s *Service) readAllAhead(ctx context.Context, now time.Time) error {
	var behind []*ownedBucket
	s.mu.Lock()
	for _, b := range s.owned {
		if !b.leaving && !b.at.After(now.Add(s.cfg.Window/2)) {
			behind = append(behind, b)
		}
	}
	s.mu.Unlock()
	end := now.Add(s.cfg.Window)
	for len(behind) > 0 {
		unread := behind[:0]
		for _, b := range behind {
			more, err := s.readPage(ctx, b, now, end)
			if err != nil {
				return err
			}
			if more {
				unread = append(unread, b)
			}
		}
		behind = unread
	}
	return nil
}

// readPage reads the next page of a bucket, and reports whether there are others to be read
// now.
func (s *Service) readPage(ctx context.Context, b *ownedBucket, now, end time.Time) (more bool, err error) {
	s.mu.Lock()
	if s.inMemory() >= s.cfg.MaxInMemory-pageSize || s.owned[b.bucket] != b {
		s.mu.Unlock()
		return false, nil
	}
	b.reading, b.readTo = true, reach(b.at, end, now)
	b.forgetNoted()
	q := store.DueQuery{Bucket: b.bucket, AfterTime: b.at, AfterToken: b.afterToken, Before: b.readTo, Limit: pageSize}
	s.mu.Unlock()
	page, err := s.cfg.Store.DueReminders(ctx, q)
	s.mu.Lock()
	defer s.mu.Unlock()
	b.reading = false
	if err != nil {
		return false, err
	}
	for _, h := range page {
		if _, noted := b.noted[h.ID.Token]; !noted {
			s.insert(b, h)
		}
	}
	full := len(page) == pageSize
	if full {
		last := page[pageSize-1]
		b.at, b.afterToken = last.FireAt, &last.ID.Token
	} else {
		b.at, b.afterToken = q.Before, nil
	}
	s.rouse()
	return full || !q.Before.Equal(end), nil
}

// insert takes a head that was read into memory; s.mu is held.
func (s *Service) insert(b *ownedBucket, h store.ReminderHead) {
	b.saw(h.ID)
	_, under := s.running[h.ID]
	_, waiting := s.subs.waiting[h.ID]
	if _, retried := s.retried[h.ID]; !under && !retried && !waiting {
		s.wheel.Insert(h.ID, h.FireAt)
	}
}

// maxRanges bounds what is asked for at once of tokens that were not seen.
const maxRanges = 256

// readRecent looks for reminders of tokens that were handed out within the last minute
// and that there was no notice of, and of those above.
func (s *Service) readRecent(ctx context.Context, b *ownedBucket, now time.Time) error {
	s.mu.Lock()
	if b.row.Closed && now.Sub(b.row.ClosedAt) > recentFor {
		b.seen = nil // nothing comes any more
	}
	if b.seen == nil {
		s.mu.Unlock()
		return nil
	}
	high := b.high
	if time.Since(b.highest[len(b.highest)-1].at) >= pollEvery {
		b.highest = append(b.highest, sample{time.Now(), high})
	}
	for len(b.highest) > 1 && time.Since(b.highest[1].at) >= recentFor {
		b.highest = b.highest[1:]
	}
	first := b.bucket.First()
	var ranges []store.TokenRange
	for n := b.highest[0].high + 1; n <= high && len(ranges) < maxRanges; n++ {
		if b.seen.has(uint32(n)) {
			continue
		}
		if last := len(ranges) - 1; last >= 0 && ranges[last].To == first+uint32(n)-1 {
			ranges[last].To++
		} else {
			ranges = append(ranges, store.TokenRange{From: first + uint32(n), To: first + uint32(n)})
		}
	}
	if high+1 < actor.BucketSize {
		ranges = append(ranges, store.TokenRange{From: first + uint32(high+1), To: first + actor.BucketSize - 1})
	}
	s.mu.Unlock()
	if len(ranges) == 0 {
		return nil
	}
	heads, err := s.cfg.Store.RecentReminders(ctx, b.bucket, ranges, pageSize)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range heads {
		if !b.seen.has(h.ID.Token - first) { // there may have been notice meanwhile
			s.note(h.ID, h.FireAt)
		}
	}
	return nil
}

// rateOver is over how long rates are averaged, about: what fires at each full minute is no
// reason to move a bucket then.
const rateOver = 30 * time.Second

// measure brings the rate up to date. A bucket that is being given up keeps what it had:
// its next owner goes on from there.
func (b *ownedBucket) measure(now time.Time) {
	took := now.Sub(b.measured).Seconds()
	if b.leaving || took <= 0 {
		return
	}
	b.rate += (float64(b.begun)/took - b.rate) * -math.Expm1(-took/rateOver.Seconds())
	b.begun, b.measured = 0, now
}

// rateChanged reports whether the rate differs enough from what was written down: by a
// quarter, and by what matters.
func (b *ownedBucket) rateChanged() bool {
	saved := float64(b.savedRate)
	return math.Abs(b.rate-saved) > max(busyRate/10, saved/4) || b.rate < 1 && saved > 0
}

// save writes down how far buckets are used and delivered, and how busy they are.
func (s *Service) save(ctx context.Context) error {
	var progress []store.BucketProgress
	local := time.Now()
	used := s.createsFrom().used()
	s.mu.Lock()
	for _, b := range s.owned {
		if b.measure(local); b.deliveredTill.After(b.saved) || b.rateChanged() {
			progress = append(progress, store.BucketProgress{
				Bucket: b.row.Bucket, Epoch: b.row.Epoch, DeliveredTill: b.deliveredTill, Rate: uint32(b.rate),
			})
		}
	}
	s.mu.Unlock()
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
	if err := s.cfg.Store.SaveBuckets(ctx, folded); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range folded {
		if b := s.owned[p.Bucket]; b != nil && p.Epoch == b.row.Epoch {
			b.saved, b.savedRate = p.DeliveredTill, p.Rate
		}
	}
	return nil
}
