package embedded_test

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
	"github.com/greenroom-run/greenroom/store/embedded"
	"github.com/greenroom-run/greenroom/store/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store {
		return open(t, embedded.Config{Dir: t.TempDir()})
	})
}

func TestLap(t *testing.T) {
	storetest.RunLap(t, storetest.Lap{
		Open: openMemory,
		Spend: func(t *testing.T, s store.Store, app string, next uint32) {
			if err := s.(*embedded.Store).SetNextBucket(t.Context(), app, next); err != nil {
				t.Fatal(err)
			}
		},
	})
}

func TestModel(t *testing.T) {
	t.Run("Open", func(t *testing.T) { storetest.RunModel(t, openMemory) })
	t.Run("Reopen", func(t *testing.T) {
		storetest.RunReopenModel(t, func(t *testing.T) storetest.Medium {
			t.Helper()
			return crashableMedium(t, 0)
		})
	})
}

func TestReopen(t *testing.T) {
	t.Run("Folder", func(t *testing.T) {
		storetest.RunReopen(t, func(t *testing.T) storetest.Medium {
			t.Helper()
			dir := t.TempDir()
			return storetest.Medium{Open: func(t *testing.T) store.Store {
				return open(t, embedded.Config{Dir: dir})
			}}
		})
	})
	// Killing a process keeps the page cache, and would prove nothing: these
	// file systems forget what was not synced.
	t.Run("Nothing unsynced survives", func(t *testing.T) { reopenAfterCrash(t, 0) })
	t.Run("Half of the unsynced survives", func(t *testing.T) { reopenAfterCrash(t, 50) })
	t.Run("All of the unsynced survives", func(t *testing.T) { reopenAfterCrash(t, 100) })
}

func reopenAfterCrash(t *testing.T, unsyncedPercent int) {
	t.Helper()
	storetest.RunReopen(t, func(t *testing.T) storetest.Medium {
		t.Helper()
		return crashableMedium(t, unsyncedPercent)
	})
}

// crashableMedium is a disk that forgets in a crash what was not synced, but for
// the given share of it.
func crashableMedium(t *testing.T, unsyncedPercent int) storetest.Medium {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	disk := vfs.NewCrashableMem()
	return storetest.Medium{
		Open: func(t *testing.T) store.Store { return openSmall(t, disk) },
		Crash: func(t *testing.T, s store.Store) {
			seed++
			disk = disk.CrashClone(vfs.CrashCloneCfg{
				UnsyncedDataPercent: unsyncedPercent,
				RNG:                 rand.New(rand.NewPCG(seed, 0)),
			})
			if err := s.Close(); err != nil { // the old disk is forgotten
				t.Error(err)
			}
		},
	}
}

func TestDamage(t *testing.T) {
	flip := func(at int) func([]byte) []byte {
		return func(value []byte) []byte {
			value[at] ^= 0x40
			return value
		}
	}
	rows := map[string]func([]byte) []byte{
		"one bit of the version":      flip(8),
		"one bit of the checksum":     flip(2),
		"one bit of the tombstone":    flip(57),
		"an unknown layout":           flip(0),
		"nothing left":                func([]byte) []byte { return nil },
		"half a header":               func(value []byte) []byte { return value[:embedded.RowHeaderSize/2] },
		"somebody else's row":         nil,
		"zeroes":                      func(value []byte) []byte { clear(value); return value },
		"noise longer than the state": func([]byte) []byte { return make([]byte, 3*embedded.RowHeaderSize) },
	}
	states := map[string]func([]byte) []byte{
		"one bit of the state":      flip(embedded.RowHeaderSize + 3),
		"a state cut off":           func(value []byte) []byte { return value[:len(value)-1] },
		"no state":                  func(value []byte) []byte { return value[:embedded.RowHeaderSize] },
		"a state that is too long":  func(value []byte) []byte { return append(value, '!') },
		"another state of its size": func(value []byte) []byte { copy(value[embedded.RowHeaderSize:], `{"n":99}`); return value },
	}
	for name, change := range rows {
		t.Run(name, func(t *testing.T) {
			storetest.RunDamage(t, storetest.Damage{
				Open: openMemory,
				Row: func(t *testing.T, s store.Store, k actor.Key) {
					e := s.(*embedded.Store)
					change := change
					if change == nil {
						change = func([]byte) (other []byte) { return foreignRow(t, e) }
					}
					must(t, e.DamageRow(k, change))
				},
				Record: func(t *testing.T, s store.Store, c actor.KeyedCall) {
					must(t, s.(*embedded.Store).DamageRecord(c, flip(9)))
				},
				Module: func(t *testing.T, s store.Store, app string, d actor.Digest) {
					must(t, s.(*embedded.Store).DamageChunk(app, d, flip(4)))
				},
			})
		})
	}
	for name, change := range states {
		t.Run(name, func(t *testing.T) {
			storetest.RunDamage(t, storetest.Damage{
				Open: openMemory,
				State: func(t *testing.T, s store.Store, k actor.Key) {
					must(t, s.(*embedded.Store).DamageRow(k, change))
				},
			})
		})
	}
}

// foreignRow returns the bytes of another actor's sound row.
func foreignRow(t *testing.T, s *embedded.Store) (value []byte) {
	t.Helper()
	k := actor.Key{App: "foreign", Type: "Cart", ID: "x"}
	if err := s.Commit(t.Context(), []actor.Commit{insert(k, `{"n":2}`)})[0]; err != nil && !errors.Is(err, actor.ErrStale) {
		t.Fatal(err)
	}
	must(t, s.DamageRow(k, func(v []byte) []byte {
		value = append(value, v...)
		return v
	}))
	return value
}

func insert(k actor.Key, text string) actor.Commit {
	return actor.CommitOf(actor.RowWrite{
		Key: k, NewVersion: actor.FirstVersion(), State: &actor.EncodedState{Format: actor.FormatJSON, Data: []byte(text)},
	})
}

func openMemory(t *testing.T) store.Store {
	t.Helper()
	return openSmall(t, vfs.NewMem())
}

// openSmall opens a store with small buffers, so that short tests flush too.
func openSmall(tb testing.TB, fs vfs.FS) *embedded.Store {
	tb.Helper()
	return open(tb, embedded.Config{Dir: "data", FS: fs, MemTableBytes: 1 << 20, CacheBytes: 1 << 20})
}

// open opens a store and closes it when the test ends.
func open(tb testing.TB, cfg embedded.Config) *embedded.Store {
	tb.Helper()
	s, err := embedded.Open(tb.Context(), cfg)
	must(tb, err)
	tb.Cleanup(func() { must(tb, s.Close()) })
	return s
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
