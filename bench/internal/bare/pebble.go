package bare

import (
	"bytes"
	"context"
	"encoding/binary"
	"log"
	"slices"
	"strconv"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable"

	"github.com/greenroom-run/greenroom/bench/internal/load"
	"github.com/greenroom-run/greenroom/bench/internal/must"
)

// PebbleRole commits groups of rows to Pebble.
const PebbleRole = "pebble"

// rowHeader is what the embedded store writes before a state.
const rowHeader = 67

// Pebble says how to load a folder.
type Pebble struct {
	Dir string
	// Plan.Outstanding rows are under way, in groups of Group: that many groups
	// are applied while earlier ones are being synced.
	Plan       load.Plan
	Group      int
	StateBytes int
	// Records has each row bring another one, under a random key, as a recorded
	// call is, and each group an entry that lists them.
	Records bool
}

// Commits plays [PebbleRole]. Each call of the result is one row; latencies are
// those of groups.
func Commits(ctx context.Context, s Pebble) (load.Result, error) {
	db, keys := s.open()
	defer must.Close(db.Close)
	plan := s.Plan
	plan.Outstanding /= s.Group
	values := make([][]byte, plan.Outstanding)
	for i := range values {
		values[i] = make([]byte, rowHeader+s.StateBytes)
	}
	res, err := load.Drive(ctx, plan, func(_ context.Context, worker, target, _ int) error {
		return s.commit(db, keys, values[worker], target)
	})
	res.Calls *= int64(s.Group)
	return res, err
}

// Committer opens the folder, and returns what commits one group and what closes
// it again. One goroutine at a time calls them.
func (s Pebble) Committer() (commit func(target int) error, end func() error) {
	db, keys := s.open()
	value := make([]byte, rowHeader+s.StateBytes)
	return func(target int) error { return s.commit(db, keys, value, target) }, db.Close
}

// open opens the folder as the embedded store does, and writes every row once.
func (s Pebble) open() (*pebble.DB, [][]byte) {
	options := &pebble.Options{
		FormatMajorVersion:          pebble.FormatWALSyncChunks,
		MemTableSize:                16 << 20,
		MemTableStopWritesThreshold: 3,
		L0CompactionThreshold:       16,
		L0StopWritesThreshold:       1000,
		MaxOpenFiles:                1000,
		CacheSize:                   64 << 20,
		Logger:                      quiet{},
	}
	for i := range options.Levels {
		options.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
		options.Levels[i].Compression = func() *sstable.CompressionProfile { return sstable.SnappyCompression }
	}
	options.Levels[0].Compression = func() *sstable.CompressionProfile { return sstable.NoCompression }
	db := must.Get(pebble.Open(s.Dir, options))
	keys := make([][]byte, s.Plan.Actors)
	for i := range keys {
		keys[i] = []byte("actor/default||Counter||c" + strconv.Itoa(i))
	}
	fillPebble(db, keys, s)
	return db, keys
}

// commit writes a group, which value is the caller's room for.
func (s Pebble) commit(db *pebble.DB, keys [][]byte, value []byte, target int) error {
	return must.Catch(func() {
		batch := db.NewBatch()
		if s.Records {
			s.record(batch)
		}
		for i := range s.Group {
			value[i%len(value)]++
			// Spread as turns of random actors are.
			must.Check(batch.Set(keys[(target+i*7919)%len(keys)], value, nil))
		}
		must.Check(db.ApplyNoSyncWait(batch, pebble.Sync))
		must.Check(batch.SyncWait())
		must.Check(batch.Close())
	})
}

// record adds a group's records to a batch, in the order of their keys.
func (s Pebble) record(batch *pebble.Batch) {
	ids := make([][16]byte, s.Group)
	for i := range ids {
		ids[i] = commitID()
	}
	slices.SortFunc(ids, func(a, b [16]byte) int { return bytes.Compare(a[:], b[:]) })
	list := make([]byte, 0, len(ids)*len(ids[0]))
	value := make([]byte, recordBytes)
	for i := range ids {
		must.Check(batch.Set(append([]byte("record/"), ids[i][:]...), value, nil))
		list = append(list, ids[i][:]...)
	}
	key := binary.BigEndian.AppendUint64([]byte("expiry/"), uint64(time.Now().UnixMicro()))
	must.Check(batch.Set(append(key, ids[0][:]...), list, nil))
}

// fillPebble writes every row once, as Greenroom has written every actor once
// when its turns are measured.
func fillPebble(db *pebble.DB, keys [][]byte, s Pebble) {
	value := make([]byte, rowHeader+s.StateBytes)
	for group := range slices.Chunk(keys, s.Group) {
		batch := db.NewBatch()
		for _, key := range group {
			must.Check(batch.Set(key, value, nil))
		}
		must.Check(batch.Commit(pebble.NoSync))
		must.Check(batch.Close())
	}
}

// quiet keeps Pebble's notes to itself.
type quiet struct{}

func (quiet) Infof(string, ...any)           {}
func (quiet) Errorf(format string, a ...any) { log.Printf(format, a...) }
func (quiet) Fatalf(format string, a ...any) { log.Fatalf(format, a...) }
