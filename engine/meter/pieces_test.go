package meter

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/tetratelabs/wazero"
)

// mover exports "copy" and "fill", which do what they are called with their three
// parameters, and its memory of so many pages.
func mover(pages byte) []byte {
	body := func(code string) string {
		code = "\x00\x20\x00\x20\x01\x20\x02" + code + "\x0b"
		return string(appendU32(nil, uint32(len(code)))) + code
	}
	return build("\x01\x01\x60\x03\x7f\x7f\x7f\x00", "\x03\x02\x00\x00", "\x05\x01\x00"+string(pages),
		"\x07\x03\x04copy\x00\x00\x04fill\x00\x01\x06memory\x02\x00",
		"\x0a\x02"+body("\xfc\x0a\x00\x00")+body("\xfc\x0b\x00"))
}

// TestPieces does random copies and fills, up to what is beyond the memory, in
// the module as it is and metered.
func TestPieces(t *testing.T) {
	const pages, size = 20, 20 << 16
	random := rand.New(rand.NewPCG(1, 2))
	near := func(n uint32) uint32 { return n + uint32(random.IntN(5)) - 2 }
	number := func() uint32 {
		switch random.IntN(8) {
		case 0:
			return near(0)
		case 1:
			return near(pieceBytes * uint32(random.IntN(4)))
		case 2:
			return near(size)
		case 3:
			return random.Uint32()
		}
		return random.Uint32N(size / 2)
	}
	metered, _, err := Rewrite(mover(pages), Config{})
	if err != nil {
		t.Fatal(err)
	}
	for name, cfg := range map[string]wazero.RuntimeConfig{"compiled": compiler(), "interpreted": interpreter()} {
		t.Run(name, func(t *testing.T) {
			const small = 10_000
			k := &tank{amount: small}
			plain, err := start(t, cfg, mover(pages), &tank{})
			if err != nil {
				t.Fatal(err)
			}
			m, err := start(t, cfg, metered, k)
			if err != nil {
				t.Fatal(err)
			}
			m.set(ExportDepth, 100)
			before, _ := plain.mod.Memory().Read(0, size)
			after, _ := m.mod.Memory().Read(0, size)
			for i := range before {
				before[i] = byte(i>>16 ^ i>>8 ^ i)
			}
			copy(after, before)
			trapped := 0
			for range 300 {
				f := []string{"copy", "fill"}[random.IntN(2)]
				to, from, n := number(), number(), number()
				args := []uint64{uint64(to), uint64(from), uint64(n)}
				k.refills, k.granted = 1000, small
				m.set(ExportFuel, small)
				_, want := plain.mod.ExportedFunction(f).Call(t.Context(), args...)
				_, got := m.mod.ExportedFunction(f).Call(t.Context(), args...)
				if outcome(nil, want) != outcome(nil, got) {
					t.Fatalf("%s %d: %v, unmetered %v", f, args, got, want)
				}
				if !bytes.Equal(before, after) {
					t.Fatalf("%s %d: the memories differ", f, args)
				}
				if want != nil {
					trapped++
					continue
				}
				// It is charged by size, and while it is done, not before.
				used := k.granted - m.get(ExportFuel)
				if least := int64(n >> bulkBytesShift); used < least || used > least+2*pieceBytes>>bulkBytesShift+1000 {
					t.Errorf("%s %d: used %d", f, args, used)
				}
				if refills := 1000 - k.refills; refills < int(n/pieceBytes)/2 {
					t.Errorf("%s %d: %d refills", f, args, refills)
				}
			}
			if trapped < 10 || trapped > 200 {
				t.Errorf("%d of 300 have trapped", trapped)
			}
		})
	}
}

// TestPiecesEnd runs out of fuel within a large fill, which is left where it is.
func TestPiecesEnd(t *testing.T) {
	metered, _, err := Rewrite(mover(20), Config{})
	if err != nil {
		t.Fatal(err)
	}
	m, err := start(t, compiler(), metered, &tank{})
	if err != nil {
		t.Fatal(err)
	}
	m.set(ExportFuel, 3*pieceBytes>>bulkBytesShift)
	_, err = m.mod.ExportedFunction("fill").Call(t.Context(), 0, 1, 20<<16)
	if !errors.Is(err, errNoFuel) {
		t.Fatal(err)
	}
	memory, _ := m.mod.Memory().Read(0, 20<<16)
	if done := bytes.Count(memory, []byte{1}); done != 2*pieceBytes {
		t.Errorf("%d bytes are filled", done)
	}
}
