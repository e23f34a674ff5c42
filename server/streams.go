package server

import (
	"fmt"
	"sync/atomic"
)

// streamsUse is what all InvokeStreams together hold.
type streamsUse struct {
	count atomic.Int64
	// bytes are of what is in flight, and of messages that have arrived in part.
	bytes atomic.Int64
}

// open counts one more stream, if there is room; close ends it.
func (u *streamsUse) open(limit int) error {
	if u.count.Add(1) > int64(limit) {
		u.count.Add(-1)
		return &requestError{kindStreamFull, fmt.Sprintf("the server has %d streams open; put more calls on each, or use another server", limit)}
	}
	return nil
}

func (u *streamsUse) close() { u.count.Add(-1) }

// places bounds how many streams of one kind are open.
type places struct {
	limit int64
	what  string
	taken atomic.Int64
}

// enter takes a place, which leave gives back.
func (p *places) enter() error {
	if p.taken.Add(1) > p.limit {
		p.taken.Add(-1)
		return &requestError{kindStreamFull, fmt.Sprintf("the server has %d %s; try again when one has left", p.limit, p.what)}
	}
	return nil
}

func (p *places) leave() { p.taken.Add(-1) }

func errStreamsFull(limit int64) error {
	return &requestError{kindStreamFull, fmt.Sprintf("the server's streams have %d bytes in flight together; wait for replies, or use another server", limit)}
}

// alwaysRead is how much of a message is read whatever other streams hold, in
// bytes.
const alwaysRead = 64 << 10

// reading counts bytes of a stream's message that is not whole yet, and says why
// it is not read on. What is counted, arrived takes off.
func (x *exchange) reading(n int) error {
	u := &x.server.streams
	x.partial += int64(n)
	if limit := x.server.conf.MaxStreamsBytes; u.bytes.Add(int64(n)) > limit && x.partial > alwaysRead {
		return errStreamsFull(limit)
	}
	return nil
}

// arrived says that a message has been received, or will never be.
func (x *exchange) arrived() {
	x.server.streams.bytes.Add(-x.partial)
	x.partial = 0
}
