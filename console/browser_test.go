package console_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
	"github.com/greenroom-run/greenroom/internal/chromium"
	"github.com/greenroom-run/greenroom/internal/guestbuild"
	"github.com/greenroom-run/greenroom/internal/node"
	"github.com/greenroom-run/greenroom/internal/pgtest"
	"github.com/greenroom-run/greenroom/server"
	"github.com/greenroom-run/greenroom/server/edge"
	"github.com/greenroom-run/greenroom/store/embedded"
)

var (
	screenshots = flag.String("screenshots", "", "`folder` for pictures of the pages, for people to look at")
	many        = flag.Int("actors", 100_000, "how many actors are stored beside those that the test makes: 100,000 or more, a multiple of 2,000")
)

const (
	patient = 5 * time.Minute

	adminToken, readToken, shopToken, newToken = "admin-0123456789abcdef", "read-0123456789abcdef", "shop-0123456789abcdef", "other-0123456789abcdef"
)

// hostile are texts that must do nothing to a page but be read.
var hostile = map[string]string{
	"markup":    `<script>document.title="taken"</script><img src=x onerror="document.title='taken'">`,
	"direction": "safe\u202Eexe.cod\u202C and \u2066more\u2069",
	"long":      strings.Repeat("x", 10<<10),
}

// fixture is a server with actors, a browser, and a page that is signed in as admin.
type fixture struct {
	*testing.T
	dir   string // of the server's data
	addr  string
	url   string
	urls  []string // of all servers
	wasm  string   // file
	node  *node.Node
	page  *chromium.Page
	api   greenroomv1connect.ActorServiceClient
	shots int
}

// TestConsole goes through all pages in one browser, as people would.
func TestConsole(t *testing.T) {
	f := &fixture{T: t, dir: t.TempDir(), addr: "127.0.0.1:0"}
	f.wasm = f.build(filepath.Join("testdata", "desk"))
	f.fill()
	f.start(adminToken)
	f.page = chromium.Start(t).Open()
	f.page.Size(1280, 900, false)
	defer func() {
		if t.Failed() {
			f.shot("failed")
		}
	}()

	// One after the other: each goes on where the one before it left off.
	for _, step := range []struct {
		name string
		run  func(*fixture)
	}{
		{"a browser that asks for the root finds the console", (*fixture).root},
		{"signing in", (*fixture).signIn},
		{"an app without types says what to do", (*fixture).nothingYet},
		{"deploying a module from a file", (*fixture).deploy},
		{"what is no module is refused with its faults", (*fixture).deployRefused},
		{"the history and rolling back", (*fixture).history},
		{"a type with a Protobuf service", (*fixture).service},
		{"100,000 actors", (*fixture).actors},
		{"one actor, live", (*fixture).actor},
		{"hostile names, states and log lines", (*fixture).hostile},
		{"a state of 1 MiB", (*fixture).large},
		{"deleting an actor with its ID typed", (*fixture).remove},
		{"the overview", (*fixture).overview},
		{"reminders", (*fixture).reminders},
		{"modules, settings, tokens", (*fixture).rest},
		{"380 pixels, in the dark", (*fixture).narrow},
		{"by keyboard, with landmarks", (*fixture).keyboard},
		{"a token with the role read", (*fixture).reader},
		{"a token of one app", (*fixture).oneApp},
		{"a server that goes, and one that does not take the token any more", (*fixture).lost},
		{"a cluster of two", (*fixture).cluster},
	} {
		t.Log(step.name)
		step.run(f)
	}
	if problems := f.page.Problems(); len(problems) > 0 {
		t.Errorf("the pages had errors: %q", problems)
	}
	for _, r := range f.page.Requests() {
		if !slices.ContainsFunc(f.urls, func(url string) bool { return strings.HasPrefix(r, url+"/") }) && !strings.HasPrefix(r, "data:") && r != "about:blank" {
			t.Errorf("the pages asked for %s", r)
		}
	}
}

// build compiles a guest in Go, and returns the file.
func (f *fixture) build(dir string) string {
	wasm := filepath.Join(f.TempDir(), filepath.Base(dir)+".wasm")
	var out bytes.Buffer
	if _, err := guestbuild.Build(f.Context(), guestbuild.Request{Dir: dir, Out: wasm, Toolchain: guestbuild.Go, Log: &out}); err != nil {
		f.Fatalf("%v\n%s", err, out.String())
	}
	return wasm
}

// fill stores actors before the server starts, which takes less time than calling them.
func (f *fixture) fill() {
	st, err := embedded.Open(f.Context(), embedded.Config{Dir: filepath.Join(f.dir, "store")})
	if err != nil {
		f.Fatal(err)
	}
	const group = 2000
	for i := 0; i < *many; i += group {
		var commits []actor.Commit
		for n := i; n < i+group; n++ {
			commits = append(commits, actor.CommitOf(actor.RowWrite{
				Key: actor.Key{App: "shop", Type: "Desk", ID: fmt.Sprintf("desk-%06d", n)}, NewVersion: actor.FirstVersion(), Generation: 1,
				State: &actor.EncodedState{Format: actor.FormatJSON, Data: []byte(`{"n":1}`)},
			}))
		}
		if err := errors.Join(st.Commit(f.Context(), commits)...); err != nil {
			f.Fatal(err)
		}
	}
	if err := st.Close(); err != nil {
		f.Fatal(err)
	}
}

// start starts the server, at the address that it had before if it had one.
func (f *fixture) start(admin string) {
	cfg := node.Config{
		DataDir: f.dir, CompileTime: patient, Logger: slog.New(slog.DiscardHandler),
		Server: server.Config{Config: edge.Config{Addr: f.addr, Tokens: []edge.Token{
			{Name: "admin", Secret: admin, Role: edge.RoleAdmin},
			{Name: "reader", Secret: readToken, Role: edge.RoleRead},
			{Name: "shop", Secret: shopToken, Role: edge.RoleAdmin, App: "shop"},
		}}},
	}
	cfg.Limits.TurnDeadline = patient
	n, err := node.New(cfg)
	if err != nil {
		f.Fatal(err)
	}
	if err := n.Start(f.Context()); err != nil {
		f.Fatal(err)
	}
	f.node, f.addr = n, n.Addr().String()
	f.url = "http://" + f.addr
	f.urls = append(f.urls, f.url)
	f.Cleanup(func() { f.stop(n) })
	f.api = greenroomv1connect.NewActorServiceClient(http.DefaultClient, f.url, connect.WithInterceptors(bearer(admin)))
}

func (f *fixture) stop(n *node.Node) {
	ctx, cancel := context.WithTimeout(context.Background(), patient)
	defer cancel()
	if err := n.Stop(ctx); err != nil {
		f.Errorf("stop: %v", err)
	}
}

func bearer(token string) connect.UnaryInterceptorFunc {
	return func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
			req.Header().Set("Authorization", "Bearer "+token)
			return next(ctx, req)
		}
	}
}

// do has an actor of the desk do something, past the browser.
func (f *fixture) do(id string, order map[string]any) error {
	payload, err := json.Marshal(order)
	if err != nil {
		f.Fatal(err)
	}
	_, err = f.api.Invoke(f.Context(), connect.NewRequest(&greenroomv1.InvokeRequest{
		Actor: &greenroomv1.ActorKey{App: "shop", Type: "Desk", Id: id}, Method: "Do", Payload: payload,
	}))
	return err
}

func (f *fixture) mustDo(id string, order map[string]any) {
	f.Helper()
	if err := f.do(id, order); err != nil {
		f.Fatal(err)
	}
}

// shot takes a picture if somebody wants to look at it.
func (f *fixture) shot(name string) {
	if *screenshots != "" {
		f.shots++
		f.page.Screenshot(f, filepath.Join(*screenshots, fmt.Sprintf("%02d-%s.png", f.shots, name)))
	}
}

// visit goes to a page of the console and waits until it shows its heading.
func (f *fixture) visit(heading string, names ...string) {
	f.Helper()
	var path []string
	for _, n := range names {
		path = append(path, url.PathEscape(n))
	}
	f.page.Eval("location.hash = "+js("#/"+strings.Join(path, "/")), nil)
	f.page.Until("document.querySelector('main h1')?.innerText.includes(" + js(heading) + ")")
}

// sees waits until the page has a text.
func (f *fixture) sees(text string) {
	f.Helper()
	f.page.Until("document.body.innerText.includes(" + js(text) + ")")
}

// press clicks the button or link with a text.
func (f *fixture) press(text string) {
	f.Helper()
	find := "[...document.querySelectorAll('button, a, summary')].findLast(e => e.innerText.trim() === " + js(text) + " && !e.disabled)"
	f.page.Until(find)
	f.page.Eval(find+".click()", nil)
}

// fill sets the field with a label.
func (f *fixture) enter(label, text string) {
	f.Helper()
	find := "document.getElementById([...document.querySelectorAll('label')].findLast(e => e.innerText.trim().startsWith(" + js(label) + ")).htmlFor)"
	f.page.Until("(e => { e.focus(); e.select?.(); return document.activeElement === e; })(" + find + ")") // not before its dialog is open
	f.page.Type(text)
}

func js(text string) string {
	b, err := json.Marshal(text)
	if err != nil {
		panic(err) // a text is always JSON
	}
	return string(b)
}

func (f *fixture) root() {
	noRedirects := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for accept, want := range map[string]int{"text/html,*/*": http.StatusFound, "*/*": http.StatusNotFound} {
		req, err := http.NewRequestWithContext(f.Context(), http.MethodGet, f.url+"/", nil)
		if err != nil {
			f.Fatal(err)
		}
		req.Header.Set("Accept", accept)
		resp, err := noRedirects.Do(req)
		if err != nil {
			f.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			f.Errorf("GET / with Accept: %s answers %d, want %d", accept, resp.StatusCode, want)
		}
	}
	f.page.Go(f.url + "/")
	f.page.Until("location.pathname === '/console' && document.querySelector('input[type=password]')")
	var paint float64
	f.page.Eval(`new Promise((r) => new PerformanceObserver((l) => l.getEntriesByName("first-contentful-paint").forEach((e) => r(e.startTime)))
		.observe({ type: "paint", buffered: true }))`, &paint)
	f.Logf("first paint after %.0f ms, with %d actors stored", paint, *many)
	f.shot("signin")
}

func (f *fixture) signIn() {
	f.enter("Token", "wrong")
	f.press("Sign in")
	f.sees("The server does not accept this token")
	f.shot("signin-refused")
	f.enter("Token", adminToken)
	f.page.Press("Enter")
	f.page.Until("document.querySelector('main h1')?.innerText === 'Overview'")
	f.sees("admin (admin)")
	if f.page.Eval("document.cookie", nil); strings.Contains(f.hash(), adminToken) {
		f.Error("the token is in the address")
	}
}

func (f *fixture) hash() (hash string) {
	f.page.Eval("location.href", &hash)
	return hash
}

func (f *fixture) nothingYet() {
	f.visit("Types", "shop", "types")
	f.sees("No type is deployed in this app.")
	f.shot("types-empty")
	f.visit("Actors", "shop", "actors")
	f.sees("so it has no actors to look at")
}

// choose gives a file to the page, as the dialog of the system does.
func (f *fixture) choose(file string) {
	f.Helper()
	f.page.Until("document.querySelector('input[type=file]')")
	var doc struct{ Root struct{ NodeID int } }
	f.page.Do("DOM.getDocument", nil, &doc)
	var input struct{ NodeID int }
	f.page.Do("DOM.querySelector", map[string]any{"nodeId": doc.Root.NodeID, "selector": "input[type=file]"}, &input)
	f.page.Do("DOM.setFileInputFiles", map[string]any{"files": []string{file}, "nodeId": input.NodeID}, nil)
}

func (f *fixture) deploy() {
	f.visit("Types", "shop", "types")
	f.choose(f.wasm)
	f.sees("The module is valid. Deploy it?")
	f.sees("Do; Look")
	f.shot("deploy-check")
	f.enter("Message", "the first one")
	f.press("Deploy")
	f.sees("Deployed Desk (generation 1).")
	f.page.Until("document.querySelector('main table')?.innerText.includes('Desk')")
	f.shot("types")
	// The same bytes are known already.
	f.choose(f.wasm)
	f.sees("is served by this module already")
	f.press("Cancel")
	f.page.Until("!document.querySelector('dialog')")
}

func (f *fixture) deployRefused() {
	file := filepath.Join(f.TempDir(), "no.wasm")
	if err := os.WriteFile(file, []byte("this is no module"), 0o600); err != nil {
		f.Fatal(err)
	}
	f.choose(file)
	f.page.Until("document.querySelector('[role=alert]')?.innerText.includes('invalid_module')")
	f.shot("deploy-refused")
}

func (f *fixture) history() {
	f.visit("Type Desk", "shop", "types", "Desk")
	f.sees("the first one")
	f.press("Undeploy…")
	f.enter("Type the name", "Desk")
	f.press("Undeploy")
	f.sees("No module serves this type now.")
	f.press("Roll back to 1…")
	f.press("Roll back")
	f.page.Until("[...document.querySelectorAll('td')].some(e => e.innerText === '3') && !document.body.innerText.includes('No module serves')")
	f.shot("type")
}

func (f *fixture) service() {
	f.visit("Types", "till", "types")
	f.choose(f.build(filepath.Join("..", "examples", "wallet")))
	f.sees("The module is valid. Deploy it?")
	f.press("Deploy")
	f.sees("Deployed Wallet (generation 1).")
	f.visit("Type Wallet", "till", "types", "Wallet")
	f.sees("wallet.v1.WalletService (ID: wallet_id; streams: Watch)")
	f.shot("type-service")
}

func (f *fixture) actors() {
	f.visit("Actors", "shop", "actors", "Desk")
	f.page.Until("document.querySelectorAll('main tbody tr').length === 100")
	f.press("Next page")
	f.sees("desk-000199")
	f.shot("actors")
	f.enter("ID begins with", "desk-09999")
	f.page.Press("Enter")
	f.page.Until("document.querySelectorAll('main tbody tr').length === 10")
	f.sees("desk-099999")
	f.enter("ID begins with", "nobody")
	f.page.Press("Enter")
	f.sees("No actor's ID begins with this.")
}

func (f *fixture) actor() {
	f.visit("Desk alice", "shop", "actors", "Desk", "alice")
	f.sees("This actor has no stored state.")
	f.page.Eval(`(e => { e.value = "Do"; e.dispatchEvent(new Event("change", { bubbles: true })); })(document.getElementById("method"))`, nil)
	f.enter("Payload", `{"key":"cart","value":{"items":[1,2,{"price":12345678901234567890}],"open":true,"note":null},"say":"a line of alice"}`)
	f.press("Call Do")
	f.sees("Do answered in")
	f.sees("a line of alice")
	f.sees("in memory")
	// What others do is seen as well.
	f.mustDo("alice", map[string]any{"key": "raw", "binary": []byte{0, 1, 0xfe, 'h', 'i'}, "say": "a line of others"})
	f.sees("00 01 fe 68 69")
	f.sees("a line of others")
	f.mustDo("alice", map[string]any{"remind": "tea", "timer": "kettle"})
	f.page.Until("document.querySelector('table[aria-label=Timers]')?.innerText.includes('kettle')")
	f.page.Until("document.querySelector('table[aria-label=Reminders]')?.innerText.includes('tea')")
	f.mustDo("alice", map[string]any{"follow": "bob"})
	f.page.Until("document.querySelector('table[aria-label=Subscriptions]')?.innerText.includes('bob')")
	f.page.Until("document.querySelector('table[aria-label=Subscriptions]')?.innerText.includes('up to date')")
	f.page.Eval("document.querySelectorAll('.state .toggle').forEach(e => e.getAttribute('aria-expanded') === 'false' && e.click())", nil)
	f.page.Eval("document.querySelectorAll('.state .toggle').forEach(e => e.getAttribute('aria-expanded') === 'false' && e.click())", nil)
	f.sees("12345678901234567890")
	f.mustDo("alice", map[string]any{"event": "moved", "value": map[string]int{"to": 7}})
	f.sees(`{"to":7}`)
	f.shot("actor")
	f.enter("Payload", `{"fail":"no_room"}`)
	f.press("Call Do")
	f.sees("no_room")
	f.enter("Payload", `{"fail":`)
	f.sees("This is not valid JSON yet.")
}

func (f *fixture) hostile() {
	for name, text := range hostile {
		id := text
		if name == "long" {
			id = strings.Repeat("i", 512)
		}
		f.mustDo(id, map[string]any{"key": "k" + text[:min(len(text), 100)], "value": map[string]any{text: text}, "say": text})
		f.visit("Desk", "shop", "actors", "Desk", id)
		f.page.Until("document.querySelectorAll('.logs > div').length > 0 && document.querySelector('.state')")
		f.page.Eval("document.querySelectorAll('.state .toggle').forEach(e => e.getAttribute('aria-expanded') === 'false' && e.click())", nil)
		f.shot("hostile-" + name)
		var seen struct {
			Title           string
			Scripts, Images int
			Wide            bool
		}
		f.page.Eval(`({ Title: document.title, Scripts: document.scripts.length, Images: document.images.length,
			Wide: document.documentElement.scrollWidth > innerWidth })`, &seen)
		if seen.Title == "taken" || seen.Scripts != 1 || seen.Images != 0 {
			f.Errorf("%s: the page took it for markup: %+v", name, seen)
		}
		if seen.Wide {
			f.Errorf("%s: the page is wider than the window", name)
		}
		if name == "direction" {
			f.sees("U+202E")
		}
	}
	f.visit("Actors", "shop", "actors", "Desk")
	f.page.Until("document.querySelectorAll('main tbody tr').length === 100")
	f.shot("hostile-list")
}

func (f *fixture) large() {
	f.mustDo("large", map[string]any{"key": "text", "repeat": 1<<20 - 64})
	var list []int
	for i := range 100_000 {
		list = append(list, i)
	}
	f.mustDo("larger", map[string]any{"key": "list", "value": list})
	f.visit("Desk large", "shop", "actors", "Desk", "large")
	f.sees("show all 1,048,512 characters")
	f.visit("Desk larger", "shop", "actors", "Desk", "larger")
	f.sees("100,000 items")
	f.page.Until("document.querySelectorAll('.state li').length > 50")
	f.shot("large")
	var nodes int
	f.page.Eval("document.querySelectorAll('*').length", &nodes)
	if nodes > 3000 {
		f.Errorf("a large state makes %d elements", nodes)
	}
}

func (f *fixture) remove() {
	f.visit("Desk alice", "shop", "actors", "Desk", "alice")
	f.press("Delete…")
	f.page.Until("document.querySelector('dialog[open]')")
	confirm := "[...document.querySelectorAll('dialog button')].find(e => e.innerText === 'Delete')"
	f.page.Until(confirm + ".disabled")
	f.enter("Type the name", "alic")
	f.page.Until(confirm + ".disabled")
	f.enter("Type the name", "alice")
	f.shot("delete")
	f.page.Press("Enter")
	f.sees("This actor has no stored state.")
	if _, err := f.api.GetActor(f.Context(), connect.NewRequest(&greenroomv1.GetActorRequest{Actor: &greenroomv1.ActorKey{App: "shop", Type: "Desk", Id: "alice"}})); connect.CodeOf(err) != connect.CodeNotFound {
		f.Errorf("the actor: %v", err)
	}
}

func (f *fixture) overview() {
	f.visit("Overview", "shop", "overview")
	f.page.Until("document.querySelector('table[aria-label=\"Turns by type\"]')?.innerText.includes('Desk')")
	f.page.Until("document.querySelectorAll('.chart').length === 3")
	f.sees("the server reaches its store")
	f.shot("overview")
}

func (f *fixture) reminders() {
	f.mustDo("bob", map[string]any{"remind": "coffee"})
	f.visit("Reminders", "shop", "reminders")
	f.sees("coffee")
	f.press("Pause")
	f.sees("paused")
	f.press("Resume")
	f.page.Until("document.body.innerText.includes('Pause') && !document.body.innerText.includes('Resume')")
	f.sees("No dead letters")
	f.shot("reminders")
	f.press("Delete…")
	f.page.Eval("[...document.querySelectorAll('dialog button')].find(e => e.innerText === 'Delete').click()", nil)
	f.sees("No reminder is set in this app.")
	f.mustDo("alice", map[string]any{"send": map[string]string{"fail": "no_room"}})
	f.press("Overview")
	f.visit("Reminders", "shop", "reminders")
	f.page.Until("document.querySelector('table[aria-label=\"Dead letters\"]')?.innerText.includes('message Do of Desk alice')")
	f.mustDo("alice", map[string]any{"send": map[string]string{"say": "x"}, "later": true})
	f.visit("Desk bob", "shop", "actors", "Desk", "bob")
	f.page.Until("document.querySelector('table[aria-label=Messages]')?.innerText.includes('Desk alice')")
	f.page.Until("document.querySelector('table[aria-label=\"Dead letters\"]')?.innerText.includes('no_room') || document.querySelector('table[aria-label=\"Dead letters\"]')?.innerText.includes('told to fail')")
	f.page.Until("!document.querySelector('table[aria-label=Messages]')?.innerText.includes('empty')")
	f.shot("inbox")
}

func (f *fixture) rest() {
	f.visit("Modules", "shop", "modules")
	f.page.Until("document.querySelector('main table')?.innerText.includes('Desk')")
	f.shot("modules")
	f.visit("Settings", "shop", "settings")
	f.sees("No value is set.")
	f.enter("Name", "unused") // the last one: of the secret
	f.enter("Host", "api.example.com")
	f.press("Allow a host")
	f.page.Until("document.querySelector('table[aria-label^=Hosts]')?.innerText.includes('api.example.com')")
	f.page.Eval("document.querySelector('form[aria-label=\"Set a value\"] input').focus()", nil)
	f.page.Type("greeting")
	f.page.Press("Tab")
	f.page.Type("good morning")
	f.page.Press("Enter")
	f.page.Until("document.querySelector('table[aria-label=Configuration]')?.innerText.includes('good morning')")
	f.shot("settings")
	f.visit("Tokens", "shop", "tokens")
	f.page.Until("document.querySelectorAll('main tbody tr').length === 3")
	f.sees("yours")
	var text string
	if f.page.Eval("document.documentElement.outerHTML", &text); strings.Contains(text, "0123456789abcdef") {
		f.Error("a token's secret is on the page")
	}
	f.shot("tokens")
	f.visit("Not here", "shop", "hosts") // of a cluster alone
	f.shot("nothing")
}

func (f *fixture) narrow() {
	f.page.Size(380, 800, true)
	defer f.page.Size(1280, 900, false)
	for _, p := range [][]string{
		{"Overview", "shop", "overview"}, {"Types", "shop", "types"}, {"Type Desk", "shop", "types", "Desk"}, {"Actors", "shop", "actors", "Desk"},
		{"Desk", "shop", "actors", "Desk", hostile["direction"]}, {"Reminders", "shop", "reminders"}, {"Modules", "shop", "modules"}, {"Settings", "shop", "settings"}, {"Tokens", "shop", "tokens"},
	} {
		f.visit(p[0], p[1:]...)
		f.page.Until("!document.body.innerText.includes('Loading…')")
		var width int
		f.page.Eval("document.documentElement.scrollWidth", &width)
		if width > 380 {
			f.Errorf("%s is %d pixels wide", p[0], width)
		}
		f.shot("narrow-" + strings.ToLower(strings.ReplaceAll(p[0], " ", "-")))
	}
}

func (f *fixture) keyboard() {
	f.visit("Types", "shop", "types")
	f.page.Until("document.querySelector('main table')")
	f.page.Eval("document.activeElement.blur()", nil)
	var landmarks []string
	f.page.Eval("['header', 'nav[aria-label]', 'main', 'footer', '[role=table]'].filter(s => !document.querySelector(s))", &landmarks)
	if len(landmarks) > 0 {
		f.Errorf("the page lacks %q", landmarks)
	}
	// Every control can be reached, and says what it is.
	var nameless []string
	f.page.Eval(`[...document.querySelectorAll("button, a, input:not([hidden]), select, textarea")]
		.filter(e => !e.innerText.trim() && !e.labels?.length && !e.getAttribute("aria-label")).map(e => e.outerHTML)`, &nameless)
	if len(nameless) > 0 {
		f.Errorf("controls without a name: %q", nameless)
	}
	f.page.Eval("document.querySelector('.skip').focus()", nil)
	f.page.Press("Enter")
	f.page.Until("document.activeElement.tagName === 'H1'")
	// From the heading to the link of the type, and in.
	for range 40 {
		f.page.Press("Tab")
		var at string
		f.page.Eval("document.activeElement.innerText ?? ''", &at)
		if at == "Desk" {
			f.page.Press("Enter")
			f.page.Until("document.activeElement.tagName === 'H1' && document.activeElement.innerText === 'Type Desk'")
			// A dialog keeps the focus, and Escape closes it.
			f.press("Undeploy…")
			f.page.Until("document.activeElement.closest('dialog')")
			f.page.Press("Escape")
			f.page.Until("!document.querySelector('dialog')")
			return
		}
	}
	f.Error("the type cannot be reached by Tab")
}

// signInAs signs out and in.
func (f *fixture) signInAs(token, shown string) {
	f.Helper()
	f.press("Sign out")
	f.enter("Token", token)
	f.press("Sign in")
	f.sees(shown)
}

func (f *fixture) pages() (names []string) {
	f.page.Eval("[...document.querySelectorAll('nav.side a')].map(e => e.innerText)", &names)
	return names
}

func (f *fixture) reader() {
	f.signInAs(readToken, "reader (read)")
	if got := f.pages(); slices.Contains(got, "Settings") || slices.Contains(got, "Tokens") {
		f.Errorf("a reader is shown %q", got)
	}
	f.visit("Types", "shop", "types")
	f.page.Until("document.querySelector('main table')")
	f.visit("Desk bob", "shop", "actors", "Desk", "bob")
	f.page.Until("document.getElementById('method')")
	var got struct{ Buttons, Methods []string }
	f.page.Eval(`({ Buttons: [...document.querySelectorAll("main button.danger, input[type=file]")].map(e => e.innerText),
		Methods: [...document.getElementById("method").options].map(e => e.value) })`, &got)
	if len(got.Buttons) > 0 || !slices.Equal(got.Methods, []string{"Look"}) {
		f.Errorf("a reader is offered %+v", got)
	}
	f.shot("reader")
}

func (f *fixture) oneApp() {
	f.signInAs(shopToken, "shop (admin)")
	f.visit("Overview", "bank", "overview") // which the token may not see: its own is shown
	f.page.Until("document.querySelector('header select').value === 'shop'")
	f.page.Until("document.querySelector('table[aria-label=\"Turns by type\"]')?.innerText.includes('Desk')")
	if got := f.pages(); slices.Contains(got, "Tokens") || !slices.Contains(got, "Settings") {
		f.Errorf("a token of one app is shown %q", got)
	}
}

func (f *fixture) lost() {
	f.signInAs(adminToken, "admin (admin)")
	f.visit("Overview", "shop", "overview")
	f.sees("the server reaches its store")
	f.stop(f.node)
	f.sees("This is from")
	f.sees("The server cannot be reached.")
	f.shot("lost")
	f.start(newToken)
	f.sees("The server does not accept this token")
	f.enter("Token", newToken)
	f.press("Sign in")
	f.sees("admin (admin)")
	f.page.Until("document.querySelector('main h1')?.innerText === 'Overview'")
}

// cluster looks at what only servers of a cluster have.
func (f *fixture) cluster() {
	database := pgtest.URL(f)
	for _, name := range []string{"web-1", "web-2"} {
		cfg := node.Config{
			StoreURL: database, CompileTime: patient, Logger: slog.New(slog.DiscardHandler),
			Cluster: &node.ClusterConfig{HostName: name, Lease: 30 * time.Second}, // which a busy machine does not lose
			Server:  server.Config{Config: edge.Config{Addr: "127.0.0.1:0"}},
		}
		cfg.Limits.TurnDeadline = patient
		n, err := node.New(cfg)
		if err != nil {
			f.Fatal(err)
		}
		if err := n.Start(f.Context()); err != nil {
			f.Fatal(err)
		}
		f.Cleanup(func() { f.stop(n) })
		f.url = "http://" + n.Addr().String() // of the second one
		f.urls = append(f.urls, f.url)
	}
	f.api = greenroomv1connect.NewActorServiceClient(http.DefaultClient, f.url)
	f.page.Go(f.url + "/console")
	f.page.Until("document.querySelector('main h1')?.innerText === 'Overview'") // no token is asked for
	f.page.Until("document.querySelector('table[aria-label=Servers]')?.innerText.includes('web-1')")
	f.visit("Types", "shop", "types")
	f.choose(f.wasm)
	f.press("Deploy")
	f.sees("Deployed Desk (generation 1).")
	f.visit("Type Desk", "shop", "types", "Desk")
	f.page.Until("document.querySelectorAll('table[aria-label=\"Placement by server\"] tbody tr').length === 2")
	f.shot("cluster-type")
	turns := 0
	for i := range 20 { // of which some are at the other server, which knows their timers
		id, set := fmt.Sprint("desk-", i), false
		for !set {
			f.mustDo(id, map[string]any{"key": "k", "value": i, "timer": "kettle"})
			if turns++; turns > 100 {
				f.Fatalf("the page of %s has never shown its timer", id)
			}
			f.visit("Overview", "shop", "overview") // so that the page of the actor is a new one
			f.visit(id, "shop", "actors", "Desk", id)
			f.page.Until("/Server\\s+web-[12]/.test(document.querySelector('.facts').innerText) && /(not )?in memory/.test(document.querySelector('.facts').innerText)")
			// A timer does not move with its actor: one that moves to the other server just now has lost it.
			f.page.Eval("document.querySelector('table[aria-label=Timers]')?.innerText.includes('kettle') ?? false", &set)
		}
	}
	f.shot("cluster-actor")
	f.visit("Overview", "shop", "overview")
	f.sees("2 server(s), leader epoch")
	// Whichever server ran them.
	f.page.Until(fmt.Sprintf("[...document.querySelectorAll('table[aria-label=\"Turns by type\"] td')].some(e => e.innerText === '%d')", turns))
	f.shot("cluster-overview")
	f.visit("Servers", "shop", "hosts")
	f.page.Until("document.querySelector('main table')?.innerText.includes('leader')")
	f.press("Check connections")
	f.sees("each reaches all others")
	f.press("Drain…")
	var name string
	f.page.Until("document.querySelector('dialog[open] h2')")
	f.page.Eval("document.querySelector('dialog h2').innerText.match(/web-[12]/)[0]", &name)
	f.enter("Type the name", name)
	f.press("Drain")
	f.page.Until("document.querySelector('main table')?.innerText.includes('draining')")
	f.shot("hosts")
}
