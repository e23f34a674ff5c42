package chromium

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// names are those of the browser's command, by system.
var names = []string{"chromium", "chromium-browser", "google-chrome"}

// Browser is a process of Chromium. Make it with [Start].
type Browser struct {
	tb  testing.TB
	in  *os.File // what it is told
	ids struct {
		sync.Mutex
		last    int
		waiting map[int]chan answer
		pages   map[string]*Page // by session
		ended   error
	}
}

// message is what both ends of the pipe send, each with a zero byte behind it.
type message struct {
	ID        int             `json:"id,omitempty"`
	SessionID string          `json:"sessionId,omitempty"`
	Method    string          `json:"method,omitempty"`
	Params    any             `json:"params,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
	Error     *struct {
		Message string `json:"message"`
	} `json:"error,omitempty"`
}

type answer struct {
	result json.RawMessage
	err    error
}

// Start starts a browser, which ends with the test. A test fails where there is none: build/chromium/setup.sh
// installs one.
func Start(tb testing.TB) *Browser {
	tb.Helper()
	path := ""
	for _, name := range names {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		tb.Fatal("no Chromium is installed; run build/chromium/setup.sh")
	}
	fromTest, in, err := os.Pipe()
	if err != nil {
		tb.Fatal(err)
	}
	out, fromBrowser, err := os.Pipe()
	if err != nil {
		tb.Fatal(err)
	}
	cmd := exec.Command(path, "--headless", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--no-first-run", "--disable-extensions", "--disable-background-networking", "--disable-component-update", "--disable-sync",
		"--hide-scrollbars", "--force-color-profile=srgb", "--user-data-dir="+filepath.Join(tb.TempDir(), "profile"), "about:blank")
	cmd.ExtraFiles = []*os.File{fromTest, fromBrowser} // 3 and 4, as Chromium has it
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	_, _ = fromTest.Close(), fromBrowser.Close()
	b := &Browser{tb: tb, in: in}
	b.ids.waiting, b.ids.pages = map[int]chan answer{}, map[string]*Page{}
	read := make(chan struct{})
	go func() {
		defer close(read)
		b.read(out)
	}()
	tb.Cleanup(func() {
		_ = b.call("", "Browser.close", nil, nil) // the pipe may be closed before the answer
		_ = in.Close()
		err := cmd.Wait()
		<-read
		_ = out.Close()
		if tb.Failed() {
			tb.Logf("chromium ended with %v: %.2000s", err, stderr.String())
		}
	})
	return b
}

// Open opens an empty page, which shares nothing with other pages.
func (b *Browser) Open() *Page {
	b.tb.Helper()
	var context, target, attached struct{ BrowserContextID, TargetID, SessionID string }
	for _, step := range []struct {
		method string
		params func() any
		result any
	}{
		{"Target.createBrowserContext", func() any { return nil }, &context},
		{"Target.createTarget", func() any { return map[string]any{"url": "about:blank", "browserContextId": context.BrowserContextID} }, &target},
		{"Target.attachToTarget", func() any { return map[string]any{"targetId": target.TargetID, "flatten": true} }, &attached},
	} {
		if err := b.call("", step.method, step.params(), step.result); err != nil {
			b.tb.Fatal(err)
		}
	}
	p := &Page{tb: b.tb, call: func(method string, params, result any) error {
		return b.call(attached.SessionID, method, params, result)
	}}
	b.ids.Lock()
	b.ids.pages[attached.SessionID] = p
	b.ids.Unlock()
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		p.Do(domain+".enable", nil, nil)
	}
	return p
}

// read takes what the browser says until it ends.
func (b *Browser) read(out io.Reader) {
	r := bufio.NewReaderSize(out, 1<<20)
	for {
		text, err := r.ReadBytes(0)
		if err != nil {
			b.ids.Lock()
			b.ids.ended = fmt.Errorf("chromium has ended: %w", err)
			for id, waiting := range b.ids.waiting {
				waiting <- answer{err: b.ids.ended}
				delete(b.ids.waiting, id)
			}
			b.ids.Unlock()
			return
		}
		var m struct {
			message
			Params json.RawMessage `json:"params"`
		}
		if json.Unmarshal(text[:len(text)-1], &m) != nil {
			continue
		}
		b.ids.Lock()
		waiting, page := b.ids.waiting[m.ID], b.ids.pages[m.SessionID]
		delete(b.ids.waiting, m.ID)
		b.ids.Unlock()
		switch {
		case waiting != nil && m.Error != nil:
			waiting <- answer{err: errors.New(m.Error.Message)}
		case waiting != nil:
			waiting <- answer{result: m.Result}
		case page != nil:
			page.event(m.Method, m.Params)
		}
	}
}

// call sends a command to a session, or to the browser, and waits for the answer.
func (b *Browser) call(session, method string, params, result any) error {
	b.ids.Lock()
	if b.ids.ended != nil {
		defer b.ids.Unlock()
		return b.ids.ended
	}
	b.ids.last++
	id, waiting := b.ids.last, make(chan answer, 1)
	b.ids.waiting[id] = waiting
	text, err := json.Marshal(message{ID: id, SessionID: session, Method: method, Params: params})
	if err == nil {
		_, err = b.in.Write(append(text, 0))
	}
	b.ids.Unlock()
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	a := <-waiting
	if a.err != nil {
		return fmt.Errorf("%s: %w", method, a.err)
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal(a.result, result)
}
