package manifest_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/greenroom-run/greenroom/abi/manifest"
)

func TestEmbed(t *testing.T) {
	empty := []byte("\x00asm\x01\x00\x00\x00")
	typeSection := []byte{1, 4, 1, 0x60, 0, 0}
	module := append(bytes.Clone(empty), typeSection...)
	if _, ok := manifest.Section(module); ok {
		t.Error("a module without a manifest has one")
	}
	long := `{"sdk":"` + strings.Repeat("x", 300) + `"}`
	for _, text := range []string{`{"abi":1}`, long, ""} {
		before := bytes.Clone(module)
		out, err := manifest.Embed(module, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(before, module) {
			t.Fatal("the input was changed")
		}
		if got, ok := manifest.Section(out); !ok || string(got) != text {
			t.Errorf("got %q, want %q", got, text)
		}
		if !bytes.HasPrefix(out, append(bytes.Clone(empty), typeSection...)) {
			t.Errorf("the other sections changed: %x", out)
		}
		again, err := manifest.Embed(out, []byte(text))
		if err != nil || !bytes.Equal(again, out) {
			t.Errorf("embedding twice gives %x, %v; want %x", again, err, out)
		}
	}
}

func TestEmbedInWhatIsNoModule(t *testing.T) {
	for _, wasm := range []string{"", "\x00asm", "(module)", "\x00asm\x01\x00\x00\x00\x01", "\x00asm\x01\x00\x00\x00\x01\x05\x00", "\x00asm\x01\x00\x00\x00\x00\x01\x05"} {
		if out, err := manifest.Embed([]byte(wasm), []byte("{}")); err == nil {
			t.Errorf("%q: got %q", wasm, out)
		}
	}
}

func FuzzEmbed(f *testing.F) {
	f.Add([]byte("\x00asm\x01\x00\x00\x00\x00\x02\x01x"), []byte("{}"))
	f.Fuzz(func(t *testing.T, wasm, text []byte) {
		out, err := manifest.Embed(wasm, text)
		if err != nil {
			return
		}
		if got, ok := manifest.Section(out); !ok || !bytes.Equal(got, text) {
			t.Fatalf("got %q, want %q", got, text)
		}
	})
}
