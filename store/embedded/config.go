package embedded

import (
	"cmp"
	"fmt"
	"log/slog"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Config says where and how a [Store] keeps its data.
type Config struct {
	// Dir is the folder; it is made if it is missing. Required.
	Dir string
	// FS is the file system that Dir is on. Defaults to the operating system's.
	FS vfs.FS
	// CacheBytes bounds the cache of uncompressed blocks. Defaults to 64 MiB.
	CacheBytes int64
	// MemTableBytes is the size of one write buffer; up to three exist at a
	// time, and as much log is replayed after a crash. Defaults to 16 MiB.
	MemTableBytes int64
	// MinFreeBytes is the free disk space below which writes are refused.
	// Defaults to 64 MiB; negative: none.
	MinFreeBytes int64
	// Now is the clock behind database time. Defaults to time.Now.
	Now func() time.Time
	// Logger gets what operators must know. Defaults to discarding.
	Logger *slog.Logger
}

// WithDefaults returns a copy with every zero field set to its default.
func (c Config) WithDefaults() Config {
	c.FS = cmp.Or(c.FS, vfs.Default)
	c.CacheBytes = cmp.Or(c.CacheBytes, 64<<20)
	c.MemTableBytes = cmp.Or(c.MemTableBytes, 16<<20)
	c.MinFreeBytes = cmp.Or(c.MinFreeBytes, 64<<20)
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return c
}

func (c Config) validate() error {
	switch {
	case c.Dir == "":
		return fmt.Errorf("embedded store: Dir is empty; name the folder that keeps the data")
	case c.CacheBytes < 0:
		return fmt.Errorf("embedded store: CacheBytes is %d; give 0 for the default or more", c.CacheBytes)
	case c.MemTableBytes < 1<<20 || c.MemTableBytes > 1<<30:
		return fmt.Errorf("embedded store: MemTableBytes is %d; give 0 for the default or 1 MiB to 1 GiB", c.MemTableBytes)
	}
	return nil
}
