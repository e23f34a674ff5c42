package caller

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
)

// TestWholeBody: what is read are whole messages, however they were written and
// however little is asked for.
func TestWholeBody(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // no secret
	var messages [][]byte
	for _, size := range []int{0, 1, 5, 100, 16<<10 - envelopePrefix, 16 << 10, 40_000, 0, 7} {
		m := binary.BigEndian.AppendUint32([]byte{0}, uint32(size)) //nolint:gosec // small
		for range size {
			m = append(m, byte(rnd.Uint32()))
		}
		messages = append(messages, m)
	}
	all := bytes.Join(messages, nil)

	r, w := io.Pipe()
	go func() {
		for _, m := range messages {
			_, _ = w.Write(m[:envelopePrefix])
			_, _ = w.Write(m[envelopePrefix:])
		}
		_ = w.Close()
	}()
	body := &wholeBody{ReadCloser: r}
	buffer := make([]byte, 16<<10)
	var got []byte
	for n := 0; ; {
		read, err := body.Read(buffer)
		got = append(got, buffer[:read]...)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if end := len(bytes.Join(messages[:n+1], nil)); len(got) == end {
			n++
		} else if read < len(buffer) {
			t.Fatalf("a part of message %d was read alone: %d bytes", n, read)
		}
	}
	if !bytes.Equal(got, all) {
		t.Error("other bytes were read than written")
	}

	small := &wholeBody{ReadCloser: io.NopCloser(bytes.NewReader(all))}
	got, err := io.ReadAll(io.MultiReader(io.LimitReader(small, 3), io.LimitReader(small, 1), small))
	if err != nil || !bytes.Equal(got, all) {
		t.Errorf("in small reads: %v", err)
	}
}
