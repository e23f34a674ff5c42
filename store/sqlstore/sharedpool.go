package sqlstore

import (
	"context"
	"strconv"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/internal/fair"
)

// sharedPool is a pool whose connections apps share: an app leaves some to others, and apps
// that wait for one get it in turn.
type sharedPool struct {
	pool   *pgxpool.Pool
	places *fair.Places // one for each connection
}

// share names what a connection is used for: an app, or what no app can be named like.
type share string

const (
	severalApps share = "/several apps"         // a group that has something of several apps
	listsOfApps share = "/lists of apps"        // lists for callers of all apps
	hostItself  share = "/the work of the host" // work for no app
)

// shareOf returns the share of a group of n items; app returns the app of the i-th.
func shareOf(n int, app func(i int) string) share {
	for i := 1; i < n; i++ {
		if app(i) != app(0) {
			return severalApps
		}
	}
	if n == 0 || app(0) == "" {
		return hostItself
	}
	return share(app(0))
}

func shareOfKeys(keys []actor.Key) share {
	return shareOf(len(keys), func(i int) string { return keys[i].App })
}

func shareOfCommits(commits []*actor.Commit) share {
	return shareOf(len(commits), func(i int) string { return commits[i].Anchor().Key.App })
}

// shareOfPrefix returns the share of an app's reminders where only their prefix is known.
func shareOfPrefix(p actor.Prefix) share {
	return share("/reminders with the prefix " + strconv.FormatUint(uint64(p), 10))
}

// sharedConn is a connection of a shared pool.
type sharedConn struct {
	*pgxpool.Conn
	leave func()
}

// Release gives the connection and its place back.
func (c *sharedConn) Release() {
	c.Conn.Release()
	c.leave()
}

// acquire waits for the turn of a share, and takes a connection.
func (p *sharedPool) acquire(ctx context.Context, of share) (*sharedConn, error) {
	leave, err := p.places.Enter(ctx, string(of), "")
	if err != nil {
		return nil, err
	}
	conn, err := p.pool.Acquire(ctx)
	if err != nil {
		leave()
		return nil, err
	}
	return &sharedConn{conn, leave}, nil
}

// use runs op with a connection.
func (p *sharedPool) use(ctx context.Context, of share, op func(conn *pgxpool.Conn) error) error {
	conn, err := p.acquire(ctx, of)
	if err != nil {
		return err
	}
	defer conn.Release()
	return op(conn.Conn)
}
