package embedded_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/greenroom-run/greenroom/store/embedded"
)

// BenchmarkPipelined compares groups of 256 commits, four on their way, with a
// bare loop that writes keys and values of the same size to Pebble in the same
// way: applied without a wait, synced while the next one is applied. Each line
// of the store is to reach 60 % of the bare one in the same run.
func BenchmarkPipelined(b *testing.B) {
	const lanes, group = 4, 256
	b.Run("bare", func(b *testing.B) { benchmarkBare(b, lanes, group) })
	b.Run("store", func(b *testing.B) {
		benchmarkCommit(b, open(b, embedded.Config{Dir: b.TempDir()}), lanes, group, false)
	})
	b.Run("keyed", func(b *testing.B) {
		benchmarkCommit(b, open(b, embedded.Config{Dir: b.TempDir()}), lanes, group, true)
	})
}

func benchmarkBare(b *testing.B, lanes, group int) {
	b.Helper()
	options := &pebble.Options{
		MemTableSize: 16 << 20, FormatMajorVersion: pebble.FormatWALSyncChunks, L0CompactionThreshold: 16, L0StopWritesThreshold: 1000,
		MemTableStopWritesThreshold: 3, Logger: quiet{},
	}
	// As the store has it.
	options.Levels[0].Compression = func() *sstable.CompressionProfile { return sstable.NoCompression }
	options.Levels[1].Compression = func() *sstable.CompressionProfile { return sstable.SnappyCompression }
	db, err := pebble.Open(b.TempDir(), options)
	must(b, err)
	defer func() { must(b, db.Close()) }()
	value := make([]byte, embedded.RowHeaderSize+200)
	keys := make([][]byte, lanes*group)
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "actor/app||Cart||%d-%d", i/group, i%group)
	}
	var left atomic.Int64
	left.Store(int64(b.N))
	var apply sync.Mutex // one writer, as in the store
	b.ReportAllocs()
	b.ResetTimer()
	var wg sync.WaitGroup
	for lane := range lanes {
		wg.Go(func() {
			for left.Add(-int64(group)) > -int64(group) {
				batch := db.NewBatch()
				for _, k := range keys[lane*group : (lane+1)*group] {
					must(b, batch.Set(k, value, nil))
				}
				apply.Lock()
				err := db.ApplyNoSyncWait(batch, pebble.Sync)
				apply.Unlock()
				must(b, err)
				must(b, batch.SyncWait())
				must(b, batch.Close())
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
}

// quiet drops what Pebble says.
type quiet struct{}

func (quiet) Infof(string, ...any)           {}
func (quiet) Errorf(string, ...any)          {}
func (quiet) Fatalf(format string, a ...any) { panic(fmt.Sprintf(format, a...)) }
