package binary_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/greenroom-run/greenroom/engine/binary"
	"github.com/greenroom-run/greenroom/engine/meter"
	. "github.com/greenroom-run/greenroom/engine/wasm/wasmtest"
)

// Modules that are small for what they make a compiler do are refused before one
// sees them, with the function that does it.
func TestBombsAreRefused(t *testing.T) {
	for _, bomb := range Bombs() {
		_, err := binary.Parse(bomb.Make(bomb.Big))
		var be *binary.Error
		if !errors.As(err, &be) || !be.Limit {
			t.Errorf("%s: got %v, want a limit", bomb.Name, err)
		}
		m, err := binary.Parse(bomb.Make(bomb.Small))
		if err != nil {
			t.Errorf("%s, a small one: %v", bomb.Name, err)
			continue
		}
		plain := &Builder{}
		plain.Func("", nil, nil, 0)
		if easy, err := binary.Parse(plain.Bytes()); err != nil || m.Cost() < 20*easy.Cost() {
			t.Errorf("%s, a small one: it costs %d, and an empty function %d (%v)", bomb.Name, m.Cost(), easy.Cost(), err)
		}
		if _, _, err := meter.Rewrite(binary.Prepare(m).Wasm(), meter.Config{}); err != nil {
			t.Errorf("%s, a small one: %v", bomb.Name, err)
		}
	}
}

// The error of a function says which one, by its name if it has one.
func TestLimitsNameTheFunction(t *testing.T) {
	b := &Builder{}
	b.Func("", nil, nil, 60_000)
	_, err := binary.Parse(b.Bytes())
	if err == nil || !strings.Contains(err.Error(), "the function number 0 with 60000 locals") {
		t.Errorf("got %v", err)
	}
	b.Custom("name", append([]byte{1, 8, 1, 0, 5}, "wide\x1b"...))
	_, err = binary.Parse(b.Bytes())
	if err == nil || !strings.Contains(err.Error(), "the function number 0 (wide)") {
		t.Errorf("got %v", err)
	}
}
