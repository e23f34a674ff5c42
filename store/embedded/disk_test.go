package embedded_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
	"github.com/greenroom-run/greenroom/store/embedded"
)

func TestDiskNearlyFull(t *testing.T) {
	disk := vfs.NewMem()
	disk.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 1 << 40})
	s := openSmall(t, disk)
	k := actor.Key{App: "app", Type: "Cart", ID: "a"}
	first := insert(k, `{"n":1}`)
	must(t, errors.Join(s.Commit(t.Context(), []actor.Commit{first})...))

	disk.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 1 << 20})
	fill(t, s) // up to the next question for free space
	second := update(first, `{"n":2}`)
	err := s.Commit(t.Context(), []actor.Commit{second})[0]
	if !errors.Is(err, actor.ErrUnavailable) || errors.Is(err, actor.ErrAmbiguous) {
		t.Fatalf("error is %v, want %v", err, actor.ErrUnavailable)
	}
	if !strings.Contains(err.Error(), "has 1 MiB left") {
		t.Fatalf("the error does not say what is wrong: %v", err)
	}
	if err := s.Check(t.Context()); !errors.Is(err, actor.ErrUnavailable) {
		t.Fatalf("Check says %v", err)
	}
	rows, err := s.LoadActors(t.Context(), []actor.Key{k}, actor.LoadOptions{})
	must(t, err)
	if rows[0].CommitID != first.ID {
		t.Fatalf("row is %+v", rows[0])
	}
	if _, err := s.SweepTombstones(t.Context(), rows[0].UpdatedAt, 10); err != nil {
		t.Fatalf("sweeping needs no space, and was refused: %v", err)
	}

	disk.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 1 << 40})
	must(t, s.Check(t.Context()))
	must(t, errors.Join(s.Commit(t.Context(), []actor.Commit{second})...))
}

// fill writes until the store refuses.
func fill(t *testing.T, s store.Store) {
	t.Helper()
	for i := range 64 {
		c := insert(actor.Key{App: "app", Type: "Filler", ID: fmt.Sprint(i)}, "")
		c.Rows[0].State = &actor.EncodedState{Format: actor.FormatEnvelope, Data: make([]byte, 1<<20)}
		if err := s.Commit(t.Context(), []actor.Commit{c})[0]; errors.Is(err, actor.ErrUnavailable) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("the store never refused")
}

func update(c actor.Commit, text string) actor.Commit {
	next := insert(c.Anchor().Key, text)
	next.Rows[0].ReadVersion, next.Rows[0].NewVersion = c.Rows[0].NewVersion, c.Rows[0].NewVersion+1
	return next
}

// brokenDisk is a file system whose operations fail on demand.
type brokenDisk struct {
	vfs.FS
	fail atomic.Pointer[func(errorfs.Op) error]
	hits atomic.Int64
}

func newBrokenDisk(fs vfs.FS) *brokenDisk {
	d := &brokenDisk{}
	d.FS = errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if fail := d.fail.Load(); fail != nil {
			if err := (*fail)(op); err != nil {
				d.hits.Add(1)
				return err
			}
		}
		return nil
	}))
	return d
}

func (d *brokenDisk) breakOn(match func(errorfs.Op) bool, err error) {
	fail := func(op errorfs.Op) error {
		if match(op) {
			return err
		}
		return nil
	}
	d.fail.Store(&fail)
}

// ReuseForWrite makes a new file, since errorfs lets reused ones escape.
func (d *brokenDisk) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if err := d.Remove(oldname); err != nil {
		return nil, err
	}
	return d.Create(newname, category)
}

func (d *brokenDisk) repair() { d.fail.Store(nil) }

func onLog(kinds ...errorfs.OpKind) func(errorfs.Op) bool {
	return func(op errorfs.Op) bool {
		for _, k := range kinds {
			if op.Kind == k && strings.HasSuffix(op.Path, ".log") {
				return true
			}
		}
		return false
	}
}

// TestLogFails checks that a commit whose log write or sync failed is never
// acknowledged, that nothing is served from memory afterwards, and that a new
// process finds the truth.
func TestLogFails(t *testing.T) {
	for _, fault := range []struct {
		name  string
		kinds []errorfs.OpKind
		err   error
	}{
		{"disk full", []errorfs.OpKind{errorfs.OpFileWrite}, syscall.ENOSPC},
		{"write", []errorfs.OpKind{errorfs.OpFileWrite}, syscall.EIO},
		{"sync", []errorfs.OpKind{errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo}, syscall.EIO},
	} {
		t.Run(fault.name, func(t *testing.T) {
			mem := vfs.NewCrashableMem()
			disk := newBrokenDisk(mem)
			s, err := embedded.Open(t.Context(), embedded.Config{Dir: "data", FS: disk, MemTableBytes: 1 << 20})
			must(t, err)
			k := actor.Key{App: "app", Type: "Cart", ID: "a"}
			first := insert(k, `{"n":1}`)
			must(t, errors.Join(s.Commit(t.Context(), []actor.Commit{first})...))

			disk.breakOn(onLog(fault.kinds...), fault.err)
			second := update(first, `{"n":2}`)
			if err := s.Commit(t.Context(), []actor.Commit{second})[0]; !errors.Is(err, actor.ErrAmbiguous) {
				t.Fatalf("the commit was answered %v, want %v", err, actor.ErrAmbiguous)
			}
			if disk.hits.Load() == 0 {
				t.Fatal("the planned fault never happened")
			}
			disk.repair() // what is lost stays lost
			if rows, err := s.LoadActors(t.Context(), []actor.Key{k}, actor.LoadOptions{}); !errors.Is(err, actor.ErrUnavailable) {
				t.Fatalf("a load gave %+v, %v", rows, err)
			}
			for _, err := range []error{
				s.Commit(t.Context(), []actor.Commit{second})[0], s.Settle(t.Context(), second), s.Check(t.Context()),
			} {
				if !errors.Is(err, actor.ErrUnavailable) {
					t.Fatalf("a failed store answered %v", err)
				}
			}
			if err := s.Close(); err == nil || !strings.Contains(err.Error(), "stays locked") {
				t.Fatalf("Close says %v", err)
			}

			next := openSmall(t, mem.CrashClone(vfs.CrashCloneCfg{}))
			verdict := next.Settle(t.Context(), second)
			if !errors.Is(verdict, actor.ErrStale) {
				t.Fatalf("settling what was lost says %v", verdict)
			}
			rows, err := next.LoadActors(t.Context(), []actor.Key{k}, actor.LoadOptions{})
			must(t, err)
			if rows[0].CommitID != first.ID || string(rows[0].State.Data) != `{"n":1}` {
				t.Fatalf("row is %+v", rows[0])
			}
		})
	}
}

// TestLogFailsUnderLoad checks that nobody hangs when the log fails with many
// writes under way: in the middle of a log, and, with buffers so small that logs
// change all the time, on the way from one to the next.
func TestLogFailsUnderLoad(t *testing.T) {
	writes := onLog(errorfs.OpFileWrite)
	syncs := onLog(errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo)
	for _, c := range []struct {
		name   string
		buffer int64
		match  func(errorfs.Op) bool
	}{
		{"write", 128 << 20, writes},
		{"sync", 128 << 20, syncs},
		{"write, changing logs", 1 << 20, writes},
		{"sync, changing logs", 1 << 20, syncs},
		{"create", 1 << 20, onLog(errorfs.OpCreate, errorfs.OpReuseForWrite)},
		{"sync of the folder", 1 << 20, func(op errorfs.Op) bool {
			return op.Kind == errorfs.OpFileSync && strings.HasSuffix(op.Path, "data")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for range 5 { // who meets the fault first differs
				logFailsUnderLoad(t, c.buffer, c.match)
			}
		})
	}
}

func logFailsUnderLoad(t *testing.T, buffer int64, match func(errorfs.Op) bool) {
	t.Helper()
	disk := newBrokenDisk(vfs.NewMem())
	s, err := embedded.Open(t.Context(), embedded.Config{Dir: "data", FS: disk, MemTableBytes: buffer})
	must(t, err)
	var acked atomic.Int64
	done := make(chan error)
	const clients = 16
	for i := range clients {
		go func() {
			c := insert(actor.Key{App: "app", Type: "Cart", ID: fmt.Sprint(i)}, strings.Repeat("x", 40_000))
			for {
				err := s.Commit(t.Context(), []actor.Commit{c})[0]
				if err != nil {
					done <- err
					return
				}
				c = update(c, strings.Repeat("y", 40_000))
				if acked.Add(1) == 100 {
					disk.breakOn(match, syscall.EIO)
				}
			}
		}()
	}
	for range clients {
		err := <-done
		if disk.hits.Load() == 0 {
			t.Fatalf("a client ended before the planned fault: %v", err)
		}
		if !errors.Is(err, actor.ErrAmbiguous) && !errors.Is(err, actor.ErrUnavailable) {
			t.Errorf("a client ended with %v", err)
		}
	}
	if err := s.Close(); err == nil {
		t.Error("a failed store was closed as if nothing had been")
	}
}

// TestFlushFails checks that writes are refused, not acknowledged and not left
// hanging, while data files cannot be written, and go on afterwards.
func TestFlushFails(t *testing.T) {
	disk := newBrokenDisk(vfs.NewMem())
	s := openSmall(t, disk)
	disk.breakOn(func(op errorfs.Op) bool {
		return op.Kind == errorfs.OpCreate && strings.HasSuffix(op.Path, ".sst")
	}, syscall.ENOSPC)
	c := insert(actor.Key{App: "app", Type: "Cart", ID: "a"}, strings.Repeat("x", 100_000))
	for {
		err := s.Commit(t.Context(), []actor.Commit{c})[0]
		if errors.Is(err, actor.ErrUnavailable) && !errors.Is(err, actor.ErrAmbiguous) {
			break
		}
		must(t, err)
		c = update(c, strings.Repeat("y", 100_000))
		if disk.hits.Load() > 100_000 {
			t.Fatal("flushes fail, and writes are still taken")
		}
	}
	disk.repair()
	// The flush is tried again by Pebble itself; nothing tells when.
	for {
		err := s.Commit(t.Context(), []actor.Commit{c})[0]
		if err == nil {
			break
		}
		if !errors.Is(err, actor.ErrUnavailable) {
			t.Fatal(err)
		}
	}
	must(t, s.Check(t.Context()))
}

// TestManifestFails checks that Pebble's way out, ending the process, is taken
// as the end of the store alone.
func TestManifestFails(t *testing.T) {
	disk := newBrokenDisk(vfs.NewMem())
	s, err := embedded.Open(t.Context(), embedded.Config{Dir: "data", FS: disk, MemTableBytes: 1 << 20})
	must(t, err)
	disk.breakOn(func(op errorfs.Op) bool {
		return op.Kind == errorfs.OpFileWrite && strings.Contains(op.Path, "MANIFEST")
	}, syscall.EIO)
	c := insert(actor.Key{App: "app", Type: "Cart", ID: "a"}, strings.Repeat("x", 100_000))
	for {
		err := s.Commit(t.Context(), []actor.Commit{c})[0]
		if errors.Is(err, actor.ErrUnavailable) || errors.Is(err, actor.ErrAmbiguous) {
			break
		}
		must(t, err)
		c = update(c, strings.Repeat("y", 100_000))
	}
	if _, err := s.LoadActors(t.Context(), []actor.Key{c.Anchor().Key}, actor.LoadOptions{}); !errors.Is(err, actor.ErrUnavailable) {
		t.Fatalf("a failed store answered %v", err)
	}
	if err := s.Close(); err == nil || !strings.Contains(err.Error(), "stays locked") {
		t.Fatalf("Close says %v", err)
	}
}
