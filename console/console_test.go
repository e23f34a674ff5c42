package console

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func get(t *testing.T, h http.Handler, method, path string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(method, path, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// Every file is served with the policy, as it is and compressed, and once more only if it changed.
func TestFiles(t *testing.T) {
	h := New()
	paths := h.Paths()
	slices.Sort(paths)
	if want := []string{"/console", "/console/", "/console/console.css", "/console/console.js"}; !slices.Equal(paths, want) {
		t.Fatalf("paths %q, want %q", paths, want)
	}
	for _, p := range paths {
		plain := get(t, h, http.MethodGet, p)
		if plain.Code != http.StatusOK || plain.Body.Len() == 0 || plain.Header().Get("Content-Encoding") != "" {
			t.Errorf("%s: %d with %d bytes", p, plain.Code, plain.Body.Len())
		}
		for _, name := range []string{"Content-Type", "Content-Security-Policy", "Referrer-Policy", "X-Frame-Options", "ETag"} {
			if plain.Header().Get(name) == "" {
				t.Errorf("%s has no %s", p, name)
			}
		}
		packed := get(t, h, http.MethodGet, p, "Accept-Encoding", "br, gzip")
		r, err := gzip.NewReader(packed.Body)
		if err != nil {
			t.Fatalf("%s: %v", p, err)
		}
		if unpacked, err := io.ReadAll(r); err != nil || !bytes.Equal(unpacked, plain.Body.Bytes()) {
			t.Errorf("%s is another file when it is compressed: %v", p, err)
		}
		if again := get(t, h, http.MethodGet, p, "If-None-Match", plain.Header().Get("ETag")); again.Code != http.StatusNotModified || again.Body.Len() != 0 {
			t.Errorf("%s again: %d", p, again.Code)
		}
		if head := get(t, h, http.MethodHead, p); head.Code != http.StatusOK || head.Body.Len() != 0 {
			t.Errorf("HEAD %s: %d with %d bytes", p, head.Code, head.Body.Len())
		}
		if post := get(t, h, http.MethodPost, p); post.Code != http.StatusMethodNotAllowed {
			t.Errorf("POST %s: %d", p, post.Code)
		}
	}
	if w := get(t, h, http.MethodGet, "/console/index.html"); w.Code != http.StatusNotFound {
		t.Errorf("another path: %d", w.Code)
	}
}

// The policy permits nothing inline and no other origin, and the bundle asks for neither.
func TestPolicy(t *testing.T) {
	for _, loose := range []string{"unsafe", "*", "http:", "https:"} {
		if strings.Contains(policy, loose) {
			t.Errorf("the policy has %s", loose)
		}
	}
	page := get(t, New(), http.MethodGet, Path).Body.String()
	if inline := regexp.MustCompile(`<script[^>]*>[^<]|<style|\son\w+=|\sstyle=|//`).FindString(page); inline != "" {
		t.Errorf("the page has %q", inline)
	}
	script := get(t, New(), http.MethodGet, Path+"/console.js").Body.String()
	for _, evil := range []string{"eval(", "new Function(", "document.write"} {
		if n := strings.Count(script, evil); n > 0 {
			t.Errorf("the script has %s %d times", evil, n)
		}
	}
}

// maxBundle is what a browser loads at most, in bytes.
const maxBundle = 250_000

func TestBundleIsSmall(t *testing.T) {
	total := 0
	for _, p := range []string{Path, Path + "/console.js", Path + "/console.css"} {
		total += get(t, New(), http.MethodGet, p, "Accept-Encoding", "gzip").Body.Len()
	}
	t.Logf("%d bytes compressed", total)
	if total > maxBundle {
		t.Errorf("the console is %d bytes compressed, and may be %d", total, maxBundle)
	}
}
