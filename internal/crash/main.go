package crash

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/greenroom-run/greenroom/internal/guestbuild"
)

// Main runs the tests of a package, for its TestMain. Before, it builds the program and the
// example counter, and sets their paths.
func Main(m *testing.M, binary, guest *string) (status int) {
	dir, err := os.MkdirTemp("", "greenroom-crash-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	*binary, *guest = filepath.Join(dir, "greenroom"), filepath.Join(dir, "counter.wasm")
	if out, err := exec.Command("go", "build", "-o", *binary, "../../cmd/greenroom").CombinedOutput(); err != nil { //nolint:noctx // the test's own time bounds it
		fmt.Fprintf(os.Stderr, "build greenroom: %v\n%s", err, out)
		return 1
	}
	if _, err := guestbuild.Build(context.Background(), guestbuild.Request{Dir: "../../examples/counter", Out: *guest, Toolchain: guestbuild.Go}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}
