//go:build !linux && !darwin

package extism

// mapMemory takes guest memory from Go's heap where there is no mapping that
// costs only what is touched.
func mapMemory(size uint64) ([]byte, error) { return make([]byte, size), nil }

func unmapMemory([]byte) {}
