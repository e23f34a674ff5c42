package meter

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
)

// segment is an active one at a constant offset.
func segment(offset int, content string) string {
	return "\x00\x41" + string(appendS64(nil, int64(int32(offset)))) + "\x0b" +
		string(appendU32(nil, uint32(len(content)))) + content
}

func dataSection(segments ...string) string {
	return "\x0b" + string(appendU32(nil, uint32(len(segments)))) + strings.Join(segments, "")
}

func TestMergesData(t *testing.T) {
	const memory = "\x05\x01\x00\x01"
	far := "0123456789012345678901234567890123456789"
	passive := "\x01\x02pp"
	atGlobal := "\x00\x23\x00\x0b\x01g"
	imported := "\x02\x01\x01m\x01g\x03\x7f\x00"
	tests := map[string]struct {
		sections []string // before the data
		in, out  []string
	}{
		"neighbours":                  {[]string{memory}, []string{segment(8, "ab"), segment(10, "cd")}, []string{segment(8, "abcd")}},
		"a small gap":                 {[]string{memory}, []string{segment(8, "ab"), segment(14, far)}, []string{segment(8, "ab\x00\x00\x00\x00"+far)}},
		"a great gap":                 {[]string{memory}, []string{segment(8, "ab"), segment(1000, "cd")}, []string{segment(8, "ab"), segment(1000, "cd")}},
		"an overlap, the later wins":  {[]string{memory}, []string{segment(8, "abcd"), segment(9, "XY"), segment(11, "Z1")}, []string{segment(8, "aXYZ1")}},
		"one within another":          {[]string{memory}, []string{segment(8, "abcd"), segment(9, "X")}, []string{segment(8, "aXcd")}},
		"backwards":                   {[]string{memory}, []string{segment(20, "cd"), segment(18, "ab")}, []string{segment(20, "cd"), segment(18, "ab")}},
		"a gap that has been written": {[]string{memory}, []string{segment(20, "cd"), segment(18, "a"), segment(24, far)}, []string{segment(20, "cd"), segment(18, "a"), segment(24, far)}},
		"a passive one between":       {[]string{memory}, []string{segment(8, "ab"), passive, segment(10, "cd")}, []string{segment(8, "ab"), passive, segment(10, "cd")}},
		"one at an offset that is not known": {
			[]string{imported, memory},
			[]string{segment(8, "ab"), segment(10, "cd"), atGlobal, segment(30, "ef"), segment(34, far), segment(32, "xy")},
			[]string{segment(8, "abcd"), atGlobal, segment(30, "ef"), segment(34, far), segment(32, "xy")},
		},
		"a memory that is imported": {[]string{"\x02\x01\x01m\x01m\x02\x00\x01"}, []string{segment(8, "ab"), segment(10, "cd")}, []string{segment(8, "ab"), segment(10, "cd")}},
		"beyond the end":            {[]string{memory}, []string{segment(-1, "ab"), segment(-1, "cd")}, []string{segment(-1, "ab"), segment(-1, "cd")}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			out, _, err := Rewrite(build(append(test.sections, dataSection(test.in...))...), Config{})
			if err != nil {
				t.Fatal(err)
			}
			sections, err := parseSections(out)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := string(sections[secData]), dataSection(test.out...)[1:]; got != want {
				t.Errorf("got  %q\nwant %q", got, want)
			}
		})
	}
}

// TestNamedDataIsKept has code that names segments by their numbers.
func TestNamedDataIsKept(t *testing.T) {
	data := dataSection(segment(8, "ab"), segment(10, "cd"))
	out, _, err := Rewrite(build(oneType, oneFunc, "\x05\x01\x00\x01", "\x0c\x02", body("\x00", "\xfc\x09\x01"), data), Config{})
	if err != nil {
		t.Fatal(err)
	}
	sections, err := parseSections(out)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(sections[secData]); got != data[1:] {
		t.Errorf("got %q, want %q", got, data[1:])
	}
}

// TestMergedDataIsTheSame compares the memories of random modules, also of those
// whose segments do not fit.
func TestMergedDataIsTheSame(t *testing.T) {
	merged, failed := 0, 0
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		at := 100
		segments := []string{}
		for range 2 + r.IntN(30) {
			content := make([]byte, r.IntN(40))
			for i := range content {
				content[i] = byte(1 + r.IntN(255))
			}
			if r.IntN(8) == 0 {
				at = r.IntN(4000)
			}
			if r.IntN(200) == 0 {
				at = 65_536 - r.IntN(60)
			}
			segments = append(segments, segment(at, string(content)))
			at = max(0, at+len(content)+r.IntN(30)-6)
		}
		wasm := build("\x05\x01\x00\x01", "\x07\x01\x01m\x02\x00", "\x0c"+string(appendU32(nil, uint32(len(segments)))), dataSection(segments...))
		metered, _, err := Rewrite(wasm, Config{})
		if err != nil {
			t.Fatal(err)
		}
		if len(metered) > len(wasm)*2+200 {
			t.Errorf("seed %d: %d bytes have become %d", seed, len(wasm), len(metered))
		}
		want, wantErr := memoryOf(t, wasm)
		got, err := memoryOf(t, metered)
		if (err == nil) != (wantErr == nil) || !bytes.Equal(got, want) {
			t.Fatalf("seed %d: the memories differ; unmetered %v, metered %v", seed, wantErr, err)
		}
		if err != nil {
			failed++
		}
		sections, err := parseSections(metered)
		if err != nil {
			t.Fatal(err)
		}
		if n := (&reader{b: sections[secData]}).u32(); int(n) < len(segments) {
			merged++
		}
		if !bytes.HasPrefix(sections[secData], sections[secDataCount]) {
			t.Errorf("seed %d: the data count is wrong", seed)
		}
	}
	if merged < 250 || failed == 0 {
		t.Errorf("%d modules had segments merged, %d did not instantiate", merged, failed)
	}
}

func memoryOf(t *testing.T, wasm []byte) ([]byte, error) {
	t.Helper()
	ctx := context.Background()
	rt := wazero.NewRuntimeWithConfig(ctx, interpreter())
	defer rt.Close(ctx)
	_, err := rt.NewHostModuleBuilder(ImportModule).NewFunctionBuilder().
		WithFunc(func(context.Context, int64) int64 { return MaxFuel }).Export(ImportRefill).Instantiate(ctx)
	if err != nil {
		t.Fatal(err)
	}
	mod, err := rt.Instantiate(ctx, wasm)
	if err != nil {
		return nil, fmt.Errorf("instantiate: %w", err)
	}
	memory, _ := mod.Memory().Read(0, mod.Memory().Size())
	return bytes.Clone(memory), nil
}
