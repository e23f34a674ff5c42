package crash_test

import (
	"context"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/jackc/pgx/v5"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
)

// leastCut is how much a server sends at once that is worth cutting: a group of commits, no
// renewal of a lease.
const leastCut = 600

// cutter passes a server's connections on to its database. It can stop in the middle of a
// message, without a word to either end.
type cutter struct {
	listener net.Listener
	to       string
	running  sync.WaitGroup

	mu    sync.Mutex
	moved *sync.Cond
	conns map[net.Conn]struct{}
	// cut, if not nil, chooses how much of the next message still passes.
	cut    func(size int) int
	all    bool // then nothing passes any more of any connection, or else only of that one
	struck chan struct{}
	silent bool // nothing passes
	ended  bool
}

// cutBefore starts a cutter before the database of a URL, and returns the URL through it.
func cutBefore(t *testing.T, database string) (*cutter, string) {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{to: u.Host, conns: make(map[net.Conn]struct{})}
	c.moved = sync.NewCond(&c.mu)
	if c.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil { //nolint:noctx // loopback, answers at once
		t.Fatal(err)
	}
	c.running.Go(c.accept)
	t.Cleanup(func() {
		_ = c.listener.Close()
		c.mu.Lock()
		c.ended = true
		c.mu.Unlock()
		c.reset()
		c.running.Wait()
	})
	u.Host = c.listener.Addr().String()
	return c, u.String()
}

func (c *cutter) accept() {
	for {
		in, err := c.listener.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", c.to) //nolint:noctx // loopback, answers at once
		if err != nil {
			_ = in.Close()
			continue
		}
		c.mu.Lock()
		c.conns[in], c.conns[out] = struct{}{}, struct{}{}
		c.mu.Unlock()
		dead := new(bool) // guarded by mu
		c.running.Go(func() { c.pass(in, out, dead, true) })
		c.running.Go(func() { c.pass(out, in, dead, false) })
	}
}

// pass copies one direction of a connection, in pieces in which whole messages come.
func (c *cutter) pass(from, to net.Conn, dead *bool, sends bool) {
	buf := make([]byte, 1<<20)
	for {
		n, err := from.Read(buf)
		c.mu.Lock()
		if sends && c.cut != nil && n >= leastCut {
			n = c.cut(n)
			c.cut, c.silent, *dead = nil, c.all, true
			close(c.struck)
			c.mu.Unlock()
			_, _ = to.Write(buf[:n])
			c.mu.Lock()
		}
		for (c.silent || *dead) && !c.ended {
			c.moved.Wait() // neither end hears anything
		}
		over := c.ended
		c.mu.Unlock()
		if n > 0 && err == nil && !over {
			_, err = to.Write(buf[:n])
		}
		if err != nil || over {
			_ = to.Close()
			c.mu.Lock()
			delete(c.conns, from)
			c.mu.Unlock()
			return
		}
	}
}

// cutNext stops in the middle of the next message of some size: that connection for ever, or
// with all of them everything, until resume. It returns what is closed then.
func (c *cutter) cutNext(all bool, random *rand.Rand) <-chan struct{} {
	at := random.Float64()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut, c.all, c.struck = func(size int) int { return int(at * float64(size)) }, all, make(chan struct{})
	return c.struck
}

// resume lets connections pass again, those that there were excepted.
func (c *cutter) resume() {
	c.reset()
	c.mu.Lock()
	c.silent = false
	c.mu.Unlock()
	c.moved.Broadcast()
}

// reset ends all connections.
func (c *cutter) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for conn := range c.conns {
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		_ = conn.Close()
	}
	c.moved.Broadcast()
}

// bury makes n actors that were deleted, for lists to pass.
func bury(t *testing.T, database string, n int) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	if _, err := conn.Exec(t.Context(), `INSERT INTO greenroom_actor (app, type, id, version, commit_id, generation, state_schema, format, deleted_at, updated_at, shard)
		SELECT 'default', 'Counter', 'gone-' || g::text, 7, gen_random_uuid(), 1, 0, 0, clock_timestamp(), clock_timestamp(), (g % 16)::int2
		FROM generate_series(1, $1::int8) AS g`, n); err != nil {
		t.Fatal(err)
	}
}

// list reads all pages of all counters, again and again, and returns how often it came to an
// end.
func list(ctx context.Context, url string) (lists int) {
	c := greenroomv1connect.NewActorServiceClient(http.DefaultClient, url)
	req := &greenroomv1.ListActorsRequest{Type: "Counter"}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return lists
		case <-tick.C:
		}
		page, cancel := context.WithTimeout(ctx, 10*time.Second)
		res, err := c.ListActors(page, connect.NewRequest(req))
		cancel()
		if err != nil {
			continue // a server that is frozen, or not there
		}
		if req.PageToken = res.Msg.GetNextPageToken(); req.PageToken == "" {
			lists++
		}
	}
}
