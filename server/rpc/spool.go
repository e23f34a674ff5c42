package rpc

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"os"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/internal/fair"
	"github.com/greenroom-run/greenroom/server/edge"
)

// spools are the modules on their way, which wait on disk until they are answered.
// Apps share their number and their bytes.
type spools struct {
	create func() (*os.File, error)
	// modules counts the modules on their way, and bytes what has arrived of them.
	modules edge.Places
	bytes   *fair.Account
}

func newSpools(create func() (*os.File, error), bytes int64) *spools {
	return &spools{
		create: create, modules: edge.NewPlaces(fair.Bounds{Name: "uploads on their way", Total: maxUploads, Always: alwaysUploads, Most: mostUploads}, edge.RetryLater),
		bytes: fair.NewAccount(fair.Bounds{Name: "bytes of uploads that are not answered yet", Total: bytes}),
	}
}

const (
	// maxUploads is how many modules apps that have more than alwaysUploads each may have
	// on their way at once.
	maxUploads = 64
	// alwaysUploads is how many an app may have whatever others have.
	alwaysUploads = 4
	// mostUploads is how many there may be at once of those that apps may always have, however
	// many apps there are.
	mostUploads = 3 * maxUploads
	// alwaysSpooled is what each of them may have whatever others have, in bytes: a
	// small guest.
	alwaysSpooled = 1 << 20
)

// spool is a module on its way.
type spool struct {
	of     *spools
	app    string
	file   *os.File
	size   int64
	digest hash.Hash
}

// open begins a module, which ends with close.
func (s *spools) open(app string) (*spool, error) {
	if err := s.modules.Enter(app); err != nil {
		return nil, err
	}
	up := &spool{of: s, app: app, digest: sha256.New()}
	var err error
	if up.file, err = s.create(); err != nil {
		up.close()
		return nil, fmt.Errorf("make a file for an upload: %w", err)
	}
	return up, nil
}

// write adds what has arrived.
func (u *spool) write(chunk []byte) error {
	if err := u.of.take(u, int64(len(chunk))); err != nil {
		return err
	}
	_, _ = u.digest.Write(chunk) // never fails
	if _, err := u.file.Write(chunk); err != nil {
		return fmt.Errorf("write an upload: %w", err)
	}
	return nil
}

func (s *spools) take(u *spool, n int64) error {
	if full := s.bytes.Take(u.app, n); full != nil {
		if u.size+n > alwaysSpooled {
			return fmt.Errorf("%w: %w; upload less at once, or try again later", actor.ErrHostFull, full)
		}
		s.bytes.Add(u.app, n)
	}
	u.size += n
	return nil
}

// sum is the digest of what has arrived.
func (u *spool) sum() actor.Digest { return actor.Digest(hex.EncodeToString(u.digest.Sum(nil))) }

// code is what has arrived. It lasts until close.
func (u *spool) code() actor.Code { return io.NewSectionReader(u.file, 0, u.size) }

// Close removes the module.
func (u *spool) close() {
	if u.file != nil {
		_ = u.file.Close() // nothing is left to lose
	}
	u.of.modules.Leave(u.app)
	u.of.bytes.Give(u.app, u.size)
}
