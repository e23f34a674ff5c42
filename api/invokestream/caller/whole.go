package caller

import (
	"encoding/binary"
	"io"
	"net/http"
)

// WholeMessages makes requests that send each message of a stream in one piece. Connect writes it as
// a prefix and a rest, and HTTP/2 would make a frame and a system call of each.
type WholeMessages struct{ *http.Client }

// Do makes a request.
func (w WholeMessages) Do(req *http.Request) (*http.Response, error) {
	if req.Body != nil && req.Body != http.NoBody {
		req.Body = &wholeBody{ReadCloser: req.Body}
	}
	return w.Client.Do(req)
}

// wholeBody is a body of enveloped messages: a byte of flags, four of the rest's
// size, and the rest, which comes without delay.
type wholeBody struct {
	io.ReadCloser
	prefix [envelopePrefix]byte
	read   int // of the prefix, in bytes
	unread int // of the rest, in bytes
}

const envelopePrefix = 5

// Read returns no part of a message that would fit in p as a whole.
func (b *wholeBody) Read(p []byte) (int, error) {
	total := 0
	for {
		n, err := b.ReadCloser.Read(p[total:])
		total += n
		if b.track(p[total-n : total]); err != nil || total == len(p) || total > 0 && b.read == 0 {
			return total, err
		}
	}
}

// track follows the messages; read is 0 between them.
func (b *wholeBody) track(p []byte) {
	for len(p) > 0 {
		if b.read < envelopePrefix {
			n := copy(b.prefix[b.read:], p)
			b.read += n
			p = p[n:]
			b.unread = int(binary.BigEndian.Uint32(b.prefix[1:]))
		} else {
			n := min(b.unread, len(p))
			b.unread -= n
			p = p[n:]
		}
		if b.read == envelopePrefix && b.unread == 0 {
			b.read = 0
		}
	}
}
