package codec

import (
	"bytes"
	"testing"
)

// TestRawKeepsItsBytes: a message that is passed on has bytes of its own, and says whether it is JSON; it is written as it is.
func TestRawKeepsItsBytes(t *testing.T) {
	for _, c := range []struct {
		codec interface {
			Unmarshal(data []byte, msg any) error
			Marshal(msg any) ([]byte, error)
		}
		json bool
	}{{RawBinary{}, false}, {RawJSON("json"), true}} {
		read := []byte(`{"a":1}`)
		var raw Raw
		if err := c.codec.Unmarshal(read, &raw); err != nil {
			t.Fatal(err)
		}
		clear(read)
		if string(raw.Data) != `{"a":1}` || raw.JSON != c.json {
			t.Errorf("%T: %q, JSON: %v", c.codec, raw.Data, raw.JSON)
		}
		if written, err := c.codec.Marshal(&raw); err != nil || !bytes.Equal(written, raw.Data) {
			t.Errorf("%T: %q, %v", c.codec, written, err)
		}
	}
}
