package client

import (
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
	"github.com/greenroom-run/greenroom/api/invokestream"
	"github.com/greenroom-run/greenroom/api/invokestream/caller"
)

const (
	// maxDirect is how many servers beside the configured ones are called directly.
	maxDirect = 256
	// avoidFor is how long a server is passed over that could not be reached, as long as
	// there are others. The owner of an actor that was lost is asked for anew.
	avoidFor = 2 * time.Second
)

// target is one server of those that a client calls.
type target struct {
	c       *Client
	base    string // its URL, without a slash at the end
	streams []*stream
	next    atomic.Uint32 // counts calls, to choose a stream for each
	// seeking has the calls of actors of which nobody has said where they are. Those of a
	// server that was lost wait there for another one, and hold up no others.
	seeking *stream

	rpc   *connect.Client[invokestream.Request, invokestream.Response]
	unary greenroomv1connect.ActorServiceClient
	http  *http.Client
	// unaryUntil is when streams are tried again, avoidUntil when the server is called
	// again while there are others, in Unix nanoseconds.
	unaryUntil, avoidUntil atomic.Int64
}

// servers are those that a client knows: the configured ones, and those that said that
// they hold actors.
type servers struct {
	c          *Client
	configured []*target
	current    atomic.Uint32 // of the configured ones, who is called for what nobody is known to hold
	// owners holds the last known server of each actor; nil if owners are not tracked.
	owners *lru.Cache[actor.Key, *target]
	// several reports whether answers have shown that there is more than one server.
	several atomic.Bool

	mu     sync.Mutex
	byBase map[string]*target
}

func (ss *servers) init(c *Client) {
	ss.c, ss.byBase = c, map[string]*target{}
	for _, url := range append([]string{c.conf.URL}, c.conf.URLs...) {
		s := ss.get(strings.TrimSuffix(url, "/"))
		ss.configured = append(ss.configured, s)
	}
	ss.several.Store(len(ss.configured) > 1)
	if c.conf.MaxOwners > 0 {
		ss.owners, _ = lru.New[actor.Key, *target](c.conf.MaxOwners) // fails only for sizes below 1
	}
}

// get returns the server of a URL, which it makes if there may be another one; nil
// otherwise.
func (ss *servers) get(base string) *target {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if s := ss.byBase[base]; s != nil {
		return s
	}
	if len(ss.byBase) >= maxDirect+len(ss.configured)+1 || ss.c.ctx.Err() != nil {
		return nil
	}
	s := ss.c.newServer(base)
	ss.byBase[base] = s
	return s
}

// newServer returns a server, whose streams are opened when there are calls.
func (c *Client) newServer(base string) *target {
	s := &target{c: c, base: base}
	streams, requests := c.httpClients(base)
	s.http = requests
	// Replies are small, many and fresh: compressing them costs more than turns.
	s.rpc = connect.NewClient[invokestream.Request, invokestream.Response](
		caller.WholeMessages{Client: streams}, base+greenroomv1connect.ActorServiceInvokeStreamProcedure,
		connect.WithCodec(invokestream.Codec{}), connect.WithAcceptCompression("gzip", nil, nil))
	s.unary = greenroomv1connect.NewActorServiceClient(requests, base, connect.WithAcceptCompression("gzip", nil, nil))
	for range c.conf.Streams {
		s.streams = append(s.streams, newStream(s))
	}
	s.seeking = newStream(s)
	for _, st := range append(s.streams[:len(s.streams):len(s.streams)], s.seeking) {
		c.running.Go(st.run)
	}
	return s
}

// stream returns the stream for the next call, of an actor that the server is known to
// hold or not.
func (s *target) stream(known bool) *stream {
	if !known && s.c.servers.owners != nil && s.c.servers.several.Load() {
		return s.seeking
	}
	if n := uint32(len(s.streams)); n > 1 { //nolint:gosec // a handful
		return s.streams[s.next.Add(1)%n]
	}
	return s.streams[0]
}

// alone reports whether there is no other server to call.
func (s *target) alone() bool {
	return len(s.c.servers.configured) == 1 && s == s.c.servers.configured[0]
}

// avoided reports whether the server could not be reached a moment ago.
func (s *target) avoided() bool {
	until := s.avoidUntil.Load()
	return until != 0 && time.Now().UnixNano() < until
}

// choose returns the server to call for an actor: the one that is known to hold it, or
// one of the configured ones.
func (ss *servers) choose(key actor.Key) (s *target, known bool) {
	if ss.owners != nil {
		if s, ok := ss.owners.Get(key); ok && !s.avoided() {
			return s, true
		}
	}
	n := uint32(len(ss.configured)) //nolint:gosec // a handful
	at := ss.current.Load()
	for i := range n {
		if s := ss.configured[(at+i)%n]; !s.avoided() {
			if i > 0 {
				ss.current.CompareAndSwap(at, at+i)
			}
			return s, false
		}
	}
	return ss.configured[at%n], false // all were tried a moment ago
}

// answered notes that s answered for an actor itself, as it named no other server.
func (ss *servers) answered(key actor.Key, s *target) {
	if ss.owners != nil && ss.several.Load() {
		ss.owners.Add(key, s)
	}
}

// learn notes what an answer of s said of who holds an actor.
func (ss *servers) learn(key actor.Key, s *target, host string) {
	if ss.owners == nil || host == "" {
		return
	}
	if _, _, err := net.SplitHostPort(host); err != nil || strings.ContainsAny(host, "/?#@ ") {
		return
	}
	scheme, _, _ := strings.Cut(s.base, "://")
	if owner := ss.get(scheme + "://" + host); owner != nil {
		ss.several.Store(true)
		ss.owners.Add(key, owner)
	}
}

// doubted notes that a server may be of no use for an actor, while others are: those are
// asked next.
func (ss *servers) doubted(key actor.Key, s *target) {
	if ss.owners != nil {
		ss.owners.Remove(key)
	}
	n := uint32(len(ss.configured)) //nolint:gosec // a handful
	if at := ss.current.Load(); ss.configured[at%n] == s {
		ss.current.CompareAndSwap(at, at+1)
	}
}

// failed notes that a server could not be reached, lost a call, or is about to stop.
func (ss *servers) failed(key actor.Key, s *target) {
	s.avoidUntil.Store(time.Now().Add(avoidFor).UnixNano())
	if ss.owners != nil {
		ss.owners.Remove(key)
	}
}
