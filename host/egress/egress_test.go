package egress

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/abi/manifest"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
)

type fakeGrants struct {
	grants []actor.HTTPGrant
	err    error
}

func (f fakeGrants) HTTP(_ context.Context, app string) ([]actor.HTTPGrant, error) {
	if app != "shop" {
		return nil, nil
	}
	return f.grants, f.err
}

// names resolves names to addresses, and counts.
type names struct {
	mu    sync.Mutex
	ips   map[string][]string
	asked []string
}

func (n *names) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked = append(n.asked, host)
	var ips []netip.Addr
	for _, ip := range n.ips[host] {
		ips = append(ips, netip.MustParseAddr(ip))
	}
	if len(ips) == 0 {
		return nil, errors.New("no such host in 10.1.2.3's zone")
	}
	return ips, nil
}

type rig struct {
	t      *testing.T
	client *Client
	names  *names
}

func newRig(t *testing.T, cfg Config, grants ...actor.HTTPGrant) *rig {
	t.Helper()
	n := &names{ips: map[string][]string{}}
	cfg.Resolver = n
	if cfg.Grants == nil {
		cfg.Grants = fakeGrants{grants: grants}
	}
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return &rig{t, c, n}
}

// privately grants hosts at addresses that are not public.
func privately(hosts ...string) []actor.HTTPGrant {
	var grants []actor.HTTPGrant
	for _, h := range hosts {
		grants = append(grants, actor.HTTPGrant{Host: h, Private: true})
	}
	return grants
}

func (r *rig) do(ctx context.Context, q abi.HTTPRequest) abi.HTTPResponse {
	r.t.Helper()
	answer, err := r.client.Do(ctx, host.EgressRequest{
		App: "shop", Declared: []string{"*:*", "http://*:*"}, Request: &q, Leave: func() error { return nil },
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return answer
}

func (r *rig) get(url string) abi.HTTPResponse {
	r.t.Helper()
	return r.do(r.t.Context(), abi.HTTPRequest{URL: url})
}

func (r *rig) refused(answer abi.HTTPResponse, code, text string) {
	r.t.Helper()
	if answer.Status != 0 || answer.Code != code || !strings.Contains(answer.Message, text) {
		r.t.Errorf("got %d %q %q; want %s with %q", answer.Status, answer.Code, answer.Message, code, text)
	}
}

// serve runs a server on loopback. It fails the test when it is asked and must not.
func serve(t *testing.T, handle http.HandlerFunc) (url, port string) {
	t.Helper()
	s := httptest.NewServer(handle)
	t.Cleanup(s.Close)
	_, port, err := net.SplitHostPort(s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return s.URL, port
}

func mustNotBeAsked(t *testing.T) http.HandlerFunc {
	return func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the server was asked: %s %s", r.Method, r.Host)
	}
}

// Whatever way a guest writes an address of this machine or its network, a grant of
// every host does not lead there.
func TestPrivateAddresses(t *testing.T) {
	_, port := serve(t, mustNotBeAsked(t))
	r := newRig(t, Config{}, actor.HTTPGrant{Host: "http://*:*"})
	for name, ip := range map[string][]string{
		"loopback.example": {"127.0.0.1"}, "six.example": {"::1"}, "mapped.example": {"::ffff:127.0.0.1"}, "ten.example": {"10.0.0.1"},
		"metadata.example": {"169.254.169.254"}, "unspecified.example": {"0.0.0.0"}, "unspecified6.example": {"::"}, "cgnat.example": {"100.64.0.1"},
		"ula.example": {"fd00::1"}, "linklocal.example": {"fe80::1"}, "multicast.example": {"224.0.0.1"}, "broadcast.example": {"255.255.255.255"},
		"nat64.example": {"64:ff9b::7f00:1"}, "sixtofour.example": {"2002:7f00:1::"}, "azure.example": {"168.63.129.16"},
		"several.example": {"127.0.0.2", "10.0.0.1", "::1"}, "compatible.example": {"::127.0.0.1"},
	} {
		r.names.ips[name] = ip
		answer := r.get("http://" + name + ":" + port + "/")
		r.refused(answer, abi.HTTPDenied, name)
		for _, address := range ip {
			if strings.Contains(answer.Message, address) {
				t.Errorf("%s: the message tells its address: %s", name, answer.Message)
			}
		}
	}
	for _, address := range []string{
		"127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "[0:0:0:0:0:ffff:7f00:1]", "0.0.0.0", "[::]", "169.254.169.254", "10.0.0.1", "192.168.1.1", "172.16.0.1",
		"100.100.100.200", "[fd00:ec2::254]", "[fe80::1]", "224.0.0.1", "255.255.255.255", "0.0.0.1", "[64:ff9b::10.0.0.1]", "[2002:a00:1::]",
	} {
		r.refused(r.get("http://"+address+":"+port+"/"), abi.HTTPDenied, "")
	}
	for _, odd := range []string{"2130706433", "0x7f000001", "0177.0.0.1", "127.1", "127.0.0.1.", "0x7f.0.0.1", "①②⑦.0.0.1", "[::1%25lo]", "user@127.0.0.1", "localhost:80@127.0.0.1"} {
		r.refused(r.get("http://"+odd+":"+port+"/"), abi.HTTPInvalid, "URL")
	}
	r.names.ips["localhost"] = []string{"127.0.0.1", "::1"}
	r.refused(r.get("http://localhost:"+port+"/"), abi.HTTPDenied, "localhost")
}

// A private grant leads to private addresses, but not by a name or a star to where
// clouds keep credentials, nor to where nothing is.
func TestPrivateGrants(t *testing.T) {
	_, port := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "pong") })
	r := newRig(t, Config{}, privately("http://*:*")...)
	r.names.ips["local.example"], r.names.ips["metadata.example"] = []string{"127.0.0.1"}, []string{"169.254.169.254"}
	for _, host := range []string{"127.0.0.1", "local.example", "LOCAL.example."} {
		if answer := r.get("http://" + host + ":" + port); string(answer.Body) != "pong" {
			t.Errorf("%s: %+v", host, answer)
		}
	}
	for _, host := range []string{"169.254.169.254", "metadata.example", "0.0.0.0", "224.0.0.1", "[fd00:ec2::254]"} {
		r.refused(r.get("http://"+host+":"+port), abi.HTTPDenied, "")
	}
	d := dialer{private: true}
	if link := netip.MustParseAddr("169.254.169.254"); !d.allows(link, false) || d.allows(link, true) {
		t.Error("a link-local address is for a grant that names it alone")
	}
	if _, err := newRig(t, Config{}, privately("http://169.254.169.254")...).client.permit(t.Context(),
		host.EgressRequest{App: "shop", Declared: []string{"http://169.254.169.254"}}, target(t, "http://169.254.169.254/")); err != nil {
		t.Errorf("a grant that names it: %v", err)
	}
}

// A name that resolves to another address a moment later gains nothing: the address
// that was judged is the one that is dialled.
func TestRebinding(t *testing.T) {
	_, port := serve(t, mustNotBeAsked(t))
	flips := &flipping{}
	c, err := New(Config{Grants: fakeGrants{grants: []actor.HTTPGrant{{Host: "http://*:*"}}}, Resolver: flips})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithCancel(t.Context())
	flips.after = cancel // nothing answers at the public address: the dial need not go on
	answer, err := c.Do(ctx, host.EgressRequest{App: "shop", Declared: []string{"http://*:*"},
		Request: &abi.HTTPRequest{URL: "http://flip.example:" + port}, Leave: func() error { return nil }})
	if err != nil || answer.Status != 0 {
		t.Errorf("got %+v, %v", answer, err)
	}
	if flips.n != 1 {
		t.Errorf("the name was resolved %d times", flips.n)
	}
}

// flipping answers a public address first and loopback from then on.
type flipping struct {
	n     int
	after func()
}

func (f *flipping) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	f.n++
	if f.n > 1 {
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
	}
	f.after()
	return []netip.Addr{netip.MustParseAddr("192.88.99.1")}, nil
}

// The connections of a private grant are not there without it.
func TestConnectionsAreNotShared(t *testing.T) {
	url, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "pong") })
	grants := &fakeGrants{grants: privately("http://127.0.0.1:*")}
	r := newRig(t, Config{Grants: grants})
	if answer := r.get(url); answer.Status != 200 {
		t.Fatalf("%+v", answer)
	}
	grants.grants[0].Private = false
	r.refused(r.get(url), abi.HTTPDenied, "grant it with: greenroom grants http add http://127.0.0.1:")
	grants.grants = nil
	r.refused(r.get(url), abi.HTTPDenied, "not granted")
}

func TestRules(t *testing.T) {
	url, port := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "pong") })
	do := func(r *rig, app string, declared []string, q abi.HTTPRequest, readOnly bool) abi.HTTPResponse {
		left := false
		answer, err := r.client.Do(t.Context(), host.EgressRequest{App: app, Declared: declared, ReadOnly: readOnly, Request: &q,
			Leave: func() error { left = true; return nil }})
		if err != nil {
			t.Fatal(err)
		}
		if left != (answer.Status != 0) {
			t.Errorf("left: %t, with %+v", left, answer)
		}
		return answer
	}
	r := newRig(t, Config{MaxRequestBytes: 10}, privately("http://127.0.0.1:"+port)...)
	all := []string{"http://127.0.0.1:*"}
	r.refused(do(r, "shop", nil, abi.HTTPRequest{URL: url}, false), abi.HTTPDenied, "does not declare")
	r.refused(do(r, "shop", []string{"http://127.0.0.2:*"}, abi.HTTPRequest{URL: url}, false), abi.HTTPDenied, "does not declare")
	r.refused(do(r, "other", all, abi.HTTPRequest{URL: url}, false), abi.HTTPDenied, "the app other was not granted")
	r.refused(do(r, "shop", all, abi.HTTPRequest{URL: url, Method: "POST"}, true), abi.HTTPReadOnly, "POST")
	for _, method := range []string{"", "GET", "HEAD"} {
		if answer := do(r, "shop", all, abi.HTTPRequest{URL: url, Method: method}, true); answer.Status != 200 {
			t.Errorf("%s in a read-only method: %+v", method, answer)
		}
	}
	if answer := do(r, "shop", all, abi.HTTPRequest{URL: url, Method: "PURGE", Body: make([]byte, 10)}, false); answer.Status != 200 {
		t.Errorf("%+v", answer)
	}
	r.refused(do(r, "shop", all, abi.HTTPRequest{URL: url, Body: make([]byte, 11)}, false), abi.HTTPInvalid, "11 bytes")
	for _, method := range []string{"CONNECT", "TRACE", "get", "GE T", "GET / HTTP/1.1\r\nX: y", strings.Repeat("A", 33)} {
		r.refused(do(r, "shop", all, abi.HTTPRequest{URL: url, Method: method}, false), abi.HTTPInvalid, "method")
	}
	for _, h := range []abi.Header{
		{Name: "Host", Value: "a"}, {Name: "hOST", Value: "a"}, {Name: "Connection", Value: "close"}, {Name: "Transfer-Encoding", Value: "chunked"}, {Name: "Content-Length", Value: "1"},
		{Name: "Proxy-Authorization", Value: "a"}, {Name: "Upgrade", Value: "h2c"}, {Name: "TE", Value: "trailers"}, {Name: "Expect", Value: "100-continue"},
		{Name: "a b", Value: "c"}, {Name: "a:", Value: "c"}, {Name: "é", Value: "c"}, {Name: "a", Value: "b\r\nHost: c"}, {Name: "a", Value: "b\x00"}, {Name: "a\n", Value: "b"},
		{Name: "a", Value: strings.Repeat("v", maxHeaderBytes)},
	} {
		r.refused(do(r, "shop", all, abi.HTTPRequest{URL: url, Headers: []abi.Header{h}}, false), abi.HTTPInvalid, "header")
	}
	broken := newRig(t, Config{Grants: fakeGrants{err: errors.New("the store is away")}})
	broken.refused(do(broken, "shop", all, abi.HTTPRequest{URL: url}, false), abi.HTTPNotAvailable, "granted")
}

// What Leave says ends the request, and nothing is sent.
func TestLeave(t *testing.T) {
	url, _ := serve(t, mustNotBeAsked(t))
	r := newRig(t, Config{}, privately("http://127.0.0.1:*")...)
	not := errors.New("not now")
	_, err := r.client.Do(t.Context(), host.EgressRequest{App: "shop", Declared: []string{"http://*:*"}, Request: &abi.HTTPRequest{URL: url},
		Leave: func() error { return not }})
	if !errors.Is(err, not) {
		t.Errorf("got %v", err)
	}
	if len(r.client.flying) != 0 || r.client.all != 0 {
		t.Error("a request is still counted")
	}
}

func TestWhatIsSent(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	t.Setenv("http_proxy", "http://127.0.0.1:1")
	var got *http.Request
	var body []byte
	url, _ := serve(t, func(w http.ResponseWriter, req *http.Request) {
		got = req
		body, _ = io.ReadAll(req.Body)
		w.Header().Add("Set-Cookie", "a=1")
		w.Header().Add("Set-Cookie", "b=2")
		w.Header().Set("Content-Encoding", "gzip")
		w.WriteHeader(http.StatusTeapot)
		_, _ = w.Write([]byte("not gzip at all"))
	})
	r := newRig(t, Config{}, privately("http://127.0.0.1:*")...)
	for range 2 {
		answer := r.do(t.Context(), abi.HTTPRequest{Method: "POST", URL: url + "/p?q=1#frag", Headers: []abi.Header{{Name: "x-a", Value: "1"}, {Name: "X-A", Value: "2"}}, Body: []byte("body")})
		if answer.Status != http.StatusTeapot || string(answer.Body) != "not gzip at all" {
			t.Fatalf("%+v", answer)
		}
		var cookies []string
		for _, h := range answer.Headers {
			if h.Name == "set-cookie" {
				cookies = append(cookies, h.Value)
			}
			if h.Name == "connection" || h.Name != strings.ToLower(h.Name) {
				t.Errorf("header %+v", h)
			}
		}
		if strings.Join(cookies, " ") != "a=1 b=2" {
			t.Errorf("cookies %q", cookies)
		}
		if got.RequestURI != "/p?q=1" || string(body) != "body" || strings.Join(got.Header.Values("X-A"), " ") != "1 2" || got.Header.Get("User-Agent") != "greenroom" ||
			got.Header.Get("Cookie") != "" || got.Header.Get("Accept-Encoding") != "" || got.Header.Get("Referer") != "" {
			t.Errorf("the server got %s %v %q", got.RequestURI, got.Header, body)
		}
	}
}

func TestRedirects(t *testing.T) {
	var asked []string
	mux := http.NewServeMux()
	base, port := serve(t, func(w http.ResponseWriter, req *http.Request) {
		data, _ := io.ReadAll(req.Body)
		asked = append(asked, fmt.Sprintf("%s %s %s key=%s type=%s", req.Method, req.URL.Path, data, req.Header.Get("X-Key"), req.Header.Get("Content-Type")))
		mux.ServeHTTP(w, req)
	})
	to := func(status int, location string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", location)
			w.WriteHeader(status)
		}
	}
	mux.HandleFunc("/end", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "end") })
	mux.HandleFunc("/302", to(302, "/end"))
	mux.HandleFunc("/303", to(303, "end"))
	mux.HandleFunc("/307", to(307, base+"/end"))
	mux.HandleFunc("/away", to(308, "http://local.example:"+port+"/end"))
	mux.HandleFunc("/loop", to(302, "/loop"))
	mux.HandleFunc("/metadata", to(302, "http://169.254.169.254/latest"))
	mux.HandleFunc("/decimal", to(302, "http://2130706433/"))
	mux.HandleFunc("/private", to(302, "http://secret.example:"+port+"/end"))
	mux.HandleFunc("/file", to(302, "file:///etc/passwd"))
	mux.HandleFunc("/nowhere", to(302, ""))
	grants := append(privately("http://127.0.0.1:*", "http://local.example:*"), actor.HTTPGrant{Host: "http://secret.example:*"})
	r := newRig(t, Config{MaxRedirects: 3}, grants...)
	r.names.ips["local.example"], r.names.ips["secret.example"] = []string{"127.0.0.1"}, []string{"127.0.0.1"}
	send := func(path string, flags uint32) abi.HTTPResponse {
		asked = nil
		return r.do(t.Context(), abi.HTTPRequest{Method: "POST", URL: base + path, Body: []byte("b"), Flags: flags,
			Headers: []abi.Header{{Name: "X-Key", Value: "k"}, {Name: "Content-Type", Value: "t"}}})
	}
	for path, last := range map[string]string{
		"/302": "GET /end  key=k type=", "/303": "GET /end  key=k type=", "/307": "POST /end b key=k type=t", "/away": "POST /end b key= type=t",
	} {
		if answer := send(path, 0); string(answer.Body) != "end" || len(asked) != 2 || asked[1] != last {
			t.Errorf("%s: %+v, asked %q, want %q", path, answer, asked, last)
		}
	}
	r.refused(send("/loop", 0), abi.HTTPRedirects, "3 times")
	if len(asked) != 4 {
		t.Errorf("a loop was followed for %d requests", len(asked))
	}
	for path, text := range map[string]string{"/metadata": "not granted", "/decimal": "ends in a number", "/private": "not public", "/file": "not of https or http"} {
		r.refused(send(path, 0), abi.HTTPDenied, text)
		if len(asked) != 1 {
			t.Errorf("%s: asked %q", path, asked)
		}
	}
	for path, status := range map[string]uint16{"/302": 302, "/metadata": 302} {
		if answer := send(path, abi.FlagNoRedirects); answer.Status != status || len(asked) != 1 {
			t.Errorf("%s, not followed: %+v", path, answer)
		}
	}
	if answer := send("/nowhere", 0); answer.Status != 302 {
		t.Errorf("a redirect to nowhere: %+v", answer)
	}
}

func TestBounds(t *testing.T) {
	unblock := make(chan struct{})
	mux := http.NewServeMux()
	base, _ := serve(t, mux.ServeHTTP)
	t.Cleanup(func() { close(unblock) })
	mux.HandleFunc("/large", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 1001)) })
	mux.HandleFunc("/fits", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 1000)) })
	mux.HandleFunc("/endless", func(w http.ResponseWriter, _ *http.Request) {
		for w.(http.Flusher) != nil {
			if _, err := w.Write(make([]byte, 100)); err != nil {
				return
			}
			w.(http.Flusher).Flush()
		}
	})
	mux.HandleFunc("/silent", func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-unblock:
		case <-r.Context().Done():
		}
	})
	mux.HandleFunc("/drip", func(w http.ResponseWriter, r *http.Request) {
		for range 500 { // a byte now and then, never an end, and never too much
			if _, err := w.Write([]byte("x")); err != nil {
				return
			}
			w.(http.Flusher).Flush()
			select {
			case <-unblock:
				return
			case <-r.Context().Done():
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
		select {
		case <-unblock:
		case <-r.Context().Done():
		}
	})
	mux.HandleFunc("/headers", func(w http.ResponseWriter, _ *http.Request) {
		for n := range 200 {
			w.Header().Set(fmt.Sprint("X-", n), "v")
		}
	})
	mux.HandleFunc("/header", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X", strings.Repeat("v", 100<<10)) })
	r := newRig(t, Config{MaxResponseBytes: 1000, MaxPerApp: 2}, privately("http://127.0.0.1:*")...)
	if answer := r.get(base + "/fits"); answer.Status != 200 || len(answer.Body) != 1000 {
		t.Errorf("%d bytes, %+v", len(answer.Body), answer.Code)
	}
	r.refused(r.get(base+"/large"), abi.HTTPTooLarge, "1000 bytes")
	r.refused(r.get(base+"/endless"), abi.HTTPTooLarge, "1000 bytes")
	r.refused(r.get(base+"/headers"), abi.HTTPTooLarge, "headers")
	r.refused(r.get(base+"/header"), abi.HTTPBroken, "")
	for _, path := range []string{"/silent", "/drip"} {
		r.refused(r.do(t.Context(), abi.HTTPRequest{URL: base + path, TimeoutMillis: 50}), abi.HTTPTimeout, "in time")
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		r.refused(r.do(ctx, abi.HTTPRequest{URL: base + path}), abi.HTTPTimeout, "in time")
		cancel()
	}

	// As many as may be are under way; one more is refused at once.
	left := make(chan struct{})
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	for range 2 {
		wg.Go(func() {
			_, _ = r.client.Do(ctx, host.EgressRequest{App: "shop", Declared: []string{"http://*:*"}, Request: &abi.HTTPRequest{URL: base + "/silent"},
				Leave: func() error { left <- struct{}{}; return nil }})
		})
		<-left
	}
	r.refused(r.get(base+"/fits"), abi.HTTPBusy, "shop")
	cancel()
	wg.Wait()
	if answer := r.get(base + "/fits"); answer.Status != 200 {
		t.Errorf("afterwards: %+v", answer)
	}
}

func TestFailures(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	garbage, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := l.Addr().String() // not the other one's
	l.Close()
	defer garbage.Close()
	go func() {
		for {
			conn, err := garbage.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 100))
			_, _ = conn.Write([]byte("this is no HTTP\r\n\r\n"))
			conn.Close()
		}
	}()
	r := newRig(t, Config{}, privately("http://*:*", "*:*")...)
	r.refused(r.get("http://"+closed+"/?token=hush"), abi.HTTPUnreachable, "refused")
	r.refused(r.get("http://nowhere.example/?token=hush"), abi.HTTPUnreachable, "cannot be resolved")
	r.refused(r.get("http://"+garbage.Addr().String()+"/?token=hush"), abi.HTTPBroken, "")
	r.refused(r.get("https://"+garbage.Addr().String()+"/?token=hush"), abi.HTTPUnreachable, "")
	for _, url := range []string{"http://" + closed, "http://nowhere.example", "http://" + garbage.Addr().String(), "http://%zz"} {
		if answer := r.get(url + "/?token=hush"); strings.Contains(answer.Message, "hush") || strings.Contains(answer.Message, "10.1.2.3") {
			t.Errorf("the message tells too much: %s", answer.Message)
		}
	}
}

func TestTLS(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { fmt.Fprint(w, req.Proto) }))
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	grants := privately("*:*")
	stranger := newRig(t, Config{}, grants...)
	stranger.refused(stranger.get(s.URL), abi.HTTPUnreachable, "certificate")
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	r := newRig(t, Config{RootCAs: roots}, grants...)
	r.names.ips["example.com"], r.names.ips["another.name"] = []string{"127.0.0.1"}, []string{"127.0.0.1"}
	if answer := r.get("https://example.com:" + u.Port()); string(answer.Body) != "HTTP/2.0" {
		t.Errorf("%+v", answer)
	}
	r.refused(r.get("https://another.name:"+u.Port()), abi.HTTPUnreachable, "certificate")
	r.refused(r.get("http://example.com:"+u.Port()), abi.HTTPDenied, "not granted")
}

func TestKinds(t *testing.T) {
	for text, want := range map[string]kind{
		"8.8.8.8": public, "1.1.1.1": public, "2606:4700::1111": public, "64:ff9b::8.8.8.8": public, "::ffff:0:8.8.8.8": public,
		"127.0.0.1": private, "::1": private, "10.0.0.1": private, "172.31.255.255": private, "192.168.0.1": private, "100.127.255.255": private, "fc00::1": private,
		"::ffff:0:127.0.0.1": private, "::ffff:0:10.0.0.1": private, "::ffff:0:169.254.169.254": link, "::ffff:0:0.0.0.1": never,
		"64:ff9b::127.0.0.1": private, "2002:7f00:1::": private, "198.18.0.1": private, "2001:db8::1": private, "2001:0:1::1": private, "fec0::1": private,
		"169.254.169.254": link, "fe80::1": link, "168.63.129.16": link, "100.100.100.200": link, "fd00:ec2::254": link, "64:ff9b::169.254.169.254": link,
		"0.0.0.0": never, "::": never, "224.0.0.1": never, "ff02::1": never, "255.255.255.255": never, "240.0.0.1": never, "::7f00:1": never, "0.1.2.3": never,
		"fe80::1%eth0": never, "::ffff:10.0.0.1": private, "::ffff:169.254.169.254": link,
	} {
		if got := kindOf(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s: kind %d, want %d", text, got, want)
		}
	}
}

// FuzzPrepare looks for requests that pass and are not what they seem.
func FuzzPrepare(f *testing.F) {
	f.Add("POST", "https://a.example/", "X-Key", "v")
	f.Add("GET", "http://[::1]:80", "Host", "b")
	f.Fuzz(func(t *testing.T, method, raw, name, value string) {
		h, err := prepare(host.EgressRequest{Request: &abi.HTTPRequest{Method: method, URL: raw, Headers: []abi.Header{{Name: name, Value: value}}}}, 0)
		if err != nil {
			return
		}
		req, err := http.NewRequest(h.method, h.url.String(), nil)
		if err != nil {
			t.Fatalf("net/http refuses %q %q: %v", h.method, h.url, err)
		}
		if req.URL.Host != h.url.Host || req.Host != h.url.Host {
			t.Fatalf("%q goes to %q and says %q", h.url.Host, req.URL.Host, req.Host)
		}
		req.Header = h.headers
		var wire bytes.Buffer
		if err := req.Write(&wire); err != nil {
			t.Fatalf("cannot be written: %v", err)
		}
		head, _, _ := strings.Cut(wire.String(), "\r\n\r\n")
		if lines := strings.Split(head, "\r\n"); len(lines) > 5 { // the request line, Host, User-Agent, ours, Content-Length
			t.Fatalf("%q became %q", name+": "+value, head)
		}
	})
}

func target(t *testing.T, raw string) manifest.HostRule {
	t.Helper()
	_, rule, err := manifest.RequestURL(raw)
	if err != nil {
		t.Fatal(err)
	}
	return rule
}

// TestTraceHeaders: a request says which trace it belongs to, unless the guest does.
func TestTraceHeaders(t *testing.T) {
	parent := "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for _, tt := range []struct {
		guest, state string
		trace        *actor.Trace
		want, states string
	}{
		{"", "", actor.ParseTrace(parent, "a=1"), parent, "a=1"},
		{"", "g=1", actor.ParseTrace(parent), parent, ""},
		{"mine", "g=1", actor.ParseTrace(parent, "a=1"), "mine", "g=1"},
		{"mine", "", nil, "mine", ""},
		{"", "", nil, "", ""},
	} {
		q := abi.HTTPRequest{URL: "https://example.com"}
		for name, value := range map[string]string{"traceparent": tt.guest, "TraceState": tt.state} {
			if value != "" {
				q.Headers = append(q.Headers, abi.Header{Name: name, Value: value})
			}
		}
		h, err := prepare(host.EgressRequest{Request: &q, Trace: tt.trace}, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got, states := h.headers.Get("Traceparent"), h.headers.Get("Tracestate"); got != tt.want || states != tt.states {
			t.Errorf("%+v: sent %q, %q", tt, got, states)
		}
	}
}
