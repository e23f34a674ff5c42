package store

import (
	"fmt"
	"io"

	"github.com/greenroom-run/greenroom/actor"
)

// ValidateModule refuses what PutModule is not to store: an [*actor.ArgumentError].
func ValidateModule(m actor.Module, wasm actor.Code) error {
	if err := actor.ValidateName("app", m.App); err != nil {
		return err
	}
	if m.Size != wasm.Size() {
		return &actor.ArgumentError{Field: "module size", Problem: fmt.Sprintf("is %d, and there are %d bytes", m.Size, wasm.Size())}
	}
	d, err := actor.DigestOfCode(wasm)
	if err == nil && d != m.Digest {
		return &actor.ArgumentError{Field: "module digest", Problem: fmt.Sprintf("is %s, and the bytes have %s", m.Digest, d)}
	}
	return err
}

// ModuleChunk reads the nth piece of a module into buf, which has the size of all
// pieces but the last, and returns it.
func ModuleChunk(wasm actor.Code, n int, buf []byte) ([]byte, error) {
	at := int64(n) * int64(len(buf))
	chunk := buf[:min(int64(len(buf)), wasm.Size()-at)]
	if _, err := io.ReadFull(io.NewSectionReader(wasm, at, int64(len(chunk))), chunk); err != nil {
		return nil, fmt.Errorf("read the module: %w", err)
	}
	return chunk, nil
}
