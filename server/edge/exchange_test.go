package edge

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"testing/iotest"
)

// unread is a body that counts what is read of it.
type unread struct{ bytes int }

func (u *unread) Read(p []byte) (int, error) {
	u.bytes += len(p)
	return len(p), nil
}

func (*unread) Close() error { return nil }

// TestBodyWithoutSpaceIsNotRead: while a body of declared length is being read, another one for
// which it leaves no space is refused before a byte of it is read.
func TestBodyWithoutSpaceIsNotRead(t *testing.T) {
	const most = 64 << 20
	e, err := New(Config{MaxRequestsBytes: most}.WithDefaults())
	if err != nil {
		t.Fatal(err)
	}
	exchange := func(declared int64) (*Exchange, *unread) {
		body := &unread{}
		return &Exchange{
			Edge: e, Control: http.NewResponseController(httptest.NewRecorder()), Route: &Route{}, Caller: Caller{app: "foo"}, requestUse: requestUse{declared: declared},
			requestBody: requestBody{body: body, bodyLeft: declared, bodyTimed: true},
		}, body
	}
	first, _ := exchange(most / 2)
	part := make([]byte, 1<<20)
	if _, err := io.ReadFull(first.readCloser(), part); err != nil {
		t.Fatal(err)
	}
	second, body := exchange(most / 2)
	if _, err := second.readCloser().Read(part); err == nil {
		t.Error("a second body is read for which there is no space")
	}
	if _, err := second.readCloser().Read(part); err == nil {
		t.Error("it is read the second time")
	}
	if body.bytes > 0 {
		t.Errorf("%d bytes of it were read", body.bytes)
	}
	for first.bodyLeft > 0 {
		if _, err := first.readCloser().Read(part); err != nil {
			t.Fatalf("with %d bytes to go: %v", first.bodyLeft, err)
		}
	}
	if got := e.Requests.Bodies.Used(); got != most/2 {
		t.Errorf("%d bytes are counted, want %d", got, most/2)
	}
	second.ReleaseBody()
	first.ReleaseBody()
	if got := e.Requests.Bodies.Used(); got != 0 {
		t.Errorf("%d bytes are left", got)
	}
}

// TestDeclaredBodiesThatNeverComeHurtTheirApp: bodies that are declared and never sent take only the
// share of their app. Large bodies of another app are read beside them. A request that needs no token
// reserves nothing, however much it declares.
func TestDeclaredBodiesThatNeverComeHurtTheirApp(t *testing.T) {
	const most, length = 64 << 20, 4 << 20
	e, err := New(Config{MaxRequestsBytes: most}.WithDefaults())
	if err != nil {
		t.Fatal(err)
	}
	declare := func(app string, open bool) (*Exchange, error) {
		x := &Exchange{Edge: e, Route: &Route{Open: open}, Caller: Caller{app: app}, requestUse: requestUse{declared: length}, requestBody: requestBody{bodyLeft: length}}
		return x, x.reserveBody()
	}
	never := 0
	for ; ; never++ {
		if _, err := declare("flood", false); err != nil {
			break
		}
	}
	if never*length > most*7/8 || never < 10 {
		t.Errorf("%d bodies of %d bytes are declared", never, length)
	}
	for range 100 {
		if x, err := declare("", true); err != nil || x.BodyBytes > 0 {
			t.Fatalf("without a token: %d bytes, %v", x.BodyBytes, err)
		}
	}
	for range 5 {
		x, err := declare("neighbour", false)
		if err != nil {
			t.Fatal(err)
		}
		x.ReleaseBody()
	}
}

// TestEnvelopeSaysHowLongABodyIs: of a message of gRPC that does not fit, only the envelope is read,
// however much of the message is there.
func TestEnvelopeSaysHowLongABodyIs(t *testing.T) {
	const length = 1 << 20
	full := errors.New("full")
	var refuses error
	e, err := New(Config{CheckCall: func(app string, bytes int64) error {
		if app != "foo" || bytes != length {
			t.Errorf("asked for %d bytes of %q", bytes, app)
		}
		return refuses
	}}.WithDefaults())
	if err != nil {
		t.Fatal(err)
	}
	message := append([]byte{0, 0, length >> 16, 0, 0}, make([]byte, length)...)
	for _, refuses = range []error{nil, full} {
		for _, inParts := range []func(io.Reader) io.Reader{iotest.OneByteReader, func(r io.Reader) io.Reader { return r }} {
			body := bytes.NewReader(message)
			x := &Exchange{
				Edge: e, Control: http.NewResponseController(httptest.NewRecorder()), Route: &Route{Calls: true}, Caller: Caller{app: "foo"}, requestUse: requestUse{declared: -1, enveloped: true},
				requestBody: requestBody{body: io.NopCloser(body), bodyLeft: 2 * length, bodyTimed: true},
			}
			got, err := io.ReadAll(inParts(x.readCloser()))
			if !errors.Is(err, refuses) {
				t.Errorf("got %v, want %v", err, refuses)
			}
			if refuses == nil && !bytes.Equal(got, message) {
				t.Errorf("%d bytes were read, or others", len(got))
			}
			if read := len(message) - body.Len(); refuses != nil && read != envelopePrefix {
				t.Errorf("%d bytes were read", read)
			}
			if n := e.Requests.Bodies.Used(); n != int64(len(got)) {
				t.Errorf("%d bytes are counted, and %d were read", n, len(got))
			}
			x.ReleaseBody()
			if n := e.Requests.Bodies.Used(); n != 0 {
				t.Errorf("%d bytes are left", n)
			}
		}
	}
}

// TestMessageCountsForOneOwner: the app of a stream's first message is known only once the
// message was read; what the message counted goes back to whom it counted for.
func TestMessageCountsForOneOwner(t *testing.T) {
	e, err := New(Config{MaxStreamsBytes: 1 << 20}.WithDefaults())
	if err != nil {
		t.Fatal(err)
	}
	x := &Exchange{Edge: e, Route: &Route{}}
	const most = 800 << 10
	if err := x.messageBytes(most); err != nil {
		t.Fatal(err)
	}
	if err := x.ForApp("foo"); err != nil {
		t.Fatal(err)
	}
	x.MessageReceived()
	for _, owner := range []string{"", "foo"} {
		if err := e.StreamMemory.Receive(owner, most, most); err != nil {
			t.Errorf("%q has something left: %v", owner, err)
		}
		if err := e.StreamMemory.Receive(owner, most, most); err == nil {
			t.Errorf("%q may have more than others leave it", owner)
		}
		e.StreamMemory.Release(owner, 2*most)
	}
	if n := e.StreamMemory.Used(); n != 0 {
		t.Errorf("%d bytes are left", n)
	}
}

// TestRefusedRequestsReachNoHandler: the handler of a request that is refused does not run, whatever the request
// is refused for; nor does that of a preflight. A handler that runs has the rights of its caller.
func TestRefusedRequestsReachNoHandler(t *testing.T) {
	const reader, owner = "Bearer reader-reader-reader", "Bearer owner-owner-owner"
	e, err := New(Config{
		Addr: "127.0.0.1:0", Token: "admin-admin-admin", Peers: &Peers{Cluster: "test"}, AllowedOrigins: []string{"https://app.example"}, MaxRequestsBytes: 1 << 20,
		Tokens: []Token{{Name: "reader", Secret: reader[7:], Role: RoleRead}, {Name: "owner", Secret: owner[7:], Role: RoleInvoke, App: "mine"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	var ran []Role
	handler := func(_ http.ResponseWriter, r *http.Request) { ran = append(ran, ExchangeOf(r.Context()).Caller.role) }
	e.HandlePlain("/plain", false, handler)
	e.HandlePlain("/open", true, handler)
	e.HandleActors("/actors/", "actors", handler)
	peer := e.plainRoute("/peer", false, handler)
	peer.Peer = true
	e.Routes.Exact["/peer"] = peer
	e.Requests.Answers.Add("mine", 1<<20)
	for _, tt := range []struct {
		method, path, token string
		peers               bool // it comes where hosts of the cluster are listened to
		status              int
		ran                 []Role
	}{
		{"GET", "/plain", reader, false, http.StatusOK, []Role{RoleRead}},
		{"POST", "/actors/a", "Bearer admin-admin-admin", false, http.StatusOK, []Role{RoleAdmin}},
		{"GET", "/peer", "Bearer admin-admin-admin", true, http.StatusOK, []Role{RoleAdmin}},
		{"GET", "/open", "", true, http.StatusOK, []Role{0}},
		{"GET", "/plain", "", false, http.StatusUnauthorized, nil},
		{"POST", "/actors/a", reader, false, http.StatusForbidden, nil},
		{"POST", "/actors/a", owner, false, http.StatusTooManyRequests, nil},
		{"OPTIONS", "/plain", "", false, http.StatusNoContent, nil},
		{"OPTIONS", "/plain", reader, false, http.StatusNoContent, nil},
		{"GET", "/peer", reader, true, http.StatusForbidden, nil},
		{"GET", "/plain", reader, true, http.StatusNotFound, nil},
	} {
		r := httptest.NewRequest(tt.method, tt.path, nil)
		r.Header.Set("Origin", "https://app.example")
		r.Header.Set("Access-Control-Request-Method", "GET") // which only OPTIONS has a meaning for
		if tt.token != "" {
			r.Header.Set("Authorization", tt.token)
		}
		w := httptest.NewRecorder()
		ran = nil
		e.serveHTTP(w, r, tt.peers)
		if w.Code != tt.status || !slices.Equal(ran, tt.ran) {
			t.Errorf("%s %s with the token %q: %d, %s; handlers ran for %v, want %d and %v", tt.method, tt.path, tt.token, w.Code, w.Body, ran, tt.status, tt.ran)
		}
	}
}

// TestSubscriptionsHaveABound: there is one also where nobody has set it.
func TestSubscriptionsHaveABound(t *testing.T) {
	if got := (Config{}).WithDefaults().MaxSubscriptions; got != DefaultMaxSubscriptions {
		t.Errorf("%d subscriptions, want %d", got, DefaultMaxSubscriptions)
	}
	if _, err := New(Config{MaxSubscriptions: -1}); err == nil {
		t.Error("a bound that is negative is taken")
	}
}

// TestOtherHostsKeepTheirConnections: answers to clients end their connections once the server leaves, answers to
// other hosts do not.
func TestOtherHostsKeepTheirConnections(t *testing.T) {
	e, err := New(Config{Addr: "127.0.0.1:0", Peers: &Peers{Cluster: "test"}})
	if err != nil {
		t.Fatal(err)
	}
	nothing := func(http.ResponseWriter, *http.Request) {}
	e.HandlePlain("/plain", false, nothing)
	peer := e.plainRoute("/peer", false, nothing)
	peer.Peer = true
	e.Routes.Exact["/peer"] = peer
	for _, leaving := range []bool{false, true} {
		for _, path := range []string{"/plain", "/peer"} {
			w := httptest.NewRecorder()
			e.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
			if ends := w.Header().Get("Connection") == "close"; ends != (leaving && path == "/plain") {
				t.Errorf("leaving=%v: the answer of %s ends its connection: %v", leaving, path, ends)
			}
		}
		e.EndConnections()
	}
}
