package compile

import (
	"bufio"
	"bytes"
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
	dir      string
	most     int64
	deployed func(actor.Digest) bool
	log      *slog.Logger

	mu   sync.Mutex // of changes by this process
	full bool       // it was said that what is deployed is more than the bound
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
	return c.evict(k)
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

// evict removes files that no entry names, and then the entries that were used
// least recently, until the rest is within the bound. What is deployed stays, and
// so does keep. c.mu is held.
func (c *cache) evict(keep key) error {
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
	slices.SortFunc(entries, func(a, b *entry) int { return a.used.Compare(b.used) })
	for _, e := range entries {
		if total <= c.most {
			break
		}
		if e.key == keep || c.deployed(e.digest) {
			continue
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
	if full := total > c.most; full != c.full {
		if c.full = full; full {
			c.log.Warn("the code of the modules that are deployed takes more than the cache of compiled modules may have; give it more, or it is compiled again at times",
				"dir", c.dir, "bytes", total, "limit", c.most)
		}
	}
	return nil
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
func openCache(dir string, most int64, deployed func(actor.Digest) bool, log *slog.Logger) (*cache, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(dir, entriesDir), 0o700); err != nil {
		return nil, err
	}
	c := &cache{dir: dir, most: most, deployed: deployed, log: log}
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
