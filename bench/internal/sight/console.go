package sight

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/bench/internal/bar"
	"github.com/greenroom-run/greenroom/bench/internal/inhost"
	"github.com/greenroom-run/greenroom/bench/internal/must"
	"github.com/greenroom-run/greenroom/internal/chromium"
)

const (
	firstPaint = "first paint"
	listShown  = "list of actors"
	bundle     = "files, compressed"

	// stored are the actors of the console's server, of storedBytes of state each.
	stored      = 1_000_000
	storedBytes = 200
	// soon is how long a page may take, in milliseconds, and small how large the console may be, in
	// KB.
	soon, small = 1000, 250
)

// console is sight.1.
func console(b *bar.B) {
	dir := b.Folder()
	n := bar.Call[int](b, inhost.FillRole, inhost.FillSpec{
		Spec: inhost.Spec{Dir: filepath.Join(dir, "store"), StateBytes: storedBytes}, App: actor.DefaultApp, Type: "Counter", Count: b.Count(stored),
	})
	s := b.Serve(b.Guest(), "--data-dir", dir)
	bytes := must.Get(compressedBytes(b.Context(), s.URL))
	browser := chromium.Start(&browserOwner{b: b})
	// The first page also pays for what a browser that has just started does once.
	browser.Open().Go(s.URL + "/console/")
	for run := 1; run <= b.Runs; run++ {
		var paint, list float64
		page := browser.Open()
		page.Go(s.URL + "/console/")
		page.Eval(`new Promise((resolve) => new PerformanceObserver((l) => {
			for (const e of l.getEntriesByName("first-contentful-paint")) resolve(e.startTime);
		}).observe({ type: "paint", buffered: true }))`, &paint)
		page = browser.Open()
		page.Go(s.URL + "/console/#/default/actors/Counter")
		page.Until(`[...document.querySelectorAll("td")].some((e) => e.innerText.includes("a0000000"))`)
		page.Eval("performance.now()", &list)
		b.Note("run %d, %d actors stored: %.0f ms to the first paint, %.0f ms to the first rows of the list", run, n, paint, list)
		b.Compare(firstPaint, paint, soon)
		b.Compare(listShown, list, soon)
		b.Compare(bundle, float64(bytes)/1000, small)
	}
}

// compressedBytes returns how many bytes a browser loads that takes gzip.
func compressedBytes(ctx context.Context, url string) (sum int, err error) {
	for _, file := range []string{"", "console.js", "console.css"} {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/console/"+file, nil)
		if err != nil {
			return 0, err
		}
		req.Header.Set("Accept-Encoding", "gzip") // set by us, it is not undone
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0, err
		}
		body, err := io.ReadAll(resp.Body)
		if err := errors.Join(err, resp.Body.Close()); err != nil {
			return 0, err
		}
		if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Encoding") != "gzip" {
			return 0, fmt.Errorf("%s: status %d, encoding %q", req.URL, resp.StatusCode, resp.Header.Get("Content-Encoding"))
		}
		sum += len(body)
	}
	return sum, nil
}

// browserOwner is the test that package chromium wants, whose failures end the bar. It has what that
// package calls, and no more.
type browserOwner struct {
	testing.TB
	b *bar.B
}

func (*browserOwner) Helper()               {}
func (o *browserOwner) TempDir() string     { return o.b.Folder() }
func (*browserOwner) Failed() bool          { return false }
func (*browserOwner) Fatal(args ...any)     { must.Check(errors.New(fmt.Sprint(args...))) }
func (o *browserOwner) Cleanup(undo func()) { o.b.Cleanup(func() error { undo(); return nil }) }
func (*browserOwner) Fatalf(format string, args ...any) {
	must.Check(fmt.Errorf(format, args...))
}
