package protobuf_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/greenroom-run/greenroom/guest-sdk/go/protobuf"
)

// node is written as generated code is: a text, packed numbers, and a node in it.
type node struct {
	Text    string
	Numbers []uint64
	Inner   *node
}

func (m node) AppendProtobuf(b []byte) []byte {
	b = protobuf.AppendString(protobuf.AppendTag(b, 1, protobuf.Bytes), m.Text)
	b = protobuf.AppendTag(b, 2, protobuf.Bytes)
	b = protobuf.AppendPacked(b, func(b []byte) []byte {
		for _, n := range m.Numbers {
			b = protobuf.AppendVarint(b, n)
		}
		return b
	})
	if m.Inner != nil {
		b = protobuf.AppendMessage(protobuf.AppendTag(b, 3, protobuf.Bytes), m.Inner)
	}
	return b
}

func (m *node) DecodeProtobuf(r *protobuf.Reader) {
	for r.Next() {
		switch r.Tag() {
		case 1<<3 | protobuf.Bytes:
			m.Text = r.String()
		case 2<<3 | protobuf.Bytes:
			for end := r.Packed(); r.Before(end); {
				m.Numbers = append(m.Numbers, r.Varint())
			}
		case 3<<3 | protobuf.Bytes:
			if m.Inner == nil {
				m.Inner = new(node)
			}
			r.Message(m.Inner)
		default:
			r.Skip()
		}
	}
}

func TestRoundTrip(t *testing.T) {
	m := node{Text: "é", Numbers: []uint64{1, 1 << 63}, Inner: &node{Text: strings.Repeat("x", 1<<14)}}
	var got node
	if err := protobuf.Unmarshal(m.AppendProtobuf(nil), &got); err != nil {
		t.Fatal(err)
	}
	if got.Text != m.Text || len(got.Numbers) != 2 || got.Numbers[1] != 1<<63 || got.Inner == nil || got.Inner.Text != m.Inner.Text {
		t.Errorf("got %+v", got)
	}
}

func TestUnknownFieldsArePassedOver(t *testing.T) {
	group := []byte{9<<3 | 3, 1<<3 | 3, 1<<3 | 4, 2 << 3, 7, 9<<3 | 4}
	data := bytes.Join([][]byte{{8 << 3, 5}, {8<<3 | 1, 0, 0, 0, 0, 0, 0, 0, 0}, {8<<3 | 5, 0, 0, 0, 0}, group, {1 << 3, 1}, {1<<3 | 2, 1, 'a'}}, nil)
	var m node
	if err := protobuf.Unmarshal(data, &m); err != nil || m.Text != "a" {
		t.Errorf("got %+v, %v", m, err)
	}
}

func TestUnmarshalRefuses(t *testing.T) {
	deep := node{}
	for range 101 {
		inner := deep
		deep = node{Inner: &inner}
	}
	for _, tt := range []struct {
		name string
		data []byte
		want string
	}{
		{"a text that is cut off", []byte{1<<3 | 2, 5, 'a'}, "ends within a field"},
		{"a number that is cut off", []byte{8 << 3, 0x80}, "ends within a field"},
		{"a number of eleven bytes", append([]byte{8 << 3}, bytes.Repeat([]byte{0xff}, 11)...), "ends within a field"},
		{"packed numbers beyond their end", []byte{2<<3 | 2, 1, 0x80, 1}, "ends within a field"},
		{"a message beyond the one around it", []byte{3<<3 | 2, 3, 1<<3 | 2, 9, 'a'}, "ends within a field"},
		{"field number 0", []byte{0, 0}, "without a number"},
		{"wire type 7", []byte{1<<3 | 7}, "unknown wire type"},
		{"the end of a group", []byte{1<<3 | 4}, "unknown wire type"},
		{"a group without an end", []byte{9<<3 | 3}, "ends within a field"},
		{"groups too deep", bytes.Repeat([]byte{9<<3 | 3}, 10_000), "too deep"},
		{"messages too deep", deep.AppendProtobuf(nil), "too deep"},
		{"text that is not UTF-8", []byte{1<<3 | 2, 1, 0xff}, "not UTF-8"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var m node
			if err := protobuf.Unmarshal(tt.data, &m); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}
