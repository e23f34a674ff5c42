package console

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
)

//go:embed dist
var dist embed.FS

// Path is where the console is.
const Path = "/console"

// policy lets the pages load what is here and call this server, and nothing else. No page can put
// them into a frame, and no script can make markup of a text.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// Handler serves the files at [Handler.Paths], to GET and HEAD. Make it with [New].
type Handler struct {
	files map[string]*file // by path
}

// file is one file of the bundle.
type file struct {
	content     []byte
	contentType string
	etag        string
	gzipped     func() []byte // made at the first request for it
}

// New reads the bundle.
func New() *Handler {
	h := &Handler{files: map[string]*file{}}
	entries, err := fs.ReadDir(dist, "dist")
	if err != nil {
		panic(err) // it is embedded
	}
	for _, e := range entries {
		content, err := dist.ReadFile("dist/" + e.Name())
		if err != nil {
			panic(err)
		}
		sum := sha256.Sum256(content)
		h.files[Path+"/"+e.Name()] = &file{
			content: content, contentType: contentTypes[path.Ext(e.Name())], etag: `"` + hex.EncodeToString(sum[:12]) + `"`,
			gzipped: sync.OnceValue(func() []byte { return compress(content) }),
		}
	}
	index := h.files[Path+"/index.html"]
	delete(h.files, Path+"/index.html")
	h.files[Path], h.files[Path+"/"] = index, index
	return h
}

var contentTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
}

func compress(content []byte) []byte {
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // the level is one
	_, _ = w.Write(content)                               // to memory
	_ = w.Close()
	return b.Bytes()
}

// Paths are those that the handler serves; everything else is not found.
func (h *Handler) Paths() []string {
	var paths []string
	for p := range h.files {
		paths = append(paths, p)
	}
	return paths
}

// ServeHTTP implements [http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f := h.files[r.URL.Path]
	switch {
	case f == nil:
		http.NotFound(w, r)
		return
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "the console is read with GET", http.StatusMethodNotAllowed)
		return
	}
	header := w.Header()
	header.Set("Content-Type", f.contentType)
	header.Set("Content-Security-Policy", policy)
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("X-Frame-Options", "DENY")
	// A new version of the server has new files under the same names.
	header.Set("Cache-Control", "no-cache")
	header.Set("ETag", f.etag)
	header.Set("Vary", "Accept-Encoding")
	if strings.Contains(r.Header.Get("If-None-Match"), f.etag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	content := f.content
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		content = f.gzipped()
		header.Set("Content-Encoding", "gzip")
	}
	header.Set("Content-Length", strconv.Itoa(len(content)))
	if r.Method == http.MethodGet {
		_, _ = w.Write(content) // fails only with the connection
	}
}
