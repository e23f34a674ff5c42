package extism

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"

	. "github.com/greenroom-run/greenroom/engine/wasm/wasmtest"
)

// Compiled code is found under the version of what prepare writes.
func TestPreparedVersion(t *testing.T) {
	const version, sum = "1", "efd3b9d0ea54013a79c9ddf087f7c198076078797eb4e1f857da4213962c25e7"
	h := sha256.New()
	for _, b := range Bombs(PluginImport()) {
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
