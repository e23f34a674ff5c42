package wasm

import (
	goruntime "runtime"

	"golang.org/x/sys/cpu"
)

// compilerSupported reports whether wazero compiles on this machine; it would
// fall back to its interpreter without a word. wazero keeps its own answer
// internal.
func compilerSupported() bool {
	switch goruntime.GOOS {
	case "linux", "darwin", "freebsd", "netbsd", "windows":
		return goruntime.GOARCH == "arm64" || goruntime.GOARCH == "amd64" && cpu.X86.HasSSE41
	}
	return false
}
