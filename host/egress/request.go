package egress

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/abi/manifest"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
)

// hopByHop are headers of one connection, and those that say where a request goes
// or how long it is: the client's to set.
var hopByHop = map[string]bool{
	"Host": true, "Connection": true, "Keep-Alive": true, "Proxy-Connection": true, "Proxy-Authenticate": true,
	"Proxy-Authorization": true, "Te": true, "Trailer": true, "Transfer-Encoding": true, "Upgrade": true,
	"Content-Length": true, "Expect": true, "Http2-Settings": true,
}

// maxMethod is far above any method's name.
const maxMethod = 32

// prepare checks what a request says of itself, and its body against maxBytes.
func prepare(r host.EgressRequest, maxBytes int64) (*hop, error) {
	q := r.Request
	h := &hop{method: q.Method, body: q.Body}
	if h.method == "" {
		h.method = http.MethodGet
	}
	var err error
	if h.url, h.target, err = manifest.RequestURL(q.URL); err != nil {
		return nil, refuse(abi.HTTPInvalid, "%v", err)
	}
	safe := h.method == http.MethodGet || h.method == http.MethodHead
	switch {
	case !isToken(h.method) || len(h.method) > maxMethod || h.method != strings.ToUpper(h.method):
		return nil, refuse(abi.HTTPInvalid, "the method is not one of HTTP; give GET, POST, PUT, …")
	case h.method == http.MethodConnect || h.method == http.MethodTrace:
		return nil, refuse(abi.HTTPInvalid, "the method %s is not for actors", h.method)
	case r.ReadOnly && !safe:
		return nil, refuse(abi.HTTPReadOnly, "a read-only method may send GET and HEAD alone, not %s", h.method)
	case int64(len(q.Body)) > maxBytes:
		return nil, refuse(abi.HTTPInvalid, "the body has %d bytes; at most %d are sent", len(q.Body), maxBytes)
	}
	if h.headers, err = requestHeaders(q.Headers); err != nil {
		return nil, err
	}
	setTrace(h.headers, r.Trace)
	return h, nil
}

// setTrace adds the headers of W3C Trace Context, unless the guest has set them.
func setTrace(h http.Header, t *actor.Trace) {
	if t == nil || h["Traceparent"] != nil {
		return
	}
	parent, state := t.Headers()
	h["Traceparent"] = []string{parent}
	if delete(h, "Tracestate"); state != "" {
		h["Tracestate"] = []string{state}
	}
}

func requestHeaders(list []abi.Header) (http.Header, error) {
	headers := make(http.Header, len(list)+1)
	size := 0
	for _, h := range list {
		name := http.CanonicalHeaderKey(h.Name)
		size += len(h.Name) + len(h.Value)
		switch {
		case !isToken(h.Name):
			return nil, refuse(abi.HTTPInvalid, "a header has a name that HTTP does not allow")
		case hopByHop[name] || strings.HasPrefix(name, "Proxy-"):
			return nil, refuse(abi.HTTPInvalid, "the header %s is the host's to set; leave it away", name)
		case strings.ContainsFunc(h.Value, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }):
			return nil, refuse(abi.HTTPInvalid, "the header %s has control characters in its value", name)
		case size > maxHeaderBytes:
			return nil, refuse(abi.HTTPInvalid, "the headers have more than %d bytes", maxHeaderBytes)
		}
		headers[name] = append(headers[name], h.Value)
	}
	if headers["User-Agent"] == nil {
		headers["User-Agent"] = []string{"greenroom"}
	}
	return headers, nil
}

// isToken reports whether s may be a method or the name of a header.
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c <= ' ' || c >= 0x7f || strings.IndexByte("\"(),/:;<=>?@[\\]{}", c) >= 0 {
			return false
		}
	}
	return s != ""
}

func sortedNames(headers http.Header) []string { return slices.Sorted(maps.Keys(headers)) }

// maxHeaderBytes bounds the headers of a request, and those of an answer.
const maxHeaderBytes = 64 << 10

// hop is one request on the way to an answer.
type hop struct {
	method  string
	url     *url.URL
	target  manifest.HostRule
	headers http.Header
	body    []byte
}

// redirected returns the hop that an answer redirects to, nil if it does not.
func (h *hop) redirected(resp *http.Response) (*hop, error) {
	location := resp.Header.Get("Location")
	switch resp.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
	default:
		return nil, nil
	}
	if location == "" {
		return nil, nil
	}
	to, err := h.url.Parse(location)
	if err != nil {
		return nil, refuse(abi.HTTPBroken, "%s redirects to what is no URL", h.target)
	}
	next := &hop{method: h.method, headers: h.headers, body: h.body}
	if next.url, next.target, err = manifest.RequestURL(to.String()); err != nil {
		return nil, refuse(abi.HTTPDenied, "%s redirects: %v", h.target, err)
	}
	if resp.StatusCode == http.StatusSeeOther && h.method != http.MethodHead ||
		h.method == http.MethodPost && (resp.StatusCode == http.StatusMovedPermanently || resp.StatusCode == http.StatusFound) {
		next.method, next.body = http.MethodGet, nil
		next.headers = next.headers.Clone()
		next.headers.Del("Content-Type")
	}
	if next.target != h.target {
		next.headers = harmless(next.headers)
	}
	return next, nil
}

// harmless are the headers that go on to another host: no credentials.
func harmless(headers http.Header) http.Header {
	forwarded := make(http.Header)
	for _, name := range []string{"Accept", "Accept-Language", "Content-Type", "User-Agent"} {
		if values := headers.Values(name); len(values) > 0 {
			forwarded[name] = values
		}
	}
	return forwarded
}

func responseHeaders(headers http.Header) []abi.Header {
	var list []abi.Header
	for _, name := range sortedNames(headers) {
		if hopByHop[name] {
			continue
		}
		for _, value := range headers[name] {
			list = append(list, abi.Header{Name: strings.ToLower(strings.ToValidUTF8(name, "\uFFFD")), Value: strings.ToValidUTF8(value, "\uFFFD")})
		}
	}
	return list
}
