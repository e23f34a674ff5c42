package server

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// admission decides who may speak; doc.go says by which rules. It is immutable.
type admission struct {
	// tokenSum is the hash of the token asked for; nil if none is. Hashes are
	// compared, so that the time taken tells neither content nor length.
	tokenSum *[sha256.Size]byte
	origins  []string // allowed ones
	// loopbackNamesOnly refuses requests for any other host name.
	loopbackNamesOnly bool
	scheme            string // of the server's own origin
}

func newAdmission(c Config) admission {
	a := admission{scheme: "http"}
	for _, o := range c.AllowedOrigins {
		a.origins = append(a.origins, strings.ToLower(o))
	}
	if c.Token != "" {
		sum := sha256.Sum256([]byte(c.Token))
		a.tokenSum = &sum
	}
	if c.TLS.CertFile != "" {
		a.scheme = "https"
	}
	a.loopbackNamesOnly = !c.authenticated() && !c.Insecure
	return a
}

// admit returns nil, or why the request is refused.
func (a *admission) admit(r *http.Request) *requestError {
	if a.tokenSum != nil {
		return a.checkToken(r)
	}
	if a.loopbackNamesOnly && !isLoopbackName(hostName(r.Host)) {
		return &requestError{kindHostRefused, "this server takes requests for loopback names only, like localhost; " +
			"give it a token, or start it with --insecure, to reach it by another name"}
	}
	if origin := r.Header.Get("Origin"); origin != "" && !a.originAllowed(origin, r.Host) {
		return &requestError{kindOriginRefused, "pages of this origin may not call this server; allow its origin with --cors-origin"}
	}
	return nil
}

func (a *admission) checkToken(r *http.Request) *requestError {
	scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return &requestError{kindUnauthenticated, "a token is needed; send it as Authorization: Bearer TOKEN"}
	}
	sum := sha256.Sum256([]byte(strings.TrimSpace(token)))
	if subtle.ConstantTimeCompare(sum[:], a.tokenSum[:]) != 1 {
		return &requestError{kindUnauthenticated, "the token is not the one that this server asks for"}
	}
	return nil
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
