//go:build !linux

package wasm

import "errors"

// dropMemory fails: what is to be zero has to be written.
func dropMemory(data []byte) error {
	if len(data) == 0 {
		return nil
	}
	return errors.ErrUnsupported
}

// imageFile is what only Linux has: a file in memory.
type imageFile struct{}

func newImageFile([]extent, uint64) *imageFile { return nil }

func (*imageFile) content() []byte                   { return nil }
func (*imageFile) mapPrivate(uint64) ([]byte, error) { return nil, errors.ErrUnsupported }
func (*imageFile) close()                            {}

// pagemap is what only Linux has.
type pagemap struct{}

func newPagemap() *pagemap { return &pagemap{} }

func (*pagemap) undo([]byte, *image) bool      { return false }
func (*pagemap) private([]byte) (uint64, bool) { return 0, false }
func (*pagemap) close()                        {}
