package embedded_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
	"github.com/greenroom-run/greenroom/store/embedded"
)

// fillForDamage commits 100 rows of 4 KB that do not compress.
func fillForDamage(t *testing.T, s store.Store) []actor.Commit {
	t.Helper()
	rng := rand.NewChaCha8([32]byte{})
	commits := make([]actor.Commit, 100)
	for i := range commits {
		state := make([]byte, 4<<10)
		_, _ = rng.Read(state)
		commits[i] = insert(actor.Key{App: "app", Type: "Cart", ID: fmt.Sprintf("%03d", i)}, "")
		commits[i].Rows[0].State = &actor.EncodedState{Format: actor.FormatEnvelope, Data: state}
	}
	must(t, errors.Join(s.Commit(t.Context(), commits)...))
	return commits
}

// spoil flips a bit of the largest file with the suffix, at a share of its length.
func spoil(t *testing.T, disk *vfs.MemFS, suffix string, share float64) {
	t.Helper()
	names, err := disk.List("data")
	must(t, err)
	var largest []byte
	for _, name := range names {
		if strings.HasSuffix(name, suffix) {
			data, err := disk.UnsafeGetFileDataBuffer("data/" + name)
			must(t, err)
			if len(data) > len(largest) {
				largest = data
			}
		}
	}
	if largest == nil {
		t.Fatalf("no file ends in %s: %q", suffix, names)
	}
	largest[int(share*float64(len(largest)))] ^= 1
}

// TestDamagedDataFile checks that a bad block of a data file harms the rows in
// it alone, and does not end the process, as Pebble would.
func TestDamagedDataFile(t *testing.T) {
	disk := vfs.NewMem()
	s, err := embedded.Open(t.Context(), embedded.Config{Dir: "data", FS: disk})
	must(t, err)
	commits := fillForDamage(t, s)
	must(t, s.Flush())
	must(t, s.Close())
	spoil(t, disk, ".sst", 0.5)
	s = open(t, embedded.Config{Dir: "data", FS: disk})
	var damaged, sound int
	for _, c := range commits {
		rows, err := s.LoadActors(t.Context(), []actor.Key{c.Anchor().Key}, actor.LoadOptions{})
		if err == nil {
			sound++
			if string(rows[0].State.Data) != string(c.Rows[0].State.Data) {
				t.Fatalf("%s has another state", c.Anchor().Key)
			}
			continue
		}
		damaged++
		detail := (*store.DamagedError)(nil)
		if !errors.As(err, &detail) || detail.Rows[0].Version != 0 {
			t.Fatalf("%s: %v", c.Anchor().Key, err)
		}
		for _, next := range []actor.Commit{insert(c.Anchor().Key, `{}`), update(c, `{}`)} {
			if err := s.Commit(t.Context(), []actor.Commit{next})[0]; !errors.Is(err, actor.ErrStateDamaged) {
				t.Fatalf("a commit over a row that cannot be read was answered %v", err)
			}
		}
	}
	if damaged == 0 || damaged > 20 {
		t.Fatalf("%d rows are damaged, %d sound", damaged, sound)
	}
	must(t, s.Check(t.Context()))
}

// TestDamagedRecords checks that no damage of a data file lets a recorded call run
// again: neither of the record, nor of what says that there is none.
func TestDamagedRecords(t *testing.T) {
	disk := vfs.NewCrashableMem()
	s, err := embedded.Open(t.Context(), embedded.Config{Dir: "data", FS: disk})
	must(t, err)
	commits := fillForDamage(t, s)
	for i := range commits {
		c := update(commits[i], `{}`)
		c.Records = []actor.IdempotencyRecord{{Actor: c.Anchor().Key, Method: "Add", Key: "k", TTL: time.Hour, Reply: actor.Payload{Data: commits[i].Rows[0].State.Data}}}
		commits[i] = c
	}
	must(t, errors.Join(s.Commit(t.Context(), commits)...))
	must(t, s.Flush())
	must(t, s.Compact(t.Context()))
	must(t, s.Close())
	refused, others := 0, 0
	for share := range 50 {
		damaged := disk.CrashClone(vfs.CrashCloneCfg{})
		spoil(t, damaged, ".sst", float64(share)/50)
		s, err := embedded.Open(t.Context(), embedded.Config{Dir: "data", FS: damaged})
		if err != nil {
			continue // that is safe as well
		}
		for _, c := range commits {
			again := update(c, `{}`)
			again.Records = c.Records
			switch err := s.Commit(t.Context(), []actor.Commit{again})[0]; {
			case errors.Is(err, actor.ErrKeyExists):
				refused++
			case err == nil:
				t.Fatalf("the call of %s ran again with a bit flipped at %d %% of the file", c.Anchor().Key, 2*share)
			default:
				others++
			}
		}
		must(t, s.Close())
	}
	if refused == 0 || others > refused {
		t.Errorf("%d calls were refused as recorded, %d otherwise", refused, others)
	}
}

// TestDamagedLog checks that a log which is damaged before its end is refused,
// and not taken for one that a crash cut off: acknowledged commits follow.
func TestDamagedLog(t *testing.T) {
	disk := vfs.NewCrashableMem()
	s := open(t, embedded.Config{Dir: "data", FS: disk})
	// Only syncs after the damaged place tell that it had been whole once.
	c := insert(actor.Key{App: "app", Type: "Cart", ID: "a"}, strings.Repeat("x", 1<<10))
	for range 500 {
		must(t, s.Commit(t.Context(), []actor.Commit{c})[0])
		c = update(c, strings.Repeat("y", 1<<10))
	}
	crashed := disk.CrashClone(vfs.CrashCloneCfg{})
	spoil(t, crashed, ".log", 0.2)
	if s, err := embedded.Open(t.Context(), embedded.Config{Dir: "data", FS: crashed}); err == nil {
		must(t, s.Close())
		t.Fatal("a damaged log was taken for a short one")
	}
}
