package edge

import (
	"compress/gzip"
	"errors"
	"io"

	"connectrpc.com/connect"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/server/failure"
)

// boundedGzip decompresses at most limit bytes per message: a small body must not
// become a large message. It reports what is wrong as a typed error, and only
// from Read, whose errors Connect passes on as they are. What it has made of a
// message counts for the server until Close.
type boundedGzip struct {
	gzip.Reader
	edge             *Edge
	limit, remaining int64
	tooLarge         error
	resetErr         error
}

// Reset implements [connect.Decompressor].
func (g *boundedGzip) Reset(r io.Reader) error {
	g.uncount()
	g.resetErr = g.Reader.Reset(r)
	return nil
}

// Read implements [io.Reader].
func (g *boundedGzip) Read(p []byte) (int, error) {
	if g.resetErr != nil {
		return 0, errNotGzip(g.resetErr)
	}
	n, err := g.Reader.Read(p)
	full := g.edge.Requests.Bodies.Count(ownerGzip, int64(n)) // whose it is, is not known here
	if g.remaining -= int64(n); g.remaining < 0 {
		return n, failure.Of(g.tooLarge, false).RPC()
	}
	if full != nil && g.limit-g.remaining > alwaysReadBody {
		return n, failure.Of(errRequestsFull(full), false).RPC()
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = errNotGzip(err)
	}
	return n, err
}

// Close implements [connect.Decompressor].
func (g *boundedGzip) Close() error { // gzip.Reader holds nothing that needs it
	g.uncount()
	return nil
}

func (g *boundedGzip) uncount() {
	g.edge.Requests.Bodies.Give(ownerGzip, g.limit-g.remaining)
	g.remaining = g.limit
}

func errNotGzip(err error) error {
	return failure.Of(&actor.ArgumentError{Field: "request", Problem: "is not what its encoding gzip says: " + err.Error()}, false).RPC()
}

// compressAbove is the smallest answer worth the time that gzip takes, in bytes.
const compressAbove = 4 << 10

func newGzip() connect.Compressor { return gzip.NewWriter(io.Discard) }
