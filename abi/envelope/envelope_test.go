package envelope_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/abi/envelope"
)

// The vectors in abi/testdata/vectors pin the format; these tests are about what
// no list of examples can show.

var sample = []envelope.Entry{
	{Key: "avatar", Format: abi.FormatBytes, Value: []byte{0, 255, 1}},
	{Key: "name", Format: abi.FormatJSON, Value: []byte(`"Ada"`)},
	{Key: "none", Format: abi.FormatBytes, Value: []byte{}},
}

// CRC-32C finds every error of one bit, and every burst of up to 32.
func TestEveryFlippedBitIsFound(t *testing.T) {
	good := envelope.Append(nil, sample)
	for bit := range len(good) * 8 {
		bad := bytes.Clone(good)
		bad[bit/8] ^= 1 << (bit % 8)
		if _, err := envelope.Decode(bad); !errors.Is(err, envelope.ErrDamaged) {
			t.Fatalf("bit %d: got %v", bit, err)
		}
	}
}

func TestEveryCutIsFound(t *testing.T) {
	good := envelope.Append(nil, sample)
	for n := range good {
		if _, err := envelope.Decode(good[:n]); !errors.Is(err, envelope.ErrDamaged) {
			t.Fatalf("%d of %d bytes: got %v", n, len(good), err)
		}
	}
}

func TestAppendUsesTheCapacityOfSize(t *testing.T) {
	buf := make([]byte, 0, envelope.Size(sample))
	if n := testing.AllocsPerRun(10, func() { buf = envelope.Append(buf[:0], sample) }); n != 0 {
		t.Errorf("Append allocates %v times", n)
	}
	if len(buf) != envelope.Size(sample) {
		t.Errorf("%d bytes, Size says %d", len(buf), envelope.Size(sample))
	}
	behind := envelope.Append([]byte("before"), sample)
	if !bytes.Equal(behind, append([]byte("before"), buf...)) {
		t.Errorf("appended to something else, it is another envelope: %x", behind)
	}
}

func TestAppendPanicsOnWhatDecodeWouldRefuse(t *testing.T) {
	for name, entries := range map[string][]envelope.Entry{
		"out of order":   {{Key: "b"}, {Key: "a"}},
		"twice":          {{Key: "a"}, {Key: "a"}},
		"empty key":      {{Key: ""}},
		"not UTF-8":      {{Key: "\xff"}},
		"unknown format": {{Key: "a", Format: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			envelope.Append(nil, entries)
		})
	}
}

func FuzzDecode(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 2))
	f.Add([]byte(nil))
	f.Add(envelope.Append(nil, nil))
	f.Add(envelope.Append(nil, sample))
	f.Add(envelope.Append(nil, []envelope.Entry{{Key: "k", Value: randomBytes(r, 300)}}))
	f.Fuzz(func(t *testing.T, data []byte) {
		entries, err := envelope.Decode(data)
		if err != nil {
			if !errors.Is(err, envelope.ErrDamaged) || entries != nil {
				t.Fatalf("got %v with %v", entries, err)
			}
			// A fuzzer never finds a checksum: look behind it as well.
			if len(data) < 8 {
				return
			}
			data = envelope.Reseal(data)
			if entries, err = envelope.Decode(data); err != nil {
				return
			}
		}
		if got := envelope.Append(nil, entries); !bytes.Equal(got, data) {
			t.Fatalf("got %x, want %x", got, data)
		}
	})
}

func randomBytes(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}
