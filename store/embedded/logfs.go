package embedded

import (
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// logFS stands between Pebble and the file system for what Pebble does when it
// goes from one log to the next. If closing the old log or making the new one
// fails there, Pebble panics in a state that ends the process (it unlocks a
// mutex twice on the way, which nothing can recover). logFS fails the store
// first, and then stops that goroutine for ever, as Fatalf does: a failed store
// writes nothing more, and every caller gets an error.
//
// The first failed write or sync of a log returns its error, since Pebble tells
// it to the commits that wait. After it Pebble does nothing with the log but
// close it, with a sync if bytes are left; that is what must not return.
//
// It embeds the file system: all else passes through.
type logFS struct {
	vfs.FS
	fail func(error)
	// on is set while the store is open. Before and after, errors return: Open
	// and Close report them.
	on atomic.Bool
}

// stop ends the goroutine's part in the process if the store is open.
func (fs *logFS) stop(op, name string, err error) error {
	if err != nil && fs.on.Load() {
		fs.fail(fmt.Errorf("%s %s: %w", op, name, err))
		select {}
	}
	return err
}

func isLog(name string) bool { return strings.HasSuffix(name, ".log") }

func (fs *logFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := fs.FS.Create(name, category)
	if !isLog(name) {
		return f, err
	}
	return fs.log(f, name), fs.stop("make", name, err)
}

func (fs *logFS) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := fs.FS.ReuseForWrite(oldname, newname, category)
	if !isLog(newname) {
		return f, err
	}
	return fs.log(f, newname), fs.stop("make", newname, err)
}

func (fs *logFS) OpenDir(name string) (vfs.File, error) {
	f, err := fs.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &syncedDir{File: f, fs: fs, name: name}, nil
}

func (fs *logFS) Unwrap() vfs.FS { return fs.FS }

func (fs *logFS) log(f vfs.File, name string) vfs.File {
	if f == nil {
		return nil
	}
	return &logFile{File: f, fs: fs, name: name}
}

// logFile is a log that remembers its first failure.
type logFile struct {
	vfs.File
	fs     *logFS
	name   string
	failed atomic.Pointer[error]
}

// note remembers the first failure. After it, nothing returns.
func (f *logFile) note(op string, err error) error {
	if earlier := f.failed.Load(); earlier != nil {
		return f.fs.stop(op, f.name, *earlier)
	}
	if err != nil {
		f.failed.Store(&err)
	}
	return err
}

func (f *logFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	return n, f.note("write", err)
}

func (f *logFile) Sync() error { return f.note("sync", f.File.Sync()) }

func (f *logFile) SyncData() error { return f.note("sync", f.File.SyncData()) }

func (f *logFile) SyncTo(length int64) (fullSync bool, err error) {
	fullSync, err = f.File.SyncTo(length)
	return fullSync, f.note("sync", err)
}

func (f *logFile) Close() error {
	err := f.File.Close()
	if earlier := f.failed.Load(); earlier != nil {
		err = *earlier
	}
	return f.fs.stop("close", f.name, err)
}

// syncedDir is a folder in which a new log must be durable before it is used.
type syncedDir struct {
	vfs.File
	fs   *logFS
	name string
}

// Sync implements [vfs.File].
func (d *syncedDir) Sync() error { return d.fs.stop("sync folder", d.name, d.File.Sync()) }
