package embedded

import (
	"bytes"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

func sampleRow() actor.Row {
	return actor.Row{
		Version: 1<<62 + 5, CommitID: actor.CommitID{1, 2, 3}, Life: 7, Generation: 9, StateSchema: 11,
		State:     actor.EncodedState{Format: actor.FormatJSON, Data: []byte(`{"n":1}`)},
		UpdatedAt: time.UnixMicro(1_700_000_000_123_456),
	}
}

// FuzzDecodeRow checks that no bytes panic, that damage never passes for a row,
// and that whatever is damaged can still be fenced.
func FuzzDecodeRow(f *testing.F) {
	key := []byte("actor/app||Cart||a")
	row := sampleRow()
	sound := appendRow(nil, key, &row)
	f.Add(sound)
	f.Add(sound[:rowHeaderSize])
	f.Add(sound[:rowHeaderSize-1])
	f.Add([]byte{})
	f.Add(bytes.Repeat([]byte{rowLayout}, 100))
	f.Fuzz(func(t *testing.T, value []byte) {
		got := decodeRow(key, value)
		if got.row.Version == 0 && got.damage != "" {
			t.Fatal("damage without a version to fence it")
		}
		if got.damage != "" {
			return
		}
		again := appendRow(nil, key, &got.row)
		if !bytes.Equal(again, value) {
			t.Fatalf("%x was decoded without damage, and is encoded as %x", value, again)
		}
	})
}

func TestEveryFlippedBitOfARowIsNoticed(t *testing.T) {
	key := []byte("actor/app||Cart||a")
	row := sampleRow()
	sound := appendRow(nil, key, &row)
	if got := decodeRow(key, sound); got.damage != "" {
		t.Fatal(got.damage)
	}
	for i := range len(sound) * 8 {
		value := bytes.Clone(sound)
		value[i/8] ^= 1 << (i % 8)
		if got := decodeRow(key, value); got.damage == "" {
			t.Errorf("bit %d of byte %d can flip unnoticed", i%8, i/8)
		}
	}
	if got := decodeRow([]byte("actor/app||Cart||b"), sound); got.damage == "" {
		t.Error("a row under another key is taken for sound")
	}
}
