package sim

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"syscall"
	"time"
)

// streams carries requests from a process to others without the frames of HTTP/2, of
// which each is a conn of its own. That takes a fraction of the time, and is the same to
// both sides: a request is a stream of messages each way, which ends, or breaks.
type streams struct{ p *process }

// RoundTrip implements [http.RoundTripper].
func (s streams) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, p := req.Context(), s.p
	l, err := p.w.net.find(ctx, p, req.URL.Host)
	if err != nil {
		_ = req.Body.Close()
		return nil, err
	}
	ours, theirs := p.w.net.connect(p, l.p)
	over := sync.OnceFunc(func() { _ = req.Body.Close() }) // who sends hears of it
	ours.onEnd(over)
	stop := context.AfterFunc(ctx, func() { ours.abort(ctx.Err()) })
	if !l.p.serve(theirs, req) {
		stop()
		ours.abort(net.ErrClosed)
		_ = req.Body.Close()
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	p.w.running.Go(func() {
		if err := sendBody(ours, req); err == nil {
			theirs.arrives(chunk{err: io.EOF})
		}
	})
	p.w.net.watch(ours)
	head, err := ours.readHead()
	if err != nil {
		stop()
		ours.abort(err)
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, err
	}
	return &http.Response{
		Status: http.StatusText(head.status), StatusCode: head.status, Proto: "HTTP/2.0", ProtoMajor: 2, Header: head.header, ContentLength: -1,
		Body: &answer{ours, ctx, stop}, Request: req,
	}, nil
}

// sendBody sends a request's body: each message of a stream at once.
func sendBody(to *conn, req *http.Request) error {
	if req.ContentLength >= 0 {
		all, err := io.ReadAll(req.Body)
		if err == nil && len(all) > 0 {
			_, err = to.Write(all)
		}
		return err
	}
	for {
		message := make([]byte, 5, 256) // flags and size, as Connect has it
		if _, err := io.ReadFull(req.Body, message); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		size := int(binary.BigEndian.Uint32(message[1:]))
		message = append(message, make([]byte, size)...)
		if _, err := io.ReadFull(req.Body, message[5:]); err != nil {
			return err
		}
		if err := to.send(chunk{data: message}); err != nil {
			return err
		}
	}
}

// answer is the body of a response.
type answer struct {
	*conn
	ctx  context.Context //nolint:containedctx // the request's
	stop func() bool
}

// Read implements [io.Reader].
func (a *answer) Read(p []byte) (int, error) {
	n, err := a.conn.Read(p)
	if err == nil {
		return n, nil
	}
	a.ended()
	if a.ctx.Err() != nil {
		err = a.ctx.Err()
	}
	return n, err
}

// Close implements [io.Closer]: who answers no more is told.
func (a *answer) Close() error {
	a.stop()
	a.abort(net.ErrClosed)
	return nil
}

// head is how a response begins.
type head struct {
	status int
	header http.Header
}

// readHead waits for the head of the response.
func (c *conn) readHead() (*head, error) {
	for {
		if _, err := c.Read(nil); err != nil {
			return nil, err
		}
		c.mu.Lock()
		if len(c.in) > 0 && c.in[0].head != nil {
			h := c.in[0].head
			c.in = c.in[1:]
			c.mu.Unlock()
			return h, nil
		}
		c.mu.Unlock()
	}
}

// abort ends this end of a stream, and the other one when that hears of it.
func (c *conn) abort(err error) {
	c.mu.Lock()
	if c.closed != nil {
		c.mu.Unlock()
		return
	}
	c.in, c.closed = nil, err
	c.mu.Unlock()
	c.wake()
	c.forget()
	c.ended()
	if c.own.alive() {
		c.peer.arrives(chunk{err: syscall.ECONNRESET})
	}
}

// onEnd has over called when this end of a stream is over: perhaps more than once.
func (c *conn) onEnd(over func()) {
	c.mu.Lock()
	c.over = over
	closed := c.closed
	c.mu.Unlock()
	if closed != nil {
		over()
	}
}

// ended tells who does not read that this end of a stream is over.
func (c *conn) ended() {
	c.mu.Lock()
	over := c.over
	c.mu.Unlock()
	if over != nil {
		over()
	}
}

// tell tells it in a while, if that is not delayed for longer: who reads hears it then.
func (c *conn) tell(in time.Duration) {
	c.mu.Lock()
	over := c.over
	c.mu.Unlock()
	if over != nil {
		time.AfterFunc(in, func() {
			if !c.n.isCut(c.other.name, c.own.name) && c.own.frozen.waits() == nil {
				over()
			}
		})
	}
}

// serve answers a request at its server, beside which nothing of HTTP is simulated. It
// reports false if that has ended.
func (p *process) serve(c *conn, sent *http.Request) bool {
	p.serving.Lock()
	defer p.serving.Unlock()
	if p.served.Err() != nil || p.closing {
		return false
	}
	ctx, cancel := context.WithCancel(p.served)
	c.onEnd(cancel)
	req := &http.Request{
		Method: sent.Method, URL: sent.URL, Proto: "HTTP/2.0", ProtoMajor: 2, Header: sent.Header.Clone(), Body: request{c}, ContentLength: sent.ContentLength,
		Host: sent.URL.Host, RemoteAddr: c.other.address, RequestURI: sent.URL.RequestURI(),
	}
	p.requests.Go(func() {
		w := &writer{c: c, header: http.Header{}}
		defer cancel()
		defer func() {
			if v := recover(); v != nil && v != any(http.ErrAbortHandler) {
				panic(v)
			} else if v != nil {
				c.abort(syscall.ECONNRESET)
				return
			}
			w.Flush()
			_ = c.Close()
		}()
		p.server.ServeHTTP(w, req.WithContext(ctx))
	})
	return true
}

// stopServing ends the requests that are served after their server was asked to stop, as
// it does itself with those that come to its listener.
func (p *process) stopServing(ctx context.Context) {
	p.serving.Lock()
	p.closing = true
	p.serving.Unlock()
	ended := make(chan struct{})
	go func() {
		p.requests.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
	}
	p.endServing()
	for _, c := range p.w.net.all() {
		if c.own == p && c.server {
			c.abort(net.ErrClosed)
		}
	}
	<-ended
}

// writer is a [http.ResponseWriter].
type writer struct {
	c       *conn
	header  http.Header
	status  int
	pending bytes.Buffer
	begun   bool
}

func (w *writer) Header() http.Header { return w.header }

func (w *writer) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
}

func (w *writer) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.pending.Write(p)
}

// Flush implements [http.Flusher].
func (w *writer) Flush() { _ = w.FlushError() }

// FlushError is Flush for [http.ResponseController].
func (w *writer) FlushError() error {
	w.WriteHeader(http.StatusOK)
	var err error
	if !w.begun {
		w.begun = true
		err = w.c.send(chunk{head: &head{w.status, w.header.Clone()}})
	}
	if err == nil && w.pending.Len() > 0 {
		_, err = w.c.Write(w.pending.Bytes())
	}
	w.pending.Reset()
	return err
}

func (w *writer) SetReadDeadline(t time.Time) error { return w.c.SetReadDeadline(t) }
func (*writer) SetWriteDeadline(time.Time) error    { return nil }
func (*writer) EnableFullDuplex() error             { return nil }

// request is the body of a request, where it is served.
type request struct{ *conn }

// Read implements [io.Reader].
func (r request) Read(p []byte) (int, error) {
	n, err := r.conn.Read(p)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrDeadlineExceeded) {
		r.ended()
	}
	return n, err
}

// Close implements [io.Closer].
func (request) Close() error { return nil }

// watch finds out that the other end of a stream cannot be heard any more, as the pings
// of HTTP/2 do.
func (n *network) watch(c *conn) {
	if c.server || !n.w.direct || !n.silent(c) {
		return
	}
	n.mu.Lock()
	if c.watched {
		n.mu.Unlock()
		return
	}
	c.watched = true
	n.mu.Unlock()
	n.w.running.Go(func() {
		const pause = lease / 8
		for quiet := time.Duration(0); quiet < lease; quiet += pause {
			<-time.After(pause)
			c.mu.Lock()
			closed := c.closed != nil
			c.mu.Unlock()
			if closed || !n.silent(c) {
				n.mu.Lock()
				c.watched = false
				n.mu.Unlock()
				return
			}
		}
		c.abort(&net.OpError{Op: "read", Net: "tcp", Err: syscall.ETIMEDOUT})
	})
}

// silent reports whether nothing of what is said on a stream is heard, or answered.
func (n *network) silent(c *conn) bool {
	return n.isCut(c.own.name, c.other.name) || n.isCut(c.other.name, c.own.name) || c.other.frozen.waits() != nil || !c.other.alive()
}
