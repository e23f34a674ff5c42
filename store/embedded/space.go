package embedded

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/greenroom-run/greenroom/actor"
)

// spaceGuard refuses writes while the disk is nearly full, before Pebble meets
// the end of the disk in its log, which it does not survive.
type spaceGuard struct {
	fs      vfs.FS
	dir     string
	minimum int64 // bytes; not above 0: never refuse

	// written counts the bytes since free space was last asked for. The writer
	// alone adds; asking costs a system call, so it is done once per step.
	written  atomic.Int64
	nearFull atomic.Bool
}

// spaceStep is how much is written between two questions for free space: with
// the log, its flush and compactions, well inside the default minimum.
const spaceStep = 4 << 20

// check reports an error if there is too little space. While there is, it asks
// every time, so that writes are taken again at once.
func (g *spaceGuard) check() error {
	if g.minimum <= 0 {
		return nil
	}
	if !g.nearFull.Load() && g.written.Load() < spaceStep {
		return nil
	}
	usage, err := g.fs.GetDiskUsage(g.dir)
	if errors.Is(err, vfs.ErrUnsupported) {
		g.written.Store(0)
		return nil
	}
	if err != nil {
		return fmt.Errorf("ask for free disk space: %w", err)
	}
	g.written.Store(0)
	if usage.AvailBytes >= uint64(g.minimum) {
		g.nearFull.Store(false)
		return nil
	}
	g.nearFull.Store(true)
	return fmt.Errorf("%s: %w", g.dir, &actor.SpaceError{Free: usage.AvailBytes, Minimum: uint64(g.minimum)})
}
