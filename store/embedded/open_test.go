package embedded_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/internal/leaktest"
	"github.com/greenroom-run/greenroom/store/embedded"
	"go.uber.org/goleak"
)

// holdFolder names the folder that a child process of this test holds open.
const holdFolder = "GREENROOM_TEST_HOLD_FOLDER"

// TestHoldFolder is the child of TestSecondProcess.
func TestHoldFolder(t *testing.T) {
	dir := os.Getenv(holdFolder)
	if dir == "" {
		t.Skip("run by TestSecondProcess")
	}
	open(t, embedded.Config{Dir: dir})
	_, err := os.Stdout.WriteString("held\n")
	must(t, err)
	_, err = io.Copy(io.Discard, os.Stdin) // until the parent closes it
	must(t, err)
}

func TestSecondProcess(t *testing.T) {
	dir := t.TempDir()
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestHoldFolder$")
	child.Env = append(os.Environ(), holdFolder+"="+dir)
	in, err := child.StdinPipe()
	must(t, err)
	out, err := child.StdoutPipe()
	must(t, err)
	must(t, child.Start())
	held := make([]byte, len("held\n"))
	_, err = io.ReadFull(out, held)
	must(t, err)
	refused(t, dir)
	must(t, in.Close())
	must(t, child.Wait())
	open(t, embedded.Config{Dir: dir})
}

func TestSecondOpen(t *testing.T) {
	dir := t.TempDir()
	open(t, embedded.Config{Dir: dir})
	refused(t, dir)
	link := filepath.Join(t.TempDir(), "link")
	must(t, os.Symlink(dir, link))
	refused(t, link)
}

// refused checks that a folder in use is refused, by an error that helps.
func refused(t *testing.T, dir string) {
	t.Helper()
	s, err := embedded.Open(t.Context(), embedded.Config{Dir: dir})
	if err == nil {
		must(t, s.Close())
		t.Fatal("a folder in use was opened a second time")
	}
	folder, evalErr := filepath.EvalSymlinks(dir)
	must(t, evalErr)
	for _, word := range []string{folder, "locked", "stop that one"} {
		if !strings.Contains(err.Error(), word) {
			t.Fatalf("the error lacks %q: %v", word, err)
		}
	}
}

func TestConfig(t *testing.T) {
	for _, cfg := range []embedded.Config{
		{}, {Dir: "x", CacheBytes: -1}, {Dir: "x", MemTableBytes: 1}, {Dir: "x", MemTableBytes: 1 << 40},
	} {
		cfg.FS = vfs.NewMem()
		if s, err := embedded.Open(t.Context(), cfg); err == nil {
			must(t, s.Close())
			t.Errorf("%+v was accepted", cfg)
		}
	}
}

func TestUnknownLayoutIsRefused(t *testing.T) {
	disk := vfs.NewMem()
	s, err := embedded.Open(t.Context(), embedded.Config{Dir: "data", FS: disk})
	must(t, err)
	must(t, s.SetLayout("99"))
	must(t, s.Close())
	if _, err := embedded.Open(t.Context(), embedded.Config{Dir: "data", FS: disk}); err == nil || !strings.Contains(err.Error(), `layout "99"`) {
		t.Fatalf("Open says %v", err)
	}
}

// TestClockGoesBack checks that times of rows never do, not even over a restart.
func TestClockGoesBack(t *testing.T) {
	disk := vfs.NewMem()
	now := time.Date(2026, 1, 2, 3, 4, 5, 6789, time.UTC)
	cfg := embedded.Config{Dir: "data", FS: disk, Now: func() time.Time { return now }}
	s, err := embedded.Open(t.Context(), cfg)
	must(t, err)
	c := insert(actor.Key{App: "app", Type: "Cart", ID: "a"}, `{}`)
	written := func(s *embedded.Store) time.Time {
		t.Helper()
		must(t, errors.Join(s.Commit(t.Context(), []actor.Commit{c})...))
		c = update(c, `{}`)
		rows, err := s.LoadActors(t.Context(), []actor.Key{c.Anchor().Key}, actor.LoadOptions{})
		must(t, err)
		return rows[0].UpdatedAt
	}
	first := written(s)
	if want := now.Truncate(time.Microsecond); !first.Equal(want) {
		t.Fatalf("UpdatedAt is %v, want %v", first, want)
	}
	now = now.Add(-time.Hour)
	if at := written(s); at.Before(first) {
		t.Fatalf("time went back from %v to %v", first, at)
	}
	must(t, s.Close())
	s = open(t, cfg)
	if at, err := s.Now(t.Context()); err != nil || at.Before(first) {
		t.Fatalf("after a restart it is %v, %v, before %v", at, err, first)
	}
	if at := written(s); at.Before(first) {
		t.Fatalf("time went back from %v to %v", first, at)
	}
}

// TestNothingIsLeftBehind checks that indexes and chunks go with what they
// belong to.
func TestNothingIsLeftBehind(t *testing.T) {
	disk := vfs.NewCrashableMem()
	s := openSmall(t, disk)
	count := func(s *embedded.Store, space string, want int) {
		t.Helper()
		n, err := s.CountKeys(space)
		must(t, err)
		if n != want {
			t.Fatalf("%s has %d keys, want %d", space, n, want)
		}
	}
	c := insert(actor.Key{App: "app", Type: "Cart", ID: "a"}, `{}`)
	c.Rows[0].Delete = true
	for range 3 {
		must(t, errors.Join(s.Commit(t.Context(), []actor.Commit{c})...))
		count(s, embedded.TombSpace, 1)
		c = update(c, `{}`)
		must(t, errors.Join(s.Commit(t.Context(), []actor.Commit{c})...))
		count(s, embedded.TombSpace, 0)
		c = update(c, `{}`)
		c.Rows[0].Delete = true
	}

	wasm := make([]byte, 5<<20/2)
	m := actor.Module{App: "app", Digest: actor.DigestOf(wasm), Size: int64(len(wasm))}
	must(t, s.PutModule(t.Context(), m, bytes.NewReader(wasm), 0))
	count(s, embedded.ChunkSpace, 3)
	count(s, embedded.UploadSpace, 0)
	must(t, s.DeleteModule(t.Context(), "app", m.Digest))
	count(s, embedded.ChunkSpace, 0)

	// An upload that a crash cut off: the mark and chunks, but no module.
	must(t, s.PutModule(t.Context(), m, bytes.NewReader(wasm), 0))
	must(t, s.CutUpload("app", m.Digest))
	count(s, embedded.ChunkSpace, 3)
	next := openSmall(t, disk.CrashClone(vfs.CrashCloneCfg{}))
	count(next, embedded.ChunkSpace, 0)
	count(next, embedded.UploadSpace, 0)
}

// TestCloseLeavesNothingRunning checks that every goroutine of a store ends
// with it.
func TestCloseLeavesNothingRunning(t *testing.T) {
	before := goleak.IgnoreCurrent()
	s, err := embedded.Open(t.Context(), embedded.Config{Dir: t.TempDir()})
	must(t, err)
	must(t, s.Check(t.Context()))
	must(t, s.Close())
	leaktest.None(t, before)
}
