package wasm

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"

	. "github.com/greenroom-run/greenroom/engine/wasm/wasmtest"
)

// Compiled code is found under the version of what prepare writes.
func TestPreparedVersion(t *testing.T) {
	const version, sum = "1", "a84a4005c596788eb35c2f3901b7f90b30069b283e8aa185a15d233cdacb90ed"
	h := sha256.New()
	for _, b := range Bombs() {
		code, err := prepare(b.Make(b.Small))
		if err != nil {
			t.Fatal(b.Name, err)
		}
		h.Write(code)
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != sum || version != preparedVersion {
		t.Errorf("prepare writes other modules: raise preparedVersion, and set version and sum here to that and %s", got)
	}
}
