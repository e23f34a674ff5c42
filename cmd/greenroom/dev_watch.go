package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"
)

// watchQuiet is how long nothing must change before a build: editors and
// version control write many files in a row.
const watchQuiet = 150 * time.Millisecond

// unwatched are folders whose changes never come from a person: outputs, data,
// version control.
var unwatched = []string{"build", "target", ".git", ".greenroom", "node_modules"}

// watcher reports changes below a folder.
type watcher struct {
	// Changes has one value when something changed since it was last read.
	Changes chan struct{}

	fs   *fsnotify.Watcher
	done chan struct{}
}

// watch watches dir and all folders in it until Close.
func watch(dir string) (*watcher, error) {
	notify, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", dir, err)
	}
	w := &watcher{Changes: make(chan struct{}, 1), fs: notify, done: make(chan struct{})}
	if err := w.addAll(dir); err != nil {
		_ = notify.Close()
		return nil, fmt.Errorf("watch %s: %w", dir, err)
	}
	go w.run()
	return w, nil
}

// Close stops watching and waits.
func (w *watcher) Close() {
	_ = w.fs.Close()
	<-w.done
}

// addAll watches dir and the folders in it. One that vanishes meanwhile is no
// error.
func (w *watcher) addAll(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist) && path != dir:
			return nil
		case err != nil:
			return err
		case !d.IsDir():
			return nil
		case path != dir && slices.Contains(unwatched, d.Name()):
			return filepath.SkipDir
		}
		return w.fs.Add(path)
	})
}

func (w *watcher) run() {
	defer close(w.done)
	quiet := time.NewTimer(0)
	quiet.Stop()
	defer quiet.Stop()
	for {
		select {
		case ev, ok := <-w.fs.Events:
			if !ok {
				return
			}
			if w.counts(ev) {
				quiet.Reset(watchQuiet)
			}
		case _, ok := <-w.fs.Errors:
			if !ok {
				return
			}
			// Mostly an overflow: something changed, and nobody knows what.
			quiet.Reset(watchQuiet)
		case <-quiet.C:
			select {
			case w.Changes <- struct{}{}:
			default: // one is waiting already
			}
		}
	}
}

// counts reports whether an event is a change of the guest, and watches folders
// that are new.
func (w *watcher) counts(ev fsnotify.Event) bool {
	if ev.Op == fsnotify.Chmod || slices.Contains(unwatched, filepath.Base(ev.Name)) {
		return false
	}
	if ev.Has(fsnotify.Create) {
		if info, err := os.Stat(ev.Name); err == nil && info.IsDir() {
			// A folder that cannot be watched costs an automatic build, no more.
			_ = w.addAll(ev.Name)
		}
	}
	return true
}
