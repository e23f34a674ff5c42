package edge

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/greenroom-run/greenroom/server/failure"
)

// admission decides who may speak; doc.go says by which rules. It is immutable.
type admission struct {
	// tokens are those asked for; none if none is.
	tokens  []admittedToken
	origins []string // allowed ones
	// loopbackNamesOnly refuses requests for any other host name.
	loopbackNamesOnly bool
	scheme            string // of the server's own origin
}

// admittedToken is a token by its hash. Hashes are compared, all of them, so that
// the time taken tells neither content nor length nor which it was.
type admittedToken struct {
	sum [sha256.Size]byte
	Caller
	lastUsed *atomic.Int64 // in seconds since 1970; 0: never
}

func newAdmission(c Config) admission {
	a := admission{scheme: "http"}
	for _, o := range c.AllowedOrigins {
		a.origins = append(a.origins, strings.ToLower(o))
	}
	for _, t := range c.tokens() {
		a.tokens = append(a.tokens, admittedToken{sha256.Sum256([]byte(t.Secret)), Caller{t.Name, t.Role, t.App}, new(atomic.Int64)})
	}
	if c.TLS.CertFile != "" {
		a.scheme = "https"
	}
	a.loopbackNamesOnly = !c.authenticated() && !c.Insecure
	return a
}

// admit returns who the request is from, or why it is refused.
func (a *admission) admit(r *http.Request) (Caller, *failure.Error) {
	if len(a.tokens) > 0 {
		return a.checkToken(r)
	}
	if a.loopbackNamesOnly && !isLoopbackName(hostName(r.Host)) {
		return Caller{}, &failure.Error{Kind: failure.KindHostRefused, Text: "this server takes requests for loopback names only, like localhost; " +
			"give it a token, or start it with --insecure, to reach it by another name"}
	}
	if !a.pageAllowed(r) {
		return Caller{}, &failure.Error{Kind: failure.KindOriginRefused, Text: "pages of this origin may not call this server; allow its origin with --cors-origin"}
	}
	return anyone, nil
}

func (a *admission) checkToken(r *http.Request) (Caller, *failure.Error) {
	scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return Caller{}, &failure.Error{Kind: failure.KindUnauthenticated, Text: "a token is needed; send it as Authorization: Bearer TOKEN"}
	}
	sum := sha256.Sum256([]byte(strings.TrimSpace(token)))
	found := -1
	for i := range a.tokens {
		found = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(sum[:], a.tokens[i].sum[:]), i, found)
	}
	if found < 0 {
		return Caller{}, &failure.Error{Kind: failure.KindUnauthenticated, Text: "the token is none of those that this server asks for"}
	}
	a.tokens[found].lastUsed.Store(time.Now().Unix())
	return a.tokens[found].Caller, nil
}

// TokenUse is a token without its secret.
type TokenUse struct {
	Caller
	LastUsed time.Time // zero: not since the server started
}

// pageAllowed reports whether a request is of no web page, or of one that may
// call. Browsers say nothing of the origin where a page only embeds what it asks
// for, like an image, but whether it is the server's own.
func (a *admission) pageAllowed(r *http.Request) bool {
	if origin := r.Header.Get("Origin"); origin != "" {
		return a.originAllowed(origin, r.Host)
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin": // no browser, the user, the server itself
		return true
	}
	return slices.Contains(a.origins, "*")
}

func (a *admission) originAllowed(origin, host string) bool {
	if slices.Contains(a.origins, "*") || slices.Contains(a.origins, strings.ToLower(origin)) {
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && u.Scheme == a.scheme && u.Host != "" && strings.EqualFold(u.Host, host)
}

// hostName cuts the port and the brackets of an IPv6 address off a Host header.
func hostName(hostport string) string {
	if host, _, err := net.SplitHostPort(hostport); err == nil {
		return host
	}
	return strings.Trim(hostport, "[]")
}
