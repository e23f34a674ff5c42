package reminder

import (
	"context"
	"sync"

	"github.com/greenroom-run/greenroom/actor"
)

// creators has the creator of this process, a new one each time that the process was taken for
// gone. Its methods may be called concurrently.
type creators struct {
	cfg     *Config
	members Members
	tenure  *tenure
	pending *pending
	tasks   *tasks

	mu      sync.Mutex
	creator *creator
}

// current returns the creator of now. Its methods may wait for the store.
func (c *creators) current() *creator {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.creator
}

// renew has what is created from now on be in new buckets.
func (c *creators) renew() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.creator = newCreator(c.allocate)
}

// token returns an ID of this process's own bucket that was never given out before.
func (c *creators) token(ctx context.Context, app string) (actor.ReminderID, error) {
	id, spent, err := c.current().take(ctx, app, c.tasks.run)
	if err != nil {
		return id, err
	}
	if spent != nil {
		c.tasks.run(func() {
			if err := c.cfg.Store.CloseBucket(context.WithoutCancel(ctx), *spent); err != nil {
				c.cfg.Logger.Warn("a bucket of reminders that is used up was not closed", "bucket", spent.String(), "error", err)
			}
		})
	}
	return id, nil
}

// retire has this process create from another bucket than from one that is hot: closed, it
// can be another instance's, and what is set from now on need not be where it is.
func (c *creators) retire(ctx context.Context, r actor.BucketRow) {
	by := c.current()
	c.tasks.run(func() {
		ctx := context.WithoutCancel(ctx)
		_, err := by.replace(ctx, r.App, r.Bucket)
		if _, uses := by.used()[r.Bucket]; !uses { // it may have been left before, and not closed
			err = c.cfg.Store.CloseBucket(ctx, r.Bucket)
		}
		if err != nil {
			c.cfg.Logger.Warn("a hot bucket of reminders was not closed", "bucket", r.Bucket.String(), "error", err)
		}
	})
}

// allocate gets a bucket for this process, and owns it, if nobody was quicker.
func (c *creators) allocate(ctx context.Context, app string) (actor.BucketRow, error) {
	self := c.members.Self()
	row, err := c.cfg.Store.AllocateBucket(ctx, app, self, randomVector())
	if err != nil {
		return row, err
	}
	if mine, done, err := c.cfg.Store.AssignBucket(ctx, row.Bucket, row.Epoch, self); err == nil && done {
		c.pending.allocated(mine, c.cfg.Window, c.tenure)
	}
	return row, nil
}
