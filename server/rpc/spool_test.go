package rpc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/server/edge"
	"github.com/greenroom-run/greenroom/server/failure"
)

func spoolsOf(t *testing.T, bytes int64) *spools {
	return newSpools(func() (*os.File, error) { return os.CreateTemp(t.TempDir(), "") }, bytes)
}

func (s *spools) mustOpen(t *testing.T, app string) *spool {
	t.Helper()
	u, err := s.open(app)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// An app that uploads as much as it can leaves an eighth of the disk and of the places to
// others, and what is closed is free again.
func TestUploadsOfAppsShareTheDisk(t *testing.T) {
	const piece = alwaysSpooled
	s := spoolsOf(t, 16*piece)
	chunk := make([]byte, piece)
	var busy []*spool
	for range maxUploads * 7 / 8 {
		busy = append(busy, s.mustOpen(t, "busy"))
	}
	var many *failure.Error
	if _, err := s.open("busy"); !errors.As(err, &many) || many.Kind != failure.KindStreamFull {
		t.Errorf("one more upload of the app: %v", err)
	}
	n := 0
	for err := error(nil); err == nil; n++ {
		if err = busy[0].write(chunk); err != nil && !errors.Is(err, actor.ErrHostFull) {
			t.Fatal(err)
		}
	}
	if n != 15 {
		t.Errorf("the app was refused its piece number %d, want 15", n)
	}
	if err := busy[1].write(chunk); err != nil {
		t.Errorf("a small one of the app: %v", err)
	}
	other := s.mustOpen(t, "other")
	for range 2 {
		if err := other.write(chunk[:piece/2]); err != nil {
			t.Errorf("another app: %v", err)
		}
	}
	for _, u := range append(busy, other) {
		u.close()
	}
	if modules, bytes := s.modules.Taken(), s.bytes.Used(); modules+bytes != 0 {
		t.Errorf("left %d modules, %d bytes", modules, bytes)
	}
}

// However many apps upload as much as they can, another one has a few places.
func TestUploadsOfSomeAppsLeavePlacesToOthers(t *testing.T) {
	s := spoolsOf(t, maxUploads*alwaysSpooled)
	for _, busy := range []string{"a", "b", "c"} {
		for err := error(nil); err == nil; {
			var u *spool
			if u, err = s.open(busy); err == nil {
				defer u.close()
			}
		}
	}
	for range alwaysUploads {
		defer s.mustOpen(t, "other").close()
	}
	if _, err := s.open("other"); err == nil {
		t.Error("an app has more places than are left")
	}
}

// What was spooled is read back, and its file has no name.
func TestSpool(t *testing.T) {
	s := spoolsOf(t, 1<<20)
	s.create = edge.UnnamedFile
	u := s.mustOpen(t, "app")
	defer u.close()
	for _, part := range []string{"green", "", "room"} {
		if err := u.write([]byte(part)); err != nil {
			t.Fatal(err)
		}
	}
	code := u.code()
	got, err := io.ReadAll(io.NewSectionReader(code, 0, code.Size()))
	if err != nil || !bytes.Equal(got, []byte("greenroom")) || u.sum() != actor.DigestOf(got) {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := os.Stat(u.file.Name()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it has a name: %v", err)
	}
}

// A caller for all apps may invent names of apps, each of which has a few uploads whatever
// others have: all together are bounded all the same.
func TestUploadsOfInventedAppsAreBounded(t *testing.T) {
	s := spoolsOf(t, 1<<20)
	var refused error
	open := 0
	for i := range mostUploads {
		for range alwaysUploads {
			up, err := s.open(fmt.Sprint("invented", i))
			if err != nil {
				refused = err
				break
			}
			defer up.close()
			open++
		}
	}
	if open != mostUploads || refused == nil || !strings.Contains(refused.Error(), fmt.Sprintf("all apps together %d of at most %d", mostUploads, mostUploads)) {
		t.Errorf("%d uploads are on their way, of at most %d: %v", open, mostUploads, refused)
	}
}
