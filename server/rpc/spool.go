package rpc

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"os"
	"sync"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/server/edge"
	"github.com/greenroom-run/greenroom/server/failure"
)

// spools are the modules on their way, which wait on disk until they are answered.
// Apps share their number and their bytes: an app gets no more when it would have more
// than is free then. So one that takes all that it can leaves half of it, and all
// together have no more than the limits.
type spools struct {
	create func() (*os.File, error)
	limit  spoolUse

	mu   sync.Mutex
	used spoolUse
	apps map[string]*spoolUse
}

// spoolUse is a number of modules on their way, and what has arrived of them.
type spoolUse struct{ modules, bytes int64 }

const (
	// maxUploads is how many modules may be on their way at once.
	maxUploads = 64
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
	s.mu.Lock()
	own := s.apps[app]
	if own == nil {
		own = &spoolUse{}
	}
	if own.modules+1 > s.limit.modules-s.used.modules {
		s.mu.Unlock()
		return nil, &failure.Error{Kind: failure.KindStreamFull, Text: fmt.Sprintf("app %s has %d uploads on their way, and the server %d of at most %d; %s", app, own.modules, s.used.modules, s.limit.modules, edge.RetryLater)}
	}
	s.apps[app] = own
	own.modules++
	s.used.modules++
	s.mu.Unlock()
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
	s.mu.Lock()
	defer s.mu.Unlock()
	own := s.apps[u.app]
	if own.bytes+n > s.limit.bytes-s.used.bytes-n && u.size+n > alwaysSpooled {
		return fmt.Errorf("%w: uploads of app %s that are not answered yet have %d bytes, and all together %d of at most %d; upload less at once, or try again later",
			actor.ErrHostFull, u.app, own.bytes, s.used.bytes, s.limit.bytes)
	}
	u.size += n
	own.bytes += n
	s.used.bytes += n
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
	s := u.of
	s.mu.Lock()
	defer s.mu.Unlock()
	own := s.apps[u.app]
	own.modules--
	own.bytes -= u.size
	s.used.modules--
	s.used.bytes -= u.size
	if own.modules == 0 {
		delete(s.apps, u.app)
	}
}
