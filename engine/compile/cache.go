package compile

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// What is in the cache's folder.
const (
	// codePrefix begins the folders that wazero makes, one for each of its versions.
	codePrefix = "wazero-"
	// preparedDir has the modules as they are run, by their keys.
	preparedDir = "prepared"
	// entriesDir has a file for each module that is there, named by what is
	// compiled; it lists the files of its code, and its time is that of the last use.
	entriesDir = "entries"
	// scratchPrefix begins the folders that children write into.
	scratchPrefix = "compiling-"
	// tempPrefix begins files that are removed as soon as they are made.
	tempPrefix = "upload-"
	// stale is how old something is that another process may have made when it
	// cannot be in the middle of it any more.
	stale = time.Hour
)

// cache is compiled code on disk. Several processes may share a folder: what one
// takes away, the other compiles again. Its methods may be called concurrently.
type cache struct {
	dir  string
	most int64
	apps func() map[actor.Digest][]string // that modules serve
	log  *slog.Logger

	mu     sync.Mutex  // of changes by this process
	loads  map[key]int // how many loads of this process are about to read an entry
	over   bool        // there was more than the bound after the last eviction
	warned bool        // it was said that what is deployed is more than the bound
}

// key names what a module is compiled as.
type key string

func keyOf(m Module) key {
	h := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%s\n", m.Target, m.Version, m.Digest))
	return key(hex.EncodeToString(h[:]))
}

// holdsFiles reports whether a folder has what children write.
func holdsFiles(folder string) bool {
	return folder == preparedDir || strings.HasPrefix(folder, codePrefix)
}

// keepPrepared writes a module as it is run into a child's folder.
func keepPrepared(dir string, k key, code []byte) error {
	if err := os.MkdirAll(filepath.Join(dir, preparedDir), 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, preparedDir, string(k)), code, 0o600)
}

// prepared reads the module as it is run.
func (c *cache) prepared(k key) ([]byte, error) {
	return os.ReadFile(filepath.Join(c.dir, preparedDir, string(k)))
}

// entry is one module's code.
type entry struct {
	key    key
	digest actor.Digest
	used   time.Time
	files  []file
}

func (e *entry) size() int64 {
	var n int64
	for _, f := range e.files {
		n += f.size
	}
	return n
}

func (c *cache) path(k key) string { return filepath.Join(c.dir, entriesDir, string(k)) }

// use says that the module's code is wanted now, and reports whether it is there.
func (c *cache) use(k key) bool {
	if _, err := c.read(k); err != nil {
		return false
	}
	now := time.Now()
	_ = os.Chtimes(c.path(k), now, now) // it goes a little early otherwise
	return true
}

// read reads an entry: the module's digest on the first line, then a file on each.
func (c *cache) read(k key) (*entry, error) {
	text, err := os.ReadFile(c.path(k))
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(c.path(k))
	if err != nil {
		return nil, err
	}
	e := &entry{key: k, used: info.ModTime()}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 0; lines.Scan(); n++ {
		if n == 0 {
			e.digest = actor.Digest(lines.Text())
			continue
		}
		size, name, ok := strings.Cut(lines.Text(), " ")
		bytes, err := strconv.ParseInt(size, 10, 64)
		if !ok || err != nil || !filepath.IsLocal(name) || !holdsFiles(filepath.Dir(name)) {
			return nil, fmt.Errorf("the entry %s is damaged", k)
		}
		e.files = append(e.files, file{path: name, size: bytes})
	}
	return e, lines.Err()
}

// install takes what a child has written, and makes room for it.
func (c *cache) install(k key, digest actor.Digest, scratch string) error {
	made, err := files(scratch)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var text strings.Builder
	fmt.Fprintln(&text, digest)
	for _, f := range made {
		to := filepath.Join(c.dir, f.path)
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			return err
		}
		if err := os.Rename(filepath.Join(scratch, f.path), to); err != nil {
			return err
		}
		fmt.Fprintln(&text, f.size, f.path)
	}
	// The entry comes last, and at once: what has one is complete.
	list := filepath.Join(scratch, string(k))
	if err := os.WriteFile(list, []byte(text.String()), 0o600); err != nil {
		return err
	}
	if err := os.Rename(list, c.path(k)); err != nil {
		return err
	}
	return c.evict()
}

// reserve keeps an entry until release, whatever the bound is.
func (c *cache) reserve(k key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.loads[k]++
}

func (c *cache) release(k key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.loads[k]--; c.loads[k] == 0 {
		delete(c.loads, k)
	}
	if c.over {
		if err := c.evict(); err != nil {
			c.log.Warn("cannot remove compiled modules", "dir", c.dir, "error", err)
		}
	}
}

// remove takes a module's code away.
func (c *cache) remove(k key) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	gone, err := c.read(k)
	if err != nil {
		return c.removeFile(filepath.Join(entriesDir, string(k))) // its files are found later
	}
	if err := c.removeFile(filepath.Join(entriesDir, string(k))); err != nil {
		return err
	}
	entries, err := c.entries()
	if err != nil {
		return err
	}
	for _, f := range gone.files {
		if !slices.ContainsFunc(entries, func(e *entry) bool {
			return slices.ContainsFunc(e.files, func(o file) bool { return o.path == f.path })
		}) {
			if err := c.removeFile(f.path); err != nil {
				return err
			}
		}
	}
	return nil
}

// evict removes files that no entry names, and then entries until the rest is within the
// bound: see [shares.next]. c.mu is held.
func (c *cache) evict() error {
	entries, err := c.entries()
	if err != nil {
		return err
	}
	names := make(map[string]int) // files by how many entries name them
	for _, e := range entries {
		for _, f := range e.files {
			names[f.path]++
		}
	}
	present, err := files(c.dir)
	if err != nil {
		return err
	}
	var total int64
	size := make(map[string]int64)
	for _, f := range present {
		if names[f.path] == 0 {
			// Of an older version of this program, of a crash, or a file that another
			// process is about to name.
			if time.Since(f.made) > stale {
				if err := c.removeFile(f.path); err != nil {
					return err
				}
			}
			continue
		}
		size[f.path] = f.size
		total += f.size
	}
	if c.over = total > c.most; !c.over {
		return nil
	}
	served := c.apps()
	shares := c.share(entries, served)
	for total > c.most {
		e := shares.next(c.most / unusedPart)
		if e == nil {
			return nil // loads are about to read all that its owner has; release evicts again
		}
		if apps := served[e.digest]; len(apps) > 0 && !c.warned {
			c.warned = true
			c.log.Warn("the code of the modules that are deployed takes more than the cache of compiled modules may have; give it more with --max-cache, or it is compiled again at times",
				"dir", c.dir, "bytes", total, "limit", c.most, "app", apps[0])
		}
		if err := c.removeFile(filepath.Join(entriesDir, string(e.key))); err != nil {
			return err
		}
		for _, f := range e.files {
			if names[f.path]--; names[f.path] == 0 {
				if err := c.removeFile(f.path); err != nil {
					return err
				}
				total -= size[f.path]
			}
		}
	}
	c.over = false
	return nil
}

// unusedPart is the part of the cache, its inverse, that code of modules which serve nothing
// may have beside what is deployed: uploads are compiled before they are deployed.
const unusedPart = 8

// share is the entries of an app, or of none.
type share struct {
	bytes   int64
	entries []*entry // that may be removed, the least recently used first
}

// shares is who has what in the cache. Code that serves no app is under the empty name.
type shares map[string]*share

func (c *cache) share(entries []*entry, served map[actor.Digest][]string) shares {
	all := shares{"": {}}
	add := func(app string, e *entry) {
		if all[app] == nil {
			all[app] = &share{}
		}
		all[app].bytes += e.size()
		if c.loads[e.key] == 0 {
			all[app].entries = append(all[app].entries, e)
		}
	}
	// What serves several apps is of the one that has least.
	var common []*entry
	slices.SortFunc(entries, func(a, b *entry) int { return cmp.Or(a.used.Compare(b.used), cmp.Compare(a.key, b.key)) })
	for _, e := range entries {
		switch apps := served[e.digest]; len(apps) {
		case 0:
			add("", e)
		case 1:
			add(apps[0], e)
		default:
			common = append(common, e)
		}
	}
	for _, e := range common {
		add(slices.MinFunc(served[e.digest], func(a, b string) int { return cmp.Or(cmp.Compare(all.bytes(a), all.bytes(b)), cmp.Compare(a, b)) }), e)
	}
	for _, s := range all {
		slices.SortStableFunc(s.entries, func(a, b *entry) int { return a.used.Compare(b.used) })
	}
	return all
}

func (s shares) bytes(app string) int64 {
	if s[app] == nil {
		return 0
	}
	return s[app].bytes
}

// next takes out the entry that goes next; nil if there is none. First goes what serves
// nothing beyond so many bytes, and then what the app has that has most: so no app loses
// what is within an equal share.
func (s shares) next(unused int64) *entry {
	most := ""
	if s[""].bytes <= unused || len(s[""].entries) == 0 {
		for app, of := range s {
			if app != "" && (most == "" || cmp.Or(cmp.Compare(of.bytes, s[most].bytes), cmp.Compare(most, app)) > 0) {
				most = app
			}
		}
	}
	of := s[most]
	if len(of.entries) == 0 {
		return nil
	}
	e := of.entries[0]
	of.entries = of.entries[1:]
	of.bytes -= e.size()
	return e
}

// entries lists what is there. A damaged entry is removed.
func (c *cache) entries() ([]*entry, error) {
	list, err := os.ReadDir(filepath.Join(c.dir, entriesDir))
	if err != nil {
		return nil, err
	}
	var found []*entry
	for _, l := range list {
		e, err := c.read(key(l.Name()))
		switch {
		case err == nil:
			found = append(found, e)
		case !errors.Is(err, os.ErrNotExist):
			if err := c.removeFile(filepath.Join(entriesDir, l.Name())); err != nil {
				return nil, err
			}
		}
	}
	return found, nil
}

func (c *cache) removeFile(name string) error {
	err := os.Remove(filepath.Join(c.dir, name))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// scratch makes a folder for a child.
func (c *cache) scratch() (string, error) { return os.MkdirTemp(c.dir, scratchPrefix) }

// temp makes a file that goes when it is closed, or with the process.
func (c *cache) temp() (*os.File, error) {
	f, err := os.CreateTemp(c.dir, tempPrefix)
	if err == nil {
		err = os.Remove(f.Name())
	}
	return f, err
}

// openCache makes the folder ready.
func openCache(dir string, most int64, apps func() map[actor.Digest][]string, log *slog.Logger) (*cache, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(dir, entriesDir), 0o700); err != nil {
		return nil, err
	}
	c := &cache{dir: dir, most: most, apps: apps, log: log, loads: make(map[key]int)}
	if probe, err := c.scratch(); err != nil { // it cannot be written
		return nil, err
	} else if err := os.Remove(probe); err != nil {
		return nil, err
	}
	for _, prefix := range []string{scratchPrefix, tempPrefix} {
		left, err := filepath.Glob(filepath.Join(dir, prefix+"*"))
		if err != nil {
			return nil, err
		}
		for _, l := range left {
			if info, err := os.Stat(l); err == nil && time.Since(info.ModTime()) > stale {
				os.RemoveAll(l)
			}
		}
	}
	return c, nil
}
