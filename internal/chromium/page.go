package chromium

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
)

// Page is a page with a session of its own. Make it with [Browser.Open]. Its methods fail the test.
type Page struct {
	tb   testing.TB
	call func(method string, params, result any) error // in the page's session

	mu       sync.Mutex
	problems []string
	requests []string
}

// event remembers what tests ask for.
func (p *Page) event(method string, params json.RawMessage) {
	var e struct {
		Request          struct{ URL string }
		Entry            struct{ Level, Source, Text, URL string }
		ExceptionDetails struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	if json.Unmarshal(params, &e) != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch method {
	case "Network.requestWillBeSent":
		p.requests = append(p.requests, e.Request.URL)
	case "Runtime.exceptionThrown":
		p.problems = append(p.problems, e.ExceptionDetails.Text+" "+e.ExceptionDetails.Exception.Description)
	case "Log.entryAdded":
		if e.Entry.Level == "error" && e.Entry.Source != "network" { // failed requests are what tests provoke
			p.problems = append(p.problems, e.Entry.Source+": "+e.Entry.Text+" "+e.Entry.URL)
		}
	}
}

// Problems returns the exceptions and errors of the page so far, such as violations of its policy.
func (p *Page) Problems() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.problems)
}

// Requests returns the URLs that the page asked for.
func (p *Page) Requests() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.requests)
}

func (p *Page) must(err error) {
	p.tb.Helper()
	if err != nil {
		p.tb.Fatal(err)
	}
}

// Do runs a command of the protocol.
func (p *Page) Do(method string, params, result any) {
	p.tb.Helper()
	p.must(p.call(method, params, result))
}

// Eval runs an expression in the page, waits if it is a promise, and stores its value in out
// unless that is nil.
func (p *Page) Eval(expression string, out any) {
	p.tb.Helper()
	var r struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails *struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	p.Do("Runtime.evaluate", map[string]any{"expression": expression, "awaitPromise": true, "returnByValue": true, "userGesture": true}, &r)
	if e := r.ExceptionDetails; e != nil {
		p.tb.Fatalf("%s\n%s %s", expression, e.Text, e.Exception.Description)
	}
	if out != nil {
		p.must(json.Unmarshal(r.Result.Value, out))
	}
}

// Until waits until an expression is true in the page. It looks again whenever the page changes.
func (p *Page) Until(condition string) {
	p.tb.Helper()
	const patience = 120_000 // ms; far more than any answer takes
	var end string
	p.Eval(fmt.Sprintf(`new Promise((resolve) => {
		const holds = () => { try { return %s; } catch { return false; } };
		if (holds()) return resolve("");
		const look = () => { if (holds()) end(""); };
		const observer = new MutationObserver(look);
		const timer = setTimeout(() => end(location.href + "\n" + document.body.innerText), %d);
		const end = (why) => { observer.disconnect(); clearTimeout(timer); removeEventListener("hashchange", look); resolve(why); };
		observer.observe(document, { subtree: true, childList: true, attributes: true, characterData: true });
		addEventListener("hashchange", look);
	})`, condition, patience), &end)
	if end != "" {
		p.tb.Fatalf("%s does not hold; the page is %.3000s", condition, end)
	}
}

// Go loads a URL and waits for the load.
func (p *Page) Go(url string) {
	p.tb.Helper()
	var r struct{ ErrorText string }
	p.Do("Page.navigate", map[string]any{"url": url}, &r)
	if r.ErrorText != "" {
		p.tb.Fatalf("load %s: %s", url, r.ErrorText)
	}
	p.Eval(`new Promise((r) => document.readyState === "complete" ? r(0) : addEventListener("load", () => r(0)))`, nil)
}

// Size sets the size of the window in pixels, and whether the system is dark.
func (p *Page) Size(width, height int, dark bool) {
	p.tb.Helper()
	p.Do("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false}, nil)
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	p.Do("Emulation.setEmulatedMedia", map[string]any{"features": []any{map[string]string{"name": "prefers-color-scheme", "value": scheme}}}, nil)
}

// Press presses a key and lets it go: Tab, Enter, Escape or a letter.
func (p *Page) Press(key string) {
	p.tb.Helper()
	codes := map[string]int{"Tab": 9, "Enter": 13, "Escape": 27, "ArrowLeft": 37, "ArrowRight": 39}
	down := map[string]any{"type": "keyDown", "key": key, "code": key, "windowsVirtualKeyCode": codes[key]}
	if key == "Enter" {
		down["text"] = "\r"
	}
	p.Do("Input.dispatchKeyEvent", down, nil)
	p.Do("Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": key, "code": key, "windowsVirtualKeyCode": codes[key]}, nil)
}

// Type types text where the focus is.
func (p *Page) Type(text string) {
	p.tb.Helper()
	p.Do("Input.insertText", map[string]any{"text": text}, nil)
}

// Screenshot writes what is seen, of the whole length of the page, as a PNG.
func (p *Page) Screenshot(tb testing.TB, file string) {
	tb.Helper()
	var r struct{ Data string }
	p.Do("Page.captureScreenshot", map[string]any{"format": "png", "captureBeyondViewport": true}, &r)
	png, err := base64.StdEncoding.DecodeString(r.Data)
	if err != nil {
		tb.Fatal(err)
	}
	if err := os.WriteFile(file, png, 0o644); err != nil {
		tb.Fatal(err)
	}
}
