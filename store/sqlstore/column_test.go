package sqlstore

import (
	"bytes"
	"testing"

	"github.com/jackc/pgx/v5/pgtype"
)

// TestColumnsAreWhatPgxWrites: a column is an array like pgx makes it of a slice.
func TestColumnsAreWhatPgxWrites(t *testing.T) {
	m := pgtype.NewMap()
	for name, c := range map[string]struct {
		oid   uint32
		ours  column
		slice any
	}{
		"text":          {pgtype.TextArrayOID, texts{"a", "", "ü"}, []string{"a", "", "ü"}},
		"none":          {pgtype.TextArrayOID, texts{}, []string{}},
		"int8":          {pgtype.Int8ArrayOID, int8s{-1, 0, 1 << 62}, []int64{-1, 0, 1 << 62}},
		"int2":          {pgtype.Int2ArrayOID, int2s{-1, 300}, []int16{-1, 300}},
		"uuid":          {pgtype.UUIDArrayOID, uuids{{1}, {15: 2}}, [][16]byte{{1}, {15: 2}}},
		"bytea":         {pgtype.ByteaArrayOID, byteas{{1, 2}, {}}, [][]byte{{1, 2}, {}}},
		"bytea or NULL": {pgtype.ByteaArrayOID, byteas{nil, {1}}, [][]byte{nil, {1}}},
		"leading":       {pgtype.TextArrayOID, leading{texts{"a"}, 100}, []string{"a"}},
	} {
		t.Run(name, func(t *testing.T) {
			want, err := m.Encode(c.oid, pgtype.BinaryFormatCode, c.slice, []byte("x"))
			if err != nil {
				t.Fatal(err)
			}
			if got := appendColumn([]byte("x"), c.ours); !bytes.Equal(got, want) {
				t.Errorf("got\n%x, want\n%x", got, want)
			}
		})
	}
}
