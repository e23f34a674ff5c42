package embedded

import (
	"bytes"
	"context"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// buckets keeps the ranges of tokens that hosts create reminders from.
type buckets struct{ *writer }

// lapRecord is how far the tokens of an app are allocated.
type lapRecord struct {
	Prefix actor.Prefix `json:"prefix"`
	Vector string       `json:"vector"`
	Next   uint32       `json:"next"` // index of the next bucket
}

// bucketRecord is a bucket as it is stored. Times are microseconds since 1970.
type bucketRecord struct {
	Prefix        actor.Prefix `json:"prefix"`
	Vector        string       `json:"vector"`
	Index         uint32       `json:"index"`
	App           string       `json:"app"`
	Creator       actor.HostID `json:"creator"`
	Owner         actor.HostID `json:"owner,omitempty"`
	Epoch         uint64       `json:"epoch"`
	Used          uint32       `json:"used"`
	DeliveredTill *int64       `json:"delivered_till,omitempty"`
	Rate          uint32       `json:"rate,omitempty"`
	CreatedAt     int64        `json:"created_at"`
	ClosedAt      *int64       `json:"closed_at,omitempty"`
}

func (r *bucketRecord) row() actor.BucketRow {
	at := func(micros *int64) time.Time {
		if micros == nil {
			return time.Time{}
		}
		return time.UnixMicro(*micros).UTC()
	}
	row := actor.BucketRow{
		Bucket: actor.Bucket{Prefix: r.Prefix, Index: r.Index}, App: r.App, Creator: r.Creator, Closed: r.ClosedAt != nil,
		Owner: r.Owner, Epoch: r.Epoch, Used: r.Used, Rate: r.Rate, DeliveredTill: at(r.DeliveredTill), CreatedAt: at(&r.CreatedAt), ClosedAt: at(r.ClosedAt),
	}
	copy(row.Bucket.Vector[:], r.Vector)
	return row
}

func bucketRecordOf(b *actor.BucketRow) *bucketRecord {
	at := func(t time.Time) *int64 {
		if t.IsZero() {
			return nil
		}
		micros := t.UnixMicro()
		return &micros
	}
	return &bucketRecord{
		Prefix: b.Bucket.Prefix, Vector: b.Bucket.Vector.String(), Index: b.Bucket.Index, App: b.App, Creator: b.Creator, Owner: b.Owner,
		Epoch: b.Epoch, Used: b.Used, DeliveredTill: at(b.DeliveredTill), Rate: b.Rate, CreatedAt: b.CreatedAt.UnixMicro(), ClosedAt: at(b.ClosedAt),
	}
}

// readLap reads how far an app's tokens are allocated; nil: not at all.
func readLap(db *pebble.DB, app string) (*lapRecord, error) {
	key := lapKey(app)
	value, err := get(db, key)
	if err != nil {
		return nil, unavailable(err)
	}
	if value == nil {
		return nil, nil
	}
	var l lapRecord
	return &l, decodeRecord(key, value, &l)
}

func (s *buckets) AllocateBucket(ctx context.Context, app string, creator actor.HostID, fresh actor.Vector) (row actor.BucketRow, err error) {
	if err := store.ValidateAllocation(app, fresh); err != nil {
		return row, err
	}
	err = s.update(ctx, writeOptions{}, func(tx *tx) error {
		l, err := readLap(s.db, app)
		if err != nil {
			return err
		}
		if l == nil {
			n, err := s.apps(ctx)
			if err != nil {
				return err
			}
			l = &lapRecord{Prefix: actor.Prefix(n + 1), Vector: fresh.String()}
		}
		if l.Next == actor.BucketsOfLap {
			l.Next, l.Vector = 0, fresh.String()
		}
		b := bucketRecord{Prefix: l.Prefix, Vector: l.Vector, Index: l.Next, App: app, Creator: creator, Epoch: 1, CreatedAt: tx.now}
		l.Next++
		if err := tx.setRecord(lapKey(app), l); err != nil {
			return err
		}
		row = b.row()
		return tx.setRecord(bucketKey(row.Bucket), &b)
	})
	return row, err
}

// apps counts the apps that have a prefix; none ever loses it.
func (s *buckets) apps(ctx context.Context) (n int, err error) {
	it, err := s.db.NewIterWithContext(ctx, &pebble.IterOptions{LowerBound: []byte(lapSpace), UpperBound: prefixEnd([]byte(lapSpace))})
	if err != nil {
		return 0, unavailable(err)
	}
	err = visitAll(ctx, it, func(_, _ []byte) (bool, error) {
		n++
		return true, nil
	})
	return n, err
}

// changeBucket calls change with a bucket that exists, and writes the bucket if change
// returns true.
func changeBucket(ctx context.Context, tx *tx, b actor.Bucket, change func(*bucketRecord) bool) (*bucketRecord, error) {
	key := bucketKey(b)
	value, err := tx.get(key)
	if err != nil {
		return nil, unavailable(err)
	}
	if value == nil {
		return nil, ctx.Err()
	}
	var r bucketRecord
	if err := decodeRecord(key, value, &r); err != nil {
		return nil, err
	}
	if !change(&r) {
		return &r, nil
	}
	return &r, tx.setRecord(key, &r)
}

func (s *buckets) AssignBucket(ctx context.Context, b actor.Bucket, epoch uint64, owner actor.HostID) (row actor.BucketRow, done bool, err error) {
	err = s.update(ctx, writeOptions{}, func(tx *tx) error {
		r, err := changeBucket(ctx, tx, b, func(r *bucketRecord) bool {
			if done = r.Epoch == epoch; done {
				r.Owner, r.Epoch = owner, epoch+1
			}
			return done
		})
		if r != nil {
			row = r.row()
		}
		return err
	})
	return row, done && err == nil, err
}

func (s *buckets) CloseBucket(ctx context.Context, b actor.Bucket) error {
	return s.update(ctx, writeOptions{}, func(tx *tx) error {
		_, err := changeBucket(ctx, tx, b, func(r *bucketRecord) bool {
			if r.ClosedAt != nil {
				return false
			}
			now := tx.now
			r.ClosedAt = &now
			return true
		})
		return err
	})
}

func (s *buckets) SaveBuckets(ctx context.Context, progress []store.BucketProgress) error {
	// It is said again every two seconds: to lose it in a crash costs reading a little more.
	return s.update(ctx, writeOptions{noSync: true}, func(tx *tx) error {
		for _, p := range progress {
			_, err := changeBucket(ctx, tx, p.Bucket, func(r *bucketRecord) bool {
				changed := p.Used > r.Used
				r.Used = max(r.Used, p.Used)
				till := p.DeliveredTill.UnixMicro()
				if !p.DeliveredTill.IsZero() && p.Epoch == r.Epoch && (r.DeliveredTill == nil || till > *r.DeliveredTill) {
					r.DeliveredTill, changed = &till, true
				}
				if p.Epoch == r.Epoch && p.Rate != r.Rate {
					r.Rate, changed = p.Rate, true
				}
				return changed
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *buckets) RemoveBucket(ctx context.Context, b actor.Bucket, closedBefore time.Time) (gone bool, err error) {
	first, end := tokenKey(b.Token(0)), tokenKey(b.Token(actor.BucketSize))
	err = s.update(ctx, writeOptions{frees: true}, func(tx *tx) error {
		empty := true
		it, err := s.db.NewIterWithContext(ctx, &pebble.IterOptions{LowerBound: first, UpperBound: end})
		if err != nil {
			return unavailable(err)
		}
		if err := visitAll(ctx, it, func(_, _ []byte) (bool, error) {
			empty = false
			return false, nil
		}); err != nil {
			return err
		}
		closed := false
		r, err := changeBucket(ctx, tx, b, func(r *bucketRecord) bool {
			closed = r.ClosedAt != nil && *r.ClosedAt < closedBefore.UnixMicro()
			return false
		})
		if gone = r == nil || closed && empty; gone && r != nil {
			tx.delete(bucketKey(b))
		}
		return err
	})
	return gone && err == nil, err
}

func (s *buckets) Buckets(ctx context.Context, after actor.Bucket, limit int) ([]actor.BucketRow, error) {
	if err := store.ValidateLimit(limit); err != nil {
		return nil, err
	}
	from := []byte(bucketSpace)
	if after != (actor.Bucket{}) {
		from = append(bytes.Clone(bucketKey(after)), 0)
	}
	var rows []actor.BucketRow
	err := s.list(ctx, from, prefixEnd([]byte(bucketSpace)), func(key, value []byte) (more bool, err error) {
		var r bucketRecord
		if err := decodeRecord(key, value, &r); err != nil {
			return false, err
		}
		rows = append(rows, r.row())
		return len(rows) < limit, nil
	})
	return rows, err
}
